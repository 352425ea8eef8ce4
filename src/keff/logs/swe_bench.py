"""Runs of SWE-bench's evaluation: logs/run_evaluation, or the summary of one run (MODEL.RUN.json)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from keff.log import NoteSink, ignore
from keff.logs.parts.field_table import FieldReader, FieldTable
from keff.logs.parts.lines import Row, whole_json
from keff.logs.parts.values import inner
from keff.narrow import fields, items
from keff.records import Note


class SweBench(FieldReader):
    """Reader of ``logs/run_evaluation/RUN/MODEL/INSTANCE/report.json``, below any folder.

    The runs of an instance are its paths, each model is a branch. A patch has no answer to vote on, so
    correctness alone is kept: whether the instance was resolved. Instances without a report (the patch did
    not apply, or the tests broke off) are wrong, as in SWE-bench's own share. Those with an empty patch have
    no folder: they are in the summary that the evaluation leaves where it ran, a log of one run.
    """

    name = "swe_bench"
    table = FieldTable(
        names=("submitted_ids", "resolved_ids", "error_ids"),
        files="**/report.json",
        signs=("run", "correct"),
        fields={"id": "id", "model": "model", "correct": "correct"},
        own=lambda row: [row["run"], row["model"], row["id"]],
        model="model",
    )

    def rows_in(self, path: Path, tell: NoteSink = ignore) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of every instance of every run."""
        if not path.is_dir():
            yield from _summary(path)
            return
        without = 0
        found = super().rows_in(path, tell)
        for folder, rows in groupby(found, lambda pair: Path(pair[0]).parent.parent):
            yield from rows
            for instance in sorted(folder.iterdir()):
                if instance.is_dir() and not (instance / "report.json").is_file():
                    without += 1
                    yield str(instance), _row(instance, resolved=False)
        if without:
            tell(Note("no_report", f"{without} instances without a report count as wrong"))

    def row_of(self, file: Path, content: Row) -> Row:
        """Return the row of a report; an empty one where it is another file of that name."""
        found = inner(content, file.parent.name)
        return _row(file.parent, resolved=found["resolved"] is True) if "resolved" in found else {}


def _row(folder: Path, *, resolved: bool) -> Row:
    run, model, instance = folder.resolve().parts[-3:]
    return {"id": instance, "run": run, "model": model, "correct": int(resolved)}


def _summary(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield (place, row) of every instance that a run was given a patch for."""
    content = fields(whole_json(path))
    model, _, run = path.stem.rpartition(".")
    resolved = items(content.get("resolved_ids"))
    for name in items(content.get("submitted_ids")):
        yield str(path), {"id": name, "run": run, "model": model or run, "correct": int(name in resolved)}


log = SweBench
