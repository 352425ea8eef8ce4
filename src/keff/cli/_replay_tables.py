"""A replay as tables: one line per policy, no table wider than the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from rich.table import Table

from keff.analysis.results.replay import Replay, ReplayRow
from keff.records import Interval


def _share(value: Interval | None) -> str:
    return "–" if value is None else value.percent()


def _points(value: Interval | None) -> str:
    """Format a difference of shares in percentage points, with signs."""
    if value is None or math.isnan(value.value):
        return "–"
    if value.limits is None:
        return f"{100 * value.value:+.1f}"
    lo, hi = value.limits
    return f"{100 * value.value:+.1f} [{100 * lo:+.1f}, {100 * hi:+.1f}]"


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
    return "–" if row.change is None else _points(row.change.accuracy)


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
    "points at equal cost": lambda row: _points(row.delta_at_equal_cost),
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
