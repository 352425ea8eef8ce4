"""Find which models or prompts to combine, in what order.

Each PATH is a run or a log of one branch (a model, prompt or temperature), or a joined one.

Example: keff mix small.jsonl large.jsonl --prices prices.toml
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from keff.analysis.mix.choose import MixAim
from keff.analysis.mix.drop import DroppedBranch, dropped_branch
from keff.analysis.mix.findings import mix_plan
from keff.analysis.mix.prices import path_costs
from keff.analysis.mix.study import MixSettings, combine_branches
from keff.cli import _options as o
from keff.cli._branches import dropped_by
from keff.cli._console import print_json, say_all, warn_all
from keff.cli._groups import LogOptions
from keff.cli._serve_options import served_plan
from keff.errors import UsageError
from keff.plugins import import_extra
from keff.policy.spec import MAX_CAP
from keff.reading.join import Aligned, align, unique_names
from keff.reading.open import Opening, open_record
from keff.reading.several import logs_at
from keff.records import frozen
from keff.sampling.cost import Price
from keff.sampling.price_table import read_prices


@o.grouped
def command(
    paths: o.Paths,
    out: o.PlanOut = None,
    report: o.PageOut = None,
    prices: o.Prices = None,
    cap: o.Cap = 32,
    retain: o.Retain = None,
    budget_dollars: o.BudgetDollars = None,
    value_per_correct: o.ValuePerCorrect = None,
    cost_per_path: o.CostPerPath = None,
    max_loss: o.MaxLoss = 1.0,
    tolerance: o.MaxLossAsShare = None,
    false_accept: o.FalseAccept = None,
    *,
    log: LogOptions,
    trim: o.Trim = None,
    sources: o.Sources = None,
    seed: o.AnalysisSeed = 0,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> None:
    """Compare the branches and recommend a plan."""
    if tolerance is not None:
        raise UsageError(f"--tolerance is --max-loss now, in points: --max-loss {100 * tolerance:g}")
    if cap > MAX_CAP:
        raise UsageError(f"--cap can be at most {MAX_CAP}, not {cap}")
    aim = MixAim(retain, budget_dollars, value_per_correct, cost_per_path)
    settings = MixSettings(cap, aim, read_table(prices), max_loss, seed, false_accept)
    opening = log.opening(trim=trim, sources=sources)
    # A folder that is no run holds those of a pilot: one of each branch.
    runs = [run for path in paths for run in logs_at(path, opening)]
    # A pilot that a budget ended is taken as it is, as when it was drawn.
    opening = replace(opening, partial=opening.partial or len(runs) > len(paths))
    mix_runs(runs, settings, Outputs(out, report), opening, verbose=verbose, json=json)


def read_table(prices: Path | None) -> dict[str, Price] | None:
    """Return the price table, if given."""
    return None if prices is None else read_prices(prices)


@frozen
class Outputs:
    """Paths of the plan and page to write.

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
    verbose: bool = False,
    json: bool,
) -> None:
    """Combine the branches of some records, write plan and page where asked, and print what was found."""
    group, dropped = _align(paths, opening, names, settings.prices)
    mixed = combine_branches(group, settings, dropped)
    if out.plan is not None:
        served_plan(mix_plan(group, mixed), out.files, settings.prices).write(out.plan)
    if out.page is not None:
        import_extra("keff.report.mix_page", "the report page").write_mix_page(mixed, out.page)
    if json:
        print_json(mixed.to_dict())
    else:
        say_all(mixed.statements(verbose=verbose))
        warn_all(mixed.warnings)


def _align(
    paths: Sequence[Path],
    opening: Opening | None,
    names: Sequence[str] | None,
    prices: Mapping[str, Price] | None,
) -> tuple[Aligned, tuple[DroppedBranch, ...]]:
    """Return aligned records; dropped branches are compared on the questions they have."""
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
        dropped.append(dropped_branch(pair, path_costs(pair, prices)))
    return group, tuple(dropped)
