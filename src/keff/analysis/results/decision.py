"""Result types of a decision: ``decision``, ``bill`` and ``seconds`` of `keff analyze --json`.

With what things cost and save in dollars and seconds, and what the paths' confidences are worth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from keff.records import Finding, Interval, Result, frozen, number, percent


@frozen
class Seconds(Result):
    """Time to answer of a question: median and 95th percentile, in seconds."""

    p50: Interval | None
    p95: Interval | None


@frozen
class Change(Result):
    """A policy minus ``against``, per question: a saving is negative.

    ``accuracy`` is a difference of shares, ``paths`` of mean paths, ``dollars`` of mean cost; None where
    unknown.
    """

    against: str
    accuracy: Interval | None
    paths: Interval
    dollars: Interval | None


@frozen
class Step(Result):
    """One step of the recorded curve, from ``paths_from`` to ``paths_to`` paths per question.

    ``points`` is the gain in accuracy (a share), ``dollars`` what the step costs per question, and
    ``dollars_per_right_answer`` what one more right answer costs: None where the curve does not rise.
    """

    paths_from: int
    paths_to: int
    points: float
    dollars: float
    dollars_per_right_answer: float | None


@frozen
class CurvePoint(Result):
    """A fixed number of paths on the record: accuracy, mean dollars per question, and the time to answer.

    All paths run at once. None where labels, prices or times are unknown.
    """

    paths: int
    accuracy: Interval | None
    dollars: Interval | None
    seconds: Seconds | None


@frozen
class Bill(Result):
    """Cost of the rule to deploy at the given prices, in dollars.

    ``model`` is the name under which the price stands, ``per_path`` the mean cost of one path drawn alone,
    ``per_question`` that of a question, ``per_1000`` of 1,000 and ``for_volume`` of ``volume`` questions
    (None where nothing was decided). ``steps`` are those of the recorded curve. ``record`` is what drawing
    the record cost, and ``pays_back_after`` how many questions save as much (None without a saving).
    """

    model: str
    per_path: Interval
    per_question: Interval | None
    per_1000: Interval | None
    volume: int | None
    for_volume: Interval | None
    steps: tuple[Step, ...]
    record: float
    pays_back_after: float | None


@frozen
class ReliabilityPoint(Result):
    """The mean chance of being right that was given to ``paths`` paths, and the share of them that is."""

    chance: float
    right: float
    paths: int


@frozen
class ConfidenceWorth(Result):
    """How well one confidence tells right from wrong, and its gain at equal cost.

    ``auc`` is how often the right one of two paths of a question has the higher confidence. ``pays`` says
    whether ``policy``, the best rule that reads it, is more accurate than rules that do not at the same mean
    number of paths, by ``gain_at_equal_cost`` (posterior of the decision, calibrated on other questions);
    False where its AUC is surely close to one half, None where the record does not show it. ``sign`` is -1
    where lower is better; ``unknown`` paths have none and are ordinary votes. ``reliability`` are
    cross-fitted chances in up to ten groups of equal size. ``rating_seconds`` and ``rating_dollars`` are what
    its verifier took and costs for one path on average (None: not known), which rules that read it pay.
    """

    name: str
    auc: Interval
    pays: bool | None
    gain_at_equal_cost: Interval | None
    policy: str | None
    sign: int = 1
    unknown: int = 0
    reliability: tuple[ReliabilityPoint, ...] = ()
    rating_seconds: float | None = None
    rating_dollars: float | None = None

    def sentence(self, named: str = "") -> str:
        """Return the finding in one sentence, of confidences ``named`` where others differ."""
        without = f". {self.unknown} paths have none and count as ordinary votes" if self.unknown else ""
        spent = [] if self.rating_seconds is None else [f"takes {self.rating_seconds:.2g} s"]
        spent += [] if self.rating_dollars is None else [f"costs ${self.rating_dollars:.3g}"]
        paid = f". A rating {' and '.join(spent)}, which keff adds to rules that use it" if spent else ""
        whose = f"Your confidences {named}" if named else "Your confidences"
        return f"{whose} {self._said()}{without}{paid}."

    def _said(self) -> str:
        about = f"AUC {number(self.auc.value)}"
        gain = self.gain_at_equal_cost
        if self.pays is False:
            return f"do not help here ({about})"
        if gain is None and self.reliability:
            worth = "keff measures what they are worth only up to the recorded number of paths"
            return f"tell right paths from wrong ones, but {worth}"
        if gain is None and self.auc.value != self.auc.value:
            both = "both a right and a wrong path"
            return f"are known on no question for {both}, so keff cannot judge them"
        if gain is None:
            return f"may help: so few questions cannot tell (AUC {self.auc.text()})"
        turned = ", lower is better" if self.sign < 0 else ""
        lo, hi = gain.limits or (gain.value, gain.value)
        points = f"{100 * gain.value:+z.1f} points (95% interval {100 * lo:+z.1f} to {100 * hi:+z.1f})"
        verb = "pay" if self.pays else "may pay"
        return f"{verb}: at equal cost {self.policy} changes accuracy by {points}, {about}{turned}"


def confidence_sentences(worth: Sequence[ConfidenceWorth]) -> Iterator[str]:
    """Yield the finding on each confidence; those of which the same is true share a sentence."""
    alike: dict[str, list[ConfidenceWorth]] = {}
    for each in worth:
        alike.setdefault(each.sentence(), []).append(each)
    for same in alike.values():
        yield same[0].sentence(", ".join(each.name for each in same) if len(alike) > 1 else "")


# Whether to vote on several paths, to ask once, or that the record does not decide it.
VotingVerdict: TypeAlias = Literal["vote", "ask once", "undecided", "retry"]


@frozen
class Kept(Interval):
    """The share of a reference policy's accuracy that a policy keeps: a ratio of posterior means.

    At most 1. ``lo`` and ``hi`` are two-sided 95%; None where the reference may never be right on new
    questions, so that the ratio has no bounds. ``confidence`` is the probability that this workload keeps at
    least the share ``asked`` (both None where no share was); ``sure`` the probability that was demanded (None
    unless one was stated). ``of`` is the spec of the reference, the denominator.
    """

    confidence: float | None = None
    sure: float | None = None
    of: str = ""
    asked: float | None = None


@frozen
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


@frozen
class TimedRule(Result):
    """A rule that meets the aim, with cost and time to answer as parts of the reference's.

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


@frozen
class Decision(Finding):
    """The rule to deploy, and the changes against ``reference``, the rule in use today.

    ``verdict`` is None below 10 questions, or if there is nothing to vote on. ``policy`` is the rule to
    deploy, with its cap, and ``because`` a sentence on the verdict. ``kept``, ``change``, ``accuracy``
    and ``expected_paths`` come from one joint posterior; None is what the record cannot say.
    ``run_change`` is the change of accuracy that one run over as many questions may show; it is wider
    than ``change.points``. ``settled`` and ``open`` say what is known and what is not.
    ``questions_needed`` questions show a gain of one point with 80% power. ``measured`` is False if the
    rule or the reference draws more paths than were recorded, so that accuracy is predicted.
    ``agreement`` is how often the answer is the same as the reference's. ``expected_tokens`` are per
    question.

    ``slower`` is the limit on time that was asked for (None: any time, or no times are recorded);
    ``time`` is a sentence if no rule keeps it, ``unmet`` one if no rule within the cap keeps the share
    asked for. ``cheapest`` is the rule without the limit on time, if it is another one. ``timed`` are all
    rules that keep what was asked, the cheapest first.
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
    unmet: str | None = None
    cheapest: TimedRule | None = None
    timed: tuple[TimedRule, ...] = ()

    def statements(self) -> list[str]:
        """Return the decision in sentences, as ``keff analyze`` prints it."""
        from keff.analysis.results.words import sentences

        return sentences(self)

    def line(self) -> str:
        """Return the verdict, the policy and its mean paths."""
        paths = "" if self.expected_paths is None else f", {self.expected_paths.value:.1f} paths per question"
        return f"{self.verdict or 'no decision'}, {self.policy}{paths}"

    def rows(self) -> list[tuple[str, str]]:
        """Return the table of the decision's figures."""
        return [
            ("decision", self.verdict or "none"),
            ("policy", self.policy),
            ("instead of", self.reference),
            ("accuracy", percent(self.accuracy)),
            ("share kept", percent(self.kept)),
            ("paths per question", number(self.expected_paths and self.expected_paths.value)),
            ("because", self.because),
        ]
