"""One JSON line per question.

{"id", "gold_answer", "all_answers": [...], "all_correct": [...] (optional), ...}.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from keff.log import LogInfo, Question, Tell, unheard
from keff.logs._lines import first_row, json_lines
from keff.logs._rows import by_model, once_each, question_of, said_by


class KeffJsonl:
    """Reader of the one-line-per-question JSONL."""

    name = "keff_jsonl"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        row = first_row(path)
        if isinstance(row, str):
            return row
        if "instance_id" in row and "id" not in row:
            return 'the first line has no "id"'
        return None if "all_answers" in row else 'the first line has no "all_answers"'

    def info(self, path: Path) -> LogInfo:
        """Return what the log says about itself."""
        row = first_row(path)
        if isinstance(row, str):
            return LogInfo()
        return said_by(row)

    def questions(self, path: Path, *, texts: bool = False, tell: Tell = unheard) -> Iterator[Question]:
        """Read question by question; see ``Log.questions``."""
        return once_each(
            (where, by_model(question_of(where, row, texts=texts), row))
            for where, row in json_lines(path, tell)
        )


def log() -> KeffJsonl:
    """Make the reader."""
    return KeffJsonl()
