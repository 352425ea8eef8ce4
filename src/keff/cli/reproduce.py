"""Redo the paper's tables and figures from its records.

With our estimates beside them.
"""

from __future__ import annotations

import typer

from keff.cli import _console
from keff.cli import _options as o
from keff.cli._console import print_json
from keff.cli._study_plan import drawing, write_all
from keff.paper.reproduce import GET, Reproducing, reproduce

# A screenful: a folder that is not the published one misses everything.
SHOWN = 20


def command(
    folder: o.PublishedFolder,
    out: o.ReproduceOut,
    replicates: o.Replicates = 10_000,
    figures: o.Figures = True,
    seed: o.AnalysisSeed = 0,
    json: o.Json = False,
) -> None:
    """Reproduce what the records allow."""
    with drawing(figures=figures) as draw:
        reproduction = reproduce(folder, Reproducing(replicates, seed))
        files = write_all(reproduction, out, draw)
    if json:
        print_json(reproduction.numbers() | {"files": [str(file) for file in files]})
        return
    for name in files:
        typer.echo(str(name))
    # What is wrong comes first: where most files are missing, that list would hide it.
    for line in (*reproduction.problems, *(f"missing: {file}" for file in reproduction.missing))[:SHOWN]:
        _console.warn(line)
    more = len(reproduction.missing) + len(reproduction.problems) - SHOWN
    if more > 0:
        _console.warn(f"{more} more are listed in {out / 'differences.md'}")
    if reproduction.missing:
        _console.warn(f"{len(reproduction.missing)} files are missing: {GET}")
    agree = sum(check.agrees for check in reproduction.checks)
    line = f"{agree} of {len(reproduction.checks)} printed numbers agree; see {out / 'differences.md'}"
    _console.note(line)
