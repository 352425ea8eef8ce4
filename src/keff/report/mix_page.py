"""The page of ``keff mix``: the frontier, what each branch adds, and where questions go on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from markupsafe import Markup

from keff import files
from keff.analysis.mix.findings import MixFindings, PlanLine, short
from keff.analysis.mix.search import frontier
from keff.analysis.results.words import points
from keff.records import Interval, frozen, number
from keff.report.template import filled

# The palette of the other figures, which colour-blind readers can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b8860b", "#7f7f7f")

# Units of the drawing, which is scaled to the page: a telephone sets its type larger, which has to fit too.
WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM = 640.0, 400.0, 66.0, 20.0, 44.0, 56.0
# Round ticks that an axis of this length carries without crowding.
TICKS = 5

Place = Callable[[float], float]


@frozen
class Scales:
    """Where costs (logarithmic) and accuracies stand."""

    x: Place
    y: Place
    costs: tuple[float, ...]
    accuracies: tuple[float, ...]

    def of(self, plan: PlanLine) -> tuple[float, float]:
        """Return where a plan stands."""
        return self.x(plan.cost.value), self.y(plan.accuracy.value)


def colour(place: int) -> str:
    """Return the colour of a branch."""
    return COLOURS[place % len(COLOURS)]


def frontier_figure(mix: MixFindings) -> Markup:
    """Return the figure: each branch's undominated plans as a curve, the frontier as steps, the choice.

    Everything that comes from a record is escaped.
    """
    names = [branch.name for branch in mix.branches]
    curves = [_undominated([p for p in mix.singles if p.branches == (name,)]) for name in names]
    plans = [*mix.frontier, mix.advice.plan, *(plan for curve in curves for plan in curve)]
    scales = _scales([plan.cost.value for plan in plans], [plan.accuracy.value for plan in plans])
    parts = [_axes(scales, f"{mix.cost_unit} per question (logarithmic)"), _steps(mix.frontier, scales)]
    parts += [_curve(curve, scales, colour(place)) for place, curve in enumerate(curves)]
    parts += [_mark(plan, scales) for plan in mix.frontier if len(plan.branches) > 1]
    parts.append(_choice(mix.advice.plan, scales))
    title = f"Accuracy against cost of {len(names)} branches; recommended: {mix.advice.plan.policy}"
    return svg_drawing(HIGH, title, parts)


def svg_drawing(tall: float, title: str, parts: Sequence[Markup]) -> Markup:
    """Return a drawing of ``WIDE`` x ``tall`` units; its title is escaped."""
    head = Markup('<svg viewBox="0 0 {:g} {:g}" role="img" class="drawn"><title>{}</title>')
    return head.format(WIDE, tall, title) + Markup("").join(parts) + Markup("</svg>")


def _undominated(plans: Sequence[PlanLine]) -> list[PlanLine]:
    places = frontier([plan.cost.value for plan in plans], [plan.accuracy.value for plan in plans])
    return [plans[place] for place in places]


def worth_figure(mix: MixFindings) -> Markup:
    """Return the figure of the plan's accuracy by what a right answer is worth: one step for each plan.

    The dashed line stands where the recommended plan begins to pay. Everything from a record is escaped.
    """
    worths = [line.worth for line in mix.by_worth[1:]]
    first: float = min([*worths, mix.pays_from or math.inf])
    first = first / 4 if math.isfinite(first) else 1.0
    ends: list[float] = [first, *worths, 4 * max([*worths, mix.pays_from or first])]
    scales = _scales(ends, [line.plan.accuracy.value for line in mix.by_worth])
    parts = [_axes(scales, f"{mix.cost_unit} that a right answer is worth (logarithmic)")]
    for line, begin, end in zip(mix.by_worth, ends, ends[1:], strict=False):
        bar = Markup(
            '<line x1="{0:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{2:.1f}" class="{3}"><title>{4}</title></line>'
        )
        y = scales.y(line.plan.accuracy.value)
        kind = "worth chosen" if line.plan.policy == mix.advice.plan.policy else "worth"
        parts.append(bar.format(scales.x(begin), scales.x(end), y, kind, told(line.plan)))
    if mix.pays_from:
        x = min(scales.x(mix.pays_from), WIDE - RIGHT)
        anchor, beside = ("start", x + 6) if x < WIDE / 2 else ("end", x - 6)
        parts += [
            svg_line(x, TOP, x, HIGH - BOTTOM, "pays"),
            svg_text("pays from here", beside, HIGH - BOTTOM - 10, anchor),
        ]
    return svg_drawing(HIGH, "The plan by what a right answer is worth", parts)


def _scales(across: Sequence[float], marks: Sequence[float]) -> Scales:
    # A branch that costs nothing has a place at the left end of the logarithmic axis.
    costs = [max(value, 1e-12) for value in across]
    low, high = math.log(min(costs)), math.log(max(costs))
    bottom, top = min(marks), max(marks)
    wide, tall = max(high - low, 1e-9), max(top - bottom, 1e-9)

    def x(cost: float) -> float:
        return LEFT + (WIDE - LEFT - RIGHT) * (math.log(max(cost, 1e-12)) - low) / wide

    def y(accuracy: float) -> float:
        return HIGH - BOTTOM - (HIGH - TOP - BOTTOM) * (accuracy - bottom) / tall

    return Scales(x, y, _round_costs(math.exp(low), math.exp(high)), round_ticks(bottom, top))


def round_ticks(low: float, high: float) -> tuple[float, ...]:
    """Return the ticks within an axis, in steps of 1, 2 or 5 of the last digit."""
    rough = max(high - low, 1e-3) / TICKS
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * times for times in (1, 2, 5, 10) if unit * times >= rough)
    # 0.3 / 0.1 is below 3: rounding must not lose the tick at an end.
    first = math.ceil(low / step - 1e-9)
    return tuple(place * step for place in range(first, math.floor(high / step + 1e-9) + 1))


def _round_costs(low: float, high: float) -> tuple[float, ...]:
    """Return the ticks within a logarithmic axis: 1, 2 and 5 of each power of ten, or powers alone."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [times * 10.0**power for power in powers for times in (1, 2, 5)]
    within = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
    if len(within) > TICKS:
        every = math.ceil(len(powers) / TICKS)
        within = [tick for tick in within if any(tick == 10.0**power for power in powers[::every])]
    # Within less than a doubling there may be none.
    return tuple(within) if len(within) > 1 else (low, high)


def _axes(scales: Scales, label: str) -> Markup:
    base = HIGH - BOTTOM
    lines = [
        svg_line(LEFT, scales.y(value), WIDE - RIGHT, scales.y(value), "grid")
        + svg_text(f"{100 * value:.3g}%", LEFT - 8, scales.y(value) + 4, "end")
        for value in scales.accuracies
    ]
    lines += [svg_text(short(value), scales.x(value), base + 20, "middle") for value in scales.costs]
    lines.append(svg_text(label, (LEFT + WIDE - RIGHT) / 2, HIGH - 8, "middle"))
    return Markup("").join(lines)


def svg_text(text: str, x: float, y: float, anchor: str) -> Markup:
    """Return a text, escaped, whose start, middle or end stands at a place."""
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def svg_line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """Return a line of a class of the style."""
    line = Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>')
    return line.format(x1, y1, x2, y2, kind)


def _curve(plans: Sequence[PlanLine], scales: Scales, stroke: str) -> Markup:
    points = " ".join("{:.1f},{:.1f}".format(*scales.of(plan)) for plan in plans)
    line = Markup('<polyline points="{}" fill="none" stroke="{}" stroke-width="2.5"/>').format(points, stroke)
    dots = (_dot(plan, scales, 3.5, stroke) for plan in plans)
    return line + Markup("").join(dots)


def _dot(plan: PlanLine, scales: Scales, radius: float, fill: str) -> Markup:
    return Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{}" fill="{}"><title>{}</title></circle>').format(
        *scales.of(plan), radius, fill, told(plan)
    )


def _mark(plan: PlanLine, scales: Scales) -> Markup:
    x, y = scales.of(plan)
    shape = Markup('<path d="M{0:.1f} {1:.1f}l5 5l-5 5l-5 -5z" class="step"><title>{2}</title></path>')
    return shape.format(x, y - 5, told(plan))


def _steps(frontier: Sequence[PlanLine], scales: Scales) -> Markup:
    path, last = list[str](), None
    for plan in frontier:
        x, y = scales.of(plan)
        path.append(f"M{x:.1f} {y:.1f}" if last is None else f"H{x:.1f}V{y:.1f}")
        last = plan
    return Markup('<path d="{}" class="steps"/>').format("".join(path))


def _choice(plan: PlanLine, scales: Scales) -> Markup:
    x, y = scales.of(plan)
    ring = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="10" class="choice"><title>{}</title></circle>')
    word = Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="middle" class="choice">recommended</text>')
    return ring.format(x, y, told(plan)) + word.format(min(max(x, LEFT + 60), WIDE - RIGHT - 60), y - 16)


def told(plan: PlanLine) -> str:
    """Return a plan in one line: its policy, accuracy with interval, and cost."""
    return f"{plan.policy}: {plan.accuracy.percent()} at {short(plan.cost.value)}"


def write_mix_page(mix: MixFindings, file: Path) -> None:
    """Write the page: one HTML file without scripts; raises OSError when it cannot be written."""
    files.write_text(file, render(mix))


def render(mix: MixFindings) -> str:
    """Return the page as text; what comes from a record is escaped."""
    return filled(
        "mix.html.j2",
        {"share": _share, "points": _points, "ratio": Interval.text, "number": short, "amount": mix.amount},
        mix=mix,
        figure=frontier_figure(mix),
        worth=worth_figure(mix),
        colours=[colour(place) for place in range(len(mix.branches))],
    )


def _share(value: Interval | float | None) -> str:
    return value.percent() if isinstance(value, Interval) else number(value, ".1%")


def _points(value: Interval | float | None) -> str:
    return points(value) if isinstance(value, Interval) else number(value and 100 * value, "+.1f")
