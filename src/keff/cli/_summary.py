"""The summary that analyze, pilot and demo print for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from keff.analysis.matching import RARE, REMEDY, told
from keff.analysis.results.estimates import Analysis
from keff.analysis.results.recommendation import Recommendation
from keff.cli._console import result_console, warn
from keff.cli._money import against, money_lines
from keff.reading.open import Record
from keff.records import Interval
from keff.report.headline import SAFE
from keff.report.rules import in_words
from keff.result import number
from keff.stats.diversity import k_eff

SHOWN = (1, 2, 4, 8, 16, 32, 64, 128)
BARS = "▁▂▃▄▅▆▇█"

SAID = {"sample": "stop early", "single path": "one path is enough", "do not vote": "ask once, do not vote"}
"""Verdicts as a sentence begins."""


def percent(value: float | None) -> str:
    """Format a share, or a dash where it is unknown."""
    return number(value, ".1%")


def with_range(value: Interval | None, style: str = ".2f") -> str:
    """Format a value with its interval, such as ``0.42 [0.31, 0.54]``."""
    return "–" if value is None else value.text(style)


def sparkline(values: list[float]) -> str:
    """Draw a curve in one line of blocks, from its least to its greatest value."""
    low, high = min(values), max(values)
    span = high - low or 1.0
    return "".join(BARS[min(int((value - low) / span * len(BARS)), len(BARS) - 1)] for value in values)


def print_summary(record: Record, analysis: Analysis) -> None:
    """Print the recommendation first, then what it rests on."""
    out = result_console
    if analysis.matching is not None and analysis.matching.rare:
        out.print(f"{RARE}\n  {REMEDY}", markup=False, soft_wrap=True)
    out.print(f"[bold]{record.path}[/bold]", markup=True)
    about = " · ".join(part for part in (record.info.task, record.info.model) if part)
    size = f"{analysis.n} items x {analysis.k} paths"
    out.print(f"  {about + ' · ' if about else ''}{size}", markup=False)
    _recommendation(analysis)
    out.print(_table(analysis))
    _curve(analysis)
    _correlation(analysis)
    for line in told(analysis.matching):
        out.print(f"  {line}", markup=False, soft_wrap=True)
    for warning in analysis.warnings:
        warn(warning.message)


def print_branches(found: Sequence[tuple[Record, Analysis]]) -> None:
    """Print branches of one path per question: there is nothing to vote on within one, so a table."""
    result_console.print(
        f"{len(found)} records of one path per question: nothing to vote on within one", markup=False
    )
    table = Table(box=None, pad_edge=False)
    for header in ("accuracy", "questions", "record"):
        table.add_column(header, justify="left" if header == "record" else "right", no_wrap=True)
    ranked = sorted(found, key=lambda pair: -math.inf if pair[1].p is None else pair[1].p, reverse=True)
    for record, analysis in ranked:
        name = record.info.model or record.path
        table.add_row(percent(analysis.p), str(analysis.n), Text(name))
    result_console.print(table)
    first, *others = (dict.fromkeys(note.message for note in analysis.warnings) for _, analysis in found)
    for text in first:
        if all(text in other for other in others):
            warn(text)


def _recommendation(analysis: Analysis) -> None:
    advice = analysis.recommendation
    result_console.print(f"\n  {_verdict(advice)}", soft_wrap=True)
    result_console.print(f"  {in_words(advice.policy)}", markup=False, soft_wrap=True)
    result_console.print(f"  {_in_numbers(advice, analysis.cap)}", markup=False, soft_wrap=True)
    for line in money_lines(advice):
        result_console.print(f"  {line}", markup=False, soft_wrap=True)
    result_console.print(f"  {advice.because}\n", markup=False, soft_wrap=True)


def _verdict(advice: Recommendation) -> str:
    """Say the verdict and the policy that goes with it."""
    if advice.verdict == "pilot too small":
        what = "safe default" if advice.policy.startswith(SAFE) else "best for your aim"
        return f"[bold]pilot too small to choose how many paths[/bold]; {what}: {advice.policy}"
    return f"[bold]{SAID[advice.verdict]}[/bold]: {advice.policy}"


def _in_numbers(advice: Recommendation, cap: int) -> str:
    """Say what the policy is expected to keep and to save."""
    expected, paths = advice.expected_plurality, advice.expected_paths
    parts = [] if expected is None else [f"accuracy {_predicted(expected)} expected"]
    if advice.kept is not None:
        parts.append(f"{advice.kept.percent()} of the accuracy of {cap} paths kept")
    if paths is not None:
        parts.append(against(advice) or f"{paths:.1f} paths per question")
    return "; ".join(parts) or "nothing can be expected of it yet"


def _correlation(analysis: Analysis) -> None:
    c, star = analysis.c, analysis.k_star
    if c is None or star is None:
        return
    lines = [
        "",
        f"one path is right {percent(analysis.p)} of the time; "
        f"the correctness of two paths correlates with c = {with_range(c)}",
        f"{analysis.k} paths are worth {with_range(analysis.k_eff)} independent ones; "
        f"no number of paths is worth more than {with_range(analysis.ceiling)}",
        f"K* = {star.paper} by the paper's rule (interval {star.lo} to {star.hi}, "
        f"conservative {star.conservative}, at most {star.k_max})",
        "In brackets: 95% intervals, over questions like these.",
    ]
    for line in lines:
        result_console.print("  " + line, markup=False, soft_wrap=True)


HEADERS = (
    "  \npaths",
    "\nworth",
    "plurality\nseen",
    "\npredicted",
    "majority\nseen",
    "\npredicted",
    "\ncost",
)


def _table(analysis: Analysis) -> Table:
    cap = analysis.k_star.k_max if analysis.k_star else analysis.k
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for header in HEADERS:
        table.add_column(header, justify="right", no_wrap=True)
    for k in SHOWN:
        if k <= cap:
            table.add_row(str(k), *_row(analysis, k), f"{k / cap:.0%}")
    return table


def _row(analysis: Analysis, k: int) -> list[str]:
    ahead = analysis.predicted
    by_answers = None if ahead is None else (ahead.plurality or {}).get(k)
    by_beta_binomial = None if ahead is None else (ahead.beta_binomial or {}).get(k)
    return [
        _worth(analysis.c, k),
        percent((analysis.plurality or {}).get(k)),
        _predicted(by_answers),
        percent((analysis.majority or {}).get(k)),
        _predicted(by_beta_binomial),
    ]


def _worth(c: Interval | None, k: int) -> str:
    return "–" if c is None or math.isnan(c.value) else f"{float(k_eff(k, c.value)):.2f}"


def _predicted(value: Interval | None) -> str:
    if value is None:
        return "–"
    if value.limits is None:
        return percent(value.value)
    lo, hi = value.limits
    return f"{percent(value.value)} [{100 * lo:.0f}, {100 * hi:.0f}]"


def _curve(analysis: Analysis) -> None:
    if analysis.plurality is None or len(analysis.plurality) < 2:
        return
    values = list(analysis.plurality.values())
    ends = f"{percent(values[0])} to {percent(values[-1])}"
    line = f"  plurality at 1 to {len(values)} paths  {sparkline(values)}  {ends}"
    result_console.print(line, markup=False, soft_wrap=True)
