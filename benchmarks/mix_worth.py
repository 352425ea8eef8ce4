"""Regret of the rules of `keff mix` by what a right answer is worth, from pilots, judged on other questions.

    python -m benchmarks.mix_worth [DATA] [--pilots 8] [--questions 100] [--paths 4]

Worth is counted in median costs of a path. Regret is what the best single plan or cascade of two in truth
has more of V x accuracy - cost, over V, in points of accuracy.
Then what the default pays and loses against A.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from benchmarks.mix import SHARED, read
from benchmarks.mix_rule import FAMILIES, more_groups, tables

from keff.analysis.mix.choose import MixAim, PlanTable, choose
from keff.analysis.mix.orders import Orders, draw_orders
from keff.analysis.mix.prices import path_costs
from keff.analysis.mix.search import CandidatePlan, pairs, singles
from keff.analysis.mix.worth import WorthRule
from keff.reading.join import Aligned
from keff.sampling.cost import Price
from keff.stats.votes import FloatArray, IntArray

WORTHS = (30.0, 100.0, 300.0, 1000.0, 3000.0)


@dataclass(frozen=True)
class WorthPilot:
    """A pilot: what it shows of every plan, and their accuracy [P] and cost [P] on the other questions."""

    table: PlanTable
    ids: IntArray
    unit: float
    true: FloatArray
    paid: FloatArray
    error: FloatArray

    @property
    def rule(self) -> WorthRule:
        """The rule of worth on this pilot."""
        return WorthRule(self.table.accuracy, self.table.cost, self.table.single, self.ids)

    def regret(self, plan: int, worth: float) -> float:
        """Return what the best plan has more at a worth in median path costs, in points."""
        value = worth * self.unit
        net = value * self.true - self.paid
        return 100 * float(net.max() - net[plan]) / value


def _plans(orders: Orders, names: Sequence[str]) -> list[CandidatePlan]:
    return [*singles(orders, names), *pairs(orders, names)]


def pilots_of(
    group: Aligned, table: dict[str, Price], count: int, questions: int, paths: int
) -> list[WorthPilot]:
    """Return random pilots of a group, each judged on the questions that it leaves."""
    costs = path_costs(group, table).paths
    everything = draw_orders(group, costs, 8, np.random.default_rng(7))
    whole = {plan.spec: plan for plan in _plans(everything, group.names)}
    unit = float(np.median([cost.mean() for cost in costs]))
    out: list[WorthPilot] = []
    for number in range(count):
        rng = np.random.default_rng(100 + number)
        chosen = np.sort(rng.permutation(group.n)[: min(questions, group.n // 2)])
        part = group.take(chosen)
        drawn = (
            replace(branch, votes=branch.votes.paths(rng.permutation(branch.votes.k)[:paths]))
            for branch in part.branches
        )
        part = replace(part, branches=tuple(drawn))
        orders = draw_orders(part, path_costs(part, table).paths, paths, np.random.default_rng(0))
        shown = PlanTable.of([plan for plan in _plans(orders, part.names) if plan.spec in whole])
        rest = np.setdiff1d(np.arange(group.n), chosen)
        accuracy = np.array([whole[plan.spec].accuracy[rest] for plan in shown.plans])
        paid = np.array([whole[plan.spec].cost[rest].mean() for plan in shown.plans])
        best = int(np.argmax(np.where(shown.single, shown.accuracy.mean(axis=1), -1)))
        error = (accuracy - accuracy[best]).std(axis=1) / np.sqrt(len(rest))
        ids = np.unique(part.clusters, return_inverse=True)[1]
        out.append(WorthPilot(shown, ids, unit, accuracy.mean(axis=1), paid, error))
    return out


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?", default=SHARED)
    parser.add_argument("--pilots", type=int, default=8)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--paths", type=int, default=4)
    given = parser.parse_args()
    if not given.data.is_dir():
        print(f"skipped: {given.data} is not there")
        return
    known = {
        group.name: pilots_of(read(given.data, group), tables(), given.pilots, given.questions, given.paths)
        for group in more_groups(given.data)
    }
    families = [next(family for family in FAMILIES if family in name) for name in known]
    tried = {margin: _regrets(list(known.values()), margin) for margin in MARGINS}
    for margin, regret in tried.items():
        print(f"| {margin} errors |", " | ".join(f"{value:.2f}" for value in regret.mean(axis=0)), "|")
    for family in dict.fromkeys(families):
        other = np.array(families) != family
        print("without", family, min(MARGINS, key=lambda margin: float(tried[margin][other].mean())))
    print("| group | cost over A | points | worst | regret at 300, 1000 |")
    for name, pilots in known.items():
        print(f"| {name} |", _default(pilots))


MARGINS = (0.0, 0.5, 1.0, 1.5, 2.0, np.inf)
"""Without end: the best single branch."""


def _regrets(groups: Sequence[Sequence[WorthPilot]], margin: float) -> FloatArray:
    values: FloatArray = np.zeros((len(groups), len(WORTHS)))
    for row, pilots in zip(values, groups, strict=True):
        for place, worth in enumerate(WORTHS):
            row[place] = np.mean([p.regret(p.rule.at(worth * p.unit, margin), worth) for p in pilots])
    return values


def _default(pilots: Sequence[WorthPilot]) -> str:
    chosen = [choose(p.table, np.arange(len(p.ids)), p.ids, MixAim()) for p in pilots]
    paid, best = (
        np.mean([p.paid[getattr(choice, name)] for p, choice in zip(pilots, chosen, strict=True)])
        for name in ("taken", "best")
    )
    gains = [100 * float(p.true[c.taken] - p.true[c.best]) for p, c in zip(pilots, chosen, strict=True)]
    error = 100 * np.mean([p.error[c.taken] for p, c in zip(pilots, chosen, strict=True)])
    regrets = [
        np.mean([p.regret(c.taken, worth) for p, c in zip(pilots, chosen, strict=True)])
        for worth in (300, 1000)
    ]
    return (
        f"{paid / best:.2f} | {np.mean(gains):+.2f} ({error:.2f}) | {min(gains):+.1f} | "
        f"{regrets[0]:.2f}, {regrets[1]:.2f} |"
    )


if __name__ == "__main__":
    main()
