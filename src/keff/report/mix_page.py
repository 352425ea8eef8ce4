"""The page of ``keff mix``: cost frontier, contribution of branches, and escalation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from keff import files
from keff.analysis.mix.findings import MixFindings, PlanLine, short
from keff.analysis.mix.search import frontier
from keff.analysis.results.bars import BarPair, accuracy_pair, bar_pair
from keff.analysis.results.words import change_in_words, in_words, points
from keff.records import Interval, number, percent
from keff.report.series import Datasets, Row, side
from keff.report.template import colour, drawings, render

# A branch that costs nothing has a place at the left end of the logarithmic axis.
LEAST = 1e-12


def plan_rows(mix: MixFindings) -> Datasets:
    """Return the chart's plans: undominated single branches, the frontier, combinations, the choice."""
    curve = [
        _plan_point(plan) | {"branch": branch.name, "colour": colour(place)}
        for place, branch in enumerate(mix.branches)
        for plan in _undominated([p for p in mix.singles if p.branches == (branch.name,)])
    ]
    steps, chosen = list(map(_plan_point, mix.frontier)), _plan_point(mix.advice.plan)
    costs = [float(str(row["cost"])) for row in (*curve, *steps, chosen)]
    where = side(max(mix.advice.plan.cost.value, LEAST), min(costs), max(costs))
    return {
        "curve": curve,
        "frontier": steps,
        "joint": [row for row, plan in zip(steps, mix.frontier, strict=True) if len(plan.branches) > 1],
        "chosen": [chosen | {"label": "recommended", "side": where}],
    }


def _plan_point(plan: PlanLine) -> dict[str, float | str]:
    return {"cost": max(plan.cost.value, LEAST), "value": plan.accuracy.value, "told": plan_text(plan)}


def _undominated(plans: Sequence[PlanLine]) -> list[PlanLine]:
    places = frontier([plan.cost.value for plan in plans], [plan.accuracy.value for plan in plans])
    return [plans[place] for place in places]


def worth_rows(mix: MixFindings) -> Datasets:
    """Return the plan by the worth of a right answer, and where the choice begins to pay."""
    worths = [line.worth for line in mix.by_worth[1:]]
    first: float = min([*worths, mix.pays_from or math.inf])
    first = first / 4 if math.isfinite(first) else 1.0
    ends: list[float] = [first, *worths, 4 * max([*worths, mix.pays_from or first])]
    steps: dict[bool, list[Row]] = {True: [], False: []}
    for line, begin, end in zip(mix.by_worth, ends, ends[1:], strict=False):
        place = {"from": begin, "to": end, "value": line.plan.expected, "told": plan_text(line.plan)}
        steps[line.plan.policy == mix.advice.plan.policy].append(place)
    pays: list[Row] = []
    if mix.pays_from:
        where = side(mix.pays_from, ends[0], ends[-1])
        pays = [{"worth": mix.pays_from, "label": "pays from here", "side": where}]
    return {"chosen": steps[True], "others": steps[False], "pays": pays}


def plan_text(plan: PlanLine) -> str:
    """Return a plan in one line: policy, accuracy with interval, cost."""
    return f"{plan.policy}: {plan.accuracy.percent()} at {short(plan.cost.value)}"


def bar_pairs(mix: MixFindings) -> list[BarPair]:
    """Return cost and expected accuracy of the best plan of one branch and of this one, where they differ."""
    advice, alone = mix.advice, mix.best_single
    change = advice.accuracy_difference
    if advice.plan.policy == alone.policy or math.isnan(change.value):
        return []
    cost = advice.plan.cost.value
    words = change_in_words(cost / alone.cost.value - 1 if alone.cost.value else 0.0, mix.cost_unit)
    style = ",.0f" if min(cost, alone.cost.value) >= 1000 else ".3g"
    return [
        bar_pair(f"{mix.cost_unit.title()} per question", words, alone.cost.value, cost, style),
        accuracy_pair(advice.accuracy, change, level="90%"),
    ]


def write_mix_page(mix: MixFindings, file: Path) -> None:
    """Write the page: one HTML file without scripts; raises OSError when it cannot be written.

    What comes from a record is escaped.
    """
    charts = drawings({"mix": {"plans": plan_rows(mix), "worths": worth_rows(mix)}}, titles=True)
    page = render(
        "mix.html.j2",
        {"percent": percent, "points": _points, "fixed": number, "number": short, "amount": mix.cost_text},
        mix=mix,
        rule=in_words(mix.advice.plan.policy),
        pairs=bar_pairs(mix),
        plans=charts["mix", "plans"],
        worths=charts["mix", "worths"],
        colours=[colour(place) for place in range(len(mix.branches))],
    )
    files.write_text(file, page)


def _points(value: Interval | float | None) -> str:
    return points(value) if isinstance(value, Interval) else number(value and 100 * value, "+z.1f")
