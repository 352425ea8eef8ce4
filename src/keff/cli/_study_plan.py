"""How far a study is, and what the rest takes: ``keff study status`` and ``keff study run --dry-run``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from keff import plugins
from keff.cli._console import result_console
from keff.cli._preflight import is_paid
from keff.cli._sampling import Wishes
from keff.cli._study_jobs import Place, StudyJobs
from keff.errors import KeffError, UsageError
from keff.sampling.cells import CellState, state
from keff.sampling.cost import FREE, Price, Usage, price_of
from keff.sampling.grid import Cell, ModelEntry, Study
from keff.sampling.rates import read_rates

Row = dict[str, Any]


def status(study: Study, grid: Sequence[Cell]) -> list[Row]:
    """Return one row per cell: its stage, its paths and tokens; a folder that cannot be read says why."""
    rows: list[Row] = []
    for cell in grid:
        row: Row = {
            "model": cell.model.name,
            "task": cell.task.name,
            "arm": cell.arm.name,
            "seed": cell.seed,
            "run": str(cell.folder),
        }
        try:
            held = state(study, cell)
            about = {"stage": held.stage, "wanted": held.n * held.k, "paths": held.paths}
            rows.append(row | about | {"tokens": held.tokens})
        except KeffError as error:
            about = {"stage": "unreadable", "wanted": 0, "paths": 0}
            rows.append(row | about | {"tokens": 0, "error": str(error)})
    return rows


def show_status(rows: Sequence[Row]) -> None:
    """Print one line per model and task, with the cells of each stage."""
    stages = ("complete", "record", "begun", "missing", "unreadable")
    table = _table("model", "task", *stages, "paths", "tokens")
    for (model, task), group in groupby(rows, key=lambda row: (row["model"], row["task"])):
        cells = list(group)
        counts = [sum(cell["stage"] == stage for cell in cells) for stage in stages]
        paths = f"{sum(cell['paths'] for cell in cells):,}/{sum(cell['wanted'] for cell in cells):,}"
        tokens = f"{sum(cell['tokens'] for cell in cells):,}"
        table.add_row(model, task, *map(str, counts), paths, tokens)
    result_console.print(table)


def forecast(place: Place, grid: Sequence[Cell], prices: Mapping[str, Price]) -> list[Row]:
    """Return one row per model: cells and paths that are owed, tokens, dollars and hours.

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
        like = _like(held, states)
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


def _like(held: CellState, states: Sequence[CellState]) -> list[CellState]:
    """Return the cells whose paths tell how long this cell's are: itself, its arm and task, its task."""
    for names in (("seed", "arm", "task"), ("arm", "task"), ("task",)):
        like = [
            other
            for other in states
            if other.paths and all(_name(other.cell, name) == _name(held.cell, name) for name in names)
        ]
        if like:
            return like
    return []


def _name(cell: Cell, name: str) -> str:
    return str(cell.seed) if name == "seed" else getattr(cell, name).name


def confirm(place: Place, grid: Sequence[Cell], prices: Mapping[str, Price]) -> None:
    """Show what models that may cost money still take, and ask; a refusal exits.

    Raises UsageError where there is no terminal to ask at.
    """
    models = {cell.model.name: cell.model for cell in grid if not cell.record}
    costly = {name for name, model in models.items() if _is_paid(model)}
    paid = [cell for cell in grid if not cell.record and cell.model.name in costly]
    owing = [cell for cell in paid if _owed(place.study, cell)]
    if not owing:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{owing[0].model.name} may cost money, and there is no terminal: add --yes")
    show_forecast(forecast(place, paid, prices))
    if not typer.confirm("Continue?", err=True):
        raise typer.Exit(1)


def _owed(study: Study, cell: Cell) -> int:
    """Return how many paths a cell still needs; 0 for a run that cannot be read, which sampling reports."""
    try:
        return state(study, cell).owed
    except KeffError:
        return 0


def _is_paid(model: ModelEntry) -> bool:
    if not plugins.has("engine", model.engine):
        return False
    return is_paid(Wishes(task="", run=Path(), engine=model.engine, base_url=model.base_url))


def show_forecast(rows: Sequence[Row]) -> None:
    """Print what each model still takes, and the sum."""
    table = _table("model", "cells", "to draw", "paths", "tokens", "tokens are", "dollars", "hours")
    for row in rows:
        dollars = "unknown (--prices)" if row["dollars"] is None else f"{row['dollars']:,.2f}"
        hours = "not measured yet" if row["hours"] is None else f"{row['hours']:,.2f}"
        counts = (str(row[name]) for name in ("cells", "to_draw"))
        sums = (f"{row[name]:,}" for name in ("paths", "tokens"))
        table.add_row(row["model"], *counts, *sums, row["tokens_are"], dollars, hours)
    result_console.print(table)
    if any(row["hours"] is None and row["paths"] for row in rows):
        result_console.print("Hours need a measured rate: draw one cell first (--only model=...,task=...).")


def _table(*headers: str) -> Table:
    table = Table()
    for header in headers:
        table.add_column(header, justify="left" if header in ("model", "task", "tokens are") else "right")
    return table
