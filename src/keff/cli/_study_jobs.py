"""The jobs of a study: each cell with its task and questions, made once for all cells that share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keff import plugins, sandbox
from keff.cli._sampling import load_task
from keff.engine import Engine
from keff.errors import KeffError, UsageError
from keff.policy import parse_policy
from keff.records import Item, Sampling
from keff.sampling.cells import settings, state
from keff.sampling.grid import Cell, Study, TaskEntry
from keff.sampling.job import Job, parse_templates
from keff.sampling.orders import Order
from keff.task import Task, select
from keff.usercode import UNSAFE, without_code

# Reasons that a refusal names.
SHOWN = 5

# The engine of jobs that are only checked.
_UNMADE: Any = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a study stands and where it is drawn: its file, its runs, and a cluster with its workers."""

    study: Study
    file: Path
    runs: Path
    on: str | None = None
    workers: int | None = None
    unsafe_exec: bool = False


class StudyJobs:
    """Makes the tasks and chooses the questions of a study, each once."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._tasks: dict[str, tuple[Task, dict[str, object]]] = {}
        self._questions: dict[tuple[str, int, int], list[Item]] = {}

    def job(self, cell: Cell, engine: Engine) -> Job:
        """Return what a cell draws; raises KeffError for data or settings that do not fit."""
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
        chosen = self._chosen(cell, task, wanted["n"])
        return Job(task, engine, cell.folder, order, wanted["n"], options=options, chosen=chosen)

    def limit(self, cell: Cell) -> int:
        """Return the most tokens that a path of a cell may have."""
        return settings(self._place.study, cell)["max_tokens"] or self._task(cell.task)[0].max_tokens

    def _chosen(self, cell: Cell, task: Task, n: int) -> list[Item]:
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

    def _task(self, entry: TaskEntry) -> tuple[Task, dict[str, object]]:
        if entry.name not in self._tasks:
            self._tasks[entry.name] = load_task(*self._named(entry))
        return self._tasks[entry.name]

    def _named(self, entry: TaskEntry) -> tuple[str, dict[str, object]]:
        """Return the task's name and options as ``keff sample`` takes them."""
        options, below = trusted(self._place, entry), self._place.file.parent
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
    """Raise UsageError for cells that owe paths and cannot be drawn, before the first path is paid for.

    Checked are data, templates and questions, that K paths fall evenly on the templates, that an engine of
    this machine can be imported, and that there is a jail for a task that runs programs. A run folder that
    cannot be read is left to sampling, which names it and draws the others.
    """
    jobs = StudyJobs(place)
    wrong: dict[str, list[str]] = {}
    for cell in grid:
        try:
            owed = state(place.study, cell).owed
        except KeffError:
            continue
        try:
            if owed:
                _refuse(jobs.job(cell, _UNMADE), cell, here=place.on is None)
        except KeffError as error:
            wrong.setdefault(str(error), []).append(cell.name)
    if wrong:
        count = sum(map(len, wrong.values()))
        told = [
            f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {why}"
            for why, names in list(wrong.items())[:SHOWN]
        ]
        more = f"; and {len(wrong) - SHOWN} more reasons" if len(wrong) > SHOWN else ""
        raise UsageError(
            f"{count} of {len(grid)} cells cannot be drawn, so nothing was ({'; '.join(told)}{more}): "
            "mend the study, or name the others with --only"
        )


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


def trusted(place: Place, task: TaskEntry) -> dict[str, object]:
    """Return the options of a task; raises UsageError for code that this command line does not name."""
    named = sorted(task.options.keys() - without_code(task.options).keys())
    if named and not (named == [UNSAFE] and place.unsafe_exec):
        flag = "add --unsafe-exec" if named == [UNSAFE] else "sample this run with keff sample --scorer"
        raise UsageError(
            f"{place.file}: task {task.name} names {', '.join(named)}, and code is trusted only from the "
            f"command line: {flag}"
        )
    return dict(task.options)
