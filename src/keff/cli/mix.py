"""Find which models or prompts to combine, in what order.

Each RECORD is a run or a log of one branch, or a joined one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from rich.table import Table

from keff.analysis.mix.choose import MixAim
from keff.analysis.mix.deploy import mix_plan
from keff.analysis.mix.drop import DroppedBranch, dropped_branch
from keff.analysis.mix.findings import MixFindings, short
from keff.analysis.mix.prices import path_costs
from keff.analysis.mix.study import MixSettings, combine_branches
from keff.cli import _aim_options as a
from keff.cli import _read_options as r
from keff.cli import _sample_options as s
from keff.cli import _write_options as w
from keff.cli._branches import dropped_by
from keff.cli._console import print_json, result_console, warn
from keff.cli._grouped import grouped
from keff.cli._groups import LogOptions
from keff.cli._served import served_plan
from keff.errors import UsageError
from keff.plugins import missing_extra
from keff.policy.spec import MAX_CAP
from keff.reading.join import Aligned, align, unique_names
from keff.reading.open import Opening, open_record
from keff.records import Interval
from keff.sampling.cost import Price
from keff.sampling.price_table import read_prices


def print_mix(mixed: MixFindings) -> None:
    """Print the recommendation, then branches, correlations and the frontier."""
    advice = mixed.advice
    _say(mixed.headline)
    _say(f"  {advice.verdict}: {advice.plan.policy}")
    _say(f"  {advice.because}")
    if math.isfinite(advice.cost_ratio.value):
        _say(f"  accuracy {_share(advice.accuracy)}, corrected for the choice on this pilot")
        _say(f"  against the best single branch's plan ({mixed.best_single.policy}):")
        _say(f"    cost x {_range(advice.cost_ratio)}, accuracy {_points(advice.accuracy_difference)} points")
        ratio, difference = advice.against_cheap
        _say(f"  against the cheapest single plan as good ({mixed.cheap_single.policy}):")
        _say(f"    cost x {_range(ratio)}, accuracy {_points(difference)} points")
    _say(_when_it_pays(mixed))
    for line, after in zip_longest(mixed.by_worth, mixed.by_worth[1:]):
        till = "" if after is None else f" to {mixed.amount(after.worth)}"
        _say(f"  from {mixed.amount(line.worth)}{till} per right answer: {line.plan.policy}")
    back = "" if mixed.pays_back is None else f", which the plan saves in {mixed.pays_back:,} questions"
    _say(f"the recorded paths cost {mixed.amount(mixed.pilot_cost)}{back}")
    result_console.print(_branches(mixed))
    _say(f"No vote passes {mixed.ceiling.percent()}: on the others no path of any branch is right.")
    result_console.print(_frontier(mixed))
    for dropped in mixed.dropped:
        _say(
            f"{dropped.name} was dropped after {dropped.questions} questions: "
            f"{_points(dropped.difference)} points against {dropped.by} there, "
            f"at {dropped.cost_ratio:.3g} times its cost"
        )
    for note in mixed.warnings:
        warn(note.message)


def _when_it_pays(mixed: MixFindings) -> str:
    if mixed.pays_from is None:
        return "one branch alone is cheaper and as accurate on this pilot; by what a right answer is worth:"
    return (
        f"worth more than any cheaper single plan from {mixed.amount(mixed.pays_from)} per right answer; "
        "by what a right answer is worth (--value-per-correct):"
    )


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
        table.add_row(branch.name, f"{100 * branch.p.value:.1f}%", short(branch.cost), adds, *cells)
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
        table.add_row(plan.policy + mark, _share(plan.accuracy), short(plan.cost.value))
    return table


def _share(accuracy: Interval) -> str:
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


@grouped(without=("answer_key", "branches", "columns"))
def command(
    paths: r.Paths,
    out: w.PlanOut = None,
    report: w.PageOut = None,
    prices: s.Prices = None,
    cap: a.Cap = 32,
    retain: a.Retain = None,
    budget_dollars: a.BudgetDollars = None,
    value_per_correct: a.ValuePerCorrect = None,
    cost_per_path: a.CostPerPath = None,
    tolerance: a.Tolerance = 0.01,
    *,
    log: LogOptions,
    seed: s.Seed = 0,
    json: w.Json = False,
) -> None:
    """Compare the branches and recommend a plan."""
    if cap > MAX_CAP:
        raise UsageError(f"--cap can be at most {MAX_CAP}, not {cap}")
    aim = MixAim(retain, budget_dollars, value_per_correct, cost_per_path)
    settings = MixSettings(cap, aim, read_table(prices), tolerance, seed)
    mix_runs(paths, settings, Outputs(out, report), log.opening(), json=json)


def read_table(prices: Path | None) -> dict[str, Price] | None:
    """Read the price table, where one is given."""
    return None if prices is None else read_prices(prices)


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where the plan and the page go, where they are asked for.

    ``files`` of the branches say how each is drawn, which the plan then says too.
    """

    plan: Path | None = None
    page: Path | None = None
    files: Sequence[Path] = ()


def mix_runs(
    paths: Sequence[Path],
    settings: MixSettings,
    out: Outputs,
    opening: Opening | None = None,
    *,
    names: Sequence[str] | None = None,
    json: bool,
) -> None:
    """Combine the branches of some records, write plan and page where asked, and print what was found."""
    group, dropped = _aligned(paths, opening, names, settings.prices)
    mixed = combine_branches(group, settings, dropped)
    if out.plan is not None:
        served_plan(mix_plan(group, mixed), out.files, settings.prices).write(out.plan)
    if out.page is not None:
        write_page(mixed, out.page)
    if json:
        print_json(mixed.to_dict())
    else:
        print_mix(mixed)


def _aligned(
    paths: Sequence[Path],
    opening: Opening | None,
    names: Sequence[str] | None,
    prices: Mapping[str, Price] | None,
) -> tuple[Aligned, tuple[DroppedBranch, ...]]:
    """Align records; branches that a pilot dropped early are each compared with the one that beat them."""
    records = [open_record(path, opening) for path in paths]
    called = names or unique_names([path.name for path in paths])
    beaten_by: dict[int, int] = {}
    for place, path in enumerate(paths):
        by = dropped_by(path)
        beside = [other for other, near in enumerate(paths) if near == path.parent / str(by)]
        if by is not None and beside:
            beaten_by[place] = beside[0]
    kept = [place for place in range(len(paths)) if place not in beaten_by]
    shown = [called[place] for place in kept] if beaten_by else names
    group = align([records[place] for place in kept], shown, least=1 if beaten_by else 2)
    dropped: list[DroppedBranch] = []
    for place, by in beaten_by.items():
        pair = align([records[place], records[by]], [called[place], called[by]])
        dropped.append(dropped_branch(pair, path_costs(pair, prices).paths))
    return group, tuple(dropped)


def write_page(mixed: MixFindings, file: Path) -> None:
    """Write the page.

    Raises PluginError without the ``report`` extra, UsageError when it cannot be written.
    """
    try:
        from keff.report.mix_page import write_mix_page
    except ImportError as error:
        raise missing_extra(error, "the report page") from error
    try:
        write_mix_page(mixed, file)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
