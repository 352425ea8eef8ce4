"""Money for people."""

from __future__ import annotations

from dataclasses import replace

from keff.analysis.results.recommendation import Recommendation
from keff.records import Interval


def dollars(value: Interval | None) -> str:
    """Format dollars with their limits."""
    return "–" if value is None else f"${value.text('.3g')}"


def signed(value: Interval, style: str, times: float = 1.0) -> str:
    """Format a difference with its sign and limits."""
    if value.limits is None:
        return format(times * value.value, "+" + style)
    lo, hi = (format(times * end, "+" + style) for end in value.limits)
    return f"{times * value.value:+{style}} [{lo}, {hi}]"


def against(advice: Recommendation) -> str:
    """Say what changes from what is deployed today."""
    change = advice.change
    if change is None or advice.expected_paths is None:
        return ""
    before = advice.expected_paths - change.paths.value
    parts = [f"{advice.expected_paths:.1f} paths per question, {advice.expected_paths / before - 1:+.0%}"]
    if change.dollars is not None:
        parts.append(f"{change.dollars.value:+.3g} dollars")
    if change.accuracy is not None:
        # Two estimates taken as independent can differ by more than accuracies can.
        lo, hi = (
            None if end is None else min(max(end, -1.0), 1.0)
            for end in (change.accuracy.lo, change.accuracy.hi)
        )
        parts.append(f"{signed(replace(change.accuracy, lo=lo, hi=hi), '.1f', 100)} points")
    return f"{', '.join(parts)}, against {change.against}"


def money_lines(advice: Recommendation) -> list[str]:
    """Say dollars and seconds, one line each, where they are known."""
    lines: list[str] = []
    bill = advice.bill
    if bill is not None:
        line = f"{dollars(advice.expected_cost)} per question, {dollars(bill.per_1000)} per 1,000"
        if bill.for_volume is not None:
            line += f", {dollars(bill.for_volume)} for {bill.volume:,}"
        lines.append(f"{line} (prices of {bill.model})")
        lines.extend(
            f"{step.paths_from} to {step.paths_to} paths: "
            + (
                "accuracy does not rise"
                if step.dollars_per_right_answer is None
                else f"one more right answer costs ${step.dollars_per_right_answer:.3g}"
            )
            for step in bill.steps
        )
    if advice.pilot_cost is not None:
        back = advice.pays_back_after
        paid = "" if back is None else f"; paid back after {back:,.0f} questions"
        lines.append(f"the record itself cost ${advice.pilot_cost:.3g}{paid}")
    seconds = advice.expected_seconds
    if seconds is not None and seconds.p50 is not None and seconds.p95 is not None:
        lines.append(f"time to answer: median {seconds.p50.text('.1f')} s, p95 {seconds.p95.text('.1f')} s")
    return lines
