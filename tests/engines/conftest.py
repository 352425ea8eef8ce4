"""Fixtures for tests of engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    """Start fault servers, each for one script; they stop with the test."""
    pytest.importorskip("starlette", reason="the fault server needs starlette: pip install 'keff[serve]'")
    from fault_server import running

    with ExitStack() as stack:
        yield lambda script: stack.enter_context(running(script))
