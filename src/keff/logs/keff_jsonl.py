"""One JSON line per question.

{"id", "gold_answer", "all_answers": [...], "all_correct": [...] (optional), ...}.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from keff.log import LogInfo, NoteSink, Question, ignore
from keff.logs.parts.batches import Batching, ColumnBatch, batch_of_rows
from keff.logs.parts.columns import may_be_gold
from keff.logs.parts.lines import first_row, head_row, json_lines
from keff.logs.parts.tabled import KNOWN, model_of, once_each, question_of, said_by
from keff.logs.parts.values import is_structured

# Rows that are turned into columns at a time.
ROWS = 512


class KeffJsonl:
    """Reader of the one-line-per-question JSONL."""

    name = "keff_jsonl"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        row = first_row(path)
        if isinstance(row, str):
            return row
        if is_structured(row.get("id", [])):
            return 'the first line has no "id"'
        if (
            "gold_answer" not in row
            and "all_correct" not in row
            and any(map(may_be_gold, row.keys() - KNOWN))
        ):
            return "the first line has a gold answer by another name"
        return None if {"all_answers", "all_scores"} & set(row) else 'the first line has no "all_answers"'

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        return said_by(head_row(path))

    def questions(self, path: Path, *, texts: bool = False, tell: NoteSink = ignore) -> Iterator[Question]:
        """Yield the questions one by one; see ``Log.questions``."""
        return once_each(
            (where, question_of(where, row, texts=texts, part=model_of(row)))
            for where, row in json_lines(path, tell)
        )

    def batches(self, path: Path, how: Batching, tell: NoteSink) -> Iterator[ColumnBatch | Question]:
        """Yield questions by columns where they hold plain values; see ``BatchedLog``."""
        lines = json_lines(path, tell)
        while some := list(islice(lines, ROWS)):
            batch = batch_of_rows([row for _, row in some], how)
            if batch is not None:
                yield batch
            else:
                for where, row in some:
                    yield question_of(where, row, texts=how.again, part=model_of(row))


log = KeffJsonl
