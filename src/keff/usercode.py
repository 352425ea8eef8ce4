"""The user's own Python, ``FILE.py:function``: trusted only from the command line of this call.

A run folder, a plan or a log may come from anybody, so nothing that is read from one may cause code to run.
What they keep is a ``Stamp``: the name of the function and the hash of its file. A command that needs the
function gets it again from its own flag, and ``settle`` refuses a call that lacks the flag or brings another
file.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from keff.errors import UsageError
from keff.narrow import Fields
from keff.records import Result, frozen

# The task options that name code, and the flags that they come from.
FLAGS: Mapping[str, str] = {"scorer": "--scorer", "answer_key": "--answer-key"}

# The name of what rated the paths, among the code that is recorded; the flags that it comes from.
VERIFIER, VERIFIER_FLAGS = "verifier", "--verifier FILE.py:function (or --verifier-url URL)"

# The task option that runs the model's programs without a sandbox; trusted from the command line only.
UNSAFE = "unsafe_exec"


@frozen
class Stamp(Result):
    """Recorded identity of user code: its name ``FILE.py:function``, and the SHA-256 of the file."""

    name: str
    sha256: str


@frozen
class UserCode:
    """A function of a Python file that the user named on the command line.

    It runs in this process with all of its rights, without a time limit. ``source`` is the file as it was
    when it was named: what is hashed is what runs.
    """

    path: str
    function: str
    source: bytes = field(repr=False)

    @classmethod
    def parse(cls, text: str, what: str) -> UserCode:
        """Return the function of ``FILE.py:function``; ``what`` is its purpose, for errors.

        Raises UsageError when the form is wrong, the file is missing or fails to run, or has no such
        function.
        """
        path, colon, function = text.rpartition(":")
        if not colon or not path.endswith(".py") or not function.isidentifier():
            raise UsageError(f"a {what} is written FILE.py:function, not {text!r}")
        try:
            source = Path(path).read_bytes()
        except OSError:
            raise UsageError(f"{path}: no such {what} file") from None
        code = cls(path, function, source)
        code.load(what)
        return code

    @property
    def stamp(self) -> Stamp:
        """The name and hash recorded in manifests and plans."""
        return Stamp(f"{Path(self.path).name}:{self.function}", hashlib.sha256(self.source).hexdigest())

    def load(self, what: str = "code") -> Callable[..., object]:
        """Return the function, running its file once per process."""
        return _load_function(self, what)


@lru_cache(maxsize=16)
def _load_function(code: UserCode, what: str) -> Callable[..., object]:
    # A module of its own stays in sys.modules: dataclasses and pickling look their module up by name.
    module = ModuleType(f"keff_user_{code.stamp.sha256[:16]}")
    module.__file__ = code.path
    sys.modules[module.__name__] = module
    try:
        exec(compile(code.source, code.path, "exec"), module.__dict__)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(f"{code.path}: the {what} file fails to run: {reason}") from error
    function = getattr(module, code.function, None)
    if not callable(function):
        raise UsageError(f"{code.path}: there is no function {code.function!r}")
    return function


def require_same_code(
    where: str,
    kind: str,
    recorded: Stamp | None,
    given: Stamp | None,
    *,
    otherwise: str = "put the old one back",
) -> None:
    """Raise UsageError unless this call brings the code that a record was made with.

    ``where`` names the record, ``kind`` is a key of ``FLAGS`` or ``VERIFIER``, ``otherwise`` says what to do
    when the file was changed on purpose. Raises UsageError when the record was made with code and the flag is
    absent, and when the file differs from the recorded one.
    """
    if recorded is None:
        return
    what = f"{where} was made with the {kind.replace('_', ' ')} {recorded.name!r}"
    if given is None:
        flag = VERIFIER_FLAGS if kind == VERIFIER else f"{FLAGS[kind]} FILE.py:function"
        raise UsageError(f"{what}, and code is trusted only from the command line: add {flag}")
    if recorded.sha256 and recorded.sha256 != given.sha256:
        raise UsageError(
            f"{what}, and {given.name} is another file (SHA-256 {given.sha256[:12]}, recorded "
            f"{recorded.sha256[:12]}): {otherwise}"
        )


def without_code(options: Fields) -> dict[str, object]:
    """Return task options without those that name or trust code."""
    return {name: value for name, value in options.items() if name not in FLAGS and name != UNSAFE}


def stamps(options: Fields) -> dict[str, Stamp]:
    """Return the stamps of options that name code, which must come from this command line."""
    return {
        kind: UserCode.parse(str(options[kind]), kind.replace("_", " ")).stamp
        for kind in FLAGS
        if options.get(kind) is not None
    }
