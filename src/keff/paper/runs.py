"""The paper's tables for any recorded paths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keff.errors import UsageError
from keff.paper import saturation
from keff.paper.estimators import PILOT_K, operating_point, rho
from keff.paper.records import Sample
from keff.paper.saturation import Entry
from keff.paper.tables import make
from keff.reading.open import Record
from keff.report.tables import Column, Table
from keff.stats.diversity import ceiling, k_eff
from keff.stats.intervals import interval_c
from keff.stats.majority import majority_at_k
from keff.stats.plurality import plurality_at_k

COLUMNS = (
    Column("model", "Model"),
    Column("task", "Task"),
    Column("n", "n", "d", latex="$n$"),
    Column("k", "K", "d", latex="$K$"),
    Column("p", "p", ".1%", latex=r"$\bar{p}$"),
    Column("c", "c", ".2f", latex="$c$"),
    Column("c_lo", "from", ".2f"),
    Column("c_hi", "to", ".2f"),
    Column("rho", "c-hat, Pearson", ".2f", latex=r"$\hat{c}$, Pearson"),
    Column("k_eff", "K_eff", ".2f", latex=r"$K_{\text{eff}}$"),
    Column("ceiling", "Ceiling", ".2f"),
    Column("majority", "MV@K", ".1%", latex="MV@$K$"),
    Column("plurality", "plurality@K", ".1%", latex="plurality@$K$"),
    Column("k_star", "K*", "d", latex="$K^*$"),
)


def tables(records: Sequence[Record], replicates: int, seed: int) -> list[Table]:
    """Return one line per record, then the paper's Tables 1, 4 and 11 for those with at least 4 paths.

    Raises UsageError for records without gold answers or with one path.
    """
    entries = [_entry(record) for record in records]
    summary = [_line(entry) for entry in entries]
    made = [Table("summary", "Effective paths and votes", COLUMNS, summary)]
    deep = [entry for entry in entries if entry.sample.votes.k >= PILOT_K]
    if deep:
        about = [entry.names for entry in deep]
        first = [
            a | row for a, entry in zip(about, deep, strict=True) for row in saturation.table1(entry.sample)
        ]
        made += [
            make("table1", first),
            make("table4", saturation.table4(deep, replicates, seed)),
            make("table11", saturation.table11(deep)),
        ]
    return made


def _entry(record: Record) -> Entry:
    votes = record.ballot.votes
    if votes.correct is None or votes.k < 2 or votes.n < 2:
        what = "no gold answers" if votes.correct is None else f"{votes.n} items x {votes.k} paths"
        raise UsageError(f"{record.path} has {what}: the tables need labels, and at least two of each")
    model = record.info.model or Path(record.path).stem
    sample = Sample(votes, np.zeros(votes.n, np.int64), tuple(map(str, range(votes.n_clusters))), None)
    # Tables of the paper speak of 32 paths: every row says how many were drawn.
    return Entry(model, record.info.task or "–", sample, {"paths": votes.k})


def _line(entry: Entry) -> dict[str, Any]:
    votes = entry.sample.votes
    c = interval_c(votes)
    return {
        "model": entry.model,
        "task": entry.task,
        "n": votes.n,
        "k": votes.k,
        "p": votes.p,
        "c": c.value,
        "c_lo": c.lo,
        "c_hi": c.hi,
        "rho": rho(votes),
        "k_eff": float(k_eff(votes.k, c.value)),
        "ceiling": float(ceiling(c.value)),
        "majority": float(majority_at_k(votes)[-1]),
        "plurality": None if votes.answers is None else float(plurality_at_k(votes)[-1]),
        "k_star": _star(rho(votes, min(votes.k, PILOT_K))),
    }


def _star(c: float) -> int | None:
    """Return K*; None without a positive c, where the paper's 32 would name paths that nobody drew."""
    return operating_point(c) if c > 0 else None
