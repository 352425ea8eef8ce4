"""The user's own function from answer to key: trusted only where this process was told to.

``trust`` is called for the flag ``--answer-key`` of this command line, and by nothing that is read from a
file. Runs, logs and plans hold the *spec* of such a reading, which names the function and the hash of its
file: without ``trust`` in the same process, or with another file, it is refused.
"""

from __future__ import annotations

import atexit
import json
from functools import lru_cache

from keff import narrow
from keff.answers.parts.worker import WorkerPool
from keff.errors import RunError, TaskError
from keff.usercode import Stamp, UserCode

# How long one answer may take. By the clock, so a busy machine needs a generous limit.
SECONDS = 10.0

# So many answers in a row that take too long end the command: the function hangs.
MOST_OVERRUNS = 3

_KEY = "key:"
_TRUSTED: dict[str, UserCode] = {}


def trust(code: UserCode) -> Stamp:
    """Trust a function for the rest of this process; returns its stamp."""
    _TRUSTED[code.stamp.sha256] = code
    return code.stamp


def key_spec(stamp: Stamp, inner: str | None) -> str:
    """Return the spec of a reading by the user's function, after the space ``inner`` found the answer."""
    options = {"code": stamp.name, "sha256": stamp.sha256} | ({"inner": inner} if inner else {})
    return f"{_KEY}{json.dumps(options, sort_keys=True)}"


def caller(stamp: Stamp) -> FunctionCaller:
    """Return what calls the function of a stamp; raises TaskError where this process does not trust it."""
    if not stamp.sha256:
        raise TaskError("answer space key: name your function with --answer-key FILE.py:function")
    code = _TRUSTED.get(stamp.sha256)
    if code is not None and code.function == stamp.name.rpartition(":")[2]:
        return _caller(code)
    if _TRUSTED:
        given = ", ".join(f"{each.stamp.name} ({each.stamp.sha256[:12]})" for each in _TRUSTED.values())
        raise TaskError(
            f"these answers were keyed by {stamp.name} (SHA-256 {stamp.sha256[:12]}), and --answer-key is "
            f"{given}: name the same file, unchanged"
        )
    raise TaskError(
        f"these answers were keyed by {stamp.name}, and code is trusted only from the command line: "
        "add --answer-key FILE.py:function"
    )


def settle(given: str | None, recorded: str | None) -> str | None:
    """Return the reading that a command asks for of a record or plan; None where it is the recorded one.

    A record that was made with ``--answer-key`` is read by the same function, found by its recorded inner
    space unless another is named; raises TaskError where the flag names another file. Another space that is
    asked for by name needs no code.
    """
    if given is None or recorded is None or not (given.startswith(_KEY) and recorded.startswith(_KEY)):
        return given
    mine, theirs = (json.loads(spec.removeprefix(_KEY)) for spec in (given, recorded))
    caller(Stamp(str(theirs.get("code", "")), str(theirs.get("sha256", ""))))
    return given if mine.get("inner", theirs.get("inner")) != theirs.get("inner") else None


@lru_cache(maxsize=16)
def _caller(code: UserCode) -> FunctionCaller:
    return FunctionCaller(code)


class FunctionCaller:
    """Calls the function in a worker process, with a time limit; each answer once."""

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
        said = self._pool.ask(answer, SECONDS)
        if said is None:
            self._overruns += 1
            if self._overruns >= MOST_OVERRUNS:
                raise RunError(
                    f"the answer key {self.name} hangs or ends its process: {self._overruns} answers in a "
                    f"row got no reply in {SECONDS:g} s"
                )
            return None, f"the answer key takes more than {SECONDS:g} s"
        self._overruns = 0
        reply = narrow.fields(said)
        return narrow.text(reply.get("key")), narrow.text(reply.get("error"))
