"""Which policy to deploy, from a pilot alone: the verdict, the rule, and what it is expected to do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from keff.analysis.recommend.forecast import SAFE, SINGLE, Forecast, forecast, safe_default
from keff.errors import PolicyError
from keff.records import Estimate
from keff.stats.choose import Recommendation as Verdict
from keff.stats.votes import Votes

LEAST_ITEMS, LEAST_PATHS = 10, 3
"""A smaller pilot says nothing about which policy."""

RETAIN = 0.99
"""The aim when none is stated."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What the user wants of a policy; at most one aim.

    ``retain``: at least this share of the accuracy of plurality at the cap, at least paths (0.99 when
    nothing is stated). ``budget``: the most accuracy at this many mean paths per question. Or the most
    ``value_per_correct`` * accuracy - ``cost_per_path`` * paths. Raises PolicyError outside the ranges.
    """

    retain: float | None = None
    budget: float | None = None
    value_per_correct: float | None = None
    cost_per_path: float | None = None

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.retain, self.budget, self.value_per_correct)) > 1:
            raise PolicyError("state one aim: retain, budget, or value_per_correct with cost_per_path")
        if (self.value_per_correct is None) != (self.cost_per_path is None):
            raise PolicyError("value_per_correct and cost_per_path go together")
        if self.retain is not None and not 0 < self.retain <= 1:
            raise PolicyError(f"retain must be above 0 and at most 1, not {self.retain:g}")
        if self.budget is not None and not 1 <= self.budget < np.inf:
            raise PolicyError(f"budget must be at least 1 path per question, not {self.budget:g}")
        if self.value_per_correct is not None and not 0 < self.value_per_correct < np.inf:
            raise PolicyError("value_per_correct must be above 0")
        if self.cost_per_path is not None and not 0 <= self.cost_per_path < np.inf:
            raise PolicyError("cost_per_path must not be negative")

    @property
    def stated(self) -> bool:
        """Whether the user stated any aim."""
        return not (self.retain is None and self.budget is None and self.value_per_correct is None)


@dataclass(frozen=True, slots=True)
class Advice:
    """A recommendation: the policy spec to deploy, and what it should do on questions like the pilot's.

    ``expected`` is the plurality accuracy (None without labels), with a 95% interval for the accuracy on
    twice as many new questions as the pilot has; ``kept`` its share of the accuracy at the cap; ``differs``
    how often the answer is not that of the cap. ``expected_tokens`` is None when the pilot counts none.
    """

    verdict: Verdict
    policy: str
    expected: Estimate | None
    expected_paths: float | None
    expected_tokens: float | None
    kept: float | None
    differs: float | None
    because: str


def recommend(pilot: Votes, aim: Aim, verdict: Verdict, *, cap: int = 32, rng: np.random.Generator) -> Advice:
    """Choose the policy for an aim from the answers of a pilot, and its labels where there are any.

    ``verdict`` is what the labels say about voting at all (without labels: ``sample``). ``do not vote``
    gives ``fixed:1``, and so does ``single path`` unless the aim is a share to retain or a value. A pilot
    below 10 questions or 3 paths gives the safe default, and so does ``pilot too small`` when no aim is
    stated. Otherwise the cheapest (or, for a budget, the most faithful) of a family of ``budget`` rules on
    simulated questions like the pilot's.
    """
    if pilot.answers is None or pilot.k < 2:
        why = "the pilot holds no answers" if pilot.answers is None else "the pilot has one path per question"
        return Advice("pilot too small", safe_default(cap), None, None, None, None, None, why)
    return advise(pilot, forecast(pilot, cap, rng), aim, verdict)


def advise(pilot: Votes, found: Forecast, aim: Aim, verdict: Verdict) -> Advice:
    """Choose as ``recommend`` does, from the forecast of the pilot."""
    tiny = pilot.n < LEAST_ITEMS or pilot.k < LEAST_PATHS
    if tiny or (verdict == "pilot too small" and not aim.stated):
        groups = "" if pilot.n_clusters == pilot.n else f" in {_count(pilot.n_clusters, 'cluster')}"
        why = f"{_count(pilot.n, 'question')}{groups} x {_count(pilot.k, 'path')} cannot say more"
        return _advice(pilot, found, SAFE, "pilot too small", why)
    if verdict == "do not vote":
        return _advice(pilot, found, SINGLE, verdict, "voting lowers accuracy on this pilot")
    if verdict == "single path" and (aim.budget is not None or not aim.stated):
        return _advice(pilot, found, SINGLE, verdict, "more paths add less than half a point on this pilot")
    index, why = choose(found, aim)
    if verdict == "single path" and index != SINGLE:
        why = f"more paths add less than half a point on this pilot, and your aim asks for {why}"
    return _advice(pilot, found, index, verdict, why)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def choose(found: Forecast, aim: Aim) -> tuple[int, str]:
    """Return the candidate that serves the aim best, and why in a few words."""
    if aim.budget is not None:
        return _within(found, aim.budget)
    if aim.value_per_correct is not None and aim.cost_per_path is not None:
        worth = -aim.value_per_correct * found.lost - aim.cost_per_path * found.paths
        if aim.cost_per_path == 0:
            return int(np.argmax(worth)), "paths cost nothing, so the most accuracy"
        why = f"one more correct answer is worth {aim.value_per_correct / aim.cost_per_path:g} paths"
        return int(np.argmax(worth)), why
    return _retaining(found, RETAIN if aim.retain is None else aim.retain)


def _retaining(found: Forecast, share: float) -> tuple[int, str]:
    enough = found.lost <= (1 - share) * found.level
    best = np.where(enough, found.paths, np.inf)
    known = "" if found.accuracy is not None else ", if answers are right as often as paths agree (no labels)"
    kept = f"{100 * share:.6g}%"
    return int(np.argmin(best)), f"the fewest paths that keep {kept} of the accuracy at the cap{known}"


def _within(found: Forecast, budget: float) -> tuple[int, str]:
    affordable = found.paths <= budget
    best = np.where(affordable, found.loss + 1e-9 * found.paths, np.inf)
    return int(np.argmin(best)), f"the closest to the vote at the cap within {budget:g} paths per question"


def _advice(pilot: Votes, found: Forecast, index: int, verdict: Verdict, why: str) -> Advice:
    paths, differs = float(found.paths[index]), float(found.differs[index])
    expected, kept = _expected(pilot, found, index)
    tokens = None if found.tokens is None else float(found.tokens[index])
    claim = f"same answer as {_count(len(found.share) - 1, 'path')} on {1 - differs:.1%} of questions"
    return Advice(
        verdict=verdict,
        policy=found.candidates.specs[index],
        expected=expected,
        expected_paths=paths,
        expected_tokens=tokens,
        kept=kept,
        differs=differs,
        because=f"{why}: {paths:.1f} path{'' if paths == 1 else 's'} a question expected, {claim}",
    )


def _expected(pilot: Votes, found: Forecast, index: int) -> tuple[Estimate | None, float | None]:
    if found.accuracy is None or found.error is None:
        return None, None
    if index == SINGLE and found.single is not None:
        value, error = found.single.value, found.single.sd  # measured: the slope would say the opposite of it
    else:
        value = float(np.clip(found.accuracy - found.lost[index], 0, 1))
        error = float(np.hypot(found.error, found.slope.sd * found.loss[index]))
    # The new questions are a sample too: twice as many of them vary half as much as the pilot did. The size
    # was chosen among equal, twice and unlimited by coverage on the records of benchmarks/frontier.py.
    half = float(stdtrit(max(pilot.n_clusters - 1, 1), 0.975)) * error * 1.5**0.5
    limits = max(value - half, 0.0), min(value + half, 1.0)
    kept = value / found.accuracy if found.accuracy > 0 else None
    return Estimate(value, *limits, "simulated from the pilot", pilot.n_clusters, pilot.k), kept
