"""The paper's tables and figures for any grid of runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np

from keff import plugins
from keff.errors import KeffError, UsageError
from keff.log import Question, find_log
from keff.paper import layout, matrix, saturation
from keff.paper.cell import Cell as Measured
from keff.paper.cell import Place, measure
from keff.paper.estimators import PILOT_K
from keff.paper.layout import Benchmark
from keff.paper.records import Sample, diversity
from keff.paper.reproduce import Reproducing, Reproduction
from keff.paper.saturation import Entry
from keff.reading.ballot import ballot
from keff.reading.open import Opening, reading
from keff.sampling.grid import ArmEntry, Cell, ModelEntry, Study, TaskEntry, cells

FEWEST_ITEMS = 5
"""Weights are judged in five folds of items."""


def report(study: Study, how: Reproducing | None = None, runs: Path | None = None) -> Reproduction:
    """Recompute the paper's tables and figures from the runs of a study that exist.

    Every arm under one prompt gives rows of Tables 1, 2, 4, 9, 10 and 11 (with at least 4 paths), and each
    pair of such an arm with an arm of templates on the same model and task a cell of Tables 3 and 8. The
    seeds of an arm are pooled; the same item under two seeds is one cluster. Raises UsageError when there
    is no run at all.
    """
    how = how or Reproducing()
    result = Reproduction()
    entries: list[Entry] = []
    found: list[Measured] = []
    for (model, task), group in groupby(cells(study, runs), key=lambda cell: (cell.model, cell.task)):
        plain, templated = _arms(list(group), study, result)
        entries += [
            Entry(_label(model), _labels(task).label, sample) for sample in plain if sample.votes.k >= PILOT_K
        ]
        for sc, pt in zip(plain, templated, strict=False):
            if min(sc.votes.n_clusters, pt.votes.n_clusters) < FEWEST_ITEMS:
                result.problems.append(
                    f"{model.name} {task.name}: fewer than {FEWEST_ITEMS} items to compare arms"
                )
                continue
            place = Place(_label(model), _labels(task))
            rng = np.random.default_rng([how.seed, 3, len(found)])
            found.append(_measure(place, sc, pt, how, rng))
    if not entries and not found:
        raise UsageError(
            f"no run of the study can be reported: {len(result.missing)} are missing, "
            f"{len(result.problems)} have problems{': ' + result.problems[0] if result.problems else ''}"
        )
    _fill(result, entries, found, how)
    return result


def _fill(
    result: Reproduction, entries: Sequence[Entry], found: Sequence[Measured], how: Reproducing
) -> None:
    if entries:
        result.tables["table2"] = saturation.table2(entries)
        result.tables["table4"] = saturation.table4(entries, how.replicates, how.seed)
        result.tables["table10"] = saturation.table10(entries, how.seed)
        result.tables["table11"] = saturation.table11(entries)
        for entry in entries:
            about = {"model": entry.model, "task": entry.task}
            for name, rows in (
                ("table1", saturation.table1(entry.sample)),
                ("table9", saturation.table9(entry.sample)),
            ):
                result.tables.setdefault(name, []).extend(about | row for row in rows)
        result.figures["figure2"] = saturation.figure2(entries)
    if found:
        result.cells = [cell.to_dict() for cell in found]
        result.tables["table3"] = matrix.table3(found)
        result.tables["table8"] = matrix.table8(found)
        result.headline |= matrix.headline(found)
        result.figures["figure3"] = matrix.figure3(found)
        result.figures["templates"] = matrix.templates(found)


def _arms(group: list[Cell], study: Study, result: Reproduction) -> tuple[list[Sample], list[Sample]]:
    """Return the arms of one model and task under one prompt, and those with templates."""
    arms: tuple[list[Sample], list[Sample]] = ([], [])
    by_arm: dict[ArmEntry, list[Cell]] = {}
    for cell in group:
        by_arm.setdefault(cell.arm, []).append(cell)
    for arm, runs in by_arm.items():
        sample = _pooled(runs, study, result)
        if sample is not None:
            arms[arm.templates != "none"].append(sample)
    return arms


def _pooled(runs: Iterable[Cell], study: Study, result: Reproduction) -> Sample | None:
    """Read the seeds of one arm as one sample; what is missing or unreadable is listed."""
    rows: list[Question] = []
    seeds: list[int] = []
    info = None
    for cell in runs:
        if not cell.folder.is_dir():
            result.missing.append(str(cell.folder))
            continue
        try:
            log = find_log(cell.folder, "run")
            info = log.info(cell.folder)
            read = [
                _scored(one, study) for one in log.questions(cell.folder) if len(one.answers) == cell.arm.k
            ]
            rows += read
        except KeffError as error:
            result.problems.append(f"{cell.folder}: {error}")
            continue
        wanted = cell.arm.n or cell.task.n or study.n
        if len(read) < wanted:
            result.problems.append(f"{cell.folder}: {len(read)} of {wanted} items are complete")
        seeds += [cell.seed] * len(read)
    labelled = [place for place, row in enumerate(rows) if row.correct is not None]
    if info is None or len(labelled) < 2:
        return None
    kept = [rows[place] for place in labelled]
    names = tuple(dict.fromkeys(row.cluster or row.id for row in kept))
    found = ballot(kept, reading(info, Opening()))
    return Sample(found.votes, np.array(seeds)[labelled], names, diversity(kept))


def _scored(row: Question, study: Study) -> Question:
    if not study.truncated_wrong or row.correct is None or row.truncated is None:
        return row
    right = tuple(int(one and not cut) for one, cut in zip(row.correct, row.truncated, strict=True))
    return replace(row, correct=right)


def _measure(place: Place, sc: Sample, pt: Sample, how: Reproducing, rng: np.random.Generator) -> Measured:
    k = min(sc.votes.k, pt.votes.k)
    arms = tuple(replace(arm, votes=arm.votes.paths(np.arange(k))) for arm in (sc, pt))
    return measure(place, (arms[0], arms[1]), how.replicates, rng)


def _label(model: ModelEntry) -> str:
    return model.label or model.name


def _labels(task: TaskEntry) -> Benchmark:
    known = layout.BENCHMARKS.get(task.name)
    if known is not None and task.name in plugins.names("task"):
        return known
    return Benchmark(task.domain, task.label or task.name, task.space)
