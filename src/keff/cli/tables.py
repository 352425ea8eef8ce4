"""Make the paper's tables of runs or logs.

As LaTeX, Markdown or CSV.

Example: keff tables pilot --format latex
"""

from __future__ import annotations

from typing import Annotated

import typer

from keff.cli import _options as o
from keff.cli._console import print_json, say
from keff.cli._groups import AnswerOptions
from keff.files import write_text
from keff.paper.tables import tables
from keff.reading.open import open_record
from keff.reading.several import pool_records
from keff.report.tables import Format, file_of, render


@o.grouped
def command(
    paths: o.Paths,
    form: Annotated[
        Format, typer.Option("--format", metavar="latex|markdown|csv", help="How tables are written.")
    ] = "markdown",
    out: o.TablesOut = None,
    pool: o.Pool = False,
    *,
    log: AnswerOptions,
    trim: o.Trim = None,
    replicates: o.Replicates = 10_000,
    seed: o.AnalysisSeed = 0,
    json: o.Json = False,
) -> None:
    """Write the tables."""
    opening = log.opening(trim=trim)
    records = [open_record(path, opening) for path in paths]
    if pool and len(records) > 1:
        records = [pool_records(records, trim)]
    made = tables(records, replicates, seed)
    if json:
        print_json({table.name: list(table.rows) for table in made})
        return
    if out is None:
        say("\n".join(render(table, form) for table in made).rstrip("\n"))
        return
    texts = dict(file_of(table, form) for table in made)
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_text(out / name, text)
        say(str(out / name))
