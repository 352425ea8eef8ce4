"""Write a run or a log as JSONL or Parquet.

JSONL has one line per question.

Example: keff export pilot -o paths.parquet
"""

from __future__ import annotations

from pathlib import Path

from keff.cli import _options as o
from keff.cli._console import note, print_json, warn_all
from keff.cli._groups import LogOptions
from keff.reading.open import named_part
from keff.reading.transfer import export_log


@o.grouped
def command(
    path: o.RunOrLog,
    out: o.ExportOut = None,
    texts: o.Texts = True,
    votes: o.Votes = False,
    *,
    log: LogOptions,
    json: o.Json = False,
) -> None:
    """Export the record."""
    path, opening = named_part(path, log.opening())
    file = out or Path(f"{path.resolve().stem}.jsonl")
    done = export_log(path, file, opening, texts=texts, votes=votes)
    warn_all(done.notes)
    if json:
        print_json({"file": str(file), "items": done.questions, "paths": done.paths})
    else:
        line = f"{file}: {done.questions} questions and {done.paths} paths"
        note(line)
