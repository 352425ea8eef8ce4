"""Candidate plans where a checker judges answers: m tries of one branch, then l of another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product

import numpy as np

from keff.analysis.decision.tries import Verdicts
from keff.analysis.mix.orders import Reals
from keff.analysis.mix.search import CandidatePlan
from keff.records import frozen
from keff.stats.models.tries import TryLaw, checked, tries_made, until_passed
from keff.stats.votes import FloatArray

# Tries of a branch that are tried: between larger neighbours plans differ little.
LADDER = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)

# Of more branches only pairs are tried whose second branch costs more by the try.
EVERY_ORDER = 6


@frozen
class BranchTries:
    """What at most 0, 1, ... T tries of a branch do on each question, each [n, T + 1].

    ``solved`` is the chance that a right answer passes, ``failing`` that all fail, and ``spent`` the mean
    cost: measured over the orders of the recorded tries, beyond them by the law of tries. ``expected`` are
    the same by the law throughout, given the question's own tries.
    """

    solved: FloatArray
    failing: FloatArray
    spent: FloatArray
    expected: tuple[FloatArray, FloatArray, FloatArray]

    @classmethod
    def of(cls, verdicts: Verdicts, cost: FloatArray, most: int, false_accept: float) -> BranchTries:
        """Return the figures of a branch with ``cost`` [n, K] of each try."""
        passed, k = verdicts.passed, verdicts.passed.shape[1]
        right, hidden = verdicts.solved, verdicts.hidden(false_accept)
        counts, tried = right.sum(axis=1), verdicts.made
        law = TryLaw.of(counts, tried, verdicts.units, hidden)
        kinds, back = np.unique(np.stack([counts, tried]), axis=1, return_inverse=True)
        wrong = np.stack([law.after(count, made, most) for count, made in kinds.T.tolist()])
        failing, solved = (each[back.ravel()] for each in checked(wrong, false_accept))
        expected = solved, failing, cost.mean(axis=1, keepdims=True) * tries_made(failing)
        if verdicts.ended:
            # Another branch meets a question whose further tries nobody saw.
            return cls(*expected, expected)
        here = most if most < k else k
        seen_failing = 1 - until_passed(passed.astype(np.float64), passed)[:, : here + 1]
        seen = until_passed(right.astype(np.float64), passed)[:, : here + 1]
        if hidden > 0:
            seen_failing, seen = failing[:, : here + 1], solved[:, : here + 1]
        spent = until_passed(cost, passed)[:, : here + 1]
        # Where all recorded tries failed, further ones go on as the law says of such a question.
        further, found = checked(np.atleast_2d(law.after(0, k, most - here)), false_accept)
        left, each = seen_failing[:, [here]], cost.mean(axis=1, keepdims=True)
        return cls(
            np.hstack([seen, seen[:, [here]] + left * found[:, 1:]]),
            np.hstack([seen_failing, left * further[:, 1:]]),
            np.hstack([spent, spent[:, [here]] + left * each * np.cumsum(further[:, :-1], axis=1)]),
            expected,
        )


def try_plans(
    branches: Sequence[BranchTries], names: Sequence[str], cost: FloatArray
) -> Iterator[CandidatePlan]:
    """Yield the plans of one branch and of two in turn; ``cost`` [A] of a try says which are dearer."""
    most = branches[0].solved.shape[1] - 1
    ladder = sorted({tries for tries in (*LADDER, most) if tries <= most})
    for number, own in enumerate(branches):
        for tries in ladder:
            spec = f"cascade:{names[number]}(retry:{tries})"
            yield CandidatePlan(
                spec,
                "single",
                (number,),
                own.solved[:, tries],
                own.spent[:, tries],
                (own.expected[0][:, tries], own.expected[2][:, tries]),
            )
    for a, b in permutations(range(len(branches)), 2):
        if len(branches) > EVERY_ORDER and cost[b] < cost[a]:
            continue
        first, second = branches[a], branches[b]
        solved, failing, spent = first.expected
        for m, more in product(ladder, repeat=2):
            yield CandidatePlan(
                f"cascade:{names[a]}(retry:{m})/{names[b]}(retry:{more})",
                "cascade",
                (a, b),
                first.solved[:, m] + first.failing[:, m] * second.solved[:, more],
                first.spent[:, m] + first.failing[:, m] * second.spent[:, more],
                (
                    solved[:, m] + failing[:, m] * second.expected[0][:, more],
                    spent[:, m] + failing[:, m] * second.expected[2][:, more],
                ),
            )


def reached(plan: CandidatePlan, branches: Sequence[BranchTries]) -> tuple[Reals, Reals]:
    """Return on each question [n] how often the first branch's tries all fail, and how often one is right."""
    first, tries = branches[plan.branches[0]], plan.most[0]
    return first.failing[:, tries], first.solved[:, tries]
