"""Make the paper's tables of runs or logs.

As LaTeX, Markdown or CSV.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from keff.cli import _console
from keff.cli import _options as o
from keff.errors import UsageError
from keff.paper.runs import tables
from keff.reading.open import Opening, open_record
from keff.reading.several import pool_records
from keff.report.tables import render

ENDINGS = {"latex": "tex", "markdown": "md", "csv": "csv"}


class Forms(StrEnum):
    """How tables are written."""

    latex = "latex"
    markdown = "markdown"
    csv = "csv"


def command(
    paths: o.Paths,
    form: Annotated[
        Forms, typer.Option("--format", metavar="latex|markdown|csv", help="How tables are written.")
    ] = Forms.markdown,
    out: o.TablesOut = None,
    pool: o.Pool = False,
    log_format: o.LogFormat = None,
    answer_space: o.AnswerSpaceName = None,
    answer_key: o.AnswerKey = None,
    trim: o.Trim = None,
    part: o.Part = None,
    replicates: o.Replicates = 10_000,
    seed: o.AnalysisSeed = 0,
    json: o.Json = False,
) -> None:
    """Write the tables."""
    records = [
        open_record(path, Opening(log_format, o.reading_of(answer_space, answer_key), trim, part=part))
        for path in paths
    ]
    if pool and len(records) > 1:
        records = [pool_records(records, trim)]
    found = tables(records, replicates, seed)
    if json:
        _console.print_json({table.name: list(table.rows) for table in found})
        return
    texts = {f"{table.name}.{ENDINGS[form]}": render(table, form.value) for table in found}
    if out is None:
        typer.echo("\n".join(texts.values()), nl=False)
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (out / name).write_text(text, encoding="utf-8")
            typer.echo(str(out / name))
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror}") from None
