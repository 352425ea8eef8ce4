"""How long an answer takes under a policy, from the recorded seconds of a pilot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from keff.analysis.replay import Replaying, replay
from keff.analysis.results.money import Seconds
from keff.policy import parse_policy
from keff.records import Interval
from keff.stats.votes import FloatArray, Votes


def seconds_of(votes: Votes, spec: str) -> Seconds | None:
    """Return the time to answer of a policy, its rounds one after the other; None without seconds or answers.

    Where it may draw more paths than are recorded, those of each question are drawn again. Of a large record
    10,000 questions are timed.
    """
    if votes.seconds is None or votes.answers is None:
        return None
    votes, cap = timed(votes), parse_policy(spec).cap
    longer = cap > votes.k
    drawn = redrawn(votes, 2 * cap) if longer else votes
    how = Replaying(replicates=1, random_slots=True)
    seconds = replay(drawn, [spec], np.random.default_rng(0), how).policies[0].seconds
    if seconds is None or not longer:
        return seconds
    return Seconds(_redrawn(seconds.p50), _redrawn(seconds.p95))


# Of so many questions at most: more would not move a quantile.
TIMED = 10_000


def timed(votes: Votes) -> Votes:
    """Return the votes of the questions whose times are looked at: all, or some of many."""
    if votes.n <= TIMED:
        return votes
    return votes.take(np.sort(np.random.default_rng(1).choice(votes.n, TIMED, replace=False)))


def redrawn(votes: Votes, k: int) -> Votes:
    """Return votes with k paths of each question, drawn again with replacement from the recorded ones."""
    columns = np.random.default_rng(0).integers(0, votes.k, (votes.n, k))

    def pick(values: FloatArray | None) -> FloatArray | None:
        return None if values is None else np.take_along_axis(values, columns, axis=1)

    return Votes(
        answers=np.take_along_axis(votes.answered(), columns, axis=1),
        correct=None,
        clusters=votes.clusters,
        tokens=pick(votes.tokens),
        confidences=pick(votes.confidences),
        closed=votes.closed,
        seconds=pick(votes.seconds),
    )


def _redrawn(value: Interval | None) -> Interval | None:
    if value is None:
        return None
    return replace(value, method="recorded paths drawn again with replacement, cluster_bootstrap")
