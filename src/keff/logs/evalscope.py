"""Review files of EvalScope (reviews/MODEL/TASK_SUBSET.jsonl): one sample per line, repeats by group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, NoteSink, ignore
from keff.logs.parts.field_table import FieldReader, FieldTable
from keff.logs.parts.foreign import ScoreOptions
from keff.logs.parts.lines import Row
from keff.logs.parts.values import at, known_task, spoken


class EvalScope(ScoreOptions, FieldReader):
    """Reader of EvalScope's reviews, since version 1.0.

    Samples of one ``group_id`` are the repeats of a question. The answer is the extracted prediction, and the
    score the main one, or the metric that ``scorer`` names; from ``threshold`` on it is right.
    """

    name = "evalscope"
    table = FieldTable(
        signs=("index", "sample_score"),
        fields={
            "id": ("sample_score/group_id", "index"),
            "path": "sample_score/sample_id",
            "answer": "sample_score/score/extracted_prediction",
            "text": "sample_score/score/prediction",
            "gold_answer": "target",
            "question": lambda row: spoken(at(row, "input/-1", "input")),
        },
        scores="sample_score/score/value",
        main="sample_score/score/main_score_name",
        own="index",
    )

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        return LogInfo(known_task(path.stem), model=path.parent.name or None)

    def rows_in(self, path: Path, tell: NoteSink = ignore) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of every sample; raises LogError where only some have a group."""
        grouped: bool | None = None
        for where, row in super().rows_in(path, tell):
            has_group = at(row, "sample_score/group_id") is not None
            if grouped not in (None, has_group):
                raise LogError(f"{where}: some lines have a group_id and others have none")
            grouped = has_group
            yield where, row


log = EvalScope
