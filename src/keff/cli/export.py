"""Write a run or a log as JSONL or Parquet.

JSONL has one line per question.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from keff.cli import _console
from keff.cli import _read_options as r
from keff.cli import _write_options as w
from keff.cli._console import print_json
from keff.cli._grouped import grouped
from keff.cli._groups import COPY, LogOptions
from keff.reading.open import named_part
from keff.reading.transfer import export_log, export_votes


class Targets(StrEnum):
    """The formats that are written."""

    jsonl = "jsonl"
    parquet = "parquet"


@grouped(without=COPY)
def command(
    path: r.RunOrLog,
    to: Annotated[Targets, typer.Option("--to", metavar="jsonl|parquet", help="The format.")] = Targets.jsonl,
    out: w.ExportOut = None,
    texts: w.Texts = True,
    votes: w.Votes = False,
    *,
    log: LogOptions,
    json: w.Json = False,
) -> None:
    """Export the record."""
    path, opening = named_part(path, log.opening())
    file = out or Path(f"{path.resolve().stem}.{to.value}")
    if votes:
        done = export_votes(path, file, to.value, opening)
    else:
        done = export_log(path, file, to.value, texts=texts, opening=opening)
    for note in done.notes:
        _console.warn(note.message)
    if json:
        print_json({"file": str(file), "items": done.questions, "paths": done.paths})
    else:
        line = f"{file}: {done.questions} items and {done.paths} paths"
        _console.progress_console.print(line, markup=False, soft_wrap=True)
