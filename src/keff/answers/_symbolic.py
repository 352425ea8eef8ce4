"""Canonical forms by math-verify's parser and sympy, in worker processes with a time limit.

The workers are separate Python processes, because parsing and simplifying can hang or fill the memory and
signal-based limits do not work in threads. A worker has a few seconds of processor time a string, and a
minute by the clock. One that overruns is killed; the string it worked on has no canonical form, which is
remembered.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

SECONDS = 60.0
START_SECONDS = 60.0
MOST_CHARACTERS = 300


class Worker:
    """One worker process, asked one string at a time."""

    def __init__(self) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "keff.answers._symbolic_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
            text=True,
            encoding="utf-8",
        )
        self.alive, self.started = True, False

    def ready(self) -> bool:
        """Wait until the process has started; False when it does not."""
        if self.alive and not self.started:
            self.started = self.alive = self._read(START_SECONDS) is not None
        return self.alive

    def ask(self, text: str, seconds: float) -> str | None:
        """Return the canonical form; None if there is none or the time is over (then the worker is dead)."""
        if not self.ready():
            return None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(text) + "\n")
            self._process.stdin.flush()
        except OSError:
            self.close()
            return None
        line = self._read(seconds)
        return None if line is None else json.loads(line)

    def _read(self, seconds: float) -> str | None:
        assert self._process.stdout is not None
        timer = threading.Timer(seconds, self._process.kill)
        timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        if line.endswith("\n"):
            return line
        self.close()
        return None

    def close(self) -> None:
        """End the process."""
        self.alive = False
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    continue


class Pool:
    """Workers made as threads need them, kept for the next one."""

    def __init__(self) -> None:
        self._idle: list[Worker] = []
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def ask(self, text: str, seconds: float = SECONDS) -> str | None:
        """Return the canonical form that an idle or new worker finds in time."""
        with self._lock:
            if self._owner != os.getpid():
                self._idle, self._owner = [], os.getpid()
            # The one that has waited longest: it has surely started.
            worker = self._idle.pop(0) if self._idle else None
        worker = worker or Worker()
        answer = worker.ask(text, seconds)
        if worker.started and not worker.alive:
            # Replaced at once, so that the next string need not wait for a start.
            worker = Worker()
        with self._lock:
            if worker.alive:
                self._idle.append(worker)
        return answer

    def add(self, most: int) -> None:
        """Start one worker more, unless ``most`` are idle."""
        with self._lock:
            enough = len(self._idle) >= most
        worker = None if enough else Worker()
        if worker is not None and worker.ready():
            with self._lock:
                self._idle.append(worker)

    def close(self) -> None:
        """End all idle workers of this process."""
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers if self._owner == os.getpid() else ():
            worker.close()


POOL = Pool()
atexit.register(POOL.close)


@lru_cache(maxsize=1)
def available() -> bool:
    """Return whether the extra ``math`` is installed."""
    return find_spec("math_verify") is not None and find_spec("latex2sympy2_extended") is not None


@dataclass(slots=True)
class Limit:
    """Until when (``time.monotonic``) forms may be sought; ``missed`` once one was not, for want of time."""

    end: float
    missed: bool = False


_limit: ContextVar[Limit | None] = ContextVar("limit", default=None)
_alone: ContextVar[bool] = ContextVar("alone", default=False)


@contextmanager
def limited(seconds: float) -> Generator[Limit]:
    """Let all that is read within take ``seconds`` by the clock; at 0 only forms that are known are found.

    For a service, where one answer must not hold up others. Elsewhere the limit is processor time, so that
    a busy machine finds the same forms.
    """
    limit = Limit(time.monotonic() + seconds)
    token = _limit.set(limit)
    try:
        yield limit
    finally:
        _limit.reset(token)


@contextmanager
def without_workers() -> Generator[None]:
    """Find no form by a worker."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


class NoTimeError(Exception):
    """There is no time to look for a form, which says nothing about the string: not remembered."""


def warm(workers: int) -> None:
    """Have so many workers ready, where the extra is installed; called by as many threads at once."""
    if available():
        POOL.add(workers)


def canonical(text: str) -> str | None:
    """Return the canonical form of a normalised expression.

    None without the extra, in time-out, or unparsable.

    Raises NoTimeError where the time is limited and over.
    """
    if _alone.get() or not available() or len(text) > MOST_CHARACTERS:
        return None
    return sought(text)


@lru_cache(maxsize=2**16)
def sought(text: str) -> str | None:
    """Ask a worker. What it cannot do in time is remembered as having no form."""
    limit = _limit.get()
    if limit is None:
        return POOL.ask(text)
    seconds = limit.end - time.monotonic()
    if seconds <= 0:
        limit.missed = True
        raise NoTimeError
    return POOL.ask(text, min(seconds, SECONDS))
