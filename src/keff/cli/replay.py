"""Compare stopping rules on recorded paths."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from rich.table import Table

from keff.analysis.arms import open_arm
from keff.analysis.money import Pace
from keff.analysis.replay import Replaying, markdown, replay
from keff.analysis.results.decision_words import points
from keff.analysis.results.replay import Replay, ReplayRow
from keff.analysis.wanted import tariff_of
from keff.cli import _aim_options as a
from keff.cli import _console
from keff.cli import _read_options as r
from keff.cli import _write_options as w
from keff.cli._console import print_json
from keff.cli._grouped import grouped
from keff.cli._groups import LogOptions, MoneyOptions
from keff.errors import UsageError
from keff.files import write_text
from keff.plugins import missing_extra
from keff.policy.spec import PolicySpec
from keff.reading.several import one_model
from keff.records import Interval
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.plurality import plurality_at_k


def _share(value: Interval | None) -> str:
    return "–" if value is None else value.percent()


def _beside(replayed: Replay) -> Columns:
    """Return the columns that are shown where their figures are known."""
    columns: Columns = {"paths": _paths_change}
    if replayed.labelled:
        columns["points"] = _points_change
    if any(row.dollars is not None for row in replayed.policies):
        columns["$ per 1,000"] = _per_thousand
    if any(row.seconds is not None for row in replayed.policies):
        columns |= {"p50 s": _p50, "p95 s": _p95, "p95 s at once": _at_once}
    return columns


def _paths_change(row: ReplayRow) -> str:
    if row.change is None:
        return "–"
    return f"{row.change.paths.value / (row.mean_paths - row.change.paths.value):+.0%}"


def _points_change(row: ReplayRow) -> str:
    return "–" if row.change is None else points(row.change.accuracy)


def _per_thousand(row: ReplayRow) -> str:
    return "–" if row.dollars is None else f"{1000 * row.dollars.value:.3g}"


def _p50(row: ReplayRow) -> str:
    return _time(row.seconds and row.seconds.p50)


def _p95(row: ReplayRow) -> str:
    return _time(row.seconds and row.seconds.p95)


def _at_once(row: ReplayRow) -> str:
    return _time(row.seconds_at_once and row.seconds_at_once.p95)


def _time(value: Interval | None) -> str:
    return "–" if value is None else value.text(".1f")


Columns: TypeAlias = dict[str, Callable[[ReplayRow], str]]

SAME_ANSWER: Columns = {"same answer": lambda row: _share(row.same_answer)}

MEASURED: Columns = {
    "accuracy": lambda row: _share(row.accuracy),
    "paths": lambda row: f"{row.mean_paths:.2f}",
    "kept": lambda row: _share(row.kept),
    "tokens": lambda row: "–" if row.mean_tokens is None else f"{row.mean_tokens:,.0f}",
    "rounds": lambda row: f"{row.rounds:.1f}",
    "points at equal cost": lambda row: points(row.delta_at_equal_cost),
}


def replay_tables(replayed: Replay, width: int) -> list[Table]:
    """Return the replay and the change from today, each as so many tables as the width takes."""
    size = f"{replayed.n:,} questions x {replayed.k} paths"
    if replayed.labelled:
        title = f"{size}; kept is the share of plurality@{replayed.cap}; 95% intervals"
        measured = MEASURED
    else:
        title = f"{size} without gold answers; same answer is that of {replayed.baseline}; 95% intervals"
        measured = SAME_ANSWER | {header: MEASURED[header] for header in ("paths", "tokens", "rounds")}
    parts = ((title, measured), (f"Change from {replayed.baseline}", _beside(replayed)))
    return [
        _table(replayed, *part)
        for title, columns in parts
        for part in _fitting(replayed, title, columns, width)
    ]


def _fitting(replayed: Replay, title: str, columns: Columns, width: int) -> list[tuple[str, Columns]]:
    """Split columns so that no table is wider than the terminal: a cut table would lose its policies."""
    policy = max(len(row.policy) for row in replayed.policies)
    parts, left = list[tuple[str, Columns]](), 0
    for header, tell in columns.items():
        needed = 2 + max(len(header), *(len(tell(row)) for row in replayed.policies))
        if not parts or needed > left:
            parts.append((title if not parts else "", {}))
            left = width - policy
        parts[-1][1][header] = tell
        left -= needed
    return list(parts)


def _table(replayed: Replay, title: str, columns: Columns) -> Table:
    table = Table(title=f"\n{title}" if title else "", title_justify="left", box=None, pad_edge=False)
    table.add_column("policy", overflow="fold", min_width=16)
    for header in columns:
        table.add_column(header, justify="right", no_wrap=True)
    for row in replayed.policies:
        table.add_row(row.policy, *(tell(row) for tell in columns.values()))
    return table


DEFAULTS = (
    "fixed:8",
    "fixed:32",
    "curtailed",
    "lead_k:3",
    "lead_k:4",
    "adaptive_consistency:0.9",
    "adaptive_consistency:0.95",
    "esc:5",
    "budget:4",
    "pilot_budget:0.98",
)


@grouped(without=("columns", "branches", "volume"))
def command(
    path: r.ReplayPath,
    policies: a.Policies = None,
    policy: a.OldPolicies = None,
    cap: a.ReplayCap = None,
    *,
    money: MoneyOptions,
    replicates: a.Replicates = 1000,
    random_slots: a.RandomSlots = False,
    out: w.ReplayOut = None,
    log: LogOptions,
    seed: a.AnalysisSeed = 0,
    json: w.Json = False,
) -> None:
    """Replay policies over the recorded paths of PATH."""
    if out is not None and out.suffix not in (".md", ".svg", ".pdf"):
        raise UsageError(f"--out {out}: name a .md, .svg or .pdf file")
    record = one_model(open_arm(path, log.opening()))
    votes = record.ballot.votes
    if votes.correct is None and out is not None and out.suffix != ".md":
        raise UsageError(f"{path} has no gold answers, and the figure shows accuracy: name a .md file")
    top = min(cap or 32, votes.k)
    fixed = None if out is None or out.suffix == ".md" else _fixed_curve(votes, top)
    how = Replaying(
        cap=cap,
        replicates=replicates,
        random_slots=random_slots,
        now=money.now,
        tariff=None if money.prices is None else tariff_of(money.prices),
        model=record.info.model,
        pace=None if money.pace is None else Pace.of(money.pace),
    )
    replayed = replay(
        votes, [*(policies or ()), *(policy or ())] or fitting(top), np.random.default_rng(seed), how
    )
    if out is not None:
        _write(out, replayed, fixed)
    _show(replayed, json=json)


def _show(replayed: Replay, *, json: bool) -> None:
    if json:
        print_json(replayed.to_dict())
        return
    for table in replay_tables(replayed, _console.result_console.width):
        _console.result_console.print(table)
    for note in replayed.warnings:
        _console.warn(note.message)


def _fixed_curve(votes: Votes, top: int) -> FloatArray | None:
    """Return the accuracy of 1..top paths that the figure measures by, before any policy is replayed."""
    if votes.answers is None:
        return None
    fixed = plurality_at_k(votes)[:top]
    if fixed[-1] == 0:
        raise UsageError(
            f"the plurality of {top} paths is never right: no share kept can be drawn (name a .md file)"
        )
    return fixed


def _write(out: Path, replayed: Replay, fixed: FloatArray | None) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    if fixed is None:
        write_text(out, markdown(replayed))
        return
    try:
        figures: Any = importlib.import_module("keff.report.figures")
        vega: Any = importlib.import_module("keff.report.vega")
    except ImportError as error:
        raise missing_extra(error, "drawing the figure (or name a .md file)") from error
    vega.save(figures.policies(replayed.policies, fixed), out.with_suffix(""))


def fitting(cap: int) -> list[str]:
    """Return the default policies that make sense for so many recorded paths, with that cap."""
    specs = [PolicySpec.parse(spec) for spec in DEFAULTS]
    # Of these a value counts paths: a window, a lead or a number that is above the cap has no meaning.
    return [str(spec.with_cap(cap)) for spec in specs if not isinstance(spec.value, int) or spec.value <= cap]
