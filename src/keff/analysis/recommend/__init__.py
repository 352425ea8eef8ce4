"""Which policy to deploy, from a pilot alone: the verdict, the rule, and what it is expected to do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from keff.analysis.recommend.aim import RETAIN, Aim
from keff.analysis.recommend.choose import choose, needed_items, retaining_surely, that_passes, within
from keff.analysis.recommend.kept import cross_fitted, paths_interval, predicted, replayed
from keff.analysis.recommend.outlook import Material, Outlook, believe, gather
from keff.analysis.recommend.rules import CURTAILED, SAFE, SINGLE, safe_default
from keff.analysis.replay import Replaying
from keff.analysis.replay.refit import Pilot
from keff.analysis.results.decision import Kept
from keff.policy import parse_policy
from keff.records import Estimate, Interval
from keff.stats.choose import Recommendation as Verdict
from keff.stats.correlation import agreement
from keff.stats.votes import FloatArray, Votes

__all__ = ["RETAIN", "Advice", "Aim", "recommend"]

LEAST_ITEMS, LEAST_PATHS = 10, 3
"""A smaller pilot says nothing about which policy."""

SURE = 0.9
"""How sure the alternative is whose price is printed beside a recommendation."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A recommendation: the policy spec to deploy, and what it should do on questions like the pilot's.

    ``expected`` is the plurality accuracy (None without labels), with a 95% interval for the accuracy on
    twice as many new questions as the pilot has; ``kept`` its share of the accuracy at the cap; ``differs``
    how often the answer is not that of the cap. ``paths`` are the mean paths of a question, with a 95%
    interval for as many new questions as the pilot has. ``expected_tokens`` is None when the pilot counts
    none. ``replayed`` is what the policy keeps on all questions of the pilot, where it holds at least ``cap``
    paths of each, so that rules were replayed instead of simulated.
    """

    verdict: Verdict
    policy: str
    expected: Estimate | None
    paths: Interval | None
    expected_tokens: float | None
    kept: Kept | None
    differs: float | None
    because: str
    replayed: Interval | None = None

    @property
    def expected_paths(self) -> float | None:
        """The mean paths of a question."""
        return None if self.paths is None else self.paths.value


def recommend(pilot: Votes, aim: Aim, verdict: Verdict, *, cap: int = 32, rng: np.random.Generator) -> Advice:
    """Choose the policy for an aim from the answers of a pilot, and its labels where there are any.

    ``verdict`` is what the labels say about voting at all (without labels: ``sample``). ``do not vote``
    gives ``fixed:1``, and so does ``single path`` unless the aim is a share to retain or a value. A pilot
    below 10 questions or 3 paths gives the safe default, as does one without a vote to count, and so does
    ``pilot too small`` when no aim is stated. Otherwise the cheapest (or, for a budget, the most faithful)
    of a family of ``budget`` rules on simulated questions like the pilot's; on the recorded paths themselves
    where there are at least ``cap`` of each question.
    """
    if why := _nothing_to_count(pilot):
        once = verdict in ("single path", "do not vote")
        policy, verdict = ("fixed:1", verdict) if once else (safe_default(cap), "pilot too small")
        paths = Interval(1.0, 1.0, 1.0, "one path") if once else None
        return Advice(verdict, policy, None, paths, None, None, None, why)
    known = gather(pilot, cap, rng)
    outlook = believe(known)
    decision = _decide(pilot, outlook, aim, verdict)
    if decision.chosen and known.bench is not None and outlook.accuracy is not None and aim.asks_share:
        decision = decision._replace(rule=that_passes(outlook, known.bench, decision.rule, aim))
    return _advice(pilot, known, outlook, aim, decision)


def _nothing_to_count(pilot: Votes) -> str | None:
    if pilot.answers is None:
        return "the pilot holds no answers"
    if pilot.k < 2:
        return "the pilot has one path per question"
    if bool(np.all(pilot.answers < 0)):
        return "no path of the pilot gave an answer that could be read, so there is no vote to count"
    if agreement(pilot) == 0:
        return "no two paths of any question agree, so there is no vote to count"
    return None


class _Decision(NamedTuple):
    """The place of the rule, the verdict, why, and whether the aim chose the rule, not the verdict."""

    rule: int
    verdict: Verdict
    why: str
    chosen: bool = False


def _decide(pilot: Votes, outlook: Outlook, aim: Aim, verdict: Verdict) -> _Decision:
    tiny = pilot.n < LEAST_ITEMS or pilot.k < LEAST_PATHS
    if tiny or (verdict == "pilot too small" and not aim.stated and aim.confidence is None):
        groups = "" if pilot.n_clusters == pilot.n else f" in {_count(pilot.n_clusters, 'cluster')}"
        why = f"{_count(pilot.n, 'question')}{groups} x {_count(pilot.k, 'path')} cannot say more"
        return _Decision(SAFE, "pilot too small", why)
    if verdict == "do not vote":
        return _Decision(SINGLE, verdict, "voting lowers accuracy on this pilot")
    if verdict == "single path" and (not aim.asks_share or not aim.stated) and aim.value_per_correct is None:
        return _Decision(SINGLE, verdict, "more paths add less than half a point on this pilot")
    index, why = choose(outlook, aim)
    if verdict == "single path" and index != SINGLE:
        why = f"more paths add less than half a point on this pilot, and your aim asks for {why}"
    if index == CURTAILED and aim.asks_share and aim.share < 1:
        why = f"{why}; no rule that may change the answer can be trusted to{_more(pilot, outlook, aim)}"
    return _Decision(index, verdict, why, chosen=True)


def _more(pilot: Votes, outlook: Outlook, aim: Aim) -> str:
    times = needed_items(outlook, aim)
    if times is None:
        return ", and more questions of this kind would not change that"
    return f" until about {pilot.n * times} questions are labelled"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _advice(pilot: Votes, known: Material, outlook: Outlook, aim: Aim, decision: _Decision) -> Advice:
    index, chosen = decision.rule, decision.chosen
    differs, paths = float(outlook.differs[index]), paths_interval(known, outlook, index)
    cap = len(outlook.leader) - 1
    claim = f"same answer as {_count(cap, 'path')} on {1 - differs:.1%} of questions"
    mean = f"{paths.value:.1f} path{'' if paths.value == 1 else 's'} per question expected"
    return Advice(
        verdict=decision.verdict,
        policy=outlook.specs[index],
        expected=_expected(pilot, outlook, index, measured=known.recorded),
        paths=paths,
        expected_tokens=_tokens(pilot, known, index),
        kept=_kept(known, outlook, index, aim, chosen=chosen),
        differs=differs,
        because=f"{decision.why}: {mean}, {claim}{_beside(outlook, index, aim) if chosen else ''}",
        replayed=_on_record(pilot, known, outlook.specs[index]),
    )


def _on_record(pilot: Votes, known: Material, spec: str) -> Interval | None:
    """Return what the rule keeps on all recorded questions, to the digit as ``keff replay`` prints it."""
    one_prompt = pilot.slots is None or len(np.unique(pilot.slots)) == 1
    if known.bench is None or pilot.correct is None or not one_prompt:
        return None
    how = Replaying()
    row = known.bench.judge(parse_policy(spec), how.replicates, Pilot(1, 1))  # a pilot only for fitted rules
    return row.kept


def _kept(known: Material, outlook: Outlook, index: int, aim: Aim, *, chosen: bool) -> Kept | None:
    """Return what the rule keeps, cross-fitted where it was chosen by replay.

    None without labels, and where less than half an answer at the cap is right: no share of nothing is known.
    """
    if outlook.accuracy is None or outlook.level * known.groups < 0.5:
        return None
    if not known.recorded:
        return predicted(known, outlook, index, aim)
    several = known.groups > 1
    return cross_fitted(known, aim) if chosen and several else replayed(known, index, aim)


def _tokens(pilot: Votes, known: Material, index: int) -> float | None:
    if pilot.tokens is None:
        return None
    rows = slice(None) if known.sample is None else known.sample
    return float((item_tokens(pilot.tokens)[rows] * known.played.paths[:, index]).mean())


def item_tokens(tokens: FloatArray) -> FloatArray:
    """Return the mean tokens of a path of each question [n]; the mean of all where none was counted."""
    known = ~np.isnan(tokens)
    count = known.sum(axis=1)
    total = np.where(known, tokens, 0.0).sum(axis=1)
    overall = total.sum() / max(count.sum(), 1)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), overall), np.float64)


def _beside(outlook: Outlook, index: int, aim: Aim) -> str:
    """Say what the other reading of the aim would cost or keep."""
    if aim.budget is not None:
        other = within(outlook, aim.budget, sure=0)
        if other == index or outlook.accuracy is None:
            return ""
        return (
            f"; as likely as not within {aim.budget:g} paths (budget_mean): {outlook.specs[other]}, "
            f"expected to keep {_share(outlook, other):.2%} instead of {_share(outlook, index):.2%}"
        )
    if aim.budget_mean is not None or aim.value_per_correct is not None or outlook.accuracy is None:
        return ""
    if aim.confidence is not None:
        other, _ = choose(outlook, replace(aim, confidence=None))
        return f"; on average over workloads {outlook.paths[other]:.1f} paths keep it"
    sure = float(outlook.paths[retaining_surely(outlook, aim.share, SURE)])
    return f"; being {SURE:.0%} sure of that on this workload would take {sure:.1f} paths"


def _share(outlook: Outlook, index: int) -> float:
    return 1 - float(outlook.lost[index]) / max(outlook.level, 1e-9)


def _expected(pilot: Votes, outlook: Outlook, index: int, *, measured: bool) -> Estimate | None:
    if outlook.accuracy is None:
        return None
    if index == SINGLE and outlook.single is not None:
        value, error = (
            outlook.single.value,
            outlook.single.sd,
        )  # measured: the slope would say the opposite of it
    else:
        value = float(np.clip(outlook.accuracy.value - outlook.lost[index], 0, 1))
        error = float(np.hypot(outlook.accuracy.sd, outlook.lost_sd[index]))
    # The new questions are a sample too: twice as many of them vary half as much as the pilot did.
    half = float(stdtrit(max(pilot.n_clusters - 1, 1), 0.975)) * error * 1.5**0.5
    limits = max(value - half, 0.0), min(value + half, 1.0)
    method = "replayed" if measured else "simulated from the pilot"
    return Estimate(value, *limits, method, pilot.n_clusters, pilot.k)
