"""What one policy does on recorded paths: expectations of each item over orders of drawing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.errors import PolicyError
from keff.policy import Policy, Sample, Stop, Vectorised, View, Weighting, for_one_model
from keff.stats.draws import Draws
from keff.stats.votes import FloatArray, IntArray


@dataclass(frozen=True)
class PolicyOutcome:
    """Expectations for each item [n]: paths, rounds, and where known accuracy and tokens.

    ``agrees`` is the chance of the same answer as plurality at the cap on the same draws; ``noise`` the
    variance of ``accuracy`` that comes from drawing finitely many orders (None: exact).
    """

    paths: FloatArray
    rounds: FloatArray
    agrees: FloatArray
    accuracy: FloatArray | None
    tokens: FloatArray | None
    noise: FloatArray | None = None


@dataclass(frozen=True)
class Walks:
    """Where each order of drawing stopped [n, R]: paths drawn, rounds, and credit where labels are known."""

    stop: IntArray
    rounds: IntArray
    answer: NDArray[np.int16]
    credit: FloatArray | None


def at_once(policy: Policy) -> bool:
    """Return whether a policy follows many orders of drawing at once, itself or by its rule."""
    return isinstance(policy, Vectorised) or isinstance(getattr(policy, "rule", None), Vectorised)


def run(policy: Policy, draws: Draws) -> Walks:
    """Drive a policy along every order of drawing."""
    for_one_model(policy, "a replayed record")
    if "confidence" in policy.needs and draws.confidences is None:
        raise PolicyError(f"{policy.spec} needs a confidence for each path, and these records have none")
    if isinstance(policy, Vectorised):
        stop, rounds = _follow(policy.ahead(draws))
    elif isinstance(getattr(policy, "rule", None), Vectorised):
        stop, rounds = _follow(policy.rule.ahead(draws))  # type: ignore[attr-defined]
    else:
        return _one_by_one(policy, draws)
    if isinstance(policy, Weighting):
        answer, credit = _weighted(draws, policy.weights(draws, stop), stop)
        return Walks(stop, rounds, answer, credit)
    seen = draws.tallies
    return Walks(
        stop, rounds, _at(seen.leader, stop), None if seen.credit is None else _at(seen.credit, stop)
    )


def expectations(walks: Walks, draws: Draws, cap: int) -> PolicyOutcome:
    """Average over the orders of drawing; ``cap`` is where plurality is compared with."""
    tokens = None
    if draws.spent is not None:
        tokens = _at(draws.spent, walks.stop).mean(axis=1)
    return PolicyOutcome(
        paths=walks.stop.mean(axis=1),
        rounds=walks.rounds.mean(axis=1),
        agrees=(walks.answer == draws.tallies.leader[:, :, cap]).mean(axis=1),
        accuracy=None if walks.credit is None else walks.credit.mean(axis=1, dtype=np.float64),
        tokens=tokens,
    )


def drive(
    policy: Policy, keys: list[str | None], confidences: list[float]
) -> Iterator[tuple[int, Sample | Stop]]:
    """Yield each decision of a policy, live, with the number of paths it saw; the last is the stop."""
    n = 0
    while True:
        decision = policy.decide(View(keys[:n], confidences[:n]))
        yield n, decision
        if isinstance(decision, Stop):
            return
        if n + decision.m > policy.cap:
            raise PolicyError(f"{policy.spec} asks for path {n + decision.m}, above its cap {policy.cap}")
        n += decision.m


def _follow(ahead: NDArray[Any]) -> tuple[IntArray, IntArray]:
    rows = ahead.reshape(-1, ahead.shape[2])
    at, rounds = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    going = np.arange(len(rows))
    while len(going):
        step = rows[going, at[going]]
        going, step = going[step > 0], step[step > 0]
        at[going] += step
        rounds[going] += 1
    return at.reshape(ahead.shape[:2]), rounds.reshape(ahead.shape[:2])


def _at(values: NDArray[Any], stop: IntArray) -> NDArray[Any]:
    return np.take_along_axis(values, stop[..., None], axis=2)[..., 0]


def _one_by_one(policy: Policy, draws: Draws) -> Walks:
    shape = draws.codes.shape[:2]
    stop, rounds = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    answer, credit = np.full(shape, -1, np.int16), np.zeros(shape)
    for place in np.ndindex(shape):
        codes = draws.codes[place]
        keys = [None if code < 0 else str(code) for code in codes.tolist()]
        scores: list[float] = [] if draws.confidences is None else draws.confidences[place].tolist()
        for count, (n, decision) in enumerate(drive(policy, keys, scores)):
            if isinstance(decision, Stop):
                stop[place], rounds[place] = n, count
                answer[place] = -1 if decision.answer is None else int(decision.answer)
        held = codes[: stop[place]] == answer[place]
        if draws.correct is not None and answer[place] >= 0 and held.any():
            credit[place] = draws.correct[place][: stop[place]][held].mean()
    return Walks(stop, rounds, answer, None if draws.correct is None else credit)


def _weighted(
    draws: Draws, weights: FloatArray, stop: IntArray
) -> tuple[NDArray[np.int16], FloatArray | None]:
    """Return the answer of the weighted vote and its credit; ties are split, to nine digits."""
    drawn = np.arange(draws.cap) < stop[..., None]
    best, answer = np.zeros(stop.shape), np.full(stop.shape, -1, np.int16)
    total, tied = np.zeros(stop.shape), np.ones(stop.shape)
    for code in range(draws.width):
        held = (draws.codes == code) & drawn
        weight = (weights * held).sum(axis=2)
        right = np.zeros(stop.shape)
        if draws.correct is not None:
            right = (draws.correct * held).sum(axis=2) / np.maximum(held.sum(axis=2), 1)
        leads = weight > best * (1 + 1e-9)
        joins = ~leads & (weight > 0) & (weight >= best * (1 - 1e-9))
        total = np.where(leads, right, np.where(joins, total + right, total))
        tied = np.where(leads, 1, np.where(joins, tied + 1, tied))
        answer[leads] = code
        best = np.where(leads, weight, best)
    return answer, None if draws.correct is None else total / tied
