"""Redo the paper's tables and figures from its records.

With our estimates beside them.
"""

from __future__ import annotations

import typer

from keff.cli import _console
from keff.cli import _options as o
from keff.cli._tables import write_all
from keff.paper.reproduce import GET, Reproducing, reproduce

SHOWN = 20


def command(
    folder: o.PublishedFolder,
    out: o.ReproduceOut,
    replicates: o.Replicates = 10_000,
    figures: o.Figures = True,
    processes: o.Processes = None,
    seed: o.AnalysisSeed = 0,
    json: o.Json = False,
) -> None:
    """Reproduce what the records allow."""
    found = reproduce(folder, Reproducing(replicates, seed, processes))
    files = write_all(found, out, figures=figures)
    if json:
        _console.print_json(found.numbers() | {"files": [str(file) for file in files]})
        return
    for name in files:
        typer.echo(str(name))
    # What is wrong comes first: where most files are missing, that list would hide it.
    for line in (*found.problems, *(f"missing: {one}" for one in found.missing))[:SHOWN]:
        _console.warn(line)
    more = len(found.missing) + len(found.problems) - SHOWN
    if more > 0:
        _console.warn(f"{more} more are listed in {out / 'differences.md'}")
    if found.missing:
        _console.warn(f"{len(found.missing)} files are missing: {GET}")
    agree = sum(one.agrees for one in found.checks)
    line = f"{agree} of {len(found.checks)} printed numbers agree; see {out / 'differences.md'}"
    _console.progress_console.print(line, markup=False, soft_wrap=True)
