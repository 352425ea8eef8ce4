"""The user's own scorer: a Python function in a file, run as it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from keff.errors import TaskError
from keff.usercode import UserCode

Scored = tuple[str | None, bool] | bool
"""What a scorer returns: (answer, is it right), or only whether it is right."""


@dataclass(frozen=True, slots=True)
class Scorer:
    """``function(text, gold)`` of a Python file, given as ``FILE.py:function``.

    It is the user's code (``keff.usercode``). Raises UsageError when the file or the function is missing, and
    TaskError when a call fails or returns something else.
    """

    code: UserCode

    @classmethod
    def parse(cls, text: str) -> Scorer:
        """Read ``FILE.py:function`` and check that it can be loaded."""
        return cls(UserCode.parse(text, "scorer"))

    @property
    def identity(self) -> tuple[str, str]:
        """The name of the function and the hash of its file, for the version of the task."""
        return self.code.function, self.code.stamp.sha256

    def score(self, text: str, gold: object) -> Scored:
        """Call the function and check what it returns."""
        name = f"{self.code.path}:{self.code.function}"
        try:
            scored = self.code.load("scorer")(text, gold)
        except Exception as error:
            raise TaskError(f"{name} fails: {type(error).__name__}: {error}") from error
        if isinstance(scored, bool | int) and scored in (0, 1):
            return bool(scored)
        if isinstance(scored, tuple) and len(cast("tuple[object, ...]", scored)) == 2:
            answer, right = cast("tuple[object, object]", scored)
            if (answer is None or isinstance(answer, str)) and isinstance(right, bool | int):
                return answer, bool(right)
        raise TaskError(f"{name} returned {scored!r}: expected bool or (answer, bool)")
