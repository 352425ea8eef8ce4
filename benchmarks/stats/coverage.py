"""Coverage and width of the intervals of c, by seeded simulation with known truths.

Cells: 10 laws of difficulty x (K=4 n=50; K=4, 8, 32 n=100), then fresh laws (logit-normal, three-point) with
n 30-150 and K 3-16, then repeated runs of the same items. Wanted at nominal 95%: at least 92% in every cell,
94.5-98% on average; a cell of 2000 repetitions is itself known to within about 1 point (two standard errors).

    python -m benchmarks.stats.coverage [repetitions, default 2000] [--all]

Prints the mean, the least and the most of each set of cells, and its three worst cells; ``--all`` prints
every cell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keff.stats.intervals import interval_c
from keff.stats.votes import FloatArray, Votes

WORST = 3

Law = Callable[[np.random.Generator, int], FloatArray]


@dataclass(frozen=True)
class Truth:
    """A law of per-item success probabilities with its correlation."""

    name: str
    c: float
    draw: Law


@dataclass(frozen=True)
class Result:
    coverage: float
    width: float
    too_low: float
    too_high: float
    withheld: float


def beta(p: float, c: float) -> Truth:
    def draw(rng: np.random.Generator, n: int) -> FloatArray:
        return np.full(n, p) if c == 0 else rng.beta(p * (1 - c) / c, (1 - p) * (1 - c) / c, n)

    return Truth(f"beta p={p} c={c}", c, draw)


def points(at: list[float], weight: list[float]) -> Truth:
    theta, share = np.array(at), np.array(weight)
    p = float(theta @ share)
    c = (float(np.square(theta) @ share) - p * p) / (p * (1 - p))
    return Truth(f"points {at} {weight}", c, lambda rng, n: rng.choice(theta, n, p=share))


def mixture(name: str, one: float, zero: float, a: float, b: float) -> Truth:
    rest, mean = 1 - one - zero, a / (a + b)
    p = one + rest * mean
    second = one + rest * (a * (a + 1)) / ((a + b) * (a + b + 1))

    def draw(rng: np.random.Generator, n: int) -> FloatArray:
        kind = rng.random(n)
        return np.where(kind < one, 1.0, np.where(kind < one + zero, 0.0, rng.beta(a, b, n)))

    return Truth(name, (second - p * p) / (p * (1 - p)), draw)


def logit_normal(mean: float, sd: float) -> Truth:
    nodes, weight = np.polynomial.hermite_e.hermegauss(201)
    theta, weight = 1 / (1 + np.exp(-(mean + sd * nodes))), weight / weight.sum()
    p = float(theta @ weight)
    c = (float(np.square(theta) @ weight) - p * p) / (p * (1 - p))
    return Truth(
        f"logit-normal {mean} {sd}", c, lambda rng, n: 1 / (1 + np.exp(-(mean + sd * rng.standard_normal(n))))
    )


CHOSEN_ON = [
    *(beta(p, c) for p, c in [(0.8, 0.6), (0.43, 0.45), (0.93, 0.33), (0.5, 0.8), (0.05, 0.3)]),
    mixture("mixA", 0.55, 0.05, 2, 1.5),
    mixture("mixB", 0.1, 0.35, 2, 2),
    *(beta(0.7, c) for c in (0.0, 0.05, 0.95)),
]
FRESH = [
    *(logit_normal(m, s) for m, s in [(1.5, 2.0), (0.0, 1.0), (-2.0, 2.0), (3.0, 3.0), (0.5, 0.3)]),
    points([0.1, 0.5, 0.95], [0.3, 0.3, 0.4]),
    points([0.0, 0.5, 1.0], [0.2, 0.2, 0.6]),
    points([0.02, 0.3, 0.9], [0.6, 0.3, 0.1]),
    points([0.6, 0.9, 0.99], [0.1, 0.3, 0.6]),
]
SHAPES = [(50, 4), (100, 4), (100, 8), (100, 32)]
FRESH_SHAPES = [(30, 8), (50, 3), (75, 16), (100, 5), (150, 12)]


def simulate(truth: Truth, n: int, k: int, runs: int, rng: np.random.Generator) -> Votes:
    """Draw n items with k paths in each of ``runs`` runs; runs of an item share its cluster."""
    theta = np.tile(truth.draw(rng, n), runs)
    clusters = np.tile(np.arange(n), runs) if runs > 1 else None
    return Votes.from_correct(rng.random((n * runs, k)) < theta[:, None], clusters)


def coverage(truth: Truth, shape: tuple[int, int, int], repetitions: int, rng: np.random.Generator) -> Result:
    """Measure one cell; a record without an interval (degenerate, or withheld) counts apart."""
    n, k, runs = shape
    limits: list[tuple[float, float]] = []
    for _ in range(repetitions):
        estimate = interval_c(simulate(truth, n, k, runs, rng))
        if estimate.lo is not None and estimate.hi is not None:
            limits.append((estimate.lo, estimate.hi))
    if not limits:
        return Result(np.nan, np.nan, np.nan, np.nan, 1.0)
    lo, hi = np.array(limits).T
    low, high = float(np.mean(hi < truth.c - 1e-9)), float(np.mean(lo > truth.c + 1e-9))
    return Result(1 - low - high, float(np.mean(hi - lo)), low, high, 1 - len(limits) / repetitions)


def table(
    title: str,
    cells: list[tuple[Truth, tuple[int, int, int]]],
    repetitions: int,
    shown: int | None = WORST,
) -> list[float]:
    """Measure cells, print the worst of them (``shown`` None: all) and return every coverage."""
    found = [
        coverage(truth, shape, repetitions, np.random.default_rng([7, index]))
        for index, (truth, shape) in enumerate(cells)
    ]
    covers = [result.coverage for result in found]
    print(f"\n{title}: nominal 95%, {repetitions} repetitions in each of {len(cells)} cells")
    print(f"mean {np.nanmean(covers):.1%}, least {np.nanmin(covers):.1%}, most {np.nanmax(covers):.1%}")
    print(
        f"{'truth':44} {'c':>6} {'n':>4} {'K':>3} {'runs':>4} {'cover':>6} {'width':>6} {'low':>5} "
        f"{'high':>5} {'none':>5}"
    )
    order = range(len(cells)) if shown is None else np.argsort(covers)[:shown].tolist()
    for index in order:
        (truth, shape), result = cells[index], found[index]
        print(
            f"{truth.name:44} {truth.c:6.3f} {shape[0]:4} {shape[1]:3} {shape[2]:4} {result.coverage:6.1%} "
            f"{result.width:6.3f} {result.too_low:5.1%} {result.too_high:5.1%} {result.withheld:5.1%}"
        )
    return covers


def main() -> None:
    """Print the tables, and the claim about the default interval."""
    words = [word for word in sys.argv[1:] if word != "--all"]
    repetitions = int(words[0]) if words else 2000
    shown = None if "--all" in sys.argv else WORST
    sets = {
        "Cells of the design": [(t, (n, k, 1)) for n, k in SHAPES for t in CHOSEN_ON],
        "Fresh cells": [(t, (n, k, 1)) for n, k in FRESH_SHAPES for t in FRESH],
        "Five runs of the same items": [
            (t, shape) for t in CHOSEN_ON[:5] for shape in [(100, 4, 5), (50, 8, 5)]
        ],
    }
    covers: list[float] = []
    for title, cells in sets.items():
        covers += table(title, cells, repetitions, shown)
    noise = (0.95 * 0.05 / repetitions) ** 0.5
    print(
        f"claim: coverage of the 95% interval of c, {len(covers)} cells (hybrid_wilson) | mean "
        f"{np.mean(covers):.1%}, "
        f"least {np.min(covers):.1%} (a cell is known to ±{2 * noise:.1%}) | mean 94.5 to 98%, least 92%"
    )


if __name__ == "__main__":
    main()
