"""An analysis in words: the decision first, then what it costs, the curve, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from keff.analysis.results.decision_words import sentences
from keff.analysis.results.estimates import Analysis
from keff.analysis.results.recommendation import Recommendation
from keff.records import Interval, number
from keff.stats.voting.diversity import k_eff

# Doublings: what another path is worth falls that fast.
SHOWN = (1, 2, 4, 8, 16, 32, 64, 128)
BARS = "▁▂▃▄▅▆▇█"
# One line of a terminal of 80 columns, its label and its two ends included.
MOST_BARS = 32


def statements(analysis: Analysis, *, verbose: bool = False) -> list[str]:
    """Return what ``keff analyze`` prints, one statement a string; tables and the curve have several lines.

    ``verbose`` adds the finer boundaries of the rule, the change that one run may show, and the paper's rule.
    """
    worth = analysis.confidences or ()
    told = [*sentences(analysis.decision, verbose=verbose), *money(analysis.recommendation)]
    told += [found.sentence(several=len(worth) > 1) for found in worth]
    return [
        *told,
        "",
        _table(analysis) if analysis.majority else _table_without_labels(analysis),
        *_curve(analysis),
        "",
        *_correlation(analysis, verbose=verbose),
    ]


def money(advice: Recommendation) -> Iterator[str]:
    """Return dollars and seconds in sentences, where they are known."""
    bill = advice.bill
    if bill is not None:
        line = f"{_dollars(advice.expected_cost)} per question, {_dollars(bill.per_1000)} per 1,000"
        if bill.for_volume is not None:
            line += f", {_dollars(bill.for_volume)} for {bill.volume:,}"
        yield f"{line} (prices of {bill.model})."
        for step in bill.steps:
            each = step.dollars_per_right_answer
            says = "accuracy does not rise" if each is None else f"one more right answer costs ${each:.3g}"
            yield f"{step.paths_from} to {step.paths_to} paths: {says}."
    if advice.pilot_cost is not None:
        back = advice.pays_back_after
        paid = "" if back is None else f"; paid back after {back:,.0f} questions"
        yield f"The record itself cost ${advice.pilot_cost:.3g}{paid}."
    seconds = advice.expected_seconds
    if seconds is not None and seconds.p50 is not None and seconds.p95 is not None:
        yield f"Time to answer: median {seconds.p50.text('.1f')} s, p95 {seconds.p95.text('.1f')} s."


def _dollars(value: Interval | None) -> str:
    return "–" if value is None else f"${value.text('.3g')}"


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of text with its columns right-aligned; a header may have two lines."""
    tops = [("\n" + head).split("\n")[-2:] for head in header]
    lines = [[top[0] for top in tops], [top[1] for top in tops], *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(header))]
    shown = ("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in shown if line.strip())


def _table(analysis: Analysis) -> str:
    cap = analysis.k_star.k_max if analysis.k_star else analysis.k
    header = ("paths", "worth", "plurality\nseen", "\npredicted", "majority\nseen", "\npredicted")
    return columns(header, [_row(analysis, k) for k in SHOWN if k <= cap])


def _row(analysis: Analysis, k: int) -> list[str]:
    ahead = analysis.predicted
    by_answers = None if ahead is None else (ahead.plurality or {}).get(k)
    by_beta_binomial = None if ahead is None else (ahead.beta_binomial or {}).get(k)
    return [
        str(k),
        _worth(analysis.c, k),
        percent((analysis.plurality or {}).get(k)),
        _predicted(by_answers),
        percent((analysis.majority or {}).get(k)),
        _predicted(by_beta_binomial),
    ]


def percent(value: float | None) -> str:
    """Format a share, or a dash where it is unknown."""
    return number(value, ".1%")


def _worth(c: Interval | None, k: int) -> str:
    # A c below 0 would make K paths worth more than K independent ones.
    return "–" if c is None or not c.value >= 0 else f"{float(k_eff(k, c.value)):.2f}"


def _table_without_labels(analysis: Analysis) -> str:
    """Return what is known without gold answers: how large the plurality is, and how often it changes."""
    share, flip = analysis.plurality_share or {}, analysis.flip or {}
    rows = [
        [str(k), percent(share.get(k)), percent(None if k not in flip else 1 - flip[k])]
        for k in sorted({*(k for k in SHOWN if k < analysis.k), analysis.k})
    ]
    return columns(("paths", "share of the\nplurality", f"same answer as\nall {analysis.k} paths"), rows)


def _predicted(value: Interval | None) -> str:
    if value is None:
        return "–"
    if value.limits is None:
        return percent(value.value)
    lo, hi = value.limits
    return f"{percent(value.value)} [{100 * lo:.0f}, {100 * hi:.0f}]"


def _curve(analysis: Analysis) -> Iterator[str]:
    """Draw plurality at up to 32 numbers of paths, from its least to its greatest value."""
    if analysis.plurality is None or len(analysis.plurality) < 2:
        return
    last = len(analysis.plurality)
    ks = sorted({round(1 + step * (last - 1) / (MOST_BARS - 1)) for step in range(MOST_BARS)})
    values = [analysis.plurality[k] for k in ks]
    low, span = min(values), max(values) - min(values) or 1.0
    bars = (BARS[min(int((value - low) / span * len(BARS)), len(BARS) - 1)] for value in values)
    yield f"plurality at 1 to {last} paths  {low:.1%} {''.join(bars)} {max(values):.1%}"


def _correlation(analysis: Analysis, *, verbose: bool) -> Iterator[str]:
    c, star = analysis.c, analysis.k_star
    if c is None or star is None or math.isnan(c.value):
        return
    yield (
        f"One path is right {percent(analysis.p)} of the time; the correctness of two paths of a question "
        f"correlates with c = {c.text()}."
    )
    if c.value > 0:
        worth, ceiling = (
            "–" if value is None else value.text() for value in (analysis.k_eff, analysis.ceiling)
        )
        yield (
            f"{analysis.k} paths carry as much evidence as {worth} independent ones; no number of paths "
            f"carries more than {ceiling}."
        )
    else:
        yield "That is no sign of correlation: how much evidence K paths carry cannot be said yet."
    if verbose:
        yield (
            f"The paper's rule, from c alone: K* = {star.paper} ({star.lo} to {star.hi}; conservative "
            f"{star.conservative}; at most {star.k_max})."
        )
    yield "Brackets hold 95% intervals over questions like these."
