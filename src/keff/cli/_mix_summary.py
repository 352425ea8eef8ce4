"""What ``keff mix`` shows to people."""

from __future__ import annotations

import math

from rich.table import Table

from keff.analysis.mix.findings import MixFindings, PlanLine
from keff.cli._console import result_console, warn
from keff.records import Interval


def print_mix(mixed: MixFindings) -> None:
    """Print the recommendation, then branches, correlations and the frontier."""
    advice = mixed.advice
    _say(f"{advice.verdict}: {advice.plan.policy}")
    _say(f"  {advice.because}")
    if math.isfinite(advice.cost_ratio.value):
        _say(f"  against the best single branch's plan ({mixed.best_single.policy}), held out:")
        _say(f"    cost x {_range(advice.cost_ratio)}, accuracy {_points(advice.accuracy_difference)} points")
        ratio, difference = advice.against_cheap
        _say(f"  against the cheapest single plan as good ({mixed.cheap_single.policy}):")
        _say(f"    cost x {_range(ratio)}, accuracy {_points(difference)} points")
    result_console.print(_branches(mixed))
    result_console.print(_frontier(mixed))
    for note in mixed.warnings:
        warn(note.message)


def _say(line: str) -> None:
    result_console.print(line, markup=False, soft_wrap=True)


def _branches(mixed: MixFindings) -> Table:
    title = f"{len(mixed.branches)} branches on {mixed.n} shared questions; correlation of two paths, c"
    table = Table(title=title, title_justify="left")
    for heading in ("branch", "accuracy", f"{mixed.cost_unit} per path", "adds"):
        table.add_column(heading, justify="left" if heading == "branch" else "right")
    for branch in mixed.branches:
        table.add_column(branch.name, justify="right")
    for branch, row in zip(mixed.branches, mixed.c_between, strict=True):
        adds = "" if branch.adds is None else f"{100 * branch.adds:.1f}"
        cells = [_c(cell) for cell in row]
        table.add_row(branch.name, f"{100 * branch.p.value:.1f}%", f"{branch.cost:.4g}", adds, *cells)
    return table


def _c(cell: Interval) -> str:
    return "-" if not math.isfinite(cell.value) else f"{cell.value:.2f}"


def _frontier(mixed: MixFindings) -> Table:
    table = Table(
        title="the frontier: no other plan is both cheaper and more accurate here", title_justify="left"
    )
    table.add_column("policy", overflow="fold")
    table.add_column("accuracy", justify="right")
    table.add_column(f"{mixed.cost_unit} per question", justify="right")
    for plan in mixed.frontier:
        mark = "  <- recommended" if plan.policy == mixed.advice.plan.policy else ""
        table.add_row(plan.policy + mark, _percent(plan), f"{plan.cost.value:.4g}")
    return table


def _percent(plan: PlanLine) -> str:
    accuracy = plan.accuracy
    if accuracy.lo is None or accuracy.hi is None:
        return f"{100 * accuracy.value:.1f}%"
    return f"{100 * accuracy.value:.1f}% [{100 * accuracy.lo:.1f}, {100 * accuracy.hi:.1f}]"


def _range(interval: Interval) -> str:
    if interval.lo is None or interval.hi is None:
        return f"{interval.value:.2f}"
    return f"{interval.value:.2f} [{interval.lo:.2f}, {interval.hi:.2f}]"


def _points(interval: Interval) -> str:
    if interval.lo is None or interval.hi is None:
        return f"{100 * interval.value:+.1f}"
    return f"{100 * interval.value:+.1f} [{100 * interval.lo:+.1f}, {100 * interval.hi:+.1f}]"
