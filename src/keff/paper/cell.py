"""One cell of the paper's matrix: a model on a benchmark, under one prompt and under templates."""

from __future__ import annotations

import math
from dataclasses import field, fields
from typing import Literal

import numpy as np

from keff.paper.records import ArmSample, PaperBenchmark, align
from keff.records import Json, Result, frozen, plain
from keff.stats.branches.compare import ArmPlan, compare_arms
from keff.stats.branches.slots import phi_audit, slot_cv
from keff.stats.branches.weights import judge_weights, oracle_optimism
from keff.stats.models.betabinomial import majority_prefix
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.choose import k_eff, k_eff_block
from keff.stats.voting.correlation import anova_c, correlation_matrix

# What an interval is of: the change of rho, or of the corrected c.
Changing = Literal["rho", "corrected"]

# Below this accuracy of one path under one prompt a cell is not valid.
FLOOR = 0.02


@frozen
class MatrixCell(Result):
    """One cell of the matrix: ``sc`` is the arm under one prompt, ``pt`` the arm under templates.

    ``rho_lo`` and ``rho_hi`` are limits of ``delta_rho`` by the bootstrap of the cell's design, ``draws`` its
    draws [B]; ``corrected`` is the change of the corrected c, its limits by resampling the questions of both
    arms together. Limits are None where there is no variation. ``slots`` are the correlations [K, K] of the
    template slots.
    """

    model: str
    about: PaperBenchmark = field(repr=False)
    n_sc: int
    n_pt: int
    p_sc: float
    p_pt: float
    rho_sc: float
    rho_pt: float
    delta_rho: float
    delta_k_eff: float
    mv_sc: float
    mv_pt: float
    diversity_sc: float | None
    slot_cv: float
    weighted_gain: float
    weighted_gain_cross_fitted: float
    best_slot_gain: float
    sc_slot_cv: float
    sc_oracle_gain: float
    sc_oracle_expected: float
    sc_gain_cross_fitted: float
    block_over_vote: float
    phi_ratio_change: float
    slots: FloatArray = field(repr=False)
    rho_lo: float | None
    rho_hi: float | None
    corrected: float
    corrected_lo: float | None
    corrected_hi: float | None
    draws: FloatArray = field(repr=False)

    @property
    def valid(self) -> bool:
        """Whether the cell counts: one path is right in 2% of cases or more, and rho is defined."""
        return self.p_sc >= FLOOR and not math.isnan(self.delta_rho)

    def limits(self, kind: Changing) -> tuple[float, float] | None:
        """Return the interval of a relative change; None where undefined."""
        lo, hi = getattr(self, f"{kind}_lo"), getattr(self, f"{kind}_hi")
        return None if lo is None or hi is None else (lo, hi)

    def to_dict(self) -> dict[str, Json]:
        """Return the cell's entry in numbers.json."""
        named: dict[str, Json] = {
            "model": self.model,
            "benchmark": self.about.label,
            "domain": self.about.domain,
        }
        numbers = {each.name: plain(getattr(self, each.name)) for each in fields(self) if each.repr}
        return named | numbers | {"valid": self.valid}


def measure(
    model: str,
    about: PaperBenchmark,
    arms: tuple[ArmSample, ArmSample],
    replicates: int,
    rng: np.random.Generator,
    design: Literal["rows", "paired"] = "rows",
) -> MatrixCell:
    """Return one measured cell: the paper's estimators, and ours with the paired cluster bootstrap.

    ``design`` is what the draws of the change of rho resample: "rows" as the paper does, for `reproduce`
    alone, since rows of one question are not independent; else the questions of both arms together.
    """
    sc, pt = (arm.votes for arm in align(*arms))
    diversity = arms[0].diversity
    weighting = _weighting(sc, pt, rng)
    theirs, _ = compare_arms(sc, pt, rng, ArmPlan(design, replicates))
    _, ours = compare_arms(sc, pt, rng, ArmPlan("paired", replicates))
    rho_sc, rho_pt = theirs.c
    return MatrixCell(
        model=model,
        about=about,
        n_sc=sc.n,
        n_pt=pt.n,
        p_sc=sc.p,
        p_pt=pt.p,
        rho_sc=rho_sc,
        rho_pt=rho_pt,
        delta_rho=theirs.relative.value,
        delta_k_eff=theirs.delta_k_eff.value,
        mv_sc=majority_prefix(sc)[-1],
        mv_pt=majority_prefix(pt)[-1],
        diversity_sc=None if diversity is None else diversity[:, sc.k - 1].mean(),
        **weighting,
        block_over_vote=k_eff_block(pt, ddof=1) / float(k_eff(pt.k, rho_pt)),
        phi_ratio_change=_phi_change(sc, pt),
        slots=correlation_matrix(pt),
        rho_lo=theirs.relative.lo,
        rho_hi=theirs.relative.hi,
        corrected=ours.relative.value,
        corrected_lo=ours.relative.lo,
        corrected_hi=ours.relative.hi,
        draws=theirs.draws,
    )


def _weighting(sc: Votes, pt: Votes, rng: np.random.Generator) -> dict[str, float]:
    """Return accuracy-weighted votes over template slots, and the oracle under one prompt."""
    plain = judge_weights(sc, "accuracy", "binary", rng)
    judged = judge_weights(pt, "accuracy", "binary", rng)
    c = min(max(anova_c(sc), 0.0), 1.0) if 0 < sc.p < 1 else 1.0
    return {
        "slot_cv": slot_cv(pt),
        "weighted_gain": judged.in_sample - judged.uniform,
        "weighted_gain_cross_fitted": judged.gain,
        "best_slot_gain": judged.best_slot - judged.uniform,
        "sc_slot_cv": slot_cv(sc),
        "sc_oracle_gain": plain.in_sample - plain.uniform,
        "sc_oracle_expected": oracle_optimism(sc.p, c, sc.k, sc.n) if 0 < sc.p < 1 and c < 1 else 0.0,
        "sc_gain_cross_fitted": plain.gain,
    }


def _phi_change(sc: Votes, pt: Votes) -> float:
    """Return the change of phi relative to its bound.

    What is left of a fall once unequal accuracies are allowed for.
    """
    before, after = phi_audit(sc).ratio, phi_audit(pt).ratio
    return after / before - 1 if before else math.nan
