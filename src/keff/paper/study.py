"""The paper's tables and figures for any study, a grid of runs.

An arm is all seeds of a model, a task and a setting, pooled as one sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from keff.errors import KeffError, UsageError
from keff.log import LogInfo, Question, find_log
from keff.paper import records, saturation
from keff.paper.cell import MatrixCell, measure
from keff.paper.records import ArmSample, PaperBenchmark, arm_sample, cut_is_wrong
from keff.paper.reproduce import ArmPair, Reproducing, Reproduction, fill_pairs, fill_single
from keff.paper.saturation import PILOT_K, SeriesEntry, prefix
from keff.reading.ballot import ballot
from keff.reading.open import Opening, naming, reading
from keff.records import frozen
from keff.sampling.cells import settings
from keff.sampling.grid import PAIRED, ArmEntry, Cell, ModelEntry, Study, TaskEntry, cells


@frozen
class StudyArm:
    """One model on one task under one arm, all seeds pooled."""

    model: ModelEntry
    task: TaskEntry
    entry: ArmEntry
    sample: ArmSample

    @property
    def about(self) -> dict[str, Any]:
        """The arm's labels in its rows: name, paths per question, seeds pooled."""
        seeds = len(np.unique(self.sample.seeds))
        return {"arm": self.entry.name, "paths": self.sample.votes.k, "seeds": seeds}


def read_arms(study: Study, runs: Path | None, result: Reproduction) -> list[StudyArm]:
    """Return every arm with runs, by arm, task and model; missing ones are listed in ``result``."""

    def place(cell: Cell) -> tuple[int, int, int]:
        return study.arms.index(cell.arm), study.tasks.index(cell.task), study.models.index(cell.model)

    arms: list[StudyArm] = []
    for _, group in groupby(sorted(cells(study, runs), key=place), key=place):
        own = list(group)
        sample = _pool_seeds(own, study, result)
        if sample is not None:
            arms.append(StudyArm(own[0].model, own[0].task, own[0].arm, sample))
    return arms


def _pool_seeds(group: Sequence[Cell], study: Study, result: Reproduction) -> ArmSample | None:
    """Return one arm with its seeds pooled; missing or unreadable ones are listed."""
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
    return arm_sample(votes.votes, labelled)


def _read(cell: Cell, study: Study, result: Reproduction) -> tuple[LogInfo, list[Question]]:
    """Return one cell; questions with missing paths are left out and counted."""
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
# The tables that take one arm at a time.
SINGLE = ("table1", "table2", "table4", "table9", "table10", "table11")


def report(study: Study, how: Reproducing | None = None, runs: Path | None = None) -> Reproduction:
    """Return the paper's tables and figures from a study's existing runs.

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
    result.tables["arms"] = saturation.rows_of([_entry(arm) for arm in arms], saturation.summary)
    fill_single(result, {name: _entries(study, arms, name, result) for name in SINGLE}, how)
    fill_pairs([_compare_pair(study, arm, arms, result, how) for arm in study.arms if arm.against], result)
    _say_unused(study, result)
    _say_all_wrong(arms, result)
    return result


def _entries(study: Study, arms: Sequence[StudyArm], name: str, result: Reproduction) -> list[SeriesEntry]:
    """Return the arms that enter a table; unfit ones are listed."""
    entries: list[SeriesEntry] = []
    for entry in (_entry(arm) for arm in arms if _enters(study, arm, name)):
        if why := _unfit(entry):
            result.problems.append(f"{name}: {entry.model} {entry.task} {entry.about['arm']} {why}")
        else:
            entries.append(entry)
    return entries


def _unfit(entry: SeriesEntry) -> str | None:
    """Return why an arm cannot enter a table, or None."""
    if entry.sample.votes.k < PILOT_K:
        return f"has fewer than {PILOT_K} paths"
    return "records scores and no answers" if entry.sample.votes.answers is None else None


def _compare_pair(
    study: Study, entry: ArmEntry, arms: Sequence[StudyArm], result: Reproduction, how: Reproducing
) -> ArmPair:
    """Compare one arm with its reference arm, by task and model."""
    name = entry.name
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
                k = min(sc.sample.votes.k, pt.sample.votes.k)
                first, second = (replace(a.sample, votes=prefix(a.sample.votes, k)) for a in (sc, pt))
                try:
                    named = _label(model), _labels(task)
                    cells.append(measure(*named, (first, second), how.replicates, rng, "paired"))
                except (KeffError, ValueError) as error:
                    result.problems.append(f"{label}: {error}")
                    continue
                about |= {"paths": max(about["paths"], k), "seeds": max(about["seeds"], pt.about["seeds"])}
    return ArmPair(about, cells)


def _say_unused(study: Study, result: Reproduction) -> None:
    """Note the arms that enter no table but ``arms``."""
    named = {arm.against for arm in study.arms}
    result.problems += [
        f'arm {arm.name} is in no table but "arms": say against = "ARM", or tables = [...]'
        for arm in study.arms
        if not arm.enters and arm.tables is None and arm.name not in named
    ]


def _say_all_wrong(arms: Sequence[StudyArm], result: Reproduction) -> None:
    """Warn of arms without a right path, most likely an error in task, gold answers or reading."""
    dead = [f"{arm.model.name} {arm.task.name} {arm.entry.name}" for arm in arms if arm.sample.votes.p == 0]
    if dead:
        which = "every arm" if len(dead) == len(arms) else ", ".join(dead)
        result.problems.append(
            f"no path of {which} is right: before you draw more, check how keff reads the answers and the "
            "gold answers (keff read RUN)"
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


def _label(model: ModelEntry) -> str:
    return model.label or model.name


def _labels(task: TaskEntry) -> PaperBenchmark:
    known = records.BENCHMARKS.get(task.name)
    return known or PaperBenchmark(task.domain, task.label or task.name, task.space)
