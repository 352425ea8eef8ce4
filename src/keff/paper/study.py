"""The paper's tables and figures for any grid of runs: each arm where the study says that it belongs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from keff import plugins
from keff.errors import KeffError, UsageError
from keff.paper import layout, matrix, saturation
from keff.paper.arms import Arm, read_arms
from keff.paper.cell import Cell as Measured
from keff.paper.cell import Place, measure
from keff.paper.estimators import PILOT_K
from keff.paper.layout import Benchmark
from keff.paper.records import Sample
from keff.paper.reproduce import Reproducing, Reproduction
from keff.paper.saturation import Entry
from keff.sampling.grid import PAIRED, ModelEntry, Study, TaskEntry

FEWEST_ITEMS = 5
"""Weights are judged in five folds of items."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One arm against another, on every model and task that both have."""

    about: Mapping[str, Any]
    cells: Sequence[Measured]

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
    return result


def _fill_single(study: Study, arms: Sequence[Arm], result: Reproduction, how: Reproducing) -> None:
    """Fill the tables that take one arm at a time."""
    makers: dict[str, Callable[[Sequence[Entry]], Rows]] = {
        "table1": lambda entries: _each(entries, saturation.table1),
        "table2": saturation.table2,
        "table4": lambda entries: saturation.table4(entries, how.replicates, how.seed),
        "table9": lambda entries: _each(entries, saturation.table9),
        "table10": lambda entries: saturation.table10(entries, how.seed),
        "table11": saturation.table11,
    }
    for name, make in makers.items():
        entries = [_entry(arm) for arm in arms if _enters(study, arm, name)]
        deep = [entry for entry in entries if _unfit(entry) is None]
        result.problems += [
            f"{name}: {entry.model} {entry.task} {entry.about['arm']} {why}"
            for entry in entries
            if (why := _unfit(entry))
        ]
        if deep:
            result.tables[name] = make(deep)
        if deep and name == "table2":
            result.figures["figure2"] = saturation.figure2(deep)
            result.figures["saturation"] = [row for entry in deep for row in _observed(entry)]
        if deep and name == "table9":
            appendix = [
                entry.names | saturation.reasoning(entry.sample, how.replicates, how.seed) for entry in deep
            ]
            result.headline["reasoning"] = appendix[0]
            if len(appendix) > 1:
                result.headline["reasoning_models"] = list(appendix)


def _unfit(entry: Entry) -> str | None:
    """Return why an arm cannot be a row of a table, or None."""
    if entry.sample.votes.k < PILOT_K:
        return f"has fewer than {PILOT_K} paths"
    return "records scores and no answers" if entry.sample.votes.answers is None else None


def _each(entries: Sequence[Entry], make: Callable[[Sample], Rows]) -> Rows:
    return [entry.names | row for entry in entries for row in make(entry.sample)]


def _observed(entry: Entry) -> Rows:
    """Return K_eff as observed with the first K paths, and c of all, for the saturation figure."""
    rows = saturation.table1(entry.sample)
    c = rows[-1].get("c")
    return [entry.names | {"k": row["k"], "k_eff": row["k_eff"], "c": c} for row in rows]


def _fill_pairs(comparisons: Sequence[Comparison], result: Reproduction) -> None:
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
    study: Study, name: str, arms: Sequence[Arm], result: Reproduction, how: Reproducing
) -> Comparison:
    """Compare one arm with the arm that it names, in the order of the study's tasks and models."""
    entry = next(arm for arm in study.arms if arm.name == name)
    by_place = {(arm.task.name, arm.model.name, arm.entry.name): arm for arm in arms}
    cells: list[Measured] = []
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
                        _measure(Place(_label(model), _labels(task)), sc.sample, pt.sample, how, rng)
                    )
                except (KeffError, ValueError) as error:
                    result.problems.append(f"{label}: {error}")
                    continue
                k = min(sc.sample.votes.k, pt.sample.votes.k)
                about |= {"paths": max(about["paths"], k), "seeds": max(about["seeds"], pt.seeds)}
    return Comparison(about, cells)


def _measure(place: Place, sc: Sample, pt: Sample, how: Reproducing, rng: np.random.Generator) -> Measured:
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


def _enters(study: Study, arm: Arm, table: str) -> bool:
    limits = study.tables.get(table)
    allowed = limits is None or (
        (limits.models is None or arm.model.name in limits.models)
        and (limits.tasks is None or arm.task.name in limits.tasks)
    )
    return allowed and table in arm.entry.enters


def _entry(arm: Arm) -> Entry:
    about = _labels(arm.task)
    return Entry(_label(arm.model), f"{about.label} ({about.domain})", arm.sample, arm.about)


def _arm_row(arm: Arm) -> dict[str, Any]:
    return {"model": _label(arm.model), "task": _labels(arm.task).label} | arm.about | arm.numbers()


def _label(model: ModelEntry) -> str:
    return model.label or model.name


def _labels(task: TaskEntry) -> Benchmark:
    known = layout.BENCHMARKS.get(task.name)
    if known is not None and plugins.has("task", task.name):
        return known
    return Benchmark(task.domain, task.label or task.name, task.space)
