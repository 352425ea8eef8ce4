"""The arms of a study as samples: the runs and records of all seeds of a model, task and arm, pooled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from keff.errors import KeffError
from keff.log import LogInfo, Question, find_log
from keff.paper.records import Sample, cut_is_wrong, diversity
from keff.paper.reproduce import Reproduction
from keff.reading.ballot import ballot
from keff.reading.open import Opening, naming, reading
from keff.sampling.cells import settings
from keff.sampling.grid import ArmEntry, Cell, ModelEntry, Study, TaskEntry, cells
from keff.stats.correlation import anova_c
from keff.stats.diversity import ceiling, k_eff
from keff.stats.intervals import interval_c
from keff.stats.majority import majority_at_k
from keff.stats.plurality import plurality_at_k


@dataclass(frozen=True, slots=True)
class Arm:
    """One model on one task under one arm: all its seeds as one sample."""

    model: ModelEntry
    task: TaskEntry
    entry: ArmEntry
    sample: Sample

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
        row: dict[str, Any] = {"n": votes.n, "questions": votes.n_clusters, "p": votes.p}
        row |= {"truncated": self.sample.truncated, "majority": float(majority_at_k(votes)[-1])}
        row["plurality"] = None if votes.answers is None else float(plurality_at_k(votes)[-1])
        if votes.k < 2 or not 0 < votes.p < 1:
            return row | dict.fromkeys(("c", "c_lo", "c_hi", "k_eff", "ceiling"))
        c = interval_c(votes)
        row |= {"c": anova_c(votes), "c_lo": c.lo, "c_hi": c.hi}
        return row | {"k_eff": float(k_eff(votes.k, row["c"])), "ceiling": float(ceiling(row["c"]))}


def read_arms(study: Study, runs: Path | None, result: Reproduction) -> list[Arm]:
    """Read every arm that has runs, ordered by arm, task and model; the others are listed in ``result``."""
    grid = list(cells(study, runs))
    order = [[entry.name for entry in kind] for kind in (study.arms, study.tasks, study.models)]

    def place(cell: Cell) -> tuple[int, ...]:
        names = cell.arm.name, cell.task.name, cell.model.name
        return tuple(known.index(name) for known, name in zip(order, names, strict=True))

    arms: list[Arm] = []
    for _, group in groupby(sorted(grid, key=place), key=place):
        own = list(group)
        sample = _pooled(own, study, result)
        if sample is not None:
            arms.append(Arm(own[0].model, own[0].task, own[0].arm, sample))
    return arms


def _pooled(group: Sequence[Cell], study: Study, result: Reproduction) -> Sample | None:
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
    return Sample(votes.votes, seeds, names, diversity(labelled), share)


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
