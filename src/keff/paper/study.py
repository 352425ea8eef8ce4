"""The paper's tables and figures for any grid of runs: each arm where the study says that it belongs.

An arm is all seeds of a model, a task and a setting, pooled as one sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from keff import plugins
from keff.errors import KeffError, UsageError
from keff.log import LogInfo, Question, find_log
from keff.paper import matrix, records, saturation
from keff.paper.cell import CellPlace, MatrixCell, measure
from keff.paper.records import ArmSample, PaperBenchmark, cut_is_wrong, diversity
from keff.paper.reproduce import Reproducing, Reproduction
from keff.paper.saturation import PILOT_K, SeriesEntry
from keff.reading.ballot import ballot
from keff.reading.open import Opening, naming, reading
from keff.records import frozen
from keff.sampling.cells import settings
from keff.sampling.grid import PAIRED, ArmEntry, Cell, ModelEntry, Study, TaskEntry, cells


@frozen
class StudyArm:
    """One model on one task under one arm: all its seeds as one sample."""

    model: ModelEntry
    task: TaskEntry
    entry: ArmEntry
    sample: ArmSample

    @property
    def seeds(self) -> int:
        """How many seeds are pooled."""
        return len(np.unique(self.sample.seeds))

    @property
    def about(self) -> dict[str, Any]:
        """What every row about the arm says: its name, the paths per question, and the seeds."""
        return {"arm": self.entry.name, "paths": self.sample.votes.k, "seeds": self.seeds}

    def numbers(self) -> dict[str, Any]:
        """Return what is known of the arm alone: accuracy, c with its 95% interval, and both votes."""
        votes = self.sample.votes
        about = {"n": votes.n, "questions": votes.n_clusters, "truncated": self.sample.truncated}
        return about | saturation.votes_row(votes)


def read_arms(study: Study, runs: Path | None, result: Reproduction) -> list[StudyArm]:
    """Read every arm that has runs, ordered by arm, task and model; the others are listed in ``result``."""
    grid = list(cells(study, runs))
    order = [[entry.name for entry in kind] for kind in (study.arms, study.tasks, study.models)]

    def place(cell: Cell) -> tuple[int, ...]:
        names = cell.arm.name, cell.task.name, cell.model.name
        return tuple(known.index(name) for known, name in zip(order, names, strict=True))

    arms: list[StudyArm] = []
    for _, group in groupby(sorted(grid, key=place), key=place):
        own = list(group)
        sample = _pooled(own, study, result)
        if sample is not None:
            arms.append(StudyArm(own[0].model, own[0].task, own[0].arm, sample))
    return arms


def _pooled(group: Sequence[Cell], study: Study, result: Reproduction) -> ArmSample | None:
    """Read the seeds of one arm as one sample; what is missing or unreadable is listed."""
    rows: list[Question] = []
    info: LogInfo | None = None
    for cell in group:
        if not cell.folder.exists():
            result.missing.append(str(cell.folder))
            continue
        try:
            info, read = _read(cell, study, result)
            rows += read
        except KeffError as error:
            result.problems.append(f"{cell.folder}: {error}")
    labelled = [row for row in rows if row.correct is not None or row.gold is not None]
    if info is None or len(labelled) < 2:
        return None
    # A policy decides how many paths each question gets: only as many as every question has compare fairly.
    stopped = group[0].arm.policy is not None
    k = min(len(row.answers) for row in labelled) if stopped else group[0].arm.k
    scored = [cut_is_wrong(row) for row in labelled] if study.truncated_wrong else labelled
    try:
        with naming(group[0].folder):
            votes = ballot(scored, reading(info, Opening()), trim=k)
    except KeffError as error:
        result.problems.append(str(error))
        return None
    seeds = np.array([row.meta["seed"] for row in votes.questions])
    names = tuple(dict.fromkeys(row.cluster or row.id for row in votes.questions))
    cuts = [cut for row in labelled for cut in (row.truncated or ())[:k]]
    share = sum(cuts) / len(cuts) if cuts else None
    return ArmSample(votes.votes, seeds, names, diversity(labelled), share)


def _read(cell: Cell, study: Study, result: Reproduction) -> tuple[LogInfo, list[Question]]:
    """Read one cell: a question that lacks some of its paths is left out, and counted."""
    log = find_log(cell.folder, None if cell.record else "run")
    info = log.info(cell.folder)
    seen = list(log.questions(cell.folder))
    least = 1 if cell.arm.policy else cell.arm.k
    read = [
        replace(row, meta={**row.meta, "seed": row.meta.get("seed", cell.seed) if cell.record else cell.seed})
        for row in seen
        if len(row.answers) >= least
    ]
    wanted = len(seen) if cell.record else settings(study, cell)["n"]
    if len(read) < wanted:
        result.problems.append(f"{cell.folder}: {len(read)} of {wanted} items are complete")
    return info, read


# Weights are judged in five folds of items.
FEWEST_ITEMS = 5

Rows = list[dict[str, Any]]


@frozen
class StudyComparison:
    """One arm against another, on every model and task that both have."""

    about: Mapping[str, Any]
    cells: Sequence[MatrixCell]

    @property
    def name(self) -> str:
        """Both arms in one text."""
        return f"{self.about['arm']} against {self.about['against']}"

    def named(self, rows: Rows) -> Rows:
        """Add what the comparison is to each row."""
        return [row | dict(self.about) for row in rows]


def report(study: Study, how: Reproducing | None = None, runs: Path | None = None) -> Reproduction:
    """Recompute the paper's tables and figures from the runs of a study that exist.

    An arm enters the tables that it names: Tables 1, 2, 4, 9, 10 and 11 with its own paths (at least 4), and
    Tables 3 and 8 with the arm that it is compared with. Every arm is a row of the table ``arms``. The seeds
    of an arm are pooled; the same question under two seeds is one cluster, and every interval resamples
    clusters. What is missing or cannot be used is listed. Raises UsageError when there is no run at all.
    """
    how = how or Reproducing()
    result = Reproduction()
    arms = read_arms(study, runs, result)
    if not arms:
        raise UsageError(
            f"no run of the study can be reported: {len(result.missing)} are missing, "
            f"{len(result.problems)} have problems{': ' + result.problems[0] if result.problems else ''}"
        )
    result.tables["arms"] = [_arm_row(arm) for arm in arms]
    _fill_single(study, arms, result, how)
    _fill_pairs([_compared(study, arm.name, arms, result, how) for arm in study.arms if arm.against], result)
    _say_unused(study, result)
    _say_all_wrong(arms, result)
    return result


def _fill_single(study: Study, arms: Sequence[StudyArm], result: Reproduction, how: Reproducing) -> None:
    """Fill the tables that take one arm at a time."""
    makers: dict[str, Callable[[Sequence[SeriesEntry]], Rows]] = {
        "table1": lambda entries: _each(entries, saturation.table1),
        "table2": saturation.table2,
        "table4": lambda entries: saturation.table4(entries, how.replicates, how.seed),
        "table9": lambda entries: _each(entries, saturation.table9),
        "table10": lambda entries: saturation.table10(entries, how.seed),
        "table11": saturation.table11,
    }
    for name, make in makers.items():
        deep: list[SeriesEntry] = []
        for entry in (_entry(arm) for arm in arms if _enters(study, arm, name)):
            if why := _unfit(entry):
                result.problems.append(f"{name}: {entry.model} {entry.task} {entry.about['arm']} {why}")
            else:
                deep.append(entry)
        if not deep:
            continue
        result.tables[name] = make(deep)
        if name == "table2":
            result.figures["figure2"] = saturation.figure2(deep)
            result.figures["saturation"] = [row for entry in deep for row in _observed(entry)]
        if name == "table9":
            appendix = [
                entry.names | saturation.reasoning(entry.sample, how.replicates, how.seed) for entry in deep
            ]
            result.headline["reasoning"] = appendix[0]
            if len(appendix) > 1:
                result.headline["reasoning_models"] = list(appendix)


def _unfit(entry: SeriesEntry) -> str | None:
    """Return why an arm cannot be a row of a table, or None."""
    if entry.sample.votes.k < PILOT_K:
        return f"has fewer than {PILOT_K} paths"
    return "records scores and no answers" if entry.sample.votes.answers is None else None


def _each(entries: Sequence[SeriesEntry], make: Callable[[ArmSample], Rows]) -> Rows:
    return [entry.names | row for entry in entries for row in make(entry.sample)]


def _observed(entry: SeriesEntry) -> Rows:
    """Return K_eff as observed with the first K paths, and c of all, for the saturation figure."""
    rows = saturation.table1(entry.sample)
    c = rows[-1].get("c")
    return [entry.names | {"k": row["k"], "k_eff": row["k_eff"], "c": c} for row in rows]


def _fill_pairs(comparisons: Sequence[StudyComparison], result: Reproduction) -> None:
    """Fill what takes two arms; several comparisons never share a row, a figure or a test."""
    known = [comparison for comparison in comparisons if comparison.cells]
    for comparison in known:
        cells = comparison.cells
        result.cells += comparison.named([cell.to_dict() for cell in cells])
        for name, rows in (("table3", matrix.table3(cells)), ("table8", matrix.table8(cells))):
            result.tables.setdefault(name, []).extend(comparison.named(rows))
        for name, rows in (("figure3", matrix.figure3(cells)), ("templates", matrix.templates(cells))):
            result.figures.setdefault(name, []).extend(comparison.named(rows))
    if known:
        result.headline |= matrix.headline(known[0].cells)
    if len(known) > 1:
        result.headline["comparison"] = known[0].name
        result.headline["comparisons"] = {pair.name: matrix.headline(pair.cells) for pair in known}


def _compared(
    study: Study, name: str, arms: Sequence[StudyArm], result: Reproduction, how: Reproducing
) -> StudyComparison:
    """Compare one arm with the arm that it names, in the order of the study's tasks and models."""
    entry = next(arm for arm in study.arms if arm.name == name)
    by_place = {(arm.task.name, arm.model.name, arm.entry.name): arm for arm in arms}
    cells: list[MatrixCell] = []
    about: dict[str, Any] = {"arm": name, "against": entry.against, "paths": 0, "seeds": 0}
    for task in study.tasks:
        for model in study.models:
            pt, sc = (by_place.get((task.name, model.name, str(arm))) for arm in (name, entry.against))
            if pt is None or not any(_enters(study, pt, table) for table in PAIRED):
                continue
            label = f"{model.name} {task.name} {name}"
            if sc is None:
                result.problems.append(f"{label}: no runs of {entry.against} to compare it with")
            elif min(sc.sample.votes.n_clusters, pt.sample.votes.n_clusters) < FEWEST_ITEMS:
                result.problems.append(f"{label}: fewer than {FEWEST_ITEMS} items to compare arms")
            else:
                rng = np.random.default_rng([how.seed, 3, len(cells)])
                try:
                    cells.append(
                        _measure(CellPlace(_label(model), _labels(task)), sc.sample, pt.sample, how, rng)
                    )
                except (KeffError, ValueError) as error:
                    result.problems.append(f"{label}: {error}")
                    continue
                k = min(sc.sample.votes.k, pt.sample.votes.k)
                about |= {"paths": max(about["paths"], k), "seeds": max(about["seeds"], pt.seeds)}
    return StudyComparison(about, cells)


def _measure(
    place: CellPlace, sc: ArmSample, pt: ArmSample, how: Reproducing, rng: np.random.Generator
) -> MatrixCell:
    k = min(sc.votes.k, pt.votes.k)
    arms = tuple(replace(arm, votes=arm.votes.paths(np.arange(k))) for arm in (sc, pt))
    return measure(place, (arms[0], arms[1]), how.replicates, rng, "paired")


def _say_unused(study: Study, result: Reproduction) -> None:
    """Name the arms that are in no table but ``arms``: nobody should have to find that out."""
    named = {arm.against for arm in study.arms}
    result.problems += [
        f'arm {arm.name} is in no table but "arms": say against = "ARM", or tables = [...]'
        for arm in study.arms
        if not arm.enters and arm.tables is None and arm.name not in named
    ]


def _say_all_wrong(arms: Sequence[StudyArm], result: Reproduction) -> None:
    """Warn of arms without one right path: a task, its gold answers or its reading is likelier wrong."""
    dead = [f"{arm.model.name} {arm.task.name} {arm.entry.name}" for arm in arms if arm.sample.votes.p == 0]
    if dead:
        which = "every arm" if len(dead) == len(arms) else ", ".join(dead)
        result.problems.append(
            f"no path of {which} is right: look at what is read and at the gold answers (keff read RUN) "
            "before you draw more"
        )


def _enters(study: Study, arm: StudyArm, table: str) -> bool:
    limits = study.tables.get(table)
    allowed = limits is None or (
        (limits.models is None or arm.model.name in limits.models)
        and (limits.tasks is None or arm.task.name in limits.tasks)
    )
    return allowed and table in arm.entry.enters


def _entry(arm: StudyArm) -> SeriesEntry:
    about = _labels(arm.task)
    return SeriesEntry(_label(arm.model), f"{about.label} ({about.domain})", arm.sample, arm.about)


def _arm_row(arm: StudyArm) -> dict[str, Any]:
    return {"model": _label(arm.model), "task": _labels(arm.task).label} | arm.about | arm.numbers()


def _label(model: ModelEntry) -> str:
    return model.label or model.name


def _labels(task: TaskEntry) -> PaperBenchmark:
    known = records.BENCHMARKS.get(task.name)
    if known is not None and plugins.has("task", task.name):
        return known
    return PaperBenchmark(task.domain, task.label or task.name, task.space)
