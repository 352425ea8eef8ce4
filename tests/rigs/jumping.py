"""A clock that does not wait, for clients and servers of asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


class Jumping(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next thing that happens."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self.now = self._scheduled[0]._when  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def on_a_clock(work: Coroutine[None, None, T]) -> T:
    """Do something on a clock that jumps."""
    loop = Jumping()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()
