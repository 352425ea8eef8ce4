"""How the paper's tables look (columns of its own first, then ours), and those of any recorded paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keff.errors import UsageError
from keff.paper import saturation
from keff.paper.records import ArmSample
from keff.paper.saturation import PILOT_K, SeriesEntry, operating_point, rho
from keff.reading.open import Record
from keff.report.tables import Column, Table

Row = Mapping[str, Any]

# Columns that several tables have.
MODEL = Column("model", "Model")
TASK = Column("task", "Task")
N = Column("n", "n", "d", latex="$n$")
K = Column("k", "K", "d", latex="$K$")
C_PILOT = Column("c_pilot", "c-hat at K=4", ".2f", latex=r"$\hat{c}_{K=4}$")
K_STAR = Column("k_star", "K*", "d", latex="$K^*$")
MV_STAR = Column("mv_star", "MV@K*", ".1%", latex="MV@$K^*$")
RETAINED = Column("retained", "Retained", ".0%")
ALL_RETAINED = Column("average_retained", "Retained, all subsets", ".1%")
PLURALITY = Column("plurality", "plurality@K", ".1%", latex="plurality at $K$")
P = Column("p", "p", ".1%", latex=r"$\bar{p}$")
CEILING = Column("ceiling", "Ceiling", ".2f")
DOMAIN = Column("domain", "Domain")
C = (
    Column("c", "c", ".2f", latex="$c$"),
    Column("c_lo", "from", ".2f"),
    Column("c_hi", "to", ".2f"),
)

COLUMNS: dict[str, tuple[Column, ...]] = {
    "table1": (
        K,
        Column("agree", "Agree", ".3f"),
        Column("c", "c-hat", ".3f", latex=r"$\hat{c}$"),
        Column("k_eff", "K_eff vote", ".2f", latex=r"$K_{\mathrm{eff}}^{\mathrm{vote}}$"),
        CEILING,
        Column("percent_of_ceiling", "% Ceil.", ".0f"),
        Column("p", "p", ".1%", spread="p_std", latex=r"$\bar{p}$"),
        Column("tokens", "Tokens", ".0f"),
        Column("c_eq3", "c, Eq. 3", ".3f", latex=r"$\hat{c}$, Eq.~3"),
        Column("c_corrected", "c, corrected", ".3f", latex=r"$\hat{c}$, corrected"),
        Column("c_second_order", "c, second order", ".3f", latex=r"$\hat{c}$, 2nd order"),
    ),
    "table2": (
        MODEL,
        C_PILOT,
        *(Column(f"k_eff_{k}", f"K_eff at {k}", ".2f") for k in (4, 8, 16, 32)),
        Column("mv", "MV@K", ".1%", latex="MV@$K$"),
        Column("bb", "BB", ".1%"),
        Column("binomial", "Binom", ".1%"),
        PLURALITY,
    ),
    "table3": (
        DOMAIN,
        Column("benchmark", "Benchmark"),
        Column("space", "Answer space"),
        N,
        Column("delta_rho", "Mean Δρ", "+.1%"),
        Column("delta_k_eff", "Mean ΔK_eff", "+.1f", latex=r"Mean $\Delta K_{\mathrm{eff}}^{\mathrm{vote}}$"),
        Column("rho_sc", "Mean ρ SC", ".2f", latex=r"Mean $\hat{\rho}_{\mathrm{SC}}$"),
        Column("rho_pt", "Mean ρ PT", ".2f", latex=r"Mean $\hat{\rho}_{\mathrm{PT}}$"),
        Column("corrected", "Δc, corrected", "+.1%"),
        Column("phi_ratio_change", "Δ(ρ/ρ-max)", "+.1%"),
    ),
    "table4": (
        TASK,
        MODEL,
        C_PILOT,
        K_STAR,
        MV_STAR,
        Column("mv", "MV@K", ".1%"),
        RETAINED,
        Column("net_cost", "Net cost", ".0%"),
        Column("k_star_conservative", "K*, 90% sure", "d", latex=r"$K^*$, 90\% sure"),
        ALL_RETAINED,
        Column("plurality_star", "plurality@K*", ".1%", latex="plurality at $K^*$"),
        PLURALITY,
    ),
    "table8": (
        DOMAIN,
        N,
        Column("mv_sc", "MV SC", ".1%", latex=r"MV$_{\mathrm{SC}}$"),
        Column("mv_pt", "MV PT", ".1%", latex=r"MV$_{\mathrm{PT}}$"),
        Column("delta", "ΔAcc", "+.1%", spread="delta_std", latex=r"$\Delta$Acc"),
    ),
    "table9": (
        K,
        Column("mv", "Observed MV", ".1%"),
        Column("bb_error", "Beta-binomial error", ".1%"),
        Column("binomial_error", "Independence error", ".1%"),
        Column("average", "MV, all subsets", ".1%"),
        Column("gain", "held-out gain over K=1", "+.1%"),
        Column("bb_gain", "predicted gain", "+.1%"),
    ),
    "table10": (
        MODEL,
        N,
        Column("c_mean", "c-hat mean", ".3f", latex=r"$\hat{c}$ mean"),
        Column("c_std", "c-hat std", ".3f", latex=r"$\hat{c}$ std"),
        Column("k_star_mean", "K* mean", ".1f", latex="$K^*$ mean"),
        Column("k_star_std", "K* std", ".2f", latex="$K^*$ std"),
        Column("single_seed_c_std", "c-hat std, one seed", ".3f", latex=r"$\hat{c}$ std, one seed"),
    ),
    "table11": (
        MODEL,
        Column("epsilon", "ε", "g"),
        K_STAR,
        MV_STAR,
        RETAINED,
        ALL_RETAINED,
    ),
}
COLUMNS["arms"] = (
    TASK,
    MODEL,
    N,
    Column("questions", "Questions", "d"),
    P,
    *C,
    Column("k_eff", "K_eff", ".2f", latex=r"$K_{\mathrm{eff}}$"),
    CEILING,
    Column("majority", "majority@K", ".1%", latex="majority at $K$"),
    PLURALITY,
    Column("truncated", "Truncated", ".1%"),
)
# What every row of a study says of its arm, after the columns of the table.
ABOUT = (
    Column("arm", "Arm"),
    Column("against", "Against"),
    Column("paths", "Paths", "d"),
    Column("seeds", "Seeds", "d"),
)

CAPTIONS = {
    "arms": "Every arm of the study",
    "table1": "Effective diversity",
    "table2": "Saturation and beta-binomial calibration",
    "table3": "Prompt templates against one prompt, by benchmark",
    "table4": "Adaptive-K",
    "table8": "Majority vote under one prompt and under templates, by domain",
    "table9": "Observed vote and held-out prediction errors",
    "table10": "Size of the pilot",
    "table11": "Threshold of Adaptive-K",
}
GROUPS = {"table3": "domain", "table10": "model", "table11": "model"}


def make(name: str, rows: Sequence[Row]) -> Table:
    """Return a table of the paper, numbered as there.

    Columns that no row has are left out; where rows are about several models or tasks, these lead.
    """
    columns = COLUMNS[name]
    for key, header in (("task", "Task"), ("model", "Model")):
        several = len({row.get(key) for row in rows}) > 1
        if several and key not in {column.key for column in columns}:
            columns = (Column(key, header), *columns)
    kept = [column for column in (*columns, *ABOUT) if any(column.key in row for row in rows)]
    return Table(name, CAPTIONS[name], kept, rows, GROUPS.get(name, ""))


SUMMARY = (
    MODEL,
    TASK,
    N,
    K,
    P,
    *C,
    Column("rho", "c-hat, Pearson", ".2f", latex=r"$\hat{c}$, Pearson"),
    Column("k_eff", "K_eff", ".2f", latex=r"$K_{\mathrm{eff}}$"),
    CEILING,
    Column("majority", "MV@K", ".1%", latex="MV@$K$"),
    PLURALITY,
    K_STAR,
)


def tables(records: Sequence[Record], replicates: int, seed: int) -> list[Table]:
    """Return one line per record, then the paper's Tables 1, 4 and 11 for those with at least 4 paths.

    Raises UsageError for records without gold answers or with one path.
    """
    entries = [_entry(record) for record in records]
    summary = [_line(entry) for entry in entries]
    made = [Table("summary", "Effective paths and votes", SUMMARY, summary)]
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


def _entry(record: Record) -> SeriesEntry:
    votes = record.ballot.votes
    if votes.correct is None or votes.k < 2 or votes.n < 2:
        what = "no gold answers" if votes.correct is None else f"{votes.n} items x {votes.k} paths"
        raise UsageError(f"{record.path} has {what}: the tables need labels, and at least two of each")
    model = record.info.model or Path(record.path).stem
    sample = ArmSample(votes, np.zeros(votes.n, np.int64), tuple(map(str, range(votes.n_clusters))), None)
    # Tables of the paper speak of 32 paths: every row says how many were drawn.
    return SeriesEntry(model, record.info.task or "–", sample, {"paths": votes.k})


def _line(entry: SeriesEntry) -> dict[str, Any]:
    votes = entry.sample.votes
    c = rho(votes, min(votes.k, PILOT_K))
    # Without a positive c the paper's 32 would name paths that nobody drew.
    star = operating_point(c) if c > 0 else None
    about = {"n": votes.n, "k": votes.k, "rho": rho(votes), "k_star": star}
    return entry.names | about | saturation.votes_row(votes)
