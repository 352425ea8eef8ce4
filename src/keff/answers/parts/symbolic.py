"""Canonical forms by math-verify's parser and sympy, in worker processes with a time limit.

The workers are separate Python processes, because parsing and simplifying can hang or fill the memory and
signal-based limits do not work in threads. They refuse what would be too large before they compute it. A
worker has a few seconds of processor time a string, and one that overruns is killed; an answer has
``ANSWER_SECONDS`` for all its parts. One that needs more is compared as it is written, which is remembered.
"""

from __future__ import annotations

import atexit
import math
import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

from keff import narrow
from keff.answers.parts.worker import WorkerPool

# By the clock: only where a machine is so busy that processor seconds take that long.
SECONDS = 60.0
# Processor seconds for all parts of one answer; what models answer takes a tenth of one.
ANSWER_SECONDS = 2.0
# sympy's parser is slow: longer answers vote as they are written.
MOST_CHARACTERS = 300


POOL = WorkerPool("keff.answers.parts.symbolic_worker")
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
_spent: ContextVar[list[float] | None] = ContextVar("spent", default=None)


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


class TooLongError(Exception):
    """An answer takes too long, whoever asks."""


@contextmanager
def one_answer() -> Generator[None]:
    """Count the processor time that workers take for the parts of one answer."""
    token = _spent.set([0.0])
    try:
        yield
    finally:
        _spent.reset(token)


def warm(workers: int) -> None:
    """Have so many workers ready, where the extra is installed; called by as many threads at once."""
    if available():
        POOL.add(workers)


def canonical(text: str) -> str | None:
    """Return the canonical form of a normalised expression.

    None without the extra, or unparsable. Raises NoTimeError where the time is limited and over, and
    TooLongError where the worker overran, or the parts of the answer took too long together.
    """
    if _alone.get() or not available() or len(text) > MOST_CHARACTERS:
        return None
    form, seconds = sought(text)
    spent = _spent.get()
    if spent is not None:
        spent[0] += seconds
        if spent[0] > ANSWER_SECONDS:
            raise TooLongError
    return form


@lru_cache(maxsize=2**16)
def sought(text: str) -> tuple[str | None, float]:
    """Return what a worker finds and the seconds it took, infinitely many where it overran: remembered."""
    limit = _limit.get()
    seconds = SECONDS if limit is None else min(limit.end - time.monotonic(), SECONDS)
    if limit is not None and seconds <= 0:
        limit.missed = True
        raise NoTimeError
    reply = narrow.items(POOL.ask(text, seconds))
    return (narrow.text(reply[0]), float(narrow.number(reply[1]) or 0)) if reply else (None, math.inf)
