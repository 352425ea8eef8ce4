"""Compare stopping rules on recorded paths."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from keff.analysis.arms import open_arm
from keff.analysis.replay import Replaying, markdown, replay
from keff.analysis.results.replay import Replay, ReplayRow
from keff.cli import _console
from keff.cli import _options as o
from keff.errors import UsageError
from keff.plugins import missing_extra
from keff.policy_spec import PolicySpec
from keff.reading.open import Opening
from keff.records import Interval
from keff.stats.plurality import plurality_at_k_items
from keff.stats.votes import FloatArray, Votes

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


def command(
    path: o.ReplayPath,
    policy: o.Policies = None,
    cap: o.ReplayCap = None,
    replicates: o.Replicates = 1000,
    random_slots: o.RandomSlots = False,
    out: o.ReplayOut = None,
    format: o.Format = None,
    answer_space: o.AnswerSpaceName = None,
    answer_key: o.AnswerKey = None,
    trim: o.Trim = None,
    seed: o.AnalysisSeed = 0,
    json: o.Json = False,
) -> None:
    """Replay policies over the recorded paths of PATH."""
    if out is not None and out.suffix not in (".md", ".svg", ".pdf"):
        raise UsageError(f"--out {out}: name a .md, .svg or .pdf file")
    votes = open_arm(path, Opening(format, o.reading_of(answer_space, answer_key), trim)).ballot.votes
    if votes.correct is None:
        raise UsageError(f"{path} has no gold answers: accuracy cannot be compared")
    top = min(cap or 32, votes.k)
    fixed = None if out is None or out.suffix == ".md" else _fixed_curve(votes, top)
    chosen = policy or fitting(top)
    how = Replaying(cap=cap, replicates=replicates, random_slots=random_slots)
    found = replay(votes, chosen, np.random.default_rng(seed), how)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        _write(out, found, fixed)
    if json:
        _console.print_json(found.to_dict())
        return
    _console.result_console.print(_table(found))


def _fixed_curve(votes: Votes, top: int) -> FloatArray | None:
    """Return the accuracy of 1..top paths that the figure measures by, before any policy is replayed."""
    if votes.answers is None:
        return None
    fixed = plurality_at_k_items(votes).mean(axis=0)[:top]
    if fixed[-1] == 0:
        raise UsageError(
            f"the plurality of {top} paths is never right: no share kept can be drawn (name a .md file)"
        )
    return fixed


def _write(out: Path, found: Replay, fixed: FloatArray | None) -> None:
    if fixed is None:
        out.write_text(markdown(found), encoding="utf-8")
        return
    try:
        figures: Any = importlib.import_module("keff.report.figures")
    except ImportError as error:
        raise missing_extra(error, "drawing the figure (or name a .md file)") from error
    figures.save(figures.policies(found.policies, fixed), out.with_suffix(""))


def fitting(cap: int) -> list[str]:
    """Return the default policies that make sense for so many recorded paths, with that cap."""
    specs = [PolicySpec.parse(spec) for spec in DEFAULTS]
    # Of these a value counts paths: a window, a lead or a number that is above the cap has no meaning.
    return [str(spec.with_cap(cap)) for spec in specs if not isinstance(spec.value, int) or spec.value <= cap]


def _cells(row: ReplayRow) -> list[str]:
    return [
        row.policy,
        _share(row.accuracy),
        f"{row.mean_paths:.2f}",
        "–" if row.mean_tokens is None else f"{row.mean_tokens:,.0f}",
        f"{row.rounds:.1f}",
        _share(row.kept),
        _points(row.delta_at_equal_cost),
    ]


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


HEADERS = ("policy", "accuracy", "paths", "tokens", "rounds", "kept", "points at equal cost")


def _table(found: Replay) -> Table:
    size = f"{found.n} questions x {found.k} paths"
    title = f"{size}; kept is the share of plurality@{found.cap}; 95% intervals"
    table = Table(title=title, title_justify="left", box=None)
    for header in HEADERS:
        first = header == "policy"
        table.add_column(header, justify="left" if first else "right", no_wrap=not first, overflow="fold")
    for row in found.policies:
        table.add_row(*_cells(row))
    return table
