"""Worker processes with time limits, for math-verify, sympy and the user's key function.

Workers are asked one line of JSON at a time; who overruns is killed.

The workers are separate Python processes, because parsing and simplifying can hang or fill the memory and
signal-based limits do not work in threads. An answer has ``ANSWER_SECONDS`` of processor time for all its
parts. One that needs more is compared as it is written, which is remembered: that depends on the answer
alone. What is given up for another reason (a service has no time left for it, a worker was killed or cannot
start) is *unread*, and never remembered.

``trust`` is called for the flag ``--answer-key`` of this command line, and by nothing that is read from a
file. Runs, logs and plans hold the *spec* of such a reading, which names the function and the hash of its
file: without ``trust`` in the same process, or with another file, it is refused.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from enum import Enum
from functools import lru_cache
from importlib.util import find_spec

from keff import narrow
from keff.errors import KeffError, RunError, TaskError
from keff.usercode import Stamp, UserCode

# Importing sympy on a loaded machine takes many seconds; a real hang is longer.
START_SECONDS = 60.0


class UnreadError(KeffError):
    """Raised where an answer was given up for a reason that is not in it; nothing is remembered."""


class Worker:
    """One worker process, asked one value at a time; ``begin`` is its first input line.

    ``behind``: it runs behind all other processes.
    """

    def __init__(self, module: str, begin: object = None, *, behind: bool = False) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
            text=True,
            encoding="utf-8",
            # A worker may have a process of its own: both are ended.
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self.alive, self.started, self._behind = True, False, behind
        if begin is not None:
            self._write(begin)

    def ask(self, value: object, seconds: float) -> object:
        """Return the worker's reply to a value; None on timeout, which kills the worker."""
        if self.alive and not self.started:
            self.started = self.alive = self._read(START_SECONDS) is not None
            if self.alive and self._behind and sys.platform != "win32":
                # Not before: on a busy machine the start alone would outlast whoever waits for it.
                with suppress(OSError):
                    os.setpriority(os.PRIO_PGRP, self._process.pid, 19)
        if self.alive:
            self._write(value)
        line = self._read(seconds) if self.alive else None
        try:
            return None if line is None else json.loads(line)
        except ValueError:  # the user's function wrote between the replies
            self.close()
            return None

    def _write(self, value: object) -> None:
        try:
            self._stdin.write(json.dumps(value) + "\n")
            self._stdin.flush()
        except OSError:
            self.close()

    def _read(self, seconds: float) -> str | None:
        timer = threading.Timer(seconds, self._kill)
        timer.start()
        line = self._stdout.readline()
        timer.cancel()
        if line.endswith("\n"):
            return line
        self.close()
        return None

    def _kill(self) -> None:
        if sys.platform == "win32":
            self._process.kill()
        else:
            # Not waited for yet, so the number is still its own.
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process."""
        self.alive = False
        self._kill()
        self._process.wait()
        for stream in (self._stdin, self._stdout):
            with suppress(OSError):
                stream.close()


class WorkerPool:
    """Pool of workers, started as threads need them and reused."""

    def __init__(self, module: str, begin: object = None, *, behind: bool = False) -> None:
        self._module, self._begin, self._behind = module, begin, behind
        self._idle: list[Worker] = []
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def ask(self, value: object, seconds: float) -> object:
        """Return an idle or new worker's reply; None on timeout."""
        with self._lock:
            if self._owner != os.getpid():
                self._idle, self._owner = [], os.getpid()
            # The one that has waited longest: it has surely started.
            worker = self._idle.pop(0) if self._idle else None
        try:
            worker = worker or self._new()
            answer = worker.ask(value, seconds)
            if worker.started and not worker.alive:
                # Replaced at once, so that the next value need not wait for a start.
                worker = self._new()
        except OSError as error:
            raise UnreadError(f"a process that reads answers cannot be started: {error.strerror}") from None
        with self._lock:
            if worker.alive:
                self._idle.append(worker)
        return answer

    def _new(self) -> Worker:
        return Worker(self._module, self._begin, behind=self._behind)

    def close(self) -> None:
        """End this process's idle workers."""
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers if self._owner == os.getpid() else ():
            worker.close()


# By the clock: only where a machine is so busy that processor seconds take that long.
PART_SECONDS = 60.0
# Processor seconds for all parts of one answer; what models answer takes a tenth of one.
ANSWER_SECONDS = 2.0
# sympy's parser is slow: longer answers vote as they are written.
MOST_CHARACTERS = 300


# Processor seconds of one string in a service before it goes on behind all others.
FAST_SECONDS = 0.4

_SYMBOLIC = "keff.answers.parts.symbolic_worker"
POOL, SLOW_POOL = WorkerPool(_SYMBOLIC), WorkerPool(_SYMBOLIC, behind=True)
atexit.register(POOL.close)
atexit.register(SLOW_POOL.close)


@lru_cache(maxsize=1)
def available() -> bool:
    """Return whether the extra ``math`` is installed."""
    return find_spec("math_verify") is not None and find_spec("latex2sympy2_extended") is not None


class Lane(Enum):
    """How a service reads an answer, where one must not hold up others.

    ``KNOWN`` asks no worker, ``FAST`` lets it take a moment, ``SLOW`` all that an answer may, behind all
    other processes. What a lane does not suffice for is unread there; the rest is read as without one.
    """

    KNOWN = 0
    FAST = 1
    SLOW = 2


_lane: ContextVar[Lane | None] = ContextVar("lane", default=None)
# Processor seconds that are left to one answer, counted down in place; set by ``one_answer``.
_left: ContextVar[list[float]] = ContextVar("left")


@contextmanager
def reading_in(lane: Lane) -> Generator[None]:
    """Read all answers of this context in a lane."""
    token = _lane.set(lane)
    try:
        yield
    finally:
        _lane.reset(token)


class TooLongError(Exception):
    """Raised when an answer takes too long at any time; the result is cached."""


@contextmanager
def one_answer(seconds: float = ANSWER_SECONDS) -> Generator[None]:
    """Limit the workers' CPU time for one answer's parts; with 0 none is asked."""
    token = _left.set([seconds])
    try:
        yield
    finally:
        _left.reset(token)


def warm() -> None:
    """Start one worker per concurrent thread, where the extra is installed."""
    if available():
        POOL.ask(["1", ANSWER_SECONDS], PART_SECONDS)


def canonical(text: str) -> str | None:
    """Return the canonical form of a normalised expression.

    None without the extra, or unparsable. Raises TooLongError where the worker overran, or the parts of the
    answer took too long together, and UnreadError where it was given up for another reason.
    """
    left = _left.get()
    if left[0] <= 0 or not available() or len(text) > MOST_CHARACTERS:
        return None
    form, seconds = sought(text)
    left[0] -= seconds
    if left[0] < 0:
        raise TooLongError
    return form


@lru_cache(maxsize=2**16)
def sought(text: str) -> tuple[str | None, float]:
    """Return a worker's result and its CPU seconds (infinite where it needs too many), cached.

    Raises UnreadError where the lane does not suffice, or the worker was lost twice.
    """
    lane = _lane.get()
    if lane is Lane.KNOWN:
        raise UnreadError("nothing is known of it yet")
    pool = SLOW_POOL if lane is Lane.SLOW else POOL
    seconds = FAST_SECONDS if lane is Lane.FAST else ANSWER_SECONDS
    for _ in range(2):
        reply = narrow.items(pool.ask([text, seconds], PART_SECONDS))
        if not reply:
            continue  # killed, or without processor time for a minute
        if (took := narrow.number(reply[1])) is not None:
            return narrow.text(reply[0]), float(took)
        if lane is Lane.FAST:
            break
        return None, math.inf
    raise UnreadError(
        "a process that reads answers ended before it replied: give it 1 GiB of memory, and run this again"
    )


# How long one answer may take. By the clock, so a busy machine needs a generous limit.
KEY_SECONDS = 10.0

# So many answers in a row that take too long end the command: the function hangs.
MOST_OVERRUNS = 3

_KEY = "key:"
_TRUSTED: dict[str, UserCode] = {}


def trust(code: UserCode) -> Stamp:
    """Mark a function as trusted in this process; returns its stamp."""
    _TRUSTED[code.stamp.sha256] = code
    return code.stamp


def key_spec(stamp: Stamp, inner: str | None) -> str:
    """Return the spec of reading by the user's function, after the space ``inner``."""
    options = {"code": stamp.name, "sha256": stamp.sha256} | ({"inner": inner} if inner else {})
    return f"{_KEY}{json.dumps(options, sort_keys=True)}"


def caller(stamp: Stamp) -> FunctionCaller:
    """Return the caller of a stamped function; TaskError where it is not trusted here."""
    if not stamp.sha256:
        raise TaskError("answer space key: name your function with --answer-key FILE.py:function")
    code = _TRUSTED.get(stamp.sha256)
    if code is not None and code.function == stamp.name.rpartition(":")[2]:
        return _caller_of(code)
    raise TaskError(
        f"these answers were keyed by {stamp.name} (SHA-256 {stamp.sha256[:12]}), and code is trusted only "
        "from the command line: add --answer-key FILE.py:function, and name the same file, unchanged"
    )


def settle(given: str | None, recorded: str | None) -> str | None:
    """Return the answer space that a command asks for; None to keep the recorded one.

    A record that was made with ``--answer-key`` is read by the same function, found by its recorded inner
    space unless another is named; raises TaskError where the flag names another file. Another space that is
    asked for by name needs no code.
    """
    if given is None or recorded is None or not (given.startswith(_KEY) and recorded.startswith(_KEY)):
        return given
    mine, theirs = (json.loads(spec.removeprefix(_KEY)) for spec in (given, recorded))
    caller(Stamp(str(theirs.get("code", "")), str(theirs.get("sha256", ""))))
    return given if mine.get("inner", theirs.get("inner")) != theirs.get("inner") else None


class FunctionCaller:
    """Calls the user's function in a worker process with a time limit, once per distinct answer."""

    def __init__(self, code: UserCode) -> None:
        source = code.source.decode("utf-8", "replace")
        begin = {"path": code.path, "function": code.function, "source": source}
        self.name = code.stamp.name
        self._pool = WorkerPool("keff.answers.parts.key_worker", begin)
        self._overruns = 0
        self.ask = lru_cache(maxsize=2**16)(self._ask)
        atexit.register(self._pool.close)

    def _ask(self, answer: str) -> tuple[str | None, str | None]:
        """Return the key, or why there is none; raises RunError when the function hangs."""
        lane = _lane.get()
        if lane is Lane.KNOWN:
            raise UnreadError("nothing is known of it yet")
        said = self._pool.ask(answer, KEY_SECONDS)
        if said is None and lane is not None:
            raise UnreadError("the answer key gave no reply")
        if said is None:
            self._overruns += 1
            if self._overruns >= MOST_OVERRUNS:
                raise RunError(
                    f"the answer key {self.name} hangs or ends its process: {self._overruns} answers in a "
                    f"row got no reply in {KEY_SECONDS:g} s"
                )
            return None, f"the answer key takes more than {KEY_SECONDS:g} s"
        self._overruns = 0
        reply = narrow.fields(said)
        return narrow.text(reply.get("key")), narrow.text(reply.get("error"))


# One process for one function, however often its space is made.
_caller_of = lru_cache(maxsize=16)(FunctionCaller)
