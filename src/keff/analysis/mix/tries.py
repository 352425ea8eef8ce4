"""Candidate plans where a checker judges answers: m tries of one branch, then l of another, and a third."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product

import numpy as np

from keff.analysis.decision.tries import TryCurves, TryFigures, Verdicts
from keff.analysis.mix.search import CandidatePlan, undominated
from keff.records import frozen
from keff.stats.models.tries import fail_and_solve_chances, tries_made
from keff.stats.votes import FloatArray

# Tries of a branch that are tried: between larger neighbours plans differ little.
LADDER = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)

# Of more branches only pairs are tried whose second branch costs more by the try.
EVERY_ORDER = 6


@frozen
class BranchTries:
    """What tries of a branch do, and its figures ``alone``.

    ``measured`` is that of the recorded tries, where it is known which are right; ``expected`` by the law of
    tries throughout, given the question's own.
    """

    alone: TryFigures
    measured: TryCurves
    expected: TryCurves

    @classmethod
    def of(cls, verdicts: Verdicts, cost: FloatArray, most: int, false_accept: float) -> BranchTries:
        """Return the figures of a branch with ``cost`` [n, K] of each try, or [n, 1] of any."""
        each = cost.mean(axis=1, keepdims=True)
        if cost.shape != verdicts.passed.shape:
            cost = np.broadcast_to(each, verdicts.passed.shape)
        alone = TryFigures.of(verdicts, most, false_accept, cost)
        counts = np.stack([verdicts.solved.sum(axis=1), verdicts.made])
        kinds, back = np.unique(counts, axis=1, return_inverse=True)
        wrong = np.stack([alone.law.after(count, made, most) for count, made in kinds.T.tolist()])
        failing, solved = (values[back.ravel()] for values in fail_and_solve_chances(wrong, false_accept))
        expected = TryCurves(solved, failing, each * tries_made(failing))
        return cls(alone, alone.here if alone.known else expected, expected)


def try_plans(
    branches: Sequence[BranchTries], names: Sequence[str], cost: FloatArray
) -> Iterator[CandidatePlan]:
    """Yield the plans of one branch, of two in turn, and a third behind the undominated ones of two.

    ``cost`` [A] of a try says which branches are dearer.
    """
    most = branches[0].expected.solved.shape[1] - 1
    ladder = sorted({tries for tries in (*LADDER, most) if tries <= most})
    every = range(len(branches))
    for branch, tries in product(every, ladder):
        yield _plan_of_stages(branches, names, [(branch, tries)])
    pairs = [
        _plan_of_stages(branches, names, [(a, m), (b, more)])
        for a, b in permutations(every, 2)
        if len(branches) <= EVERY_ORDER or cost[b] >= cost[a]
        for m, more in product(ladder, repeat=2)
    ]
    yield from pairs
    # A third solves what two leave: on recorded models regret falls by a third where a right answer is worth
    # 300 tries (docs/checker.md).
    for plan in undominated(pairs):
        stages = list(zip(plan.branches, plan.most, strict=True))
        for third, tries in product(set(every).difference(plan.branches), ladder):
            yield _plan_of_stages(branches, names, [*stages, (third, tries)])


def _plan_of_stages(
    branches: Sequence[BranchTries], names: Sequence[str], stages: Sequence[tuple[int, int]]
) -> CandidatePlan:
    """Return the plan of at most so many tries of each branch, each where those before it fail."""
    figures: list[tuple[FloatArray, FloatArray]] = []
    for each in ([own.measured for own in branches], [own.expected for own in branches]):
        n = len(each[0].solved)
        right, paid, left = np.zeros(n), np.zeros(n), np.ones(n)
        for branch, tries in stages:
            solved, failing, spent = (values[:, tries] for values in each[branch])
            right, paid, left = right + left * solved, paid + left * spent, left * failing
        figures.append((right, paid))
    (accuracy, cost), by_law = figures
    spec = "cascade:" + "/".join(f"{names[branch]}(retry:{tries})" for branch, tries in stages)
    numbers = tuple(branch for branch, _ in stages)
    return CandidatePlan(spec, "cascade" if len(stages) > 1 else "single", numbers, accuracy, cost, by_law)


def stage_shares(plan: CandidatePlan, branches: Sequence[BranchTries]) -> tuple[float, ...]:
    """Return the share of questions that come to each branch of a plan."""
    left, out = np.ones(len(branches[0].measured.solved)), list[float]()
    for branch, tries in zip(plan.branches, plan.most, strict=True):
        out.append(float(left.mean()))
        left = left * branches[branch].measured.failing[:, tries]
    return tuple(out)
