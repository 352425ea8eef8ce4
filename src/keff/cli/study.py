"""Sample and report a grid of models, tasks, arms, seeds.

The grid is a TOML file: run samples it, status says how far it is, report makes tables and figures.

One engine per model draws all its cells, and a list at the end says what failed.

Example: keff study run studies/small.toml --dry-run
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.progress import Progress as Bar

from keff.cli import _options as o
from keff.cli import _sample_options as s
from keff.cli._console import note, print_json, say, warn
from keff.cli._sampling import RunsProgress, Stopped, made_engine, progress_bar, refusals, until_signal
from keff.cli._study_plan import (
    Place,
    StudyJobs,
    add_rate,
    by_reason,
    confirm,
    forecast,
    refuse_undrawable,
    show_forecast,
    show_status,
    status,
    task_options,
)
from keff.cli.reproduce import drawing, write_all
from keff.errors import KeffError, RunError, UsageError
from keff.paper.reproduce import Reproducing
from keff.paper.study import report
from keff.sampling.cells import refuse_changes, state, write_note
from keff.sampling.cost import Price
from keff.sampling.grid import Cell, ModelEntry, Study, cells, choose, read_study
from keff.sampling.job import Job
from keff.sampling.orders import Progress
from keff.sampling.pool import JobResult, draw_all
from keff.sampling.price_table import read_prices


@dataclass(slots=True)
class CellOutcome:
    """Result of one cell in a session: paths before and after, failed attempts, and any error."""

    cell: Cell
    kept: int = 0
    drawn: int = 0
    failed: int = 0
    complete: bool = False
    error: str | None = None

    def row(self) -> dict[str, object]:
        """Return the cell as ``--json`` shows it."""
        row: dict[str, object] = {"run": str(self.cell.folder), "cell": self.cell.name}
        row |= {"kept_before": self.kept, "drawn": self.drawn, "failed": self.failed}
        return row | {"complete": self.complete} | ({"error": self.error} if self.error else {})


def run(place: Place, grid: Sequence[Cell]) -> list[CellOutcome]:
    """Draw all cells, model by model; failures are recorded and stop nothing else.

    Raises UsageError, before anything is drawn, when cells have paths under other settings.
    """
    for task in {cell.task.name: cell.task for cell in grid}.values():
        task_options(place, task)
    refuse_changes(place.study, grid)
    outcomes = [CellOutcome(cell) for cell in grid]
    made = StudyJobs(place)
    with progress_bar() as bar:
        for model, group in groupby(outcomes, key=lambda outcome: outcome.cell.model):
            owing = list(_owing(place.study, group))
            if owing:
                _draw_model(place, model, made, owing, bar)
    return outcomes


def _owing(study: Study, outcomes: Iterable[CellOutcome]) -> Iterator[CellOutcome]:
    """Yield the incomplete cells; complete ones are recognised from their stores."""
    for outcome in outcomes:
        held = state(study, outcome.cell)
        outcome.kept, outcome.error = held.paths, held.error
        outcome.complete = held.stage in ("complete", "record")
        if not outcome.complete and held.error is None:
            yield outcome


def _draw_model(
    place: Place,
    model: ModelEntry,
    made: StudyJobs,
    owing: Sequence[CellOutcome],
    bar: Bar,
) -> None:
    """Draw all cells of a model on one engine."""
    ready: list[tuple[CellOutcome, Job]] = []
    unmade: Any = None  # the engine of all jobs, which is made when their prompts are known
    for outcome in owing:
        try:
            ready.append((outcome, made.job(outcome.cell, unmade)))
        except KeffError as error:
            outcome.error = str(error)
    if not ready:
        return
    jobs = [job for _, job in ready]
    owed = sum(len(job.items()) * job.order.k for job in jobs)
    watch = _ModelProgress(place, [outcome for outcome, _ in ready], bar, owed)
    given = {"model": model.model, "base_url": model.base_url, **model.options}
    asked = [(job.task, item, job.order) for job in jobs for item in job.items()]
    try:
        engine = made_engine(model.engine, given, lambda: asked, place.on, place.workers)
        work = draw_all(engine, [replace(job, engine=engine) for job in jobs], watch.tell)
        drawn = asyncio.run(until_signal(work))
    except Stopped:
        raise
    except KeffError as error:
        drawn = [JobResult(error=error) for _ in jobs]
    finally:
        add_rate(place.runs, model.name, watch.shown.tokens, watch.seconds)
    for (outcome, job), result in zip(ready, drawn, strict=True):
        _settle(place.study, outcome, job, result)


def _settle(study: Study, outcome: CellOutcome, job: Job, result: JobResult) -> None:
    """Record a cell's result, in its outcome and its folder."""
    if result.progress is not None:
        progress = result.progress
        outcome.kept, outcome.drawn, outcome.failed = progress.kept, progress.done, progress.failed
        whole = progress.total is None and not progress.failed
        outcome.complete = whole or progress.kept + progress.done == len(job.items()) * job.order.k
        write_note(study, outcome.cell, complete=outcome.complete)
        if progress.refused:
            outcome.error = refusals(progress.refused)
    if result.error is not None:
        outcome.error = str(result.error)


class _ModelProgress:
    """Follows the cells of one model: notes, progress bar, throughput."""

    def __init__(self, place: Place, outcomes: Sequence[CellOutcome], bar: Bar, paths: int) -> None:
        self._place, self._outcomes = place, outcomes
        self.shown = RunsProgress(paths)
        self.shown.on(bar, outcomes[0].cell.model.name, "loading")
        self._begun: float | None = None
        self._last = 0.0

    @property
    def seconds(self) -> float:
        """Seconds from the first cell's opening to the last path."""
        return 0.0 if self._begun is None else self._last - self._begun

    def tell(self, place: int, progress: Progress) -> None:
        """Update with the counts of one cell."""
        outcome, drawn = self._outcomes[place], self.shown.drawn
        self._last = time.monotonic()
        if self._begun is None:
            self._begun = self._last
        if outcome.cell.folder not in drawn:
            write_note(self._place.study, outcome.cell, complete=False)
        outcome.kept, outcome.drawn, outcome.failed = progress.kept, progress.done, progress.failed
        begun = len(drawn | {outcome.cell.folder: progress})
        notes = f"{begun}/{len(self._outcomes)} cells, {outcome.cell.name}"
        self.shown.tell(outcome.cell.folder, progress, notes)


def check(outcomes: Sequence[CellOutcome], file: Path) -> None:
    """Print the next step, or list failures and raise RunError."""
    wrong = [outcome for outcome in outcomes if not outcome.complete]
    reasons = ((each.cell.name, each.error or f"{each.failed} attempts failed") for each in wrong)
    for line in by_reason(reasons):
        warn(line)
    if wrong:
        raise RunError(
            f"{len(wrong)} of {len(outcomes)} runs are incomplete: run the same command to continue"
        )
    note(f"all {len(outcomes)} runs are complete: keff study report {file}")


def command(
    action: Annotated[
        Literal["run", "status", "report"],
        typer.Argument(
            metavar="run|status|report", help="Sample the study, show its progress, or report it."
        ),
    ],
    file: o.StudyFile,
    out: o.StudyOut = None,
    runs: s.StudyRuns = None,
    only: s.Only = None,
    dry_run: s.DryRun = False,
    prices: o.Prices = None,
    replicates: o.Replicates = 10_000,
    figures: o.Figures = True,
    on: s.On = None,
    workers: s.Workers = None,
    yes: s.Yes = False,
    unsafe_exec: s.UnsafeExec = False,
    json: o.Json = False,
) -> None:
    """Sample or report a study."""
    study = read_study(file)
    root = runs or Path(study.runs)
    grid = choose(list(cells(study, runs)), only or ())
    if action == "report":
        if only:
            raise UsageError("--only is for run and status: a report covers the whole study")
        _report(study, Reproducing(replicates), root, out, figures=figures, json=json)
    elif action == "status":
        rows = status(study, grid)
        print_json({"study": study.name, "cells": rows}) if json else show_status(rows)
    else:
        place = Place(study, file, root, on, workers, unsafe_exec)
        _run(place, grid, read_prices(prices) if prices else {}, dry_run=dry_run, yes=yes, json=json)


def _run(
    place: Place, grid: Sequence[Cell], table: Mapping[str, Price], *, dry_run: bool, yes: bool, json: bool
) -> None:
    """Draw the cells, or print the forecast."""
    refuse_undrawable(place, grid)
    if dry_run:
        rows = forecast(place, grid, table)
        print_json({"study": place.study.name, "models": rows}) if json else show_forecast(rows)
        return
    if not yes:
        confirm(place, grid, table)
    done = run(place, grid)
    if json:
        print_json({"study": place.study.name, "runs": [outcome.row() for outcome in done]})
    check(done, place.file)


def _report(
    study: Study, how: Reproducing, root: Path, out: Path | None, *, figures: bool, json: bool
) -> None:
    with drawing(figures=figures) as draw:
        result = report(study, how, root)
        files = write_all(result, out or root / "report", draw)
    for line in (*(f"missing: {name}" for name in result.missing), *result.problems):
        warn(line)
    if json:
        print_json(result.numbers() | {"files": [str(name) for name in files]})
    else:
        say("\n".join(map(str, files)))
