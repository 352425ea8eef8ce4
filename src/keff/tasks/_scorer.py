"""The user's own scorer: a Python function in a file, run as it stands."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from keff.errors import TaskError

Scored = tuple[str | None, bool] | bool
"""What a scorer returns: (answer, is it right), or only whether it is right."""


@lru_cache(maxsize=16)
def _load(path: str, function: str) -> Callable[[str, Any], Any]:
    try:
        found = runpy.run_path(path).get(function)
    except Exception as error:
        raise TaskError(f"{path}: the scorer file fails to run: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise TaskError(f"{path}: there is no function {function!r}")
    return found


@dataclass(frozen=True, slots=True)
class Scorer:
    """``function(text, gold)`` of a Python file, given as ``FILE.py:function``.

    It is the user's code: it runs in this process with all of its rights, without a time limit. Raises
    TaskError when the file or the function is missing, or when a call fails or returns something else.
    """

    path: str
    function: str

    @classmethod
    def parse(cls, text: str) -> Scorer:
        """Read ``FILE.py:function`` and check that it can be loaded."""
        path, colon, function = text.rpartition(":")
        if not colon or not path.endswith(".py") or not function.isidentifier():
            raise TaskError(f"a scorer is written FILE.py:function, not {text!r}")
        if not Path(path).is_file():
            raise TaskError(f"{path}: no such scorer file")
        _load(path, function)
        return cls(path, function)

    def source(self) -> str:
        """Return the text of the file, for the version of the task."""
        return Path(self.path).read_text("utf-8")

    def score(self, text: str, gold: Any) -> Scored:
        """Call the function and check what it returns."""
        try:
            scored = _load(self.path, self.function)(text, gold)
        except Exception as error:
            raise TaskError(f"{self.path}:{self.function} fails: {type(error).__name__}: {error}") from error
        if isinstance(scored, bool | int) and scored in (0, 1):
            return bool(scored)
        if isinstance(scored, tuple) and len(cast("tuple[Any, ...]", scored)) == 2:
            answer, right = cast("tuple[Any, Any]", scored)
            if (answer is None or isinstance(answer, str)) and isinstance(right, bool | int):
                return answer, bool(right)
        raise TaskError(f"{self.path}:{self.function} returned {scored!r}: expected bool or (answer, bool)")
