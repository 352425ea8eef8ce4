"""Chart data of the decision: gain of more paths; accuracy against cost and time."""

from __future__ import annotations

from dataclasses import asdict
from string import ascii_lowercase

import numpy as np

from keff.analysis.results.decision import CurvePoint
from keff.analysis.results.estimates import Analysis
from keff.analysis.results.replay import Replay, ReplayRow
from keff.analysis.results.words import answers_in_words, plural
from keff.records import Interval
from keff.report.series import (
    Datasets,
    Row,
    Rows,
    ahead_row,
    limits,
    plurality_ahead,
    shown_ks,
    side,
)
from keff.stats.intervals import SHARE
from keff.stats.votes import Votes


def gain(analysis: Analysis, cap: int) -> Datasets:
    """Return the plurality curve with band, prediction and recommended point.

    Where only correctness was recorded the vote is the strict majority.
    """
    curve, bands = analysis.plurality, analysis.bands
    if bands is None:
        return {}
    band = bands.plurality
    if curve is None or band is None:
        curve, band = analysis.majority, bands.majority
    if curve is None or band is None:
        return {}
    seen = [_seen_row(k, curve[k], band[k]) for k in shown_ks(analysis.k)]
    ahead = [
        {"k": k, **limits(value), "range": shares(value)}
        for k, value in plurality_ahead(analysis)
        if k <= cap
    ]
    top = max(cap, analysis.k)
    chosen = [
        {**row, "side": side(float(str(row["paths"])), 1, top)} for row in _decision_point(analysis, 1.0)
    ]
    ends = [_end_row(1, curve[1], "first")] if not any(row["paths"] == 1 for row in chosen) else []
    at = cap if cap in curve else analysis.k
    if ahead and ahead[-1]["k"] != at:  # on a telephone the measured end has no room beside it
        ends.append(_end_row(cap, float(str(ahead[-1]["value"])), "last"))
    else:
        ends.append(_end_row(at, curve[at], "middle" if at < top else "last"))
    return {"seen": seen, "ahead": ahead, "chosen": chosen, "ends": ends if analysis.k > 1 else []}


def _seen_row(k: int, value: float, band: tuple[float, float]) -> Row:
    measured = Interval(value, *band, SHARE)
    return {"k": k, **limits(measured), "range": shares(measured)}


def _end_row(k: int, value: float, where: str) -> Row:
    return {"k": k, "value": value, "label": f"{plural(k, 'path')} {value:.1%}", "side": where}


def stability(analysis: Analysis) -> Datasets:
    """Return how often the answer after k paths equals that of all recorded paths; label-free."""
    if analysis.flip is None:
        return {}
    paths, same = analysis.decision.expected_paths, analysis.decision.agreement
    point: Rows = []
    if paths is not None and same is not None and paths.value <= analysis.k:
        label, where = f"keff: {paths.value:.1f} paths", side(paths.value, 1, analysis.k)
        point = [{"paths": paths.value, "value": same.value, "label": label, "side": where}]
    rows = [{"k": k, "value": 1 - analysis.flip[k]} for k in shown_ks(analysis.k)]
    return {"same": rows, "chosen": point}


def frontier(analysis: Analysis, votes: Votes, replayed: Replay | None) -> Datasets:
    """Return accuracy against cost: fixed K, replayed policies, and the decision.

    Rules carry the letter by which the table beside the chart names them. The decision stands at what it is
    expected to do, which is corrected for its choice, wherever that is known.
    """
    if analysis.plurality is None:
        return {}
    unit = 1.0 if votes.tokens is None or np.isnan(votes.tokens).any() else float(votes.tokens.mean())
    curve = [
        {
            "k": k,
            "cost": k * unit,
            "value": analysis.plurality[k],
            "what": f"always {k} paths",
            "mark": _mark(k),
        }
        for k in shown_ks(analysis.k)
    ]
    ahead = [
        ahead_row(k, value) | {"cost": k * unit, "what": f"always {k} paths, predicted", "mark": _mark(k)}
        for k, value in plurality_ahead(analysis)
    ]
    letters = rule_letters(replayed)
    replays = () if replayed is None else replayed.policies
    rules = [
        {"letter": letters[row.policy], **_rule(row, row.accuracy, unit)}
        for row in replays
        if row.accuracy is not None and row.policy in letters and row.policy != analysis.decision.policy
    ]
    return {"curve": curve, "ahead": ahead, "rules": rules, "chosen": _decision_point(analysis, unit)}


def rule_letters(replayed: Replay | None) -> dict[str, str]:
    """Return the letters that mark replayed rules, in table order."""
    rows = () if replayed is None else replayed.policies
    rules = [row.policy for row in rows if not row.policy.startswith("fixed:")]
    return dict(zip(rules, ascii_lowercase, strict=False))


def _mark(k: int) -> str:
    return str(k) if k & (k - 1) == 0 else ""


def _rule(row: ReplayRow, accuracy: Interval, unit: float) -> Row:
    cost = row.mean_paths if unit == 1.0 else row.cost
    place = {"policy": row.policy, "cost": cost, "paths": row.mean_paths}
    return {**place, **limits(accuracy), "range": shares(accuracy)}


def _decision_point(analysis: Analysis, unit: float) -> Rows:
    """Return the decision as a point: expected cost and accuracy."""
    decision = analysis.decision
    paths, expected, tokens = decision.expected_paths, decision.accuracy, decision.expected_tokens
    if expected is None or paths is None:
        return []
    spent = paths.value if unit == 1.0 else paths.value * unit if tokens is None else tokens.value
    label = f"keff: {answers_in_words(paths.value)}, {expected.value:.1%}"
    place = {"policy": decision.policy, "paths": paths.value, "cost": spent, "label": label}
    return [{**place, **limits(expected), "range": shares(expected)}]


def shares(value: Interval) -> str:
    """Return an interval in percent, such as ``95.0 to 97.7%``."""
    return "unknown" if value.limits is None else "{:.1f} to {:.1f}%".format(*(100 * x for x in value.limits))


def dollars(analysis: Analysis) -> Datasets:
    """Return accuracy against mean dollars per question; empty without prices or labels."""
    curve = [
        _row(point, point.dollars)
        for point in analysis.curve
        if point.dollars is not None and point.dollars.value > 0 and point.accuracy is not None
    ]
    if len(curve) < 2:
        return {}
    decision, chosen = analysis.decision, list[Row]()
    own, expected = analysis.bill and analysis.bill.per_question, decision.accuracy
    if own is not None and expected is not None:
        least, most = own.limits or (own.value, own.value)
        place: Row = {"policy": decision.policy, "cost": own.value, "least": least, "most": most}
        chosen.append({**place, **limits(expected), "range": shares(expected)})
    return {"curve": curve, "chosen": chosen}


def times(analysis: Analysis) -> Datasets:
    """Return cost against time to answer of the rules within the aim; empty without times."""
    decision = analysis.decision
    if len(decision.timed) < 2:
        return {}
    rows = list(map(asdict, decision.timed))
    return {
        "others": [row for row in rows if row["dominated"]],
        "best": [row for row in rows if not row["dominated"]],
        "chosen": [row for row in rows if row["policy"] == decision.policy],
        "today": [row for row in rows if row["policy"] == decision.reference],
    }


def _row(point: CurvePoint, cost: Interval) -> Row:
    assert point.accuracy is not None
    return {
        "what": plural(point.paths, "path"),
        "mark": str(point.paths),
        "value": point.accuracy.value,
        "cost": cost.value,
    }
