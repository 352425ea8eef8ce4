"""Threads for slow answer spaces, shared fairly by requests; what an answer means does not depend on load.

Mathematics is brought into one form by processes that may need seconds for one expression. Most answers do
not need them (a number, or an expression that was seen before) and are read at once. The others take turns
in the fast lane: one answer of each request at a time, in the order of arrival; requests that have brought a
heavy answer share half of the lane. What takes more than a moment
of processor time goes on in the slow lane, whose processes run behind all others, and waits there behind its
like. The limit of an answer is processor time of its own, as offline; waiting is no reason to read it
otherwise. What its request has no time left for, or whose process was killed, is unread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from keff.answers import Lane, reading_in, warm
from keff.gateway.vote.extraction import PathReading, Reader
from keff.narrow import Fields

T = TypeVar("T")

# Answers read at once in each lane. Reading is processor time: more than cores only take turns.
THREADS = 4
# Spaces that ask worker processes, so that an answer which is known can be read without one at once.
ASKS_WORKERS = frozenset({"math", "key"})
# Share of a vote's deadline that is left when reading ends: the vote then counts what is unread.
SPARE = 0.05


class ReadingThreads:
    """The lanes of one process: threads that are started on first use, apart from the event loop's."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(2 * THREADS, thread_name_prefix="answers")
        self._free = {lane: asyncio.Semaphore(THREADS) for lane in (Lane.FAST, Lane.SLOW)}
        self._heavy = asyncio.Semaphore(THREADS // 2)
        self._warming: list[Future[None]] = []

    def warm(self, reader: Reader | None) -> None:
        """Start the processes that parse mathematics, before the first request needs them."""
        if reader is not None and reader.space.name == "math":
            self._warming = [self._threads.submit(warm) for _ in range(THREADS)]

    async def ready(self) -> None:
        """Wait until the first of these processes runs, so that its start counts against no answer."""
        if self._warming and not any(start.done() for start in self._warming):
            starts = [asyncio.wrap_future(start) for start in self._warming]
            await asyncio.wait(starts, return_when=asyncio.FIRST_COMPLETED)

    async def run(self, lane: Lane, work: Callable[[Lane], T], *, heavy: bool = False) -> T:
        """Run ``work`` in a thread of a lane; cancelled, it is dequeued or left to its own time limit.

        ``heavy`` requests, which have brought an answer that the fast lane does not suffice for, have half of
        it together.
        """
        if lane is Lane.FAST and heavy:
            async with self._heavy:
                return await self._run(lane, work)
        return await self._run(lane, work)

    async def _run(self, lane: Lane, work: Callable[[Lane], T]) -> T:
        free = self._free[lane]
        await free.acquire()
        running = asyncio.get_running_loop().run_in_executor(self._threads, work, lane)
        # Of a request that has gone too: its thread is taken until the answer is read, and remembered.
        running.add_done_callback(lambda _: free.release())
        return await asyncio.shield(running)

    def close(self) -> None:
        """Shut the pool down without waiting."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class AnswerReading:
    """Reads the answers of one request, which may wait ``seconds`` for them in all; ``waited`` until now.

    ``end`` (the event loop's clock): the vote ends soon after, so what is not read by then is unread.
    """

    def __init__(self, reader: Reader, pool: ReadingThreads, seconds: float, end: float) -> None:
        self._reader, self._pool = reader, pool
        self._seconds, self._end, self.waited = seconds, end, 0.0
        self._turns = {lane: asyncio.Lock() for lane in (Lane.FAST, Lane.SLOW)}
        self._waiting, self._since, self._heavy = 0, 0.0, False

    async def read(self, choice: Fields) -> PathReading:
        """Return the vote of one choice; unread where the request has no time left for it."""
        if not self._reader.slow:
            return self._reader.read(choice)
        read = PathReading(None, False, unread=True)
        if self._reader.task is None and self._reader.space.name in ASKS_WORKERS:
            read = _read_in(self._reader, choice, Lane.KNOWN)
        return await self._patiently(choice, read) if read.unread else read

    async def _patiently(self, choice: Fields, read: PathReading) -> PathReading:
        clock = asyncio.get_running_loop().time
        if not self._waiting:
            self._since = clock()
        self._waiting += 1
        try:
            async with asyncio.timeout_at(min(self._since + self._seconds - self.waited, self._end)):
                await self._pool.ready()
                for lane, turn in self._turns.items():
                    async with turn:
                        work = partial(_read_in, self._reader, choice)
                        read = await self._pool.run(lane, work, heavy=self._heavy)
                    if not read.unread:
                        break
                    self._heavy = True
        except TimeoutError:
            pass
        finally:
            self._waiting -= 1
            if not self._waiting:
                self.waited += clock() - self._since
        return read


def _read_in(reader: Reader, choice: Fields, lane: Lane) -> PathReading:
    with reading_in(lane):
        return reader.read(choice)
