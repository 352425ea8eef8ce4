"""Rows of the charts of accuracy against dollars, and of cost against time."""

from __future__ import annotations

from dataclasses import asdict

from keff.analysis.results.estimates import Analysis
from keff.analysis.results.money import CurvePoint
from keff.records import Interval
from keff.report.advice_series import shares
from keff.report.series import Datasets, Row, limits, rounded


def dollars(analysis: Analysis) -> Datasets:
    """Return accuracy against the mean dollars of a question; nothing without prices or labels."""
    return _against(
        analysis, [point.dollars for point in analysis.curve], analysis.recommendation.expected_cost
    )


def times(analysis: Analysis) -> Datasets:
    """Return cost against time to answer of the rules that keep what is asked; nothing without times."""
    decision = analysis.decision
    if len(decision.timed) < 2:
        return {}
    groups: dict[str, list[Row]] = {"others": [], "best": [], "chosen": [], "today": []}
    for rule in decision.timed:
        group = "others" if rule.dominated else "best"
        group = "chosen" if rule.policy == decision.policy else group
        group = "today" if rule.policy == decision.reference else group
        groups[group].append(asdict(rule))
    return rounded(groups)


def _against(analysis: Analysis, costs: list[Interval | None], own: Interval | None) -> Datasets:
    curve = [
        _row(point, cost)
        for point, cost in zip(analysis.curve, costs, strict=True)
        if cost is not None and cost.value > 0 and point.accuracy is not None
    ]
    if len(curve) < 2:
        return {}
    advice, chosen = analysis.recommendation, list[Row]()
    expected = advice.expected_plurality
    if own is not None and expected is not None:
        least, most = own.limits or (own.value, own.value)
        place: Row = {"policy": advice.policy, "cost": own.value, "least": least, "most": most}
        chosen.append({**place, **limits(expected), "range": shares(expected)})
    return rounded({"curve": curve, "chosen": chosen})


def _row(point: CurvePoint, cost: Interval) -> Row:
    assert point.accuracy is not None
    paths = "1 path" if point.paths == 1 else f"{point.paths} paths"
    return {"what": paths, "mark": str(point.paths), "value": point.accuracy.value, "cost": cost.value}
