"""Where a cascade passes questions on: how many reach each stage, and how hard those are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from keff.analysis.mix.orders import Orders, Reals
from keff.analysis.mix.search import along_stages
from keff.policies.cascade import Cascade
from keff.policy import parse_policy
from keff.stats.votes import FloatArray

EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True, slots=True)
class Passed:
    """Questions whose first branch is right in ``lo`` to ``hi`` of its paths.

    How many there are, the share of their votes that the first stage passes on, and their accuracy under the
    first stage alone and under the whole cascade (None where there is no such question).
    """

    lo: float
    hi: float
    questions: int
    passed: float | None
    first: float | None
    whole: float | None


@dataclass(frozen=True, slots=True)
class Escalation:
    """Of a cascade: the share of votes that ``reach`` each branch, in order, and that by difficulty."""

    branches: tuple[str, ...]
    reach: tuple[float, ...]
    by_difficulty: tuple[Passed, ...]


def escalation(spec: str, orders: Orders, names: Sequence[str], accuracy: FloatArray) -> Escalation | None:
    """Return where the policy ``spec`` passes questions on; None for one that has one stage or one round.

    ``accuracy`` [A, n] is the share of right paths of each branch on each question.
    """
    policy = parse_policy(spec)
    if not isinstance(policy, Cascade) or len(policy.stages) < 2:
        return None
    stops = list(along_stages(policy, orders, names))
    whole = np.zeros_like(stops[0].credit)
    for stop in stops:
        whole[stop.rows] = stop.credit
    reach = [len(stop.rows) / len(whole) for stop in stops]
    passed, before, after = (
        orders.means(np.asarray(values, np.float64)) for values in (stops[0].left, stops[0].credit, whole)
    )
    first = accuracy[list(names).index(policy.branches[0])]
    missing = len(policy.stages) - len(reach)
    return Escalation(
        policy.branches, (*reach, *[0.0] * missing), tuple(_binned(first, passed, before, after))
    )


def _binned(first: FloatArray, passed: Reals, before: Reals, after: Reals) -> list[Passed]:
    out: list[Passed] = []
    for lo, hi in pairwise(EDGES):
        inside = (first >= lo) & ((first < hi) | (hi == EDGES[-1]))
        count = int(inside.sum())
        means = [float(values[inside].mean()) if count else None for values in (passed, before, after)]
        out.append(Passed(lo, hi, count, *means))
    return out
