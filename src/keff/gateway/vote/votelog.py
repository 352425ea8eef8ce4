"""The opt-in vote log: one JSON line a voted request, which ``keff analyze`` reads without gold labels."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

from keff.errors import UsageError


class VoteLog:
    """Appends to a file.

    Answers are canonical keys: equal where they are equal texts. They are redacted to 1, 2, ... within a
    request unless ``answers`` is True. Neither questions nor texts of paths are ever written.
    """

    def __init__(self, file: Path, *, answers: bool = False) -> None:
        self._file, self._answers = file, answers
        try:
            self._out = file.open("a", encoding="utf-8", buffering=1)
        except OSError as error:
            raise UsageError(f"vote_log {file}: {error.strerror}") from None

    def write(self, name: str, keys: Sequence[str | None], **rest: object) -> None:
        """Append one request; raises OSError."""
        shown = list(keys) if self._answers else redacted(keys)
        row = {"id": name, "answer_space": "exact", "all_answers": shown, **rest}
        self._out.write(json.dumps(row, separators=(",", ":")) + "\n")

    def close(self) -> None:
        """Close the file; what a full disk did not take is lost."""
        with contextlib.suppress(OSError):
            self._out.close()


def redacted(keys: Sequence[str | None]) -> list[str | None]:
    """Return the keys as 1, 2, ... in order of appearance; None stays."""
    names: dict[str, str] = {}
    return [None if key is None else names.setdefault(key, str(len(names) + 1)) for key in keys]
