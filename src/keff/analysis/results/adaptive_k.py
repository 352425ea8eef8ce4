"""Result of the paper's Adaptive-K on one record: K*, what it keeps and costs, and whether to follow it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

from keff.analysis.results.decision import Decision, Kept
from keff.analysis.results.words import first_sentence
from keff.policy.spec import PolicySpec
from keff.records import Interval, Result, frozen, percent
from keff.stats.voting.choose import k_eff

Follow: TypeAlias = Literal["yes", "no", "undecided"]


@frozen
class AdaptiveKAdvice(Result):
    """The paper's Adaptive-K (Algorithm 1) on one record, against the decision's reference.

    ``policy`` is ``fixed:K*``, the rule to deploy, and ``k_star`` its K, with ``lo`` and ``hi`` from the 95%
    interval of c. ``reference`` is the mean number of paths of what is drawn today. ``kept`` is the share of
    its accuracy (plurality) that K* keeps, ``accuracy`` that of K*, ``reference_accuracy`` that of the
    reference, from the decision's posterior; None where nothing could be decided. ``measured`` says whether
    both lie within the recorded paths; beyond them they are predicted. The pilot drew ``pilot_paths`` paths
    in all. ``net_cost``, ``repaid_after`` and ``cost_at_1000`` are the paper's (``PilotCost``). ``follow``
    says whether to deploy K* rather than keff's own decision, ``because`` why. ``notes`` say where
    Algorithm 1 replaced c or K*.
    """

    policy: str
    k_star: int
    lo: int
    hi: int
    reference: float
    kept: Kept | None
    accuracy: Interval | None
    reference_accuracy: Interval | None
    pilot_paths: int
    net_cost: float
    repaid_after: float
    cost_at_1000: float
    measured: bool
    follow: Follow = "undecided"
    because: str = ""
    notes: tuple[str, ...] = ()

    def statements(self, decision: Decision, c: Interval | None, ceiling: Interval | None) -> Iterator[str]:
        """Yield what the paper's rule says, what it keeps and costs, and keff's own decision beside it."""
        paths = f"{self.k_star} path{'' if self.k_star == 1 else 's'}"
        between = f" (95% interval {self.lo} to {self.hi})" if self.lo < self.hi else ""
        yield f"The paper's rule, Adaptive-K: draw {paths} per question, K* = {self.k_star}{between}."
        yield f"  {self.policy}"
        yield from self.notes
        if c is not None and ceiling is not None and c.value > 0:
            worth = float(k_eff(self.k_star, c.value))
            yield (
                f"The correlation is c = {c.text()}, so {paths} are worth {worth:.2f} independent ones. No "
                f"number of paths is worth more than {ceiling.text()}."
            )
        if self.policy == decision.reference:
            yield "K* is what it is compared with, so it saves nothing, and the pilot is never paid back."
        else:
            yield self._effect(decision)
            yield self._cost(decision)
        yield f"Follow it? {self.because}"
        yield f"keff's own decision: {first_sentence(decision)}"

    def _effect(self, decision: Decision) -> str:
        if self.kept is None or self.accuracy is None or self.reference_accuracy is None:
            return "keff cannot tell what K* keeps. That takes ten questions or more, some answered right."
        beyond = "" if self.measured else " Not all of these paths were recorded, so this is a forecast."
        return (
            f"On new questions K* is expected to keep {percent(self.kept)} of the accuracy of "
            f"{_today(self, decision)}: {self.accuracy.value:.1%} instead of "
            f"{self.reference_accuracy.value:.1%}.{beyond}"
        )

    def _cost(self, decision: Decision) -> str:
        today = _today(self, decision)
        if self.repaid_after == float("inf"):
            return f"It saves nothing against {today}, so the pilot is never paid back."
        return (
            f"It saves {1 - self.k_star / self.reference:.0%} of {today}. The pilot's "
            f"{self.pilot_paths:,} paths are paid back after {self.repaid_after:,.0f} questions. With a "
            f"pilot for every question, as the paper counts, it costs {self.net_cost:.0%} of them."
        )


def _today(known: AdaptiveKAdvice, decision: Decision) -> str:
    """Return the paths that K* is compared with, and the rule that draws them where it stops early."""
    if PolicySpec.parse(decision.reference).name == "fixed":
        return f"{known.reference:.0f} paths"
    return f"the {known.reference:.1f} paths of {decision.reference}"


def judged(known: AdaptiveKAdvice, decision: Decision, share: float) -> AdaptiveKAdvice:
    """Return the advice with whether to follow K*, and why: it keeps ``share``, and keff draws no fewer."""
    follow, because = _verdict(known, decision, share)
    return replace(known, follow=follow, because=because)


def _verdict(known: AdaptiveKAdvice, decision: Decision, share: float) -> tuple[Follow, str]:
    kept, mine = known.kept, decision.kept
    if known.k_star >= known.reference:
        return "no", f"No: it draws no fewer than {_today(known, decision)}."
    if kept is None:
        return "undecided", "keff cannot tell: see above what is missing."
    if kept.value < share:
        line = f"No: it is expected to keep {kept.value:.1%} of the accuracy, less than {share:.1%}."
        return "no", line
    paths = decision.expected_paths
    if mine is not None and paths is not None and paths.value < known.k_star and mine.value >= share:
        line = (
            f"It is safe, but keff's own decision keeps {mine.value:.1%} with {paths.value:.1f} paths on "
            "average."
        )
        return "no", line
    if kept.lo is not None and kept.lo < share:
        line = f"Probably: {kept.value:.1%} is expected, and as little as {kept.lo:.1%} is possible."
        return "undecided", line
    return "yes", f"Yes: it keeps at least {share:.1%}, and keff's own decision draws no fewer paths."
