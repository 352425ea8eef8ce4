"""Drawing a study: one engine per model for all its cells, and a list of what failed at the end."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from keff import plugins
from keff.cli import _console
from keff.cli._oracle import oracle
from keff.cli._sampling import load_task, on_cluster, refusals
from keff.cli._study_bar import Bar
from keff.engine import Engine
from keff.engines._context import longest
from keff.errors import KeffError, RunError, UsageError
from keff.policy import parse_policy
from keff.records import Item, Sampling
from keff.sampling.cells import CellState, refuse_changes, settings, state, write_note
from keff.sampling.grid import Cell, ModelEntry, Study, TaskEntry
from keff.sampling.job import Job, parse_templates
from keff.sampling.pool import Drawn, draw_all
from keff.sampling.rates import add_rate
from keff.sampling.sampler import Order, Progress
from keff.task import Task, select
from keff.usercode import UNSAFE, without_code


@dataclass(frozen=True, slots=True)
class Place:
    """Where a study stands and where it is drawn: its file, its runs, and a cluster with its workers."""

    study: Study
    file: Path
    runs: Path
    on: str | None = None
    workers: int | None = None
    unsafe_exec: bool = False


@dataclass(slots=True)
class Outcome:
    """One cell after a session: its paths before and now, failed attempts, and the error that ended it."""

    cell: Cell
    kept: int = 0
    drawn: int = 0
    failed: int = 0
    complete: bool = False
    error: str | None = None

    def row(self) -> dict[str, Any]:
        """Return the cell as ``--json`` shows it."""
        row: dict[str, Any] = {"run": str(self.cell.folder), "cell": self.cell.name}
        row |= {"kept_before": self.kept, "drawn": self.drawn, "failed": self.failed}
        return row | {"complete": self.complete} | ({"error": self.error} if self.error else {})


class Desk:
    """Makes the tasks and chooses the questions of a study, each once."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._tasks: dict[str, tuple[Task, dict[str, Any]]] = {}
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

    def _task(self, entry: TaskEntry) -> tuple[Task, dict[str, Any]]:
        if entry.name not in self._tasks:
            self._tasks[entry.name] = load_task(*self._named(entry))
        return self._tasks[entry.name]

    def _named(self, entry: TaskEntry) -> tuple[str, dict[str, Any]]:
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
        if data.suffix == ".jsonl" and entry.name not in plugins.names("task"):
            return str(data), options
        return entry.name, options | {"data": str(data.resolve())}


def trusted(place: Place, task: TaskEntry) -> dict[str, Any]:
    """Return the options of a task; raises UsageError for code that this command line does not name."""
    named = sorted(task.options.keys() - without_code(task.options).keys())
    if named and not (named == [UNSAFE] and place.unsafe_exec):
        flag = "add --unsafe-exec" if named == [UNSAFE] else "sample this run with keff sample --scorer"
        raise UsageError(
            f"{place.file}: task {task.name} names {', '.join(named)}, and code is trusted only from the "
            f"command line: {flag}"
        )
    return dict(task.options)


def run(place: Place, grid: Sequence[Cell]) -> list[Outcome]:
    """Draw what every cell still owes, model by model; what fails is in the outcomes and stops nothing else.

    Raises UsageError, before anything is drawn, when cells have paths under other settings.
    """
    for task in {cell.task.name: cell.task for cell in grid}.values():
        trusted(place, task)
    refuse_changes(place.study, grid)
    outcomes = [Outcome(cell) for cell in grid]
    desk = Desk(place)
    with Bar() as bar:
        for model, group in groupby(outcomes, key=lambda outcome: outcome.cell.model):
            owing = list(_owing(place.study, list(group)))
            if owing:
                _draw_model(place, model, desk, owing, bar)
    return outcomes


def _owing(study: Study, outcomes: Sequence[Outcome]) -> Iterator[tuple[Outcome, CellState]]:
    """Yield the cells that are not complete; the others are told from their stores alone."""
    for outcome in outcomes:
        try:
            held = state(study, outcome.cell)
        except KeffError as error:
            outcome.error = str(error)
            continue
        outcome.kept = held.paths
        outcome.complete = held.stage in ("complete", "record")
        if not outcome.complete:
            yield outcome, held


def _draw_model(
    place: Place, model: ModelEntry, desk: Desk, owing: Sequence[tuple[Outcome, CellState]], bar: Bar
) -> None:
    """Draw all cells of a model on one engine."""
    ready: list[tuple[Outcome, Job]] = []
    unmade: Any = None
    for outcome, _ in owing:
        try:
            ready.append((outcome, desk.job(outcome.cell, unmade)))
        except KeffError as error:
            outcome.error = str(error)
    if not ready:
        return
    jobs = [job for _, job in ready]
    owed = sum(len(job.items()) * job.order.k for job in jobs)
    watch = _Watch(place, [outcome for outcome, _ in ready], bar.model(model.name, len(jobs), owed))
    try:
        drawn = _supervised(_engine(place, model, jobs), jobs, watch.tell)
    except Stopped:
        raise
    except KeffError as error:
        drawn = [Drawn(error=error) for _ in jobs]
    finally:
        add_rate(place.runs, model.name, watch.tokens, watch.paths, watch.seconds)
    for (outcome, job), result in zip(ready, drawn, strict=True):
        _settle(place.study, outcome, job, result)


def _settle(study: Study, outcome: Outcome, job: Job, result: Drawn) -> None:
    """Write down what became of a cell, in its outcome and in its folder."""
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


class _Watch:
    """Follows the cells of one model: their notes, the bar, and what the engine gives per second."""

    def __init__(self, place: Place, outcomes: Sequence[Outcome], told: Callable[..., None]) -> None:
        self._place, self._outcomes, self._told = place, outcomes, told
        self._counts: dict[int, tuple[int, int, int]] = {}
        self._begun: float | None = None
        self._last = 0.0

    @property
    def paths(self) -> int:
        """Paths drawn in this session."""
        return sum(done for done, _, _ in self._counts.values())

    @property
    def tokens(self) -> int:
        """Tokens drawn in this session."""
        return sum(tokens for _, tokens, _ in self._counts.values())

    @property
    def seconds(self) -> float:
        """Seconds from the first cell's opening to the last path."""
        return 0.0 if self._begun is None else self._last - self._begun

    def tell(self, place: int, progress: Progress) -> None:
        """Take the counts of one cell."""
        outcome = self._outcomes[place]
        self._last = time.monotonic()
        if self._begun is None:
            self._begun = self._last
        if place not in self._counts:
            write_note(self._place.study, outcome.cell, complete=False)
        outcome.kept, outcome.drawn, outcome.failed = progress.kept, progress.done, progress.failed
        self._counts[place] = progress.done, progress.tokens, progress.kept
        held = self.paths + sum(kept for _, _, kept in self._counts.values())
        self._told(outcome.cell.name, len(self._counts), held, self.tokens)


def _engine(place: Place, model: ModelEntry, jobs: Sequence[Job]) -> Engine:
    """Make one engine for all jobs of a model: it must take the longest prompt and answer of any of them."""
    given: dict[str, Any] = {"model": model.model, "base_url": model.base_url, **model.options}
    takes = plugins.options("engine", model.engine)
    if "oracle" in takes and "oracle" not in given:
        asked = [(job.task, job.items(), job.order.slots) for job in jobs]
        given["oracle"] = {name: told for one in asked for name, told in oracle(*one).items()}
    if "prompts" in takes and "n_ctx" not in given:
        given["prompts"] = longest(
            job.task.messages(item, slot) for job in jobs for item in job.items() for slot in job.order.slots
        )
        given["max_tokens"] = max(job.sampling.max_tokens for job in jobs)
    options = {name: value for name, value in given.items() if value is not None}
    if place.on is not None:
        return on_cluster(place.on, place.workers, model.engine, options)
    if place.workers is not None:
        raise UsageError("--workers goes with --on ray")
    return plugins.load("engine", model.engine, **options)


def _supervised(engine: Engine, jobs: Sequence[Job], watch: Callable[[int, Progress], None]) -> list[Drawn]:
    """Draw all jobs in an event loop; Ctrl-C and SIGTERM keep what was received."""
    return asyncio.run(_until_signal(engine, [replace(job, engine=engine) for job in jobs], watch))


async def _until_signal(
    engine: Engine, jobs: Sequence[Job], watch: Callable[[int, Progress], None]
) -> list[Drawn]:
    work = asyncio.ensure_future(draw_all(engine, jobs, watch))
    loop = asyncio.get_running_loop()
    signals = signal.SIGINT, signal.SIGTERM
    for name in signals:
        loop.add_signal_handler(name, work.cancel)
    try:
        return await work
    except asyncio.CancelledError:
        raise Stopped(
            "stopped; every path that was received is kept: run the same command to continue"
        ) from None
    finally:
        for name in signals:
            loop.remove_signal_handler(name)


class Stopped(RunError):
    """The user ended the study: no other model begins."""


def check(outcomes: Sequence[Outcome], file: Path) -> None:
    """Say what comes next, or list what failed and raise RunError."""
    wrong = [outcome for outcome in outcomes if not outcome.complete]
    by_error: dict[str, list[str]] = {}
    for outcome in wrong:
        why = outcome.error or f"{outcome.failed} attempts failed"
        by_error.setdefault(why, []).append(outcome.cell.name)
    for why, names in by_error.items():
        more = f" and {len(names) - 1} more cells" if len(names) > 1 else ""
        _console.warn(f"{names[0]}{more}: {why}")
    if wrong:
        raise RunError(
            f"{len(wrong)} of {len(outcomes)} runs are incomplete: run the same command to continue"
        )
    _console.progress_console.print(
        f"all {len(outcomes)} runs are complete: keff study report {file}", markup=False, soft_wrap=True
    )
