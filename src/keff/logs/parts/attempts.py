"""Rows of a table that ended in an error: those that were tried again are no paths."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from keff.answers import says_none
from keff.log import NoteSink
from keff.logs.parts.columns import Layout
from keff.logs.parts.values import TRUTHS, is_missing
from keff.narrow import Fields
from keff.records import Note

# Columns that say how a row ended, and the words for an error in them.
STATUS = frozenset({"status", "state", "run_status", "call_status"})
ENDINGS = frozenset(
    ("error", "errored", "failed", "failure", "exception", "timeout", "timed_out", "timed out", "crashed")
) | {"cancelled", "canceled", "aborted", "rate_limited"}
# Columns that hold an error where there was one.
ERROR = frozenset({"error", "error_message", "error_type", "exception"})

NO_ERROR = frozenset({"none", "null", "nan", "n/a", "na", "<na>", "ok", "-", "no error"})
# Columns that say yes or no, and what of it is an error.
FLAGS = {
    **dict.fromkeys(("is_error", "has_error", "errored", "failed", "timed_out", "crashed"), 1),
    **dict.fromkeys(("success", "succeeded", "is_success", "ok", "completed"), 0),
}
CODES = frozenset({"http_status", "status_code", "http_code", "http_status_code"})

Members = list[tuple[str, Fields]]


@dataclass(slots=True)
class Attempts:
    """Leaves out rows of errors that a later row of the same path makes good, and counts both kinds.

    ``columns`` are those of the table that may tell of an error; a row with an answer, or of a table of
    verdicts alone with a verdict, is none, whatever they say.
    """

    layout: Layout
    columns: AbstractSet[str] = frozenset()
    retried: int = 0
    kept: int = 0
    said: dict[str, None] = field(default_factory=dict[str, None])

    @classmethod
    def of(cls, row: Fields, layout: Layout) -> Attempts:
        """Return the attempts of a table by its first row."""
        told = STATUS | ERROR | CODES | FLAGS.keys()
        names = [name for name in row if name.strip().lower() in told]
        # Rows of JSON have further names where there was an error.
        return cls(layout, frozenset({*names, *told}) - layout.used)

    def last(self, members: Members) -> Members:
        """Return the rows of one id without those that were tried again."""
        failed = [self._ended_in_error(row) for _, row in members]
        if not any(failed):
            return members
        good = {self._path(row) for (_, row), bad in zip(members, failed, strict=True) if not bad}
        again = [bad and self._path(row) in good for (_, row), bad in zip(members, failed, strict=True)]
        self.retried += sum(again)
        self.kept += sum(failed) - sum(again)
        return [member for member, left_out in zip(members, again, strict=True) if not left_out]

    def say(self, tell: NoteSink) -> None:
        """Tell how many rows were left out, and how many count as paths without an answer."""
        columns = " and ".join(self.said)
        if self.retried:
            text = f"{self.retried} rows are left out: each ended in an error ({columns}) and was tried again"
            tell(Note("tried_again", text))
        if self.kept:
            text = (
                f"{self.kept} rows ended in an error ({columns}) and were not tried again: each counts as a "
                "path without an answer; leave them out of the file if the model did not fail"
            )
            tell(Note("failed_rows", text))

    def _path(self, row: Fields) -> tuple[str, ...]:
        """Return what tells the paths of an id apart, where columns do."""
        single = self.layout.single
        return tuple(str(row.get(single[word])) for word in ("model", "slot", "path") if word in single)

    def _ended_in_error(self, row: Fields) -> bool:
        names = [name for name in row.keys() & self.columns if tells_error(name, row[name])]
        if not names:
            return False
        single = self.layout.single
        given = [row.get(single[word]) for word in ("answer", "text") if word in single]
        given = given or [row.get(single[word]) for word in ("correct", "score") if word in single]
        if not all(is_missing(value) or (isinstance(value, str) and says_none(value)) for value in given):
            return False
        self.said |= dict.fromkeys(sorted(names))
        return True


def tells_error(name: str, value: object) -> bool:
    """Return whether a column of this name with this value says that its row ended in an error."""
    name = name.strip().lower()
    if name in STATUS:
        return isinstance(value, str) and value.strip().lower() in ENDINGS
    if name in FLAGS:
        return TRUTHS.get(str(value).strip().lower()) == FLAGS[name]
    if name in CODES:
        return str(value).strip().startswith(("4", "5"))
    if name not in ERROR:
        return False
    if isinstance(value, str):
        word = value.strip().lower()
        return bool(word) and TRUTHS.get(word, 1) != 0 and word not in NO_ERROR
    return value is True or isinstance(value, dict)
