"""Units of work, so many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator


async def bounded(units: Iterator[Callable[[], asyncio.Future[None]]], limit: int) -> None:
    """Run units, at most ``limit`` at once; the first that fails cancels the others and is raised."""
    room = asyncio.Semaphore(limit)
    running: set[asyncio.Future[None]] = set()
    failures: list[BaseException] = []

    def end(unit: asyncio.Future[None]) -> None:
        running.discard(unit)
        if not unit.cancelled() and (error := unit.exception()):
            failures.append(error)
        room.release()

    async def find_room() -> None:
        await room.acquire()
        if failures:
            raise failures[0]

    try:
        for start in units:
            await find_room()
            unit = start()
            running.add(unit)
            unit.add_done_callback(end)
        for _ in range(limit):
            await find_room()
    finally:
        left = list(running)
        for unit in left:
            unit.cancel()
        await asyncio.gather(*left, return_exceptions=True)
