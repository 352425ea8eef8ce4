"""What the top of the page says: the recommendation in a sentence, and three numbers."""

from __future__ import annotations

from dataclasses import dataclass

from keff.analysis.matching import RARE
from keff.analysis.results.comparison import Comparison
from keff.analysis.results.recommendation import Recommendation
from keff.analysis.results.rule_words import in_words
from keff.records import Interval
from keff.result import number

BADGES = {
    "sample": "Vote, and stop early",
    "single path": "Ask once",
    "do not vote": "Do not vote",
    "pilot too small": "Pilot too small",
}
SAFE = "adaptive_consistency:0.95"
"""What is recommended when the pilot cannot say, whatever its cap."""

ALL = 0.9995
"""From here on a share in percent with one decimal is 100.0 or more, which reads better as all."""

TONES = {"sample": "go", "single path": "go", "do not vote": "stop", "pilot too small": "wait"}


@dataclass(frozen=True, slots=True)
class Tile:
    """One number with what it is and what it means."""

    label: str
    value: str
    detail: str


@dataclass(frozen=True, slots=True)
class Headline:
    """The recommendation: its tone for colour, a badge, the sentence, the rule, why, and the numbers.

    ``rule`` is what is copied, ``words`` what it does; ``saved`` is the number of the overview.
    """

    tone: str
    badge: str
    sentence: str
    rule: str
    words: str
    because: str
    saved: str
    tiles: tuple[Tile, ...]


def headline(advice: Recommendation, cap: int) -> Headline:
    """Say what to do, what that keeps and what it saves against ``cap`` paths per question."""
    verdict = advice.verdict
    asks_once = verdict == "sample" and advice.policy == "fixed:1"
    saved = _saved(advice, cap)
    return Headline(
        tone=TONES[verdict],
        badge=BADGES["single path" if asks_once else verdict],
        sentence=_sentence(advice, cap),
        rule=advice.policy,
        words=in_words(advice.policy),
        because=advice.because,
        saved=saved.value,
        tiles=(_kept(advice, cap), saved, *_money(advice), *_seconds(advice)),
    )


def _sentence(advice: Recommendation, cap: int) -> str:
    if advice.verdict == "pilot too small":
        return f"This pilot is too small to choose. Until you measure more questions, {_meanwhile(advice)}."
    if advice.verdict == "do not vote" and advice.because.startswith(RARE):
        return (
            "Do not vote yet: answers are rarely equal as written. Settle how they are read, then look again."
        )
    if advice.verdict == "do not vote":
        return "Do not vote: on these questions voting makes the model worse. Ask once."
    if advice.verdict == "single path":
        return "Ask once: more paths add less than half a point of accuracy."
    if advice.policy == "fixed:1":
        return f"Ask once: one path does nearly all that {cap} paths would do."
    if advice.policy.startswith("fixed:"):
        return f"Draw {advice.k} paths per question instead of {cap}."
    paths = "some paths" if advice.expected_paths is None else _paths(advice.expected_paths)
    kept = advice.kept
    if kept is None:
        return f"Stop early: about {paths} per question, mostly with the answer that {cap} would give."
    share = "all" if kept.value >= ALL else f"{kept.value:.1%}"
    return f"Stop early: about {paths} per question keep {share} of the accuracy of {cap}."


def _meanwhile(advice: Recommendation) -> str:
    return "use the safe default" if advice.policy.startswith(SAFE) else "this rule fits your aim best"


def _kept(advice: Recommendation, cap: int) -> Tile:
    kept = advice.kept
    if kept is not None and kept.limits is not None:
        detail = f"95% interval over questions like these{_sure(advice)}"
        return Tile(f"Accuracy kept, of {cap} paths", kept.percent(), detail)
    if advice.expected_plurality is not None:
        detail = "95% interval over questions like these"
        return Tile("Accuracy expected", advice.expected_plurality.percent(), detail)
    value = "unknown" if advice.same_answer is None else number(advice.same_answer, ".1%")
    detail = "simulated from this pilot; without gold answers accuracy cannot be known"
    return Tile(f"Same answer as {cap} paths", value, detail)


def _sure(advice: Recommendation) -> str:
    """Return how sure it is that this workload keeps what was asked."""
    kept = advice.kept
    if kept is None or kept.confidence is None:
        return ""
    return f"; {kept.confidence:.0%} sure that this workload keeps what was asked"


def _saved(advice: Recommendation, cap: int) -> Tile:
    paths, change = advice.expected_paths, advice.change
    if paths is None:
        return Tile("Paths saved", "unknown", "the pilot is too short to say")
    before = float(cap) if change is None else paths - change.paths.value
    label = "Paths saved" if paths <= before else "Paths added"
    if change is not None:
        label += f", against {_today(change.against)}"
    tokens = "" if advice.expected_tokens is None else f", {advice.expected_tokens:,.0f} tokens"
    accuracy = ""
    # Against the cap, what is kept says the same.
    if change is not None and change.accuracy is not None and change.against != f"fixed:{cap}":
        accuracy = f"; accuracy changes by {points(change.accuracy)} points"
    detail = f"{_paths(paths)}{tokens} per question expected, instead of {before:.3g} paths{accuracy}"
    return Tile(label, f"{abs(1 - paths / before):.0%}", detail)


def _today(policy: str) -> str:
    """Return what is deployed today as people say it."""
    name, _, value = policy.partition(":")
    return f"your {value} paths" if name == "fixed" and value.isdigit() else policy


def points(value: Interval | None) -> str:
    """Format a difference of shares in percentage points, with signs."""
    if value is None or value.value != value.value:
        return "–"
    if value.limits is None:
        return f"{100 * value.value:+.1f}"
    lo, hi = value.limits
    return f"{100 * value.value:+.1f} [{100 * lo:+.1f}, {100 * hi:+.1f}]"


def _money(advice: Recommendation) -> tuple[Tile, ...]:
    """Return what a thousand questions cost, where prices are given."""
    bill, change = advice.bill, advice.change
    if bill is None or bill.per_1000 is None:
        return ()
    saved = "" if change is None or change.dollars is None else f", {_signed(1000 * change.dollars.value)}"
    against = "" if not saved or change is None else f" against {_today(change.against)}"
    detail = f"at the prices of {bill.model}{saved}{against}"
    return (Tile("Dollars per 1,000 questions", f"${bill.per_1000.text('.3g')}", detail),)


def _signed(dollars: float) -> str:
    return f"{'−' if dollars < 0 else '+'}${abs(dollars):.3g}"


def _seconds(advice: Recommendation) -> tuple[Tile, ...]:
    """Return the 95th percentile of the time to answer, where seconds are known."""
    seconds = advice.expected_seconds
    if seconds is None or seconds.p95 is None:
        return ()
    style = ".0f" if seconds.p95.value >= 100 else ".1f"
    median = "" if seconds.p50 is None else f"median {seconds.p50.text(style)}, "
    detail = f"{median}rounds one after the other"
    return (Tile("Seconds to answer, 95th percentile", seconds.p95.text(style), detail),)


def _paths(value: float) -> str:
    return "1 path" if value == 1 else f"{value:.1f} paths"


def arms_sentence(compared: Comparison) -> str:
    """Say what two arms show: whether paths agree less in the second, and whether its vote is better."""
    vote = compared.delta_plurality or compared.delta_majority
    agree = _direction(compared.delta_rho, "agree less", "agree more")
    better = _direction(vote, "the vote is worse", "the vote is better")
    if agree is None and better is None:
        return "These questions show no difference, neither in how much paths agree nor in the vote."
    first = f"its paths {agree}" if agree else "no difference is shown in how much its paths agree"
    return f"{first[0].upper()}{first[1:]}; {better or 'no difference of the vote is shown'}."


def _direction(change: Interval, down: str, up: str) -> str | None:
    """Return the word for a change whose interval excludes zero, else None."""
    if change.limits is None:
        return None
    lo, hi = change.limits
    return down if hi < 0 else up if lo > 0 else None
