"""Chart data of the report page, from estimates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from keff.analysis.money import doublings
from keff.analysis.results.combination import Slot
from keff.analysis.results.estimates import Analysis
from keff.records import Interval, number
from keff.stats.models.betabinomial import betabinom_logpmf, majority_curve, majority_limit
from keff.stats.votes import Votes
from keff.stats.voting.choose import k_eff


def number_text(value: float | Interval | None, digits: int = 2) -> str:
    """Return a number, with its limits if any, with thousands separators."""
    return number(value, f",.{digits}f")


Value: TypeAlias = float | str | bool | None
Row: TypeAlias = Mapping[str, Value]
Rows: TypeAlias = list[Row]
Datasets: TypeAlias = Mapping[str, Sequence[Row]]

PLURALITY, PLURALITY_AHEAD = "plurality, measured", "plurality, predicted"
MAJORITY, MAJORITY_MODEL = "majority, measured", "majority, beta-binomial model"
INDEPENDENT = "majority, if paths were independent"
# Lines of the saturation chart, in the order of the legend.
SERIES = (PLURALITY, PLURALITY_AHEAD, MAJORITY, MAJORITY_MODEL, INDEPENDENT)

# More points lie on each other, and more bars are thinner than their gaps.
MOST_POINTS, MOST_BINS = 24, 21


def shown_ks(k: int, odd: bool = False) -> list[int]:
    """Return about 24 of the numbers 1..k, denser where small; odd ones and k if asked.

    Majority is the same at 2m - 1 and 2m votes: a line through the odd ones has no steps.
    """
    spread = np.rint(np.geomspace(1, max(k, 1), MOST_POINTS)).astype(int).tolist()
    return sorted({min(step | 1, k) if odd else step for step in [*spread, *doublings(k)]})


def side(value: float, low: float, high: float) -> str:
    """Return the side of the axis on which a point lies, so that its label fits."""
    share = math.log(max(value, low) / low) / math.log(high / low) if high > low else 0.5
    # A label is about a third of the chart wide.
    return "first" if share < 0.3 else "last" if share > 0.7 else "middle"


def usable_c(analysis: Analysis) -> float | None:
    """Return c clipped to the beta-binomial's range; None where it is undefined."""
    if analysis.c is None or math.isnan(analysis.c.value):
        return None
    return min(max(analysis.c.value, 0.0), 1.0)


def saturation(analysis: Analysis, k_max: int) -> Datasets:
    """Return measured curves with bands, models, intervals, K* and the majority's limit."""
    ahead = [ahead_row(*point) for point in plurality_ahead(analysis)]
    star, c = analysis.k_star, usable_c(analysis)
    # Numbers of paths are whole: a shade of one number is a column around it.
    shade: Rows = (
        []
        if star is None
        else [{"from": max(star.lo - 0.4, 1), "to": star.hi + 0.4, "lo": star.lo, "hi": star.hi}]
    )
    limit = [] if c is None or analysis.p is None else [{"value": majority_limit(analysis.p, c)}]
    return {
        "seen": _measured_rows(analysis),
        "model": [*ahead, *_models(analysis, c, max(k_max, analysis.k))],
        "whisker": ahead[1:],
        "bounds": _bounds(analysis),
        "star": shade,
        "limit": limit,
    }


def _measured_rows(analysis: Analysis) -> Rows:
    """Return the measured curves with bands."""
    if analysis.bands is None:
        return []
    drawn = (
        (analysis.plurality, analysis.bands.plurality, PLURALITY, False),
        (analysis.majority, analysis.bands.majority, MAJORITY, True),
    )
    return [
        {"k": k, "series": label, "value": curve[k], "lo": band[k][0], "hi": band[k][1]}
        for curve, band, label, odd in drawn
        if curve is not None and band is not None
        for k in shown_ks(analysis.k, odd)
    ]


def plurality_ahead(analysis: Analysis) -> list[tuple[int, Interval]]:
    """Return the predicted plurality beyond the record, from the last measured K on."""
    if analysis.predicted is None or analysis.predicted.plurality is None or analysis.plurality is None:
        return []
    beyond = [(k, value) for k, value in analysis.predicted.plurality.items() if k > analysis.k]
    return [(analysis.k, _last_measured(analysis, analysis.plurality)), *beyond] if beyond else []


def _last_measured(analysis: Analysis, curve: Mapping[int, float]) -> Interval:
    # With the measured band's limits, so that the predicted band joins it without a gap.
    band = analysis.bands.plurality if analysis.bands else None
    lo, hi = band[analysis.k] if band else (None, None)
    return Interval(curve[analysis.k], lo, hi, "subset average")


def ahead_row(k: int, value: Interval) -> dict[str, Value]:
    """Return one point of predicted plurality."""
    return {"k": k, "series": PLURALITY_AHEAD, **limits(value)}


def limits(value: Interval) -> dict[str, float | None]:
    """Return a value and its limits as a row's columns."""
    return {"value": value.value, "lo": value.lo, "hi": value.hi}


def _models(analysis: Analysis, c: float | None, top: int) -> Rows:
    if analysis.p is None:
        return []
    curves = {INDEPENDENT: 0.0} | ({} if c is None else {MAJORITY_MODEL: c})
    rows: Rows = []
    for label, correlation in curves.items():
        curve = majority_curve(top, analysis.p, correlation)
        rows += [{"k": k, "series": label, "value": curve[k - 1]} for k in shown_ks(top, odd=True)]
    return rows


def _bounds(analysis: Analysis) -> Rows:
    bounds = analysis.predicted.bounds if analysis.predicted else None
    return [{"k": k, "lo": low, "hi": high} for k, (low, high) in (bounds or {}).items()]


def worth(analysis: Analysis, k_max: int) -> Datasets:
    """Return K_eff at 1..k_max with its band, independent paths' line, and the ceiling."""
    c = analysis.c
    if c is None or analysis.ceiling is None or math.isnan(c.value):
        return {}
    top = max(k_max, analysis.k)
    ends = [c.value, *(c.value if end is None or math.isnan(end) else end for end in (c.hi, c.lo))]
    curves = {k: [min(float(k_eff(k, end)), 4.0 * top) for end in ends] for k in shown_ks(top)}
    highest = min(max(curves[top][2], 2.0), top)
    ceiling = analysis.ceiling
    shown = math.isfinite(ceiling.value) and ceiling.value < 2 * highest
    band = f"{_end(ceiling.lo)} to {_end(ceiling.hi)}"
    return {
        "worth": [{"k": k, "value": v, "lo": low, "hi": high} for k, (v, low, high) in curves.items()],
        "ideal": [{"k": 1, "value": 1}, {"k": highest, "value": highest}],
        "ceiling": [{"value": ceiling.value, "range": band}] if shown else [],
    }


def _end(limit: float | None) -> str:
    return "?" if limit is None else number(limit)


def difficulty(votes: Votes, analysis: Analysis) -> Datasets:
    """Return the histogram of items by share of right paths, with two models' expectations."""
    if votes.correct is None:
        return {}
    k, hist = votes.k, votes.hist
    width = math.ceil((k + 1) / MOST_BINS)
    starts = list(range(0, k + 1, width))
    c = usable_c(analysis)
    models = {"expected": c, "independent": 0.0}
    pmf = {
        name: votes.n * np.exp(betabinom_logpmf(k, votes.p, value))
        for name, value in models.items()
        if value is not None
    }
    rows: Rows = []
    for start in starts:
        stop = min(start + width, k + 1)
        named = f"{start}" if stop == start + 1 else f"{start} to {stop - 1}"
        rows.append(
            {
                "from": max(start - 0.45, -0.45) / k,
                "to": (stop - 0.55) / k,
                "middle": (start + stop - 1) / 2 / k,
                "right": f"{named} of {k}",
                "items": int(hist[start:stop].sum()),
                **{name: float(law[start:stop].sum()) for name, law in pmf.items()},
            }
        )
    return {"difficulty": rows}


def reliability(analysis: Analysis) -> Datasets:
    """Return the reliability diagram of every informative confidence."""
    rows: Rows = [
        {"name": found.name, "chance": point.chance, "right": point.right, "paths": point.paths}
        for found in analysis.confidences or ()
        for point in found.reliability
    ]
    ends: Rows = [{"chance": at, "right": at} for at in (0.0, 1.0)]
    return {"reliability": rows, "diagonal": ends} if rows else {}


def slots(table: Sequence[Slot] | None) -> Datasets:
    """Return accuracy and unanswered share of each template slot; empty under one prompt."""
    rows = [
        {"slot": str(row.slot), "accuracy": row.accuracy, "failures": row.extraction_failures}
        for row in table or ()
    ]
    return {"slots": rows} if rows else {}
