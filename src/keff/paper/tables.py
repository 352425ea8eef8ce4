"""TableColumns of the paper's tables (its columns, and ours beside them), also for any recorded paths."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from keff.errors import UsageError
from keff.paper import saturation
from keff.paper.records import ArmSample
from keff.paper.saturation import PILOT_K, SeriesEntry, rows_of
from keff.reading.open import Record
from keff.records import frozen
from keff.report.tables import Column, Row, Table, names


def _columns(text: str) -> tuple[Column, ...]:
    """Return columns from lines of ``key | header | format | LaTeX | key of the deviation``."""
    columns: list[Column] = []
    for line in text.strip().splitlines():
        key, header, style, latex, spread, *_ = *map(str.strip, line.split("|")), "", "", ""
        columns.append(Column(key, header, style, spread, latex))
    return tuple(columns)


@frozen
class TableColumns:
    """Columns of a table: the paper's, and keff's further ones, which have a file of their own."""

    printed: tuple[Column, ...]
    further: tuple[Column, ...] = ()

    @classmethod
    def of(cls, text: str) -> TableColumns:
        """Return a layout from lines of columns, with ``---`` before the further ones."""
        printed, _, further = text.partition("---\n")
        return cls(_columns(printed), _columns(further) if further else ())


LAYOUTS = {
    "table1": TableColumns.of(
        r"""
    k                  | K               | d   | $K$
    agree              | Agree           | .3f
    c                  | c-hat           | .3f | $\hat{c}$
    k_eff              | K_eff vote      | .2f | $K_{\mathrm{eff}}^{\mathrm{vote}}$
    ceiling            | Ceiling         | .2f
    percent_of_ceiling | % Ceil.         | .0f
    p                  | p               | .1% | $\bar{p}$ | p_std
    tokens             | Tokens          | .0f
    ---
    c_eq3              | c, Eq. 3        | .3f | $\hat{c}$, Eq.~3
    c_corrected        | c, corrected    | .3f | $\hat{c}$, corrected
    c_second_order     | c, second order | .3f | $\hat{c}$, 2nd order
        """
    ),
    "table2": TableColumns.of(
        r"""
    model     | Model
    c_pilot   | c-hat at K=4 | .2f | $\hat{c}_{K=4}$
    k_eff_4   | K_eff at 4   | .2f
    k_eff_8   | K_eff at 8   | .2f
    k_eff_16  | K_eff at 16  | .2f
    k_eff_32  | K_eff at 32  | .2f
    mv        | MV@K         | .1% | MV@$K$
    bb        | BB           | .1%
    binomial  | Binom        | .1%
    ---
    plurality | plurality@K  | .1% | plurality at $K$
        """
    ),
    "table3": TableColumns.of(
        r"""
    domain           | Domain
    benchmark        | Benchmark
    space            | Answer space
    n                | n             | d    | $n$
    delta_rho        | Mean Δρ       | +.1%
    delta_k_eff      | Mean ΔK_eff   | +.1f | Mean $\Delta K_{\mathrm{eff}}^{\mathrm{vote}}$
    rho_sc           | Mean ρ SC     | .2f  | Mean $\hat{\rho}_{\mathrm{SC}}$
    rho_pt           | Mean ρ PT     | .2f  | Mean $\hat{\rho}_{\mathrm{PT}}$
    ---
    corrected        | Δc, corrected | +.1%
    phi_ratio_change | Δ(ρ/ρ-max)    | +.1%
        """
    ),
    "table4": TableColumns.of(
        r"""
    task                | Task
    model               | Model
    c_pilot             | c-hat at K=4          | .2f | $\hat{c}_{K=4}$
    k_star              | K*                    | d   | $K^*$
    mv_star             | MV@K*                 | .1% | MV@$K^*$
    mv                  | MV@K                  | .1%
    retained            | Retained              | .0%
    net_cost            | Net cost              | .0%
    ---
    k_star_conservative | K*, 90% sure          | d   | $K^*$, 90\% sure
    average_retained    | Retained, all subsets | .1%
    plurality_star      | plurality@K*          | .1% | plurality at $K^*$
    plurality           | plurality@K           | .1% | plurality at $K$
        """
    ),
    "amortisation": TableColumns.of(
        r"""
    task         | Task
    model        | Model
    k_star       | K*                         | d   | $K^*$
    net_cost     | Net cost, pilot each time  | .0%
    repaid_after | Questions that repay it    | .0f
    cost_at_1000 | Cost at 1,000 questions    | .1%
        """
    ),
    "table8": TableColumns.of(
        r"""
    domain | Domain
    n      | n     | d    | $n$
    mv_sc  | MV SC | .1%  | MV$_{\mathrm{SC}}$
    mv_pt  | MV PT | .1%  | MV$_{\mathrm{PT}}$
    delta  | ΔAcc  | +.1% | $\Delta$Acc | delta_std
        """
    ),
    "table9": TableColumns.of(
        r"""
    k              | K                      | d | $K$
    mv             | Observed MV            | .1%
    bb_error       | Beta-binomial error    | .1%
    binomial_error | Independence error     | .1%
    ---
    average        | MV, all subsets        | .1%
    gain           | held-out gain over K=1 | +.1%
    bb_gain        | predicted gain         | +.1%
        """
    ),
    "table10": TableColumns.of(
        r"""
    model             | Model
    n                 | n                   | d   | $n$
    c_mean            | c-hat mean          | .3f | $\hat{c}$ mean
    c_std             | c-hat std           | .3f | $\hat{c}$ std
    k_star_mean       | K* mean             | .1f | $K^*$ mean
    k_star_std        | K* std              | .2f | $K^*$ std
    ---
    single_seed_c_std | c-hat std, one seed | .3f | $\hat{c}$ std, one seed
        """
    ),
    "table11": TableColumns.of(
        r"""
    model            | Model
    epsilon          | ε                     | g
    k_star           | K*                    | d   | $K^*$
    mv_star          | MV@K*                 | .1% | MV@$K^*$
    retained         | Retained              | .0%
    ---
    average_retained | Retained, all subsets | .1%
        """
    ),
    "arms": TableColumns.of(
        r"""
    task      | Task
    model     | Model
    n         | n              | d   | $n$
    questions | Questions      | d
    p         | p              | .1% | $\bar{p}$
    c         | c              | .2f | $c$
    c_lo      | from           | .2f
    c_hi      | to             | .2f
    rho       | c-hat, Pearson | .2f | $\hat{c}$, Pearson
    k_eff     | K_eff          | .2f | $K_{\mathrm{eff}}$
    ceiling   | Ceiling        | .2f
    majority  | majority@K     | .1% | majority at $K$
    plurality | plurality@K    | .1% | plurality at $K$
    k_star    | K*             | d   | $K^*$
    truncated | Truncated      | .1%
        """
    ),
}
# What every row of a study says of itself: in the paper's table only where rows differ in it.
NAMES = _columns(
    """
    arm     | Arm
    against | Against
    paths   | Paths | d
    """
)
ABOUT = (*NAMES, Column("seeds", "Seeds", "d"))

CAPTIONS = {
    "arms": "Effective paths and votes",
    "table1": "Effective diversity",
    "table2": "Saturation and beta-binomial calibration",
    "table3": "Prompt templates against one prompt, by benchmark",
    "table4": "Adaptive-K",
    "amortisation": "Cost of Adaptive-K with a pilot of 100 questions x 4 paths, as a share of all paths",
    "table8": "Majority vote under one prompt and under templates, by domain",
    "table9": "Observed vote and held-out prediction errors",
    "table10": "Size of the pilot",
    "table11": "Threshold of Adaptive-K",
}
GROUPS = {"table3": "domain", "table10": "model", "table11": "model"}


# The number of all paths drawn at the end of a header.
_ALL_PATHS = re.compile(r"(?<=@)K$|(?<=@)\$K\$$|(?<=at )\$K\$$")


def make(name: str, rows: Sequence[Row]) -> Table:
    """Return a table of the paper, numbered as there, with its columns, then ours.

    Columns that no row has are left out; where rows are about several models or tasks, these lead.
    """
    layout = LAYOUTS[name]
    return _table(name, rows, (*_leading(name, rows), *layout.printed, *layout.further, *ABOUT))


def printed_tables(name: str, rows: Sequence[Row]) -> list[Table]:
    """Return a table with the paper's columns alone, and one of keff's further columns (``_more``).

    The paper's has also what its rows differ in: tasks, models, arms, paths. The other names each row by as
    little as tells it apart.
    """
    layout = LAYOUTS[name]
    own = [column for column in NAMES if len({row.get(column.key) for row in rows}) > 1]
    table = _table(name, rows, (*_leading(name, rows), *own, *layout.printed))
    if not layout.further:
        return [table]
    named = names(table)
    rest = [column for column in ABOUT if column not in named]
    more = _table(name, rows, (*named, *layout.further, *rest))
    return [table, replace(more, name=f"{name}_more", caption=f"{table.caption}: beside the paper's columns")]


def _leading(name: str, rows: Sequence[Row]) -> list[Column]:
    keys = {column.key for column in LAYOUTS[name].printed}
    return [
        Column(key, header)
        for key, header in (("model", "Model"), ("task", "Task"))
        if len({row.get(key) for row in rows}) > 1 and key not in keys
    ]


def _table(name: str, rows: Sequence[Row], columns: Sequence[Column]) -> Table:
    """Return a table without columns that no row has; headers name the number of paths where it is one."""
    kept = [column for column in columns if any(column.key in row for row in rows)]
    paths = [number for number in dict.fromkeys(row.get("paths") for row in rows) if number is not None]
    if len(paths) == 1 and all(row.get("paths") for row in rows):

        def named(text: str) -> str:
            return _ALL_PATHS.sub(f"{paths[0]}", text)

        kept = [replace(each, header=named(each.header), latex=named(each.latex)) for each in kept]
    return Table(name, CAPTIONS[name], kept, rows, GROUPS.get(name, ""))


def tables(records: Sequence[Record], replicates: int, seed: int) -> list[Table]:
    """Return one row per record, and the paper's Tables 1, 4 and 11 for records of 4 or more paths.

    Raises UsageError for records without gold answers or with one path.
    """
    entries = [_entry(record) for record in records]
    made = [make("arms", rows_of(entries, saturation.summary))]
    deep = [entry for entry in entries if entry.sample.votes.k >= PILOT_K]
    if deep:
        made += [
            make("table1", rows_of(deep, saturation.table1)),
            make("table4", rows_of(deep, partial(saturation.table4, replicates=replicates, seed=seed))),
            make("table11", rows_of(deep, saturation.table11)),
        ]
    return made


def _entry(record: Record) -> SeriesEntry:
    votes = record.ballot.votes
    if votes.correct is None or votes.k < 2 or votes.n < 2:
        what = "no gold answers" if votes.correct is None else f"{votes.n} questions x {votes.k} paths"
        raise UsageError(
            f"{record.path} has {what}: the tables need gold answers, and two or more questions with two or "
            "more paths each"
        )
    model = record.info.model or Path(record.path).stem
    sample = ArmSample(votes, np.zeros(votes.n, np.int64), tuple(map(str, range(votes.n_clusters))), None)
    # Tables of the paper speak of 32 paths: every row says how many were drawn.
    return SeriesEntry(model, record.info.task or "–", sample, {"paths": votes.k})
