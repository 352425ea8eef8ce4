"""Canonical forms by math-verify's parser and sympy, in worker processes with a time limit.

The workers are separate Python processes, because parsing and simplifying can hang or fill the memory and
signal-based limits do not work in threads. A worker has a few seconds of processor time a string, and a
minute by the clock. One that overruns is killed; the string it worked on has no canonical form, which is
remembered.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

from keff import narrow
from keff.answers._worker import Pool

SECONDS = 60.0
MOST_CHARACTERS = 300


POOL = Pool("keff.answers._symbolic_worker")
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
        return narrow.text(POOL.ask(text, SECONDS))
    seconds = limit.end - time.monotonic()
    if seconds <= 0:
        limit.missed = True
        raise NoTimeError
    return narrow.text(POOL.ask(text, min(seconds, SECONDS)))
