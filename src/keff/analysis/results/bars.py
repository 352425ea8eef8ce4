"""The decision as three pairs of bars, today beside keff: cost, time of the slowest 5%, accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from keff.analysis.results.decision import Bill, Decision, Differences, Seconds
from keff.analysis.results.words import change_in_words, relative, time_in_words
from keff.records import Interval, frozen


@frozen
class BarPair:
    """One figure today and with keff.

    ``change`` says in words how it changes, ``detail`` with which interval ("" for none). ``today`` and
    ``keff`` are the lengths of the bars as shares of the room there is, ``limits`` the interval around the
    end of keff's bar; the texts stand beside them.
    """

    title: str
    change: str
    detail: str
    today: float
    keff: float
    today_text: str
    keff_text: str
    limits: tuple[float, float] | None = None


def bar_pair(title: str, change: str, today: float, keff: float, style: str, unit: str = "") -> BarPair:
    """Return a pair of costs, the longer bar over the whole room."""
    most = max(today, keff) or 1.0
    before, after = ("$", "") if unit == "$" else ("", unit)
    texts = [f"{before}{value:{style}}{after}" for value in (today, keff)]
    return BarPair(title, change, "", today / most, keff / most, texts[0], texts[1])


def accuracy_pair(accuracy: Interval, change: Interval, level: str = "95%") -> BarPair:
    """Return the pair of accuracies; around keff's bar stands the interval of the change, of this level."""
    today = accuracy.value - change.value
    limits = None if change.limits is None else (today + change.limits[0], today + change.limits[1])
    by = round(100 * change.value, 1)
    words = f"{abs(by):.1f} points {'higher' if by > 0 else 'lower'}" if by else "about the same"
    detail = ""
    if change.limits is not None:
        lo, hi = (f"{100 * limit:+z.1f}" for limit in change.limits)
        detail = f"{level} interval of the change: {lo} to {hi} points"
    texts = f"{today:.1%}", f"{accuracy.value:.1%}"
    within = limits and (max(limits[0], 0.0), min(limits[1], 1.0))
    return BarPair("Accuracy", words, detail, today, accuracy.value, *texts, within)


def bar_pairs(decision: Decision, bill: Bill | None, seconds: Seconds | None) -> list[BarPair]:
    """Return the pairs that are known; none without a decision."""
    if decision.verdict is None:
        return []
    return [*_cost(decision, bill), *_time(decision.change, seconds), *_accuracy(decision)]


def _cost(decision: Decision, bill: Bill | None) -> Iterator[BarPair]:
    """Yield dollars where they are priced, else tokens, else paths."""
    dollars = decision.change.dollars
    if bill is not None and bill.per_1000 is not None and dollars is not None:
        keff = bill.per_1000.value
        today = keff - 1000 * dollars.value
        share = keff / today - 1 if today else 0.0
        yield bar_pair("Dollars per 1,000 questions", in_percent(share), today, keff, ".3g", "$")
        return
    for name, mean, title, what, style in (
        ("tokens", decision.expected_tokens, "Tokens per question", "tokens", ",.0f"),
        ("paths", decision.expected_paths, "Answers per question", "answers", ".1f"),
    ):
        share, change = relative(decision, name), getattr(decision.change, name)
        if mean is not None and share is not None:
            today = mean.value - change.value
            yield bar_pair(title, change_in_words(share, what), today, mean.value, style)
            return


def in_percent(share: float) -> str:
    """Return a change of something that is not counted, such as "26% less"."""
    return f"{abs(share):.0%} {'more' if share > 0 else 'less'}" if round(100 * share) else "the same"


def _time(change: Differences, seconds: Seconds | None) -> Iterator[BarPair]:
    title = "Time of the slowest 5%"
    if seconds is not None and seconds.p95 is not None and change.p95 is not None:
        keff = seconds.p95.value
        today = keff - change.p95.value
        if today > 0:
            style = ".0f" if max(keff, today) >= 100 else ".1f"
            yield bar_pair(title, time_in_words(keff / today), today, keff, style, " s")
    elif change.p95_ratio is not None:
        ratio = change.p95_ratio.value
        pair = bar_pair(title, time_in_words(ratio), 1.0, ratio, ".0%")
        yield replace(pair, detail="as a share of today's")


def _accuracy(decision: Decision) -> Iterator[BarPair]:
    """Yield the accuracies, without gold answers how often the answer is today's."""
    if decision.accuracy is not None and decision.change.points is not None:
        yield accuracy_pair(decision.accuracy, decision.change.points)
    elif decision.agreement is not None:
        same = decision.agreement
        detail = ""
        if same.limits is not None:
            lo, hi = same.limits
            detail = f"95% interval: {lo:.1%} to {hi:.1%}"
        share = f"{same.value:.1%}"
        texts = f"{share} of questions", detail
        yield BarPair("Same answer as today", *texts, 1.0, same.value, "100%", share, same.limits)
