"""Write a run or a log as JSONL or Parquet.

JSONL has one line per question.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from keff.cli import _console
from keff.cli import _options as o
from keff.reading.open import Opening
from keff.reading.transfer import export_log, export_votes


class Targets(StrEnum):
    """The formats that are written."""

    jsonl = "jsonl"
    parquet = "parquet"


def command(
    path: o.RunOrLog,
    to: Annotated[Targets, typer.Option("--to", metavar="jsonl|parquet", help="The format.")] = Targets.jsonl,
    out: o.ExportOut = None,
    texts: o.Texts = True,
    votes: o.Votes = False,
    format: o.Format = None,
    answer_space: o.AnswerSpaceName = None,
    answer_key: o.AnswerKey = None,
    part: o.Part = None,
    columns: o.Columns = None,
    scorer: o.LogScorer = None,
    threshold: o.Threshold = None,
    json: o.Json = False,
) -> None:
    """Export the record."""
    file = out or Path(f"{path.resolve().stem}.{to.value}")
    opening = Opening(
        format,
        o.reading_of(answer_space, answer_key),
        part=part,
        columns=columns,
        scorer=scorer,
        threshold=threshold,
    )
    if votes:
        done = export_votes(path, file, to.value, opening)
    else:
        done = export_log(path, file, to.value, texts=texts, opening=opening)
    for note in done.notes:
        _console.warn(note.message)
    if json:
        _console.print_json({"file": str(file), "items": done.questions, "paths": done.paths})
    else:
        line = f"{file}: {done.questions} items and {done.paths} paths"
        _console.progress_console.print(line, markup=False, soft_wrap=True)
