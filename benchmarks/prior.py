"""Fit what workloads are like in general to recorded generations, for ``keff.analysis.recommend.prior``.

    python -m benchmarks.prior [FOLDER]

How votes split (a mixture of partition laws), how well votes are calibrated, what a unit of answer share
brings from one path to many, and what it costs where a rule stops early. The last is a multiple of the slope
that varies from family to family and from workload to workload: a normal hierarchy with half-t priors for
both spreads, which are integrated over on a grid; the sampling variance of each record is taken out first.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from benchmarks.workloads import CAP, FOLDER, Workload, load, pilot

from keff.analysis.recommend.outlook import LEAST_PRICE, gather
from keff.analysis.recommend.prior import GENERIC, Belief, Line, Price, Prior
from keff.analysis.recommend.sums import Sums
from keff.analysis.recommend.worth import fit_slope
from keff.stats.correlation import agreement_items
from keff.stats.mixture import partition_log_law, vote_counts
from keff.stats.partitions import COMPONENTS
from keff.stats.votes import FloatArray, IntArray, Votes

PILOTS = 2
"""Pilots of each record from which the price is learnt, as it will be met: by what a pilot predicts."""

DEPTH = {32: (3.6, 5.5), 8: (2.3, 5.0)}
"""Rules of these mean paths, by cap, show what a unit of share costs; deeper ones lose too little to tell."""

GRID = np.linspace(0.01, 1.2, 25)
HALF_T = 3, 0.5
"""Degrees of freedom and scale of the prior of both spreads."""


def fit_prior(long: Sequence[Workload], short: Sequence[Workload]) -> Prior:
    """Fit the generic workload: the price last, on pilots that the rest of the prior predicts."""
    calibration = np.array([w.votes.scored().mean() / agreement_items(w.votes).mean() for w in long])
    slope = np.array([_slope(w) for w in long])
    prior = Prior(
        mixture_weights([w.votes for w in long]),
        Belief(float(calibration.mean()), float(calibration.std(ddof=1))),
        _line(calibration, slope),
        GENERIC.price,
    )
    return replace(prior, price=fit_price([w for w in (*long, *short) if w.helped], prior))


def mixture_weights(records: Sequence[Votes]) -> FloatArray:
    """Fit the mixture to 32 paths of every question by EM, each record counted once."""
    laws, weights = [], []
    for votes in records:
        law = partition_log_law(vote_counts(votes.paths(np.arange(CAP)))[0])
        laws.append(np.exp(law - law.max(axis=1, keepdims=True)))
        weights.append(np.full(len(law), 1 / len(law) / len(records)))
    law, weight = np.concatenate(laws), np.concatenate(weights)
    share = np.full(len(COMPONENTS), 1 / len(COMPONENTS))
    for _ in range(300):
        each = law * share
        each /= each.sum(axis=1, keepdims=True)
        share = 0.02 / len(COMPONENTS) + weight @ each
        share /= share.sum()
    return share


def _slope(workload: Workload) -> float:
    """The accuracy gained from one path to the cap, per share gained, over the whole record."""
    counts, _ = vote_counts(workload.votes)
    shares = np.sort(counts / workload.votes.k, axis=1)[:, ::-1]
    rise = (shares[:, 0] - np.square(shares).sum(axis=1)).mean()
    return float((workload.top.mean() - workload.one.mean()) / max(rise, 1e-9))


def _line(x: FloatArray, y: FloatArray) -> Line:
    columns = np.stack([np.ones(len(x)), x], axis=1)
    intercept, gradient = np.linalg.lstsq(columns, y, rcond=None)[0]
    left = y - intercept - gradient * x
    return Line(float(intercept), float(gradient), float(np.sqrt(np.square(left).sum() / (len(x) - 2))))


class Costs(NamedTuple):
    """What a unit of the share that pilots predict to be lost costs, by record [m].

    With its sampling variance, and the slope that the pilots show.
    """

    price: FloatArray
    variance: FloatArray
    slope: FloatArray


def fit_price(workloads: Sequence[Workload], prior: Prior) -> Price:
    """Fit the price; its mean over data sets, its spread over families of those who recorded them."""
    costs = Costs(*np.array([_cost(w, prior) for w in workloads]).T)
    mean, error, _, each = hierarchy(costs, [w.data_set for w in workloads])
    families = hierarchy(costs, [w.source for w in workloads])[2]
    return Price(mean, error, families, each)


def _cost(workload: Workload, prior: Prior) -> tuple[float, float, float]:
    low, high = DEPTH[workload.cap]
    mean = workload.truth.paths.mean(axis=0)
    rules = np.flatnonzero((mean > low) & (mean < high))
    if not len(rules):  # a workload so easy or so hard that no rule stops there: the nearest one
        rules = np.array([int(np.argmin(np.abs(mean - low)))])
    shares, slopes = [], []
    for seed in range(PILOTS):
        items, paths = (50, 8) if workload.cap == CAP else (100, 4)
        votes, _ = pilot(workload.votes, items, paths, 1000 + seed)
        known = gather(votes, workload.cap, np.random.default_rng(seed), prior)
        shares.append(known.played.share.mean(axis=0)[rules])
        slope = fit_slope(known.labels, prior).value
        slopes.append(max(slope, LEAST_PRICE * float(workload.top.mean())))
    weight = 1 / np.maximum(np.mean(shares, axis=0), 1e-4) / len(rules)
    lost = workload.lost()[:, rules] @ weight
    variance = Sums.of(lost[:, None], np.arange(len(lost))).variance[0] + 0.01
    return float(lost.mean()), float(variance), float(np.mean(slopes))


def hierarchy(costs: Costs, families: Sequence[str]) -> tuple[float, float, float, float]:
    """Return the mean multiple of the slope, its error, and its spread over families and over workloads.

    price = multiple of the family * slope + own deviation + sampling error. The multiple's mean is integrated
    out in closed form under a flat prior, the spreads over a grid.
    """
    names = np.array(families)
    groups = [np.flatnonzero(names == name).astype(np.int64) for name in sorted(set(families))]
    shape = len(GRID), len(GRID)
    log, mean, error = np.empty(shape), np.empty(shape), np.empty(shape)
    for i, between in enumerate(GRID):
        for j, within in enumerate(GRID):
            log[i, j], mean[i, j], error[i, j] = _given(costs, groups, between, within)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    middle = float((weight * mean).sum())
    around = float((weight * (error + np.square(mean - middle))).sum())
    spreads = [float(np.sqrt((weight * np.square(grid)).sum())) for grid in (GRID[:, None], GRID[None, :])]
    return middle, around**0.5, spreads[0], spreads[1]


def _given(costs: Costs, groups: list[IntArray], between: float, within: float) -> tuple[float, float, float]:
    """Return the log posterior of two spreads, and the mean and variance of the multiple given them."""
    log, precision, product = 0.0, 0.0, 0.0
    for rows in groups:
        y, x = costs.price[rows], costs.slope[rows]
        cover = np.diag(costs.variance[rows] + within**2) + between**2 * np.outer(x, x)
        inverse = np.linalg.inv(cover)
        log -= 0.5 * (np.linalg.slogdet(cover)[1] + y @ inverse @ y)
        precision += x @ inverse @ x
        product += x @ inverse @ y
    freedom, scale = HALF_T
    for spread in (between, within):
        log -= (freedom + 1) / 2 * np.log1p((spread / scale) ** 2 / freedom)
    log += 0.5 * product**2 / precision - 0.5 * np.log(precision)
    return float(log), float(product / precision), float(1 / precision)


def main() -> None:
    """Print the fitted prior of all records."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    folder = parser.parse_args().folder
    long, short = list(load(folder)), list(load(folder, short=True))
    if not long:
        print(f"skipped: no recorded generations with 48 paths per question in {folder}")
        return
    prior = fit_prior(long, short)
    print(np.round(prior.weights, 3).tolist(), prior.calibration, prior.slope, prior.price, sep="\n")


if __name__ == "__main__":
    main()
