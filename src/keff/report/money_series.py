"""Rows of the charts of accuracy against dollars and seconds."""

from __future__ import annotations

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


def seconds(analysis: Analysis) -> Datasets:
    """Return accuracy against the 95th percentile of the time to answer; nothing without times or labels."""
    times = [point.seconds and point.seconds.p95 for point in analysis.curve]
    expected = analysis.recommendation.expected_seconds
    return _against(analysis, times, expected and expected.p95)


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
