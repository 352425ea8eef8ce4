"""Sample and report a grid of models, tasks, arms, seeds.

The grid is a TOML file: run samples it, status says how far it is, report makes tables and figures.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from keff.cli import _console, _study_run
from keff.cli import _options as a
from keff.cli import _options as r
from keff.cli import _options as w
from keff.cli import _sample_options as s
from keff.cli._console import print_json
from keff.cli._study_plan import (
    Place,
    confirm,
    drawing,
    forecast,
    refuse_undrawable,
    show_forecast,
    show_status,
    status,
    write_all,
)
from keff.errors import UsageError
from keff.paper.reproduce import Reproducing
from keff.paper.study import report
from keff.sampling.chosen import choose
from keff.sampling.grid import Study, cells, read_study
from keff.sampling.price_table import read_prices


class Actions(StrEnum):
    """What to do with a study."""

    run = "run"
    status = "status"
    report = "report"


def command(
    action: Annotated[
        Actions,
        typer.Argument(
            metavar="run|status|report", help="Sample the study, say how far it is, or report it."
        ),
    ],
    file: r.StudyFile,
    out: w.StudyOut = None,
    runs: s.StudyRuns = None,
    only: s.Only = None,
    dry_run: s.DryRun = False,
    prices: s.Prices = None,
    replicates: a.Replicates = 10_000,
    figures: w.Figures = True,
    on: s.On = None,
    workers: s.Workers = None,
    yes: s.Yes = False,
    unsafe_exec: s.UnsafeExec = False,
    json: w.Json = False,
) -> None:
    """Sample or report a study."""
    study = read_study(file)
    root = runs or Path(study.runs)
    grid = choose(list(cells(study, runs)), only or ())
    if action is Actions.report:
        if only:
            raise UsageError("--only goes with run and status: a report is of the whole study")
        _report(study, Reproducing(replicates), root, out, figures=figures, json=json)
    elif action is Actions.status:
        rows = status(study, grid)
        print_json({"study": study.name, "cells": rows}) if json else show_status(rows)
    else:
        place = Place(study, file, root, on, workers, unsafe_exec)
        refuse_undrawable(place, grid)
        table = read_prices(prices) if prices else {}
        if dry_run:
            rows = forecast(place, grid, table)
            print_json({"study": study.name, "models": rows}) if json else show_forecast(rows)
            return
        if not yes:
            confirm(place, grid, table)
        done = _study_run.run(place, grid)
        if json:
            print_json({"study": study.name, "runs": [outcome.row() for outcome in done]})
        _study_run.check(done, file)


def _report(
    study: Study, how: Reproducing, root: Path, out: Path | None, *, figures: bool, json: bool
) -> None:
    with drawing(figures=figures) as draw:
        result = report(study, how, root)
        files = write_all(result, out or root / "report", draw)
    for line in (*(f"missing: {name}" for name in result.missing), *result.problems):
        _console.warn(line)
    if json:
        print_json(result.numbers() | {"files": [str(name) for name in files]})
    else:
        typer.echo("\n".join(map(str, files)))
