"""Thread pool for slow answer spaces, with a deadline for each answer and each request.

Mathematics is brought into one form by processes that may need seconds for one expression. Most answers do
not need them (a number, or an expression that was seen before) and are read at once. The others wait for
one of a few threads, one at a time for each request. Beyond the time of an answer or of its request the
answer votes as it is written, so a client that asks for ``9^{9^{9^{9}}}`` slows down nobody, and what
failed is remembered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from keff.answers import limited, warm
from keff.gateway.vote.extraction import PathReading, Reader
from keff.narrow import Fields

T = TypeVar("T")

# A slow answer space may take this long for one answer, and its path abstains then.
ANSWER_SECONDS = 2.0
# All answers of a request together: the client waits.
REQUEST_SECONDS = 4.0
# Reading is processor time: more threads than cores only take turns.
THREADS = 4


class ReadingThreads:
    """Thread pool for slow answer spaces, started on first use and apart from the event loop's."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="answers")
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

    async def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread; when cancelled, it is dequeued or left to its own time limit."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Shut the pool down without waiting."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class AnswerReading:
    """Reads the answers of one request."""

    def __init__(self, reader: Reader, pool: ReadingThreads) -> None:
        self._reader, self._pool = reader, pool
        self._left = REQUEST_SECONDS
        self._turn = asyncio.Lock()

    async def read(self, choice: Fields) -> PathReading:
        """Return the vote of one choice."""
        if not self._reader.slow:
            return self._reader.read(choice)
        if self._reader.task is None:
            with limited(0.0) as limit:
                at_once = self._reader.read(choice)
            if not limit.missed:
                return at_once
        else:
            at_once = PathReading(None, False)
        return await self._patiently(choice) or at_once

    async def _patiently(self, choice: Fields) -> PathReading | None:
        clock = asyncio.get_running_loop().time
        async with self._turn:
            await self._pool.ready()
            begun = clock()
            try:
                async with asyncio.timeout(self._left):
                    return await self._pool.run(partial(_read_within, self._reader, choice))
            except TimeoutError:
                return None
            finally:
                self._left -= clock() - begun


def _read_within(reader: Reader, choice: Fields) -> PathReading:
    with limited(ANSWER_SECONDS):
        return reader.read(choice)
