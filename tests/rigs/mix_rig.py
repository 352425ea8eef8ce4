"""Branches with a common difficulty, and tables of plans, for tests of `keff mix`."""

from __future__ import annotations

import numpy as np

from keff.analysis.mix.choose import PlanTable
from keff.analysis.mix.search import CandidatePlan
from keff.reading.join import Aligned, AlignedBranch
from keff.stats.votes import FloatArray, Votes

NAMES = ("small", "large")


def group(
    n: int, k: int, seed: int, p: tuple[float, ...] = (0.6, 0.85), tokens: tuple[float, ...] = (100, 1000)
) -> Aligned:
    """Branches whose chance of being right is p moved by a common difficulty; three wrong answers."""
    rng = np.random.default_rng(seed)
    difficulty = rng.normal(0, 1.2, n)
    branches: list[AlignedBranch] = []
    for number, (chance, size) in enumerate(zip(p, tokens, strict=True)):
        theta = 1 / (1 + np.exp(-(np.log(chance / (1 - chance)) * 1.4 + difficulty)))
        right = rng.random((n, k)) < theta[:, None]
        answers = np.where(right, 0, rng.integers(1, 4, (n, k)))
        votes = Votes(answers, right.astype(int), tokens=rng.gamma(9, size / 9, (n, k)))
        keys = tuple(tuple(str(code) for code in row) for row in answers.tolist())
        branches.append(AlignedBranch(f"b{number}" if len(p) > 2 else NAMES[number], None, votes, keys, ()))
    credit = np.tile([1.0, 0, 0, 0], (n, 1))
    return Aligned(tuple(map(str, range(n))), tuple(branches), credit, np.arange(n), "exact", ())


def plan_table(accuracy: list[list[float]], cost: list[float]) -> PlanTable:
    """Return plans of one path of a branch each, which cost the same on every question."""
    rows = np.array(accuracy)
    return table_of(rows, np.broadcast_to(np.array(cost)[:, None], rows.shape), single=2)


def table_of(accuracy: FloatArray, cost: FloatArray, single: int = 99) -> PlanTable:
    """Return plans of one path of a branch each, of which the first are single branches' plans."""
    made = [
        CandidatePlan(
            f"cascade:p{i}(fixed:1)", "single" if i < single else "cascade", (i,), accuracy[i], cost[i]
        )
        for i in range(len(accuracy))
    ]
    return PlanTable.of(made, [99] * len(made), np.ones_like(accuracy), np.arange(accuracy.shape[1]))
