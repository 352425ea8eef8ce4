"""Jobs of a study, its progress, and a forecast of the rest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from keff import plugins, sandbox
from keff.cli._console import print_table, say
from keff.cli._preflight import ask, is_paid, refuse_unasked
from keff.cli._sampling import load_task
from keff.engine import Engine
from keff.errors import KeffError, UsageError
from keff.files import write_text
from keff.narrow import Object
from keff.policy import parse_policy
from keff.records import Item, Sampling, frozen
from keff.sampling.cells import CellState, settings, state
from keff.sampling.cost import FREE, Price, Usage, price_of
from keff.sampling.grid import Cell, ModelEntry, Study, TaskEntry
from keff.sampling.job import Job, parse_templates
from keff.sampling.orders import Order
from keff.task import Task, select
from keff.usercode import UNSAFE, without_code

# Reasons that a refusal names.
SHOWN = 5

# The engine of jobs that are only checked.
_UNMADE: Any = None


@frozen
class Place:
    """Location of a study: its file, runs, cluster and workers."""

    study: Study
    file: Path
    runs: Path
    on: str | None = None
    workers: int | None = None
    unsafe_exec: bool = False


class StudyJobs:
    """Builds the jobs of a study, sharing tasks and questions between cells."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._tasks: dict[str, tuple[Task, Object]] = {}
        self._questions: dict[tuple[str, int, int], list[Item]] = {}

    def job(self, cell: Cell, engine: Engine) -> Job:
        """Return a cell's job; raises KeffError for data or settings that do not fit."""
        wanted = settings(self._place.study, cell)
        task, options = self._task(cell.task)
        sampling = Sampling(
            wanted["temperature"],
            wanted["top_p"],
            wanted["max_tokens"] or task.max_tokens,
            seed=cell.seed,
            thinking=wanted["thinking"],
        )
        order = Order(
            sampling,
            cell.arm.k,
            parse_templates(cell.arm.templates, task),
            parse_policy(cell.arm.policy) if cell.arm.policy else None,
            self._place.study.concurrency,
        )
        chosen = self._questions_for(cell, task, wanted["n"])
        return Job(task, engine, cell.folder, order, wanted["n"], options=options, chosen=chosen)

    def limit(self, cell: Cell) -> int:
        """Return the maximum tokens of a cell's path."""
        return settings(self._place.study, cell)["max_tokens"] or self._task(cell.task)[0].max_tokens

    def _questions_for(self, cell: Cell, task: Task, n: int) -> list[Item]:
        study = self._place.study
        seed = study.seeds[0] if study.same_questions else cell.seed
        key = cell.task.name, n, seed
        if key not in self._questions:
            self._questions[key] = select(task, n, seed)
        chosen = self._questions[key]
        if len(chosen) < n:
            raise UsageError(
                f"task {cell.task.name} has {len(chosen)} questions and the study wants n = {n}: lower n"
            )
        return chosen

    def _task(self, entry: TaskEntry) -> tuple[Task, Object]:
        if entry.name not in self._tasks:
            self._tasks[entry.name] = load_task(*self._task_arguments(entry))
        return self._tasks[entry.name]

    def _task_arguments(self, entry: TaskEntry) -> tuple[str, Object]:
        """Return the task's name and options as ``keff sample`` takes them."""
        options, below = task_options(self._place, entry), self._place.file.parent
        template = options.pop("template", None)
        if template is not None:
            options["template"] = str((below / str(template)).resolve())
        if entry.data is None:
            return entry.name, options
        data = below / entry.data
        if not data.is_file():
            raise UsageError(f"task {entry.name}: {data} does not exist")
        if data.suffix == ".jsonl" and not plugins.has("task", entry.name):
            return str(data), options
        return entry.name, options | {"data": str(data.resolve())}


def refuse_undrawable(place: Place, grid: Sequence[Cell]) -> None:
    """Raise UsageError for incomplete cells that cannot be drawn, before anything is paid.

    Checked are data, templates and questions, that K paths fall evenly on the templates, that an engine of
    this machine can be imported, and that there is a jail for a task that runs programs. A run folder that
    cannot be read is left to sampling, which names it and draws the others.
    """
    jobs = StudyJobs(place)
    wrong: list[tuple[str, str]] = []
    for cell in grid:
        try:
            if state(place.study, cell).owed:
                _refuse(jobs.job(cell, _UNMADE), cell, here=place.on is None)
        except KeffError as error:
            wrong.append((cell.name, str(error)))
    if wrong:
        told = by_reason(wrong)
        more = f"; and {len(told) - SHOWN} more reasons" if len(told) > SHOWN else ""
        raise UsageError(
            f"{len(wrong)} of {len(grid)} cells cannot be drawn, so keff drew nothing "
            f"({'; '.join(told[:SHOWN])}{more}): correct the study, or name the others with --only"
        )


def by_reason(wrong: Iterable[tuple[str, str]]) -> list[str]:
    """Return one line per reason of failure: its first cell, the number of others, the reason."""
    cells: dict[str, list[str]] = {}
    for name, why in wrong:
        cells.setdefault(why, []).append(name)
    return [
        f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {why}"
        for why, names in cells.items()
    ]


def _refuse(job: Job, cell: Cell, *, here: bool) -> None:
    slots = len(job.order.slots)
    if cell.arm.policy is None and cell.arm.k % slots:
        raise UsageError(
            f"arm {cell.arm.name} has k = {cell.arm.k} for {slots} templates: make k a multiple of {slots}"
        )
    if here:
        plugins.factory("engine", cell.model.engine)
    # A task that runs programs says so by this attribute; what is off needs the jail.
    if getattr(job.task, "unsafe_exec", None) is False:
        sandbox.preflight()


def task_options(place: Place, task: TaskEntry) -> Object:
    """Return a task's options; raises UsageError for code not named on this command line."""
    named = sorted(task.options.keys() - without_code(task.options).keys())
    if named and not (named == [UNSAFE] and place.unsafe_exec):
        flag = "add --unsafe-exec" if named == [UNSAFE] else "sample this run with keff sample --scorer"
        raise UsageError(
            f"{place.file}: task {task.name} names {', '.join(named)}, and code is trusted only from the "
            f"command line: {flag}"
        )
    return dict(task.options)


Row = dict[str, Any]


def status(study: Study, grid: Sequence[Cell]) -> list[Row]:
    """Return one row per cell: stage, paths and tokens, or why its folder cannot be read."""
    rows: list[Row] = []
    for cell in grid:
        held = state(study, cell)
        row: Row = {
            "model": cell.model.name,
            "task": cell.task.name,
            "arm": cell.arm.name,
            "seed": cell.seed,
            "run": str(cell.folder),
            "stage": held.stage,
            "wanted": held.n * held.k,
            "paths": held.paths,
            "tokens": held.tokens,
        }
        rows.append(row | ({"error": held.error} if held.error else {}))
    return rows


def show_status(rows: Sequence[Row]) -> None:
    """Print one line per model and task, with the cells of each stage."""
    stages = ("complete", "record", "begun", "missing", "unreadable")
    lines: list[tuple[str, ...]] = []
    for (model, task), group in groupby(rows, key=lambda row: (row["model"], row["task"])):
        cells = list(group)
        counts = [sum(cell["stage"] == stage for cell in cells) for stage in stages]
        paths = f"{sum(cell['paths'] for cell in cells):,}/{sum(cell['wanted'] for cell in cells):,}"
        tokens = f"{sum(cell['tokens'] for cell in cells):,}"
        lines.append((model, task, *map(str, counts), paths, tokens))
    print_table([("model", "task", *stages, "paths", "tokens"), *lines])


def forecast(place: Place, grid: Sequence[Cell], prices: Mapping[str, Price]) -> list[Row]:
    """Return one row per model: cells and paths owed, with tokens, dollars and hours.

    Tokens per path are those of the cell's own paths, else of the same arm and task, else of the task under
    the same model; without any, the token limit, an upper bound (``tokens_are`` says which). Dollars count
    prompts only where paths tell how long they are. Hours come from the rate that earlier sessions measured,
    and are None before there was one. Raises KeffError for data or folders that cannot be used.
    """
    rates, jobs = read_rates(place.runs), StudyJobs(place)
    rows: list[Row] = []
    for model, group in groupby(grid, key=lambda cell: cell.model):
        states = [state(place.study, cell) for cell in group]
        row: Row = _forecast_model(jobs, model, states, prices)
        row |= {"hours": None, "tokens_per_second": None}
        rate = rates.get(model.name)
        if rate and rate.tokens:
            speed = rate.tokens / rate.seconds
            row |= {"tokens_per_second": speed, "hours": row["tokens"] / speed / 3600}
        rows.append(row)
    return rows


def _forecast_model(
    jobs: StudyJobs, model: ModelEntry, states: Sequence[CellState], prices: Mapping[str, Price]
) -> Row:
    tokens = prompts = 0.0
    bounded = False
    for held in states:
        like = _similar_cells(held, states)
        drawn = sum(other.paths for other in like)
        bounded |= bool(held.owed) and not drawn
        if held.owed:
            limit = 0 if drawn else jobs.limit(held.cell)
            tokens += held.owed * (sum(other.tokens for other in like) / drawn if drawn else limit)
            prompts += held.owed * (sum(other.prompt_tokens for other in like) / drawn if drawn else 0)
    price = FREE if plugins.declares("engine", model.engine, "local") else price_of(model.model, prices)
    return {
        "model": model.name,
        "cells": len(states),
        "to_draw": sum(held.stage in ("begun", "missing") for held in states),
        "paths": sum(held.owed for held in states),
        "tokens": int(tokens),
        "tokens_are": "at most: the token limit" if bounded else "from the paths that are there",
        "dollars": None if price is None else Usage(int(prompts), 0, int(tokens)).dollars(price),
    }


def _similar_cells(held: CellState, states: Sequence[CellState]) -> list[CellState]:
    """Return the most similar cells with paths, from which a cell's path length is estimated."""

    def key(one: CellState) -> tuple[object, ...]:
        return one.cell.task.name, one.cell.arm.name, one.cell.seed

    for size in (3, 2, 1):
        like = [other for other in states if other.paths and key(other)[:size] == key(held)[:size]]
        if like:
            return like
    return []


def confirm(place: Place, grid: Sequence[Cell], prices: Mapping[str, Price]) -> None:
    """Show the forecast of models that may cost money, and ask; a refusal exits.

    Raises UsageError where there is no terminal to ask at.
    """
    models = {cell.model.name: cell.model for cell in grid if not cell.record}
    costly = {
        name
        for name, model in models.items()
        if plugins.has("engine", model.engine) and is_paid(model.engine, model.base_url)
    }
    paid = [cell for cell in grid if not cell.record and cell.model.name in costly]
    owing = [cell for cell in paid if state(place.study, cell).owed]
    if owing:
        refuse_unasked(owing[0].model.name)
        show_forecast(forecast(place, paid, prices))
        ask()


def show_forecast(rows: Sequence[Row]) -> None:
    """Print the forecast of each model, and the sum."""
    lines: list[tuple[str, ...]] = []
    for row in rows:
        dollars = "unknown (--prices)" if row["dollars"] is None else f"{row['dollars']:,.2f}"
        hours = "not measured yet" if row["hours"] is None else f"{row['hours']:,.2f}"
        counts = (str(row[name]) for name in ("cells", "to_draw"))
        sums = (f"{row[name]:,}" for name in ("paths", "tokens"))
        lines.append((row["model"], *counts, *sums, dollars, hours, row["tokens_are"]))
    head = ("model", "cells", "to draw", "paths", "tokens", "dollars", "hours", "tokens are")
    print_table([head, *lines])
    if any(row["hours"] is None and row["paths"] for row in rows):
        say("Hours need a measured rate: draw one cell first (--only model=...,task=...).")


FILE = "rates.json"


class Rate(BaseModel):
    """A model's measured throughput: paths, tokens and seconds, without loading time."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    tokens: int = 0
    seconds: float = 0.0


def read_rates(runs: Path) -> dict[str, Rate]:
    """Return each model's measured throughput; empty where none was measured."""
    try:
        table = json.loads((runs / FILE).read_text("utf-8"))
        return {name: Rate.model_validate(rate) for name, rate in table.items()}
    except (OSError, ValueError, AttributeError, ValidationError):
        return {}


def add_rate(runs: Path, model: str, tokens: int, seconds: float) -> None:
    """Add one session to a model's throughput; empty sessions are ignored."""
    if not tokens or seconds <= 0:
        return
    rates = read_rates(runs)
    old = rates.get(model, Rate())
    rates[model] = Rate(tokens=old.tokens + tokens, seconds=old.seconds + seconds)
    table = {name: rate.model_dump() for name, rate in sorted(rates.items())}
    write_text(runs / FILE, json.dumps(table, indent=1) + "\n")
