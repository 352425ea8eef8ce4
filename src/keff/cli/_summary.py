"""The summary that analyze, pilot and demo print for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from keff.analysis.matching import RARE, REMEDY, told
from keff.analysis.results.estimates import Analysis
from keff.analysis.results.recommendation import Recommendation
from keff.cli._console import result_console, say, warn
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
    if analysis.matching is not None and analysis.matching.rare:
        say(RARE, 0)
        say(REMEDY)
    result_console.print(record.path, style="bold", markup=False, soft_wrap=True)
    about = (record.info.task, record.info.model, f"{analysis.n:,} questions x {analysis.k} paths")
    say(" · ".join(part for part in about if part))
    _recommendation(analysis)
    result_console.print(_table(analysis) if analysis.majority else _table_without_labels(analysis))
    _curve(analysis)
    result_console.print()
    for line in (
        *_correlation(analysis),
        *(f"{line[0].upper()}{line[1:]}." for line in told(analysis.matching)),
    ):
        say(line)
    for warning in analysis.warnings:
        warn(warning.message)


def print_branches(branches: Sequence[tuple[Record, Analysis]]) -> None:
    """Print branches of one path per question: there is nothing to vote on within one, so a table."""
    result_console.print(
        f"{len(branches)} records of one path per question: nothing to vote on within one", markup=False
    )
    table = Table(box=None, pad_edge=False)
    for header in ("accuracy", "questions", "record"):
        table.add_column(header, justify="left" if header == "record" else "right", no_wrap=True)
    ranked = sorted(branches, key=lambda pair: -math.inf if pair[1].p is None else pair[1].p, reverse=True)
    for record, analysis in ranked:
        name = record.info.model or record.path
        table.add_row(percent(analysis.p), str(analysis.n), Text(name))
    result_console.print(table)
    first, *others = (dict.fromkeys(note.message for note in analysis.warnings) for _, analysis in branches)
    for text in first:
        if all(text in other for other in others):
            warn(text)


def _recommendation(analysis: Analysis) -> None:
    advice = analysis.recommendation
    result_console.print()
    say(_verdict(advice), markup=True)
    said = [in_words(advice.policy), *_in_numbers(advice, analysis.cap), *money_lines(advice)]
    for line in (*said, f"Why: {advice.because}."):
        if line:
            say(line[0].upper() + line[1:])
    result_console.print()


def _verdict(advice: Recommendation) -> str:
    """Say the verdict and the policy that goes with it."""
    if advice.verdict == "pilot too small":
        what = "safe default" if advice.policy.startswith(SAFE) else "best for your aim"
        return f"[bold]pilot too small to choose how many paths[/bold]; {what}: {advice.policy}"
    once = advice.verdict == "sample" and advice.policy == "fixed:1"
    return f"[bold]{'ask once' if once else SAID[advice.verdict]}[/bold]: {advice.policy}"


def _in_numbers(advice: Recommendation, cap: int) -> list[str]:
    """Say what the policy is expected to keep and to save."""
    expected, paths, lines = advice.expected_plurality, advice.expected_paths, list[str]()
    accuracy = "" if expected is None else f"accuracy {_predicted(expected)} expected"
    if advice.kept is not None:
        lines.append(f"Keeps {advice.kept.percent()} of the accuracy of {cap} paths; {accuracy}.")
    elif accuracy:
        lines.append(f"{accuracy[0].upper()}{accuracy[1:]}.")
    elif advice.same_answer is not None:
        lines.append(f"Gives the answer of {cap} paths on {advice.same_answer:.1%} of questions.")
    if paths is not None:
        lines.append(f"Draws {against(advice) or f'{paths:.1f} paths per question'}.")
    return lines or ["Nothing can be expected of it yet."]


def _correlation(analysis: Analysis) -> list[str]:
    c, star = analysis.c, analysis.k_star
    if c is None or star is None or math.isnan(c.value):
        return []
    lines = [
        f"One path is right {percent(analysis.p)} of the time; the correctness of two paths of a question "
        f"correlates with c = {with_range(c)}."
    ]
    if c.value > 0:
        lines.append(
            f"{analysis.k} paths carry as much evidence as {with_range(analysis.k_eff)} independent ones; no "
            f"number of paths carries more than {with_range(analysis.ceiling)}."
        )
    else:
        lines.append("That is no sign of correlation: how much evidence K paths carry cannot be said yet.")
    lines.append(
        f"The paper's rule, from c alone: K* = {star.paper} ({star.lo} to {star.hi}; conservative "
        f"{star.conservative}; at most {star.k_max})."
    )
    return [*lines, "Brackets hold 95% intervals over questions like these."]


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
    # A c below 0 would make K paths worth more than K independent ones.
    return "–" if c is None or not c.value >= 0 else f"{float(k_eff(k, c.value)):.2f}"


def _table_without_labels(analysis: Analysis) -> Table:
    """Return what is known without gold answers: how large the plurality is, and how often it changes."""
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for header in ("  \npaths", "share of the\nplurality", f"same answer as\nall {analysis.k} paths"):
        table.add_column(header, justify="right", no_wrap=True)
    share, flip = analysis.plurality_share or {}, analysis.flip or {}
    for k in sorted({*(k for k in SHOWN if k < analysis.k), analysis.k}):
        table.add_row(str(k), percent(share.get(k)), percent(None if k not in flip else 1 - flip[k]))
    return table


def _predicted(value: Interval | None) -> str:
    if value is None:
        return "–"
    if value.limits is None:
        return percent(value.value)
    lo, hi = value.limits
    return f"{percent(value.value)} [{100 * lo:.0f}, {100 * hi:.0f}]"


MOST_BARS = 32


def _curve(analysis: Analysis) -> None:
    """Draw plurality at up to 32 numbers of paths."""
    if analysis.plurality is None or len(analysis.plurality) < 2:
        return
    last = len(analysis.plurality)
    ks = sorted({round(1 + step * (last - 1) / (MOST_BARS - 1)) for step in range(MOST_BARS)})
    values = [analysis.plurality[k] for k in ks]
    say(f"plurality at 1 to {last} paths  {sparkline(values)}")
