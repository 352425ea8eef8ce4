"""Policies whose paths fly ahead of what is needed, or queue for few slots: seconds, and what was in vain.

One question at a time, or all of them at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from keff.analysis.money import Rates
from keff.analysis.replay.changes import mean_of, seconds_of
from keff.analysis.replay.outcomes import PolicyOutcome, ahead_of
from keff.analysis.results.replay import Batch, InFlight
from keff.errors import UsageError
from keff.policy import Policy
from keff.records import Interval
from keff.stats.draws import Draws
from keff.stats.flights import Flights, fly
from keff.stats.intervals import interval_mean
from keff.stats.queue import serve
from keff.stats.votes import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Lanes:
    """How paths are sent: ``in_flight`` kept asked for at least, and ``slots`` that run at once (None: all).

    ``alone`` is the share of the recorded seconds that a path takes which runs alone: below 1 where paths
    slow each other down and the record was drawn with all slots busy. Raises UsageError outside 1 to 256
    paths, or a share that is not above 0 and at most 1.
    """

    in_flight: int | None = None
    slots: int | None = None
    alone: float = 1.0

    def __post_init__(self) -> None:
        for name, value in (("in-flight", self.in_flight), ("concurrency", self.slots)):
            if value is not None and not 1 <= value <= 256:
                raise UsageError(f"--{name} must be 1 to 256 paths, not {value}")
        if not 0 < self.alone <= 1:
            raise UsageError(f"--alone must be a share above 0 and at most 1, not {self.alone:g}")


OPEN_PER_PLACE = 2
"""So many questions for each place does the sampler work on together."""

BATCHES, QUESTIONS = 12, 20_000
"""A batch is simulated so many times, or until so many questions were answered in all.

Each time with other paths and in another order of its questions.
"""

WHOLE_ROUNDS = Lanes()
"""Nothing flies ahead of a round, and nothing queues."""


def queued(policy: Policy, draws: Draws, lanes: Lanes, outcome: PolicyOutcome) -> PolicyOutcome:
    """Return an outcome whose times hold the waiting for a slot."""
    if lanes.slots is None or draws.seconds is None:
        return outcome
    by_rounds, at_once = _flown(policy, draws, 1, lanes), _flown(policy, draws, policy.cap, lanes)
    if by_rounds is None or at_once is None:
        return outcome
    shape = draws.codes.shape[:2]
    return replace(outcome, wait=by_rounds.wait.reshape(shape), at_once=at_once.wait.reshape(shape))


def in_flight(
    policy: Policy,
    draws: Draws,
    lanes: Lanes,
    outcome: PolicyOutcome,
    rates: Rates | None,
    clusters: IntArray,
) -> InFlight | None:
    """Return what a gateway does with ``--in-flight``: the seconds, and the tokens of paths in vain.

    A path that is cancelled has cost the part of its tokens that its time had come to; one that came back
    unneeded, all of them. None where seconds are unknown.
    """
    if lanes.in_flight is None or draws.seconds is None:
        return None
    flown = _flown(policy, draws, lanes.in_flight, lanes)
    if flown is None:
        return None
    shape = draws.codes.shape
    vain = flown.in_vain.reshape(shape)
    paths = (vain > 0).sum(axis=2).mean(axis=1)
    tokens = None if draws.tokens is None else _mean_of(vain * draws.tokens)
    busy = _mean_of(vain * draws.seconds)
    dollars = None
    if rates is not None and outcome.dollars is not None:
        # Paths that fly ahead are requests of their own.
        dollars = mean_of(outcome.dollars + rates.dollars(paths, paths, tokens, busy), clusters)
    return InFlight(
        paths=lanes.in_flight,
        seconds=seconds_of(flown.wait.reshape(shape[:2]), clusters),
        paths_in_vain=float(paths.mean()),
        tokens_in_vain=None if tokens is None else float(tokens.mean()),
        dollars=dollars,
    )


def batch(
    policy: Policy, draws: Draws, lanes: Lanes, outcome: PolicyOutcome, clusters: IntArray
) -> Batch | None:
    """Return how long all questions take together through the slots; None without slots or seconds.

    A path takes its recorded seconds among as many as there are slots: they should have been recorded so.
    """
    if lanes.slots is None or draws.seconds is None or outcome.busy is None:
        return None
    if (ahead := ahead_of(policy, draws)) is None:
        return None
    n, orders, _ = draws.codes.shape
    rng = np.random.default_rng(0)
    last = np.empty(max(min(orders, BATCHES, QUESTIONS // n), 1))
    took = np.empty((n, len(last)))
    for turn in range(len(last)):
        line = rng.permutation(n)
        asked, seconds = ahead[line, turn, : policy.cap + 1], draws.seconds[line, turn]
        served = serve(asked, seconds, lanes.slots, OPEN_PER_PLACE * lanes.slots, lanes.alone)
        last[turn], took[line, turn] = served.last, served.answered - served.opened
    # The work over the slots has the uncertainty; beyond it the last questions leave slots empty.
    work = interval_mean(outcome.busy * n / lanes.slots, clusters).interval
    beyond = float(last.mean()) - work.value
    lo, hi = (None if end is None else max(end + beyond, 0.0) for end in (work.lo, work.hi))
    whole = Interval(float(last.mean()), lo, hi, f"simulated queue, {work.method}")
    return Batch(n, lanes.slots, whole, seconds_of(took, clusters))


def _mean_of(values: FloatArray) -> FloatArray:
    return np.asarray(values.sum(axis=2, dtype=np.float64).mean(axis=1), np.float64)


def _flown(policy: Policy, draws: Draws, paths: int, lanes: Lanes) -> Flights | None:
    ahead = ahead_of(policy, draws)
    if ahead is None or draws.seconds is None:
        return None
    cap = policy.cap
    seconds = draws.seconds[..., :cap].reshape(-1, cap)
    flown = fly(ahead[..., : cap + 1].reshape(-1, cap + 1), seconds, paths, lanes.slots, lanes.alone)
    vain = np.zeros((len(seconds), draws.cap))
    vain[:, :cap] = flown.in_vain
    return Flights(flown.wait, vain)
