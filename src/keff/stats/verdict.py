"""What a pilot says about voting at all: the posterior of its gain, and what follows for the money."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from keff.records import Interval
from keff.stats.choose import Recommendation
from keff.stats.correlation import agreement
from keff.stats.learned import GAIN_MEAN, GAIN_SD
from keff.stats.meeting import right_answers_meet
from keff.stats.plurality_model import Forecaster, PluralityForecast
from keff.stats.votes import FloatArray, Votes

WORTH = 0.005
"""The least gain in accuracy for which more paths are paid."""

REGRET = 0.0025
"""A decision is taken when it is expected to cost at most this much accuracy against knowing the gain."""

SHOWN = 1.2816
"""Standard errors (one-sided 90%) by which votes alone must show a gain before a prior may say ``sample``:
records hold few workloads where voting hurts, and their base rate is no evidence about this one."""

HARM = 0.9
"""From this chance of a negative gain on, the verdict says that voting lowers accuracy."""

WIDE_WEIGHT, WIDE_SD = 0.1, 0.05
"""Records hold few workloads where voting hurts: this much of the prior is symmetric and wide."""

FEWEST_QUESTIONS = 10
"""Fewer independent questions decide nothing, not even how many would."""

USUAL_QUESTIONS = 50
"""So many questions of eight paths settle most recorded workloads."""

MOST_QUESTIONS = 100_000

HALVINGS = 60
"""Halvings of an interval that leave a root as exact as a double is."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do about voting, and why.

    ``gain`` is plurality at the cap minus one path: posterior mean with a 95% interval, which holds what the
    votes alone allow too (None without labels or answers), ``chance_positive`` the posterior chance that it
    is above 0. ``questions_needed``
    is how many questions of as many paths would settle a pilot that is too small, where any number would.
    ``most_paths`` is the pilot's K where the sign of what more paths bring is not known, else None: draw at
    most as many. ``reason`` is one sentence.
    """

    verdict: Recommendation
    gain: Interval | None
    chance_positive: float | None
    questions_needed: int | None
    most_paths: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Belief:
    """A mixture of normal laws of the gain: ``weight``, ``mean`` and ``sd`` [m]."""

    weight: FloatArray
    mean: FloatArray
    sd: FloatArray

    @property
    def expected(self) -> float:
        """The mean of the mixture."""
        return float(self.weight @ self.mean)

    def above(self, x: float) -> float:
        """Return the chance of a gain above ``x``."""
        return float(self.weight @ ndtr((self.mean - x) / self.sd))

    def excess(self, x: float) -> float:
        """Return the expected positive part of the gain over ``x``."""
        z = (self.mean - x) / self.sd
        density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
        return float(self.weight @ (self.sd * (density + z * ndtr(z))))

    def quantile(self, share: float) -> float:
        """Return the gain below which a ``share`` of the mixture lies."""
        far = 40 * float(self.sd.max())
        low, high = float(self.mean.min()) - far, float(self.mean.max()) + far
        # By halves: importing scipy.optimize for this one root takes longer than analysing most pilots.
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if 1 - self.above(middle) < share else (low, middle)
        return (low + high) / 2

    def updated(self, value: float, error: float) -> Belief:
        """Return the posterior after a measurement with this standard error."""
        total = self.sd**2 + error**2
        fit = np.log(self.weight) - 0.5 * (value - self.mean) ** 2 / total - 0.5 * np.log(total)
        weight = np.exp(fit - fit.max())
        mean = (self.mean * error**2 + value * self.sd**2) / total
        return Belief(weight / weight.sum(), mean, np.sqrt(self.sd**2 * error**2 / total))


def judge_voting(votes: Votes, cap: int = 32) -> Verdict:
    """Return what a pilot says about voting up to ``cap`` paths.

    The gain of plurality at the cap over one path is measured (beyond the recorded paths predicted, see
    ``predict_plurality``) with its standard error. The prior is what recorded workloads show for each unit of
    within-question variance of correctness (``stats.learned``), a tenth of it replaced by a symmetric law
    around 0 with a standard deviation of 5 points; where right answers may not meet, as much more as
    that is likely (``right_answers_meet``), for there the records do not tell.

    Voting is worth its paths when it gains half a point. With G the gain, drawing more paths is expected to
    bring E[G] - 0.005 and one path 0; the verdict is the larger of both when it is expected to be at most a
    quarter of a point short of knowing G, and ``pilot too small`` otherwise, or below ten independent
    questions. ``sample`` also takes a second witness: the votes alone, without a prior and without a shape of
    how questions differ (``Forecaster.unshaped``), must show a gain with one-sided 90%. One path is ``do not
    vote`` when G < 0 has a chance of at least 0.9. Without labels the verdict is ``sample``, for nothing can
    speak against it. Raises ValueError for cap < 1.
    """
    if cap < 1:
        raise ValueError("a vote needs a cap of at least one path")
    early = _without_estimate(votes, cap)
    if early is not None:
        return early
    forecaster = Forecaster(votes, [cap])
    (forecast,) = forecaster.forecasts(0.95)
    witness, prior = forecaster.unshaped(cap), _prior(votes)
    posterior = prior.updated(forecast.over_one.value, _error(votes, forecast))
    gain = _gain(posterior, witness)
    tiny = votes.n_clusters < FEWEST_QUESTIONS
    verdict = "pilot too small" if tiny else _decide(posterior, witness)
    needed = None
    if verdict == "pilot too small":
        needed = USUAL_QUESTIONS if tiny else _questions_needed(votes, forecast, prior, witness)
    most = None if forecast.sign_known else votes.k
    reason = _reason(verdict, posterior, votes, needed)
    return Verdict(verdict, gain, posterior.above(0.0), needed, most, reason)


def within_variance(votes: Votes) -> float:
    """Return the mean variance of correctness between paths of one question, E theta(1 - theta), unbiased."""
    right = votes.counts
    return float(np.mean(right * (votes.k - right)) / (votes.k * (votes.k - 1)))


def _without_estimate(votes: Votes, cap: int) -> Verdict | None:
    """Return the verdict where no gain can be estimated, or where there is none to estimate."""
    if votes.answers is None:
        return _plain("pilot too small", "the record holds no answers, only correctness")
    if bool(np.all(votes.answers < 0)):
        return _plain(
            "single path", "no path gave an answer that could be read, so there is nothing to vote on"
        )
    if votes.k > 1 and votes.n_clusters >= FEWEST_QUESTIONS and agreement(votes) == 0:
        return _plain("single path", "no two paths of any question agree, so a vote has nothing to count")
    if votes.correct is None:
        return _plain("sample", "without gold answers nothing says whether voting helps")
    if votes.k < 2 or votes.n < 2:
        what = "one path per question" if votes.k < 2 else "one question"
        return _plain("pilot too small", f"{what} cannot show whether voting helps")
    return _plain("single path", "a cap of one path is no vote") if cap == 1 else None


def _plain(verdict: Recommendation, reason: str) -> Verdict:
    return Verdict(verdict, None, None, None, None, reason)


def _prior(votes: Votes) -> Belief:
    within = max(within_variance(votes), 1e-3)
    wide = WIDE_WEIGHT + (1 - WIDE_WEIGHT) * float(right_answers_meet(votes).chance_below())
    means, sds = [GAIN_MEAN * within, 0.0], [GAIN_SD * within, WIDE_SD]
    return Belief(np.array([max(1 - wide, 1e-9), wide]), np.array(means), np.array(sds))


def _gain(belief: Belief, witness: tuple[float, float]) -> Interval:
    """Return the posterior mean, with the 95% intervals of the posterior and of the votes alone as one.

    Where a curve turns after the pilot, the posterior knows nothing of it.
    """
    value, half = witness[0], 1.96 * witness[1]
    lo, hi = min(belief.quantile(0.025), value - half), max(belief.quantile(0.975), value + half)
    return Interval(belief.expected, lo, hi, "posterior of the gain, or the votes alone")


def _error(votes: Votes, forecast: PluralityForecast, times: float = 1.0) -> float:
    """Return the standard error of the gain, as if the pilot had ``times`` as many questions.

    At least half a question's worth, so that a pilot without any spread does not claim certainty; the
    variance is that of Student's t.
    """
    units = votes.n_clusters * times
    sampling = max(forecast.error / times**0.5, 0.5 / units) * (max(units - 1, 3) / max(units - 3, 1)) ** 0.5
    return float(np.hypot(sampling, forecast.between))


def _regret(belief: Belief) -> float:
    """Return the accuracy that knowing the gain is expected to be worth."""
    return belief.excess(WORTH) - max(belief.expected - WORTH, 0.0)


def _decide(belief: Belief, witness: tuple[float, float]) -> Recommendation:
    if _regret(belief) > REGRET:
        return "pilot too small"
    if belief.expected > WORTH:
        seen, error = witness
        return "sample" if seen > SHOWN * error else "pilot too small"
    return "do not vote" if belief.above(0.0) <= 1 - HARM else "single path"


def _questions_needed(
    votes: Votes, forecast: PluralityForecast, prior: Belief, witness: tuple[float, float]
) -> int | None:
    """Return the least number of questions (by steps of a tenth) that would settle it if the gain stays."""
    value, start = forecast.over_one.value, max(votes.n_clusters, FEWEST_QUESTIONS)
    for step in range(200):
        questions = start * 1.1**step
        if questions > MOST_QUESTIONS:
            return None
        times = questions / votes.n_clusters
        later = prior.updated(value, _error(votes, forecast, times))
        if _decide(later, (witness[0], witness[1] / times**0.5)) != "pilot too small":
            per_unit = votes.n / votes.n_clusters
            return _rounded(questions * per_unit)
    return None


def _rounded(questions: float) -> int:
    """Round up to two digits."""
    size = 10 ** max(len(str(int(questions))) - 2, 0)
    return int(np.ceil(questions / size)) * size


def _reason(verdict: Recommendation, belief: Belief, votes: Votes, needed: int | None) -> str:
    gain, positive = 100 * belief.expected, belief.above(0.0)
    if verdict == "sample":
        return f"voting is expected to gain {gain:.1f} points, and helps with a chance of {positive:.0%}"
    if verdict == "do not vote":
        return f"voting is expected to lose {-gain:.1f} points, and hurts with a chance of {1 - positive:.0%}"
    if verdict == "single path":
        return f"voting is expected to change accuracy by {gain:+.1f} points, less than its paths are worth"
    questions = "1 question" if votes.n == 1 else f"{votes.n} questions"
    would = (
        f"about {needed} questions of {votes.k} paths would"
        if needed
        else "more questions alone would not, so record more paths per question"
    )
    return f"{questions} of {votes.k} paths cannot show whether voting helps; {would}"
