"""One cell of the matrix: one model on one benchmark under one prompt and under templates."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keff.paper.layout import Benchmark
from keff.paper.records import Sample, align
from keff.stats.compare import ArmPlan, arm_draws, compare_arms
from keff.stats.correlation import anova_c, correlation_matrix, pearson_c, pooled_c
from keff.stats.diversity import k_eff, k_eff_block
from keff.stats.majority import majority_prefix
from keff.stats.slots import phi_audit, slot_cv
from keff.stats.votes import FloatArray, Votes
from keff.stats.weights import Weighting, judge_weights, oracle_optimism

FLOOR = 0.02
"""Below this accuracy of one path under one prompt a cell is not valid."""

FOR_WIDTHS = 2500
"""Bootstrap draws of intervals of which only the widths over all cells are told."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a cell stands: its model and its benchmark, with the benchmark's labels in Table 3."""

    model: str
    benchmark: Benchmark


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One model on one benchmark.

    All its numbers, the correlations [K, K] of its template slots, and the bootstrap draws of its relative
    change [B].
    """

    place: Place
    numbers: dict[str, Any]
    slots: FloatArray = field(repr=False)
    draws: FloatArray | None = field(default=None, repr=False)

    @property
    def domain(self) -> str:
        """The domain of the benchmark."""
        return self.place.benchmark.domain

    @property
    def valid(self) -> bool:
        """Whether one path is right under self-consistency in at least 2% of cases, and rho is defined."""
        return self.numbers["p_sc"] >= FLOOR and not math.isnan(self.numbers["delta_rho"])


def measure(place: Place, arms: tuple[Sample, Sample], replicates: int, rng: np.random.Generator) -> Cell:
    """Return one cell: the paper's estimators with row resampling, and ours with the paired bootstrap."""
    sc, pt = (arm.votes for arm in align(*arms))
    rho_sc, rho_pt = pearson_c(sc)[0], pearson_c(pt)[0]
    relative = (rho_pt - rho_sc) / abs(rho_sc) if rho_sc else math.nan
    numbers: dict[str, Any] = {
        "model": place.model,
        "benchmark": place.benchmark.label,
        "domain": place.benchmark.domain,
        "n_sc": sc.n,
        "n_pt": pt.n,
        "p_sc": sc.p,
        "p_pt": pt.p,
        "rho_sc": rho_sc,
        "rho_pt": rho_pt,
        "delta_rho": relative,
        "delta_k_eff": float(k_eff(pt.k, rho_pt) - k_eff(sc.k, rho_sc)),
        "mv_sc": float(majority_prefix(sc)[-1]),
        "mv_pt": float(majority_prefix(pt)[-1]),
        "diversity_sc": None if arms[0].diversity is None else float(arms[0].diversity.mean()),
        **_weighting(sc, pt, rng),
        **_block(pt, rho_pt),
        **_audit(sc, pt),
    }
    slots = correlation_matrix(pt)
    if sc.p in (0.0, 1.0) or pt.p in (0.0, 1.0):
        return Cell(place, numbers, slots)
    draws = arm_draws(sc, pt, rng, ArmPlan("pearson", "rows", replicates)).relative
    numbers |= _limits("rows", draws)
    found = compare_arms(sc, pt, rng, ArmPlan("anova", "paired", replicates)).relative
    numbers |= {"corrected": found.value, "paired_lo": found.lo, "paired_hi": found.hi}
    # With the paper's estimator, too: else nobody sees what the resampling does and what the estimator.
    same = compare_arms(sc, pt, rng, ArmPlan("pearson", "paired", min(replicates, FOR_WIDTHS))).relative
    numbers |= {"paired_rho_lo": same.lo, "paired_rho_hi": same.hi}
    return Cell(place, numbers, slots, draws)


def _weighting(sc: Votes, pt: Votes, rng: np.random.Generator) -> dict[str, Any]:
    """Return accuracy-weighted voting over template slots, and the oracle under one prompt."""
    plain = judge_weights(sc, Weighting("accuracy"), rng)
    found = judge_weights(pt, Weighting("accuracy"), rng)
    c = min(max(anova_c(sc), 0.0), 1.0) if 0 < sc.p < 1 else 1.0
    return {
        "slot_cv": slot_cv(pt),
        "weighted_gain": found.in_sample - found.uniform,
        "weighted_gain_cross_fitted": found.gain,
        "best_slot_gain": found.best_slot - found.uniform,
        "sc_slot_cv": slot_cv(sc),
        "sc_oracle_gain": plain.in_sample - plain.uniform,
        "sc_oracle_expected": oracle_optimism(sc.p, c, sc.k, sc.n) if 0 < sc.p < 1 and c < 1 else 0.0,
        "sc_gain_cross_fitted": plain.gain,
    }


def _block(pt: Votes, rho_pt: float) -> dict[str, Any]:
    block = k_eff_block(pt, ddof=1)
    return {
        "block_over_vote": block / float(k_eff(pt.k, rho_pt)),
        "block_over_vote_pooled": k_eff_block(pt) / float(k_eff(pt.k, pooled_c(pt)))
        if 0 < pt.p < 1
        else math.nan,
    }


def _audit(sc: Votes, pt: Votes) -> dict[str, Any]:
    """Return how phi over its bound changes.

    What is left of a fall once unequal accuracies are allowed for.
    """
    before, after = phi_audit(sc).ratio, phi_audit(pt).ratio
    return {"phi_ratio_change": after / before - 1 if before else math.nan}


def _limits(name: str, draws: FloatArray) -> dict[str, Any]:
    kept = draws[~np.isnan(draws)]
    if not kept.size:
        return {f"{name}_lo": None, f"{name}_hi": None}
    lo, hi = np.quantile(kept, [0.025, 0.975])
    return {f"{name}_lo": float(lo), f"{name}_hi": float(hi)}
