"""Tables 1, 2, 4, 9, 10, 11 and Figure 2, by the estimators of the paper's own scripts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field
from typing import TypeAlias

import numpy as np

from keff.paper.records import ArmSample
from keff.records import Json, frozen
from keff.stats.branches.compare import c_from_totals, row_sums
from keff.stats.influence import cross_run_c
from keff.stats.intervals import interval_c, interval_mean
from keff.stats.models.betabinomial import (
    majority_at_k,
    majority_at_k_items,
    majority_beta_binomial,
    majority_binomial,
    majority_prefix,
    majority_prefix_items,
)
from keff.stats.resampling import group_sums, resampled_totals
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.choose import (
    ceiling,
    k_eff,
    k_star,
    k_star_interval,
    percent_of_ceiling,
    pilot_cost,
)
from keff.stats.voting.correlation import anova_c, correctness_agreement, pearson_c, pooled_c, second_order_c
from keff.stats.voting.plurality import plurality_at_k

# K0 = 4: the paper's pilot.
PILOT_K = 4
# Of the split into pilot and held-out questions; any fixed one would do.
HELD_OUT_SEED = 2026
# The paper's K_max.
K_MAX = 32
# The paper's K* is neither clipped nor capped in its tables.
UNCAPPED = 10**9


def prefix(votes: Votes, k: int) -> Votes:
    """Return the votes of the first k paths."""
    return votes.paths(np.arange(k))


def rho(votes: Votes, k: int | None = None) -> float:
    """Return the paper's c-hat: the mean pairwise Pearson correlation of the first k paths."""
    return pearson_c(votes if k is None else prefix(votes, k))[0]


def operating_point(c: float, epsilon: float = 0.025) -> int:
    """Return K* by Eq. 12 as in the paper's tables: c not clipped, K* not capped, K_max for c <= 0.

    A resampled c may pass 1 by a rounding error, which counts as 1.
    """
    return k_star(min(c, 1.0), epsilon, UNCAPPED, clip=None) if c > 0 else K_MAX


def beta_binomial(k: int, p: float, c: float) -> float:
    """Return the predicted majority vote of moment estimates; independence where c <= 0 or undefined."""
    c = 0.0 if math.isnan(c) else c
    return float(majority_beta_binomial(k, p, min(max(c, 0.0), 1.0)))


def held_out_errors(sample: ArmSample, ks: Sequence[int]) -> dict[str, FloatArray]:
    """Return the paper's held-out test by K: observed vote, two predictions, absolute errors.

    Instances are shuffled with seed 2026 and halved; p and c come from the first 4 paths of one half, the
    vote of the first K paths from the other. All are averaged over both directions; each [len(ks)].
    """
    order = np.arange(len(sample.names))
    np.random.default_rng(HELD_OUT_SEED).shuffle(order)
    half = np.isin(sample.votes.cluster_ids, order[: order.size // 2])
    folds: list[tuple[FloatArray, ...]] = []
    for fit, test in ((half, ~half), (~half, half)):
        pilot = prefix(sample.votes.take(fit), PILOT_K)
        c = rho(pilot)
        observed = majority_prefix(sample.votes.take(test))[np.array(ks, int) - 1]
        bb = np.array([beta_binomial(k, pilot.p, c) for k in ks])
        binomial = np.array([majority_binomial(k, pilot.p) for k in ks])
        folds.append((observed, bb, binomial, np.abs(bb - observed), np.abs(binomial - observed)))
    names = ("observed", "bb", "binomial", "bb_error", "binomial_error")
    return dict(zip(names, np.mean(folds, axis=0), strict=True))


def pilot_draws(votes: Votes, n: int, replicates: int, rng: np.random.Generator) -> FloatArray:
    """Return c-hat [replicates] from the first 4 paths of n drawn instances, all seeds of each."""
    pilot = prefix(votes, PILOT_K)
    sums = group_sums(row_sums(pilot, "pearson"), pilot.cluster_ids, pilot.n_clusters)
    weights = rng.multinomial(n, np.full(sums.shape[0], 1 / sums.shape[0]), size=replicates)
    return c_from_totals(sums.T @ weights.T, PILOT_K, "pearson")


def vote_gap(votes: Votes, k: int, replicates: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the 95% interval of MV@k minus MV@32 (first paths), by a cluster bootstrap over instances."""
    items = majority_prefix_items(votes)
    rows = np.stack([np.ones(votes.n), items[:, min(k, votes.k) - 1] - items[:, -1]], axis=1)
    totals = resampled_totals(group_sums(rows, votes.cluster_ids, votes.n_clusters), replicates, rng)
    lo, hi = np.quantile(totals[1] / totals[0], [0.025, 0.975])
    return float(lo), float(hi)


def per_seed(values: FloatArray, sample: ArmSample) -> tuple[float, float]:
    """Return mean and sample standard deviation over seeds of the seeds' means."""
    means = [values[sample.seeds == seed].mean() for seed in np.unique(sample.seeds)]
    return float(np.mean(means)), float(np.std(means, ddof=1)) if len(means) > 1 else math.nan


def ratio(part: float, whole: float) -> float:
    """Return part over whole; NaN where whole is 0."""
    return part / whole if whole else math.nan


# As the paper's tables have them, so that each number stands beside its own.
KS = (4, 8, 16, 32)
EPSILONS = (0.01, 0.025, 0.05, 0.1)
PILOTS = (25, 50, 100, 200)
# Simulated pilots per size: the spread of K* is then known to 3%.
PILOT_REPLICATES = 500
# 100 questions of 4 paths: the paper's pilot, which the savings have to repay.
PILOT_PATHS = 400
# Questions that come under several seeds: with fewer, c across runs is not given.
FEWEST_REPEATED = 30

# What compares K* with all paths drawn.
RETAINED = ("retained", "gap_lo", "gap_hi", "average_retained", "average_gap_lo", "average_gap_hi")

TableRows: TypeAlias = list[dict[str, Json]]


@frozen
class SeriesEntry:
    """One model on one task under one prompt, with table labels."""

    model: str
    task: str
    sample: ArmSample
    about: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @property
    def names(self) -> dict[str, Json]:
        """The first columns of its rows: task, model, and arm of a study."""
        return {"task": self.task, "model": self.model, **self.about}


def rows_of(entries: Sequence[SeriesEntry], make: Callable[[ArmSample], TableRows]) -> TableRows:
    """Return the rows that ``make`` gives for each arm, with its names."""
    return [entry.names | row for entry in entries for row in make(entry.sample)]


def ks_of(votes: Votes) -> tuple[int, ...]:
    """Return the numbers of paths shown in tables: 4, 8, 16, 32, as far as recorded."""
    return tuple(k for k in KS if k <= votes.k)


def _plurality(votes: Votes) -> Sequence[float | None]:
    """Return the accuracy of the plurality by number of paths; None without answers."""
    return [None] * votes.k if votes.answers is None else plurality_at_k(votes).tolist()


def summary(sample: ArmSample) -> TableRows:
    """Summary of one arm: accuracy, c with its 95% interval, K_eff and K* at that c, and both votes."""
    votes = sample.votes
    row: dict[str, Json] = {"n": votes.n, "questions": votes.n_clusters, "truncated": sample.truncated}
    row |= {"p": votes.p, "majority": majority_at_k(votes)[-1], "plurality": _plurality(votes)[-1]}
    row |= dict.fromkeys(("c", "c_lo", "c_hi", "rho", "k_eff", "ceiling", "k_star"))
    if votes.k < 2 or not 0 < votes.p < 1:
        return [row]
    c = interval_c(votes)
    row |= {"c": c.value, "c_lo": c.lo, "c_hi": c.hi, "rho": rho(votes)}
    row |= {"k_eff": float(k_eff(votes.k, c.value)), "ceiling": float(ceiling(c.value))}
    # Without a positive c the paper's 32 would name paths that nobody drew.
    return [row | {"k_star": operating_point(c.value) if c.value > 0 else None}]


def table1(sample: ArmSample) -> TableRows:
    """Table 1: effective diversity by K on GSM8K; ours: Eq. 3, and c bias-corrected."""
    rows: TableRows = []
    for k in (1, *ks_of(sample.votes)):
        votes = prefix(sample.votes, k)
        mean, deviation = per_seed(votes.scored().mean(axis=1), sample)
        tokens = None if votes.tokens is None else votes.tokens.sum(axis=1).mean()
        row: dict[str, Json] = {"k": k, "p": mean, "p_std": deviation, "tokens": tokens, "k_eff": 1.0}
        if k > 1:
            c = rho(votes)
            row |= {
                "agree": correctness_agreement(votes),
                "c": c,
                "c_eq3": pooled_c(votes),
                "c_corrected": anova_c(votes),
                "c_second_order": float(second_order_c(votes.hist)),
                "k_eff": float(k_eff(k, c)),
                "ceiling": float(ceiling(c)),
                "percent_of_ceiling": float(percent_of_ceiling(k, c)),
            }
        rows.append(row)
    return rows


def observed_rows(sample: ArmSample) -> TableRows:
    """Rows of the saturation figure: K_eff observed with the first K paths, and c of all."""
    rows = table1(sample)
    return [{"k": row["k"], "k_eff": row["k_eff"], "c": rows[-1].get("c")} for row in rows]


def table2(sample: ArmSample) -> TableRows:
    """Table 2: saturation and in-sample calibration by model."""
    votes = sample.votes
    c = {k: rho(votes, k) for k in {*ks_of(votes), votes.k}}
    row: dict[str, Json] = {f"k_eff_{k}": float(k_eff(k, c[k])) for k in ks_of(votes)}
    row |= {
        "c_pilot": c[PILOT_K],
        "mv": majority_prefix(votes)[-1],
        "bb": beta_binomial(votes.k, votes.p, c[votes.k]),
        "binomial": float(majority_binomial(votes.k, votes.p)),
        "plurality": _plurality(votes)[-1],
    }
    return [row]


def table4(sample: ArmSample, replicates: int, seed: int) -> TableRows:
    """Table 4: Adaptive-K by cell; ours: subset averages, plurality, conservative K*."""
    return [adaptive_k(sample, replicates, np.random.default_rng([seed, 4]))]


def adaptive_k(sample: ArmSample, replicates: int, rng: np.random.Generator) -> dict[str, Json]:
    """Return one row of Table 4, without the names.

    K* is not capped, as in the paper. Where it passes the paths that were drawn, nothing can be said of its
    vote (None).
    """
    votes = sample.votes
    c = rho(votes, PILOT_K)
    # As Table 4 has it.
    epsilon = 0.025
    star = operating_point(c, epsilon)
    at = min(star, votes.k) - 1
    first = majority_prefix(votes)
    lo, hi = vote_gap(votes, star, replicates, rng)
    averages, plurality = majority_at_k_items(votes), _plurality(votes)
    gap = interval_mean(averages[:, at] - averages[:, -1], votes.clusters)
    pilot = interval_c(prefix(votes, PILOT_K), level=0.8)
    repeated = np.count_nonzero(np.bincount(votes.cluster_ids) > 1)
    row: dict[str, Json] = {
        "c_pilot": c,
        "k_star": star,
        "mv_star": first[at],
        "mv": first[-1],
        "retained": ratio(first[at], first[-1]),
        "gap_lo": lo,
        "gap_hi": hi,
        **costs(star, votes.k),
        "c_corrected": anova_c(prefix(votes, PILOT_K)),
        # With few questions that repeat it would rest on these alone.
        "c_cross_run": cross_run_c(votes) if repeated >= FEWEST_REPEATED else None,
        # Capped as little as K* is, which it can then not fall below.
        "k_star_conservative": max(star, k_star_interval(pilot, epsilon, UNCAPPED)[1]),
        "average_star": averages[:, at].mean(),
        "average": averages[:, -1].mean(),
        "average_retained": ratio(averages[:, at].mean(), averages[:, -1].mean()),
        "average_gap_lo": gap.lo,
        "average_gap_hi": gap.hi,
        "plurality_star": plurality[at],
        "plurality": plurality[-1],
    }
    if star > votes.k:
        row |= dict.fromkeys(("mv_star", "average_star", "plurality_star"))
        row |= dict.fromkeys(RETAINED)
    return row


def costs(star: int, paths: int) -> dict[str, Json]:
    """Return the costs of K* and the paper's pilot as shares of all paths, and the queries to break even."""
    return dict(asdict(pilot_cost(star, paths, PILOT_K, PILOT_PATHS)))


def table9(sample: ArmSample) -> TableRows:
    """Table 9: the reasoning model's observed vote and held-out errors by K; ours: errors of the gain."""
    ks = ks_of(sample.votes)
    curves = held_out_errors(sample, (1, *ks))
    gain = curves["observed"] - curves["observed"][0]
    return [
        {
            "k": k,
            "mv": majority_prefix(sample.votes)[k - 1],
            "bb_error": curves["bb_error"][place],
            "binomial_error": curves["binomial_error"][place],
            "average": majority_at_k(sample.votes)[k - 1],
            "gain": gain[place],
            "bb_gain": curves["bb"][place] - curves["bb"][0],
        }
        for place, k in enumerate(ks, 1)
    ]


def reasoning(sample: ArmSample, replicates: int, seed: int) -> TableRows:
    """Return the appendix's numbers on the reasoning model."""
    votes = sample.votes
    c = rho(votes)
    row: dict[str, Json] = {"p": votes.p, "c": c, "ceiling": float(ceiling(c))}
    row |= {"k_eff": float(k_eff(votes.k, c)), "truncated": sample.truncated}
    return [row | part for part in table4(sample, replicates, seed)]


def table10(sample: ArmSample, seed: int) -> TableRows:
    """Table 10: c-hat and K* by pilot size; ours: the spread of c from single-seed pilots."""
    rows: TableRows = []
    votes = sample.votes.take(sample.seeds == sample.seeds.min())
    for n in PILOTS:
        rng = np.random.default_rng([seed, 10, n])
        draws = _drop_undefined(pilot_draws(sample.votes, n, PILOT_REPLICATES, rng))
        single = _drop_undefined(pilot_draws(votes, n, PILOT_REPLICATES, rng))
        stars = np.array([operating_point(float(c)) for c in draws])
        row: dict[str, Json] = {"n": n, "c_mean": draws.mean(), "c_std": draws.std()}
        row |= {"k_star_mean": stars.mean(), "k_star_std": stars.std()}
        rows.append(row | {"single_seed_c_std": single.std()})
    return rows


def table11(sample: ArmSample) -> TableRows:
    """Table 11: K* and its retention by epsilon; ours: retention of the subset-averaged vote."""
    rows: TableRows = []
    votes = sample.votes
    c, first, averages = rho(votes, PILOT_K), majority_prefix(votes), majority_at_k(votes)
    for epsilon in EPSILONS:
        star = operating_point(c, epsilon)
        at = min(star, votes.k) - 1
        row: dict[str, Json] = {"epsilon": epsilon, "k_star": star}
        row["mv_star"] = None if star > votes.k else first[at]
        row["retained"] = None if star > votes.k else ratio(first[at], first[-1])
        row["average_retained"] = None if star > votes.k else ratio(averages[at], averages[-1])
        rows.append(row)
    return rows


def figure2(sample: ArmSample) -> TableRows:
    """Figure 2: held-out predictions of the vote at 8, 16 and 32 paths."""
    ks = ks_of(sample.votes)[1:]
    curves = held_out_errors(sample, ks)
    return [{"k": k} | {name: curves[name][place] for name in curves} for place, k in enumerate(ks)]


def _drop_undefined(draws: FloatArray) -> FloatArray:
    kept = draws[~np.isnan(draws)]
    return kept if kept.size else np.array([math.nan])
