"""Fixtures for tests of engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

pytest.importorskip("starlette", reason="the fault server needs starlette: pip install 'keff[serve]'")
from fault_server import Script, running


@pytest.fixture
def serve() -> Iterator[Callable[[Script], str]]:
    """Start fault servers; they stop with the test."""
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(running(script))
