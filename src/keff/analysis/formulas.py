"""The paper in a few lines: c, K_eff, K* and both votes, of arrays and numbers."""

from __future__ import annotations

from typing import Unpack, overload

import numpy as np

from keff.analysis.front import read
from keff.errors import UsageError
from keff.reading.source import How
from keff.records import Interval
from keff.stats.inference.intervals import interval_c
from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting import choose, diversity
from keff.stats.voting.majority import majority_at_k
from keff.stats.voting.plurality import plurality_at_k


def c(source: object, *, level: float = 0.95, **how: Unpack[How]) -> Interval:
    """Return the correlation of two paths' correctness, without bias, with an interval of this level.

    ``source`` is a 0/1 array [n, K], or anything that ``keff.analyze`` takes. Raises UsageError without gold
    answers, with one path or one question.
    """
    votes = _labelled(source, how)
    if votes.k < 2 or votes.n < 2:
        raise UsageError(f"c needs at least 2 questions with 2 paths each, not {votes.n} x {votes.k}")
    return interval_c(votes, level=level).interval


@overload
def k_eff(k: int, c: Interval) -> Interval: ...
@overload
def k_eff(k: int, c: float) -> float: ...
@overload
def k_eff(k: IntArray, c: float) -> FloatArray: ...
@overload
def k_eff(k: int | IntArray, c: FloatArray) -> FloatArray: ...
def k_eff(k: int | IntArray, c: float | FloatArray | Interval) -> FloatArray | Interval | float:
    """Return K_eff = K/(1+(K-1)c), how many independent paths K correlated ones are worth.

    Arrays broadcast; of an Interval of c comes an Interval. Where c is below -1/(K-1), which no K paths can
    have, the result is infinite.
    """
    if isinstance(c, Interval):
        lo, hi = (None if end is None else float(diversity.k_eff(k, end)) for end in (c.hi, c.lo))
        return Interval(float(diversity.k_eff(k, c.value)), lo, hi, f"from c ({c.method})")
    worth = diversity.k_eff(k, c)
    return float(worth) if np.ndim(worth) == 0 else worth


def k_star(c: float | Interval, epsilon: float = 0.025, k_max: int = 32) -> int:
    """Return the paper's K*: the fewest paths from which the next adds less than ``epsilon`` of the ceiling.

    Raises UsageError for values outside their ranges.
    """
    try:
        return int(choose.k_star(c.value if isinstance(c, Interval) else c, epsilon, k_max))
    except ValueError as error:
        raise UsageError(str(error)) from None


def majority(source: object, **how: Unpack[How]) -> FloatArray:
    """Return the accuracy of a strict majority of right paths at 1..K paths [K], averaged over all subsets.

    ``source`` is a 0/1 array [n, K], or anything that ``keff.analyze`` takes. Ties count one half.
    """
    return majority_at_k(_labelled(source, how))


def plurality(source: object, **how: Unpack[How]) -> FloatArray:
    """Return the accuracy of the most frequent answer at 1..K paths [K], averaged over all subsets.

    ``source`` is nested lists of answers with ``gold_answer=[...]``, or anything that ``keff.analyze``
    takes. Correctness alone does not say which wrong answers agree, so that of a 0/1 array is unknown.
    """
    votes = _labelled(source, how)
    if votes.answers is None:
        raise UsageError(
            "correctness alone does not say which wrong answers agree: give the answers "
            "with gold_answer=[...], or use keff.majority"
        )
    return plurality_at_k(votes)


def _labelled(source: object, how: How) -> Votes:
    votes = read(source, how).ballot.votes
    if votes.correct is None:
        raise UsageError(
            "without gold answers correctness is unknown: give gold_answer=[...] or correct=[[...]]"
        )
    return votes
