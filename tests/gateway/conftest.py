"""Fixtures for tests of the gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

try:
    from fault_server import Script, running
    from gateway_rig import Rig, gateway
except ImportError:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def serve() -> Iterator[Callable[..., Rig]]:
    """Start a gateway before a stub that follows a script; both stop with the test."""
    with ExitStack() as stack:

        def start(script: Script | None = None, **fields: Any) -> Rig:
            url = stack.enter_context(running(script or Script()))
            return stack.enter_context(gateway(url, **fields))

        yield start
