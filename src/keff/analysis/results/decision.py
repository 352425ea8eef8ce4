"""What to draw from now on, against what is drawn today: the object ``decision`` of `keff analyze --json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from keff.records import Finding, Interval, Result, number

# Whether to vote on several paths, to ask once, or that the record leaves it open.
VotingVerdict: TypeAlias = Literal["vote", "ask once", "open"]


@dataclass(frozen=True, slots=True)
class Kept(Interval):
    """The share of a reference policy's accuracy that a policy keeps: a ratio of posterior means.

    ``lo`` and ``hi`` are two-sided 95%. ``confidence`` is the probability that this workload keeps at least
    what was asked; ``sure`` the probability that was demanded (None unless one was stated). ``of`` is the
    spec of the reference, the denominator.
    """

    confidence: float | None = None
    sure: float | None = None
    of: str = ""


@dataclass(frozen=True, slots=True)
class Differences(Result):
    """A policy minus its reference: ``paths``, ``tokens`` and ``dollars`` per question, seconds, accuracy.

    ``p50`` and ``p95`` are quantiles of the seconds to the answer over questions, ``points`` is a difference
    of accuracies as a share (-0.004 is 0.4 points less). ``p50_ratio`` and ``p95_ratio`` are the quantiles of
    the time to answer as parts of the reference's: of seconds, or where none are recorded of tokens on the
    critical path. ``dollars`` bill the paths of a fixed number to one prompt (``n`` of one request),
    ``dollars_apart`` one prompt to each; None where both bills are the same. Each has a 95% interval for the
    mean of as many new questions as the record holds; None is what the record cannot say.
    """

    paths: Interval | None = None
    tokens: Interval | None = None
    dollars: Interval | None = None
    p50: Interval | None = None
    p95: Interval | None = None
    points: Interval | None = None
    p50_ratio: Interval | None = None
    p95_ratio: Interval | None = None
    dollars_apart: Interval | None = None


@dataclass(frozen=True, slots=True)
class TimedRule(Result):
    """A rule that keeps what is asked: cost and time to answer as parts of the reference's.

    ``cost`` are dollars where there are prices, else tokens, else paths; ``mean``, ``p50`` and ``p95`` times
    over questions and orders of launching; ``points`` the change of accuracy as a share (None without
    labels). ``dominated``: another rule costs no more and takes no longer at both quantiles.
    """

    policy: str
    cost: float
    mean: float
    p50: float
    p95: float
    points: float | None
    dominated: bool


@dataclass(frozen=True, slots=True, repr=False)
class Decision(Finding):
    """What to draw from now on, and what it changes against ``reference``, what is drawn today.

    ``verdict`` is None below 10 questions and where there is nothing to vote on. ``policy`` is the rule to
    deploy, its cap written, and ``because`` a sentence for the verdict. ``kept``, ``change``, ``accuracy``
    and ``expected_paths`` are read from one joint posterior; None is what the record cannot say.
    ``run_change`` is the change of accuracy that one run over as many questions may show, wider than
    ``change.points``. ``settled`` and ``open`` say what is and is not known; ``questions_needed`` is how many
    questions show a gain of one point with 80% power. ``measured`` is False where the cap is above what was
    recorded, so that accuracy is predicted. ``agreement`` is how often the answer is the reference's;
    ``expected_tokens`` are per question. ``slower`` is the bound on time that was asked (None: any time, or
    no times are recorded) and ``time`` a sentence where it could not be kept to; ``cheapest`` the rule
    without the bound, where it is another one, and ``timed`` all rules that keep what is asked, the cheapest
    first.
    """

    verdict: VotingVerdict | None
    policy: str
    because: str
    reference: str
    kept: Kept | None = None
    change: Differences = Differences()
    run_change: Interval | None = None
    accuracy: Interval | None = None
    expected_paths: Interval | None = None
    settled: str | None = None
    open: str | None = None
    questions_needed: int | None = None
    measured: bool = True
    agreement: Interval | None = None
    expected_tokens: Interval | None = None
    slower: float | None = None
    time: str | None = None
    cheapest: TimedRule | None = None
    timed: tuple[TimedRule, ...] = ()

    def __str__(self) -> str:
        """Return it in sentences, as ``keff analyze`` prints it."""
        from keff.analysis.results.decision_words import sentences

        return "\n".join(sentences(self))

    def line(self) -> str:
        """Return the verdict, the policy and its mean paths."""
        paths = "" if self.expected_paths is None else f", {self.expected_paths.value:.1f} paths per question"
        return f"{self.verdict or 'no decision'}, {self.policy}{paths}"

    def rows(self) -> list[tuple[str, str]]:
        """Return what there is to know about it, one line each."""
        return [
            ("decision", self.verdict or "none"),
            ("policy", self.policy),
            ("instead of", self.reference),
            ("accuracy", "–" if self.accuracy is None else self.accuracy.percent()),
            ("share kept", "–" if self.kept is None else self.kept.percent()),
            (
                "paths per question",
                number(None if self.expected_paths is None else self.expected_paths.value),
            ),
            ("because", self.because),
        ]
