"""Paired delta rho of 250 x 8 against 250 x 8 votes.

Weight matrix, loop over replicates, scipy.stats.bootstrap.

Prints seconds for 10,000 replicates (slower ways run fewer and are scaled), the ratio to ours, and the
standard error that each finds, which should agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap

from keff.stats.branches.compare import arm_draws
from keff.stats.votes import Votes

REPLICATES = 10_000
SHORT = 200
ITEMS, PATHS = 250, 8


def arms(rng: np.random.Generator) -> tuple[Votes, Votes]:
    theta = rng.beta(0.8, 0.4, ITEMS)[:, None]
    first = rng.random((ITEMS, PATHS)) < theta
    second = rng.random((ITEMS, PATHS)) < 0.5 * theta + 0.25
    return Votes.from_correct(first.astype(int)), Votes.from_correct(second.astype(int))


def mean_pearson(matrix: NDArray[np.int64]) -> float:
    corr = np.corrcoef(matrix, rowvar=False)
    return float(corr[np.triu_indices(matrix.shape[1], 1)].mean())


def relative(first: Votes, second: Votes, rows: NDArray[np.int64]) -> float:
    a, b = mean_pearson(first.scored()[rows]), mean_pearson(second.scored()[rows])
    return (b - a) / abs(a)


def timed(work: Callable[[], NDArray[np.float64]], repeats: int) -> tuple[float, float]:
    """Return the least processor seconds of some runs, and the standard deviation of the draws."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        draws = work()
        seconds.append(time.process_time() - start)
    return min(seconds), float(np.std(draws))


def main() -> None:
    rng = np.random.default_rng(0)
    first, second = arms(rng)
    rows = np.arange(ITEMS)

    def loop() -> NDArray[np.float64]:
        return np.array([relative(first, second, rng.integers(0, ITEMS, ITEMS)) for _ in range(SHORT)])

    def scipy_way() -> NDArray[np.float64]:
        result = bootstrap(
            (rows,),
            lambda sample: relative(first, second, sample),
            n_resamples=SHORT,
            method="percentile",
            vectorized=False,
            rng=rng,
        )
        return result.bootstrap_distribution

    ways = {
        "keff.stats.branches.compare": (*timed(lambda: arm_draws(first, second, rng)[0].relative, 7), 1),
        "loop over replicates": (*timed(loop, 2), REPLICATES / SHORT),
        "scipy.stats.bootstrap": (*timed(scipy_way, 2), REPLICATES / SHORT),
    }
    ours = ways["keff.stats.branches.compare"][0]
    print(f"{'way':24s} {'seconds':>9s} {'ratio':>7s} {'SE':>7s}")
    for name, (seconds, se, scale) in ways.items():
        print(f"{name:24s} {seconds * scale:9.3f} {seconds * scale / ours:7.0f} {se:7.4f}")
    for name in list(ways)[1:]:
        seconds, _, scale = ways[name]
        print(
            f"claim: 10,000 paired bootstraps of delta rho against {name} | "
            f"{seconds * scale / ours:.0f} x | above 1 x"
        )


if __name__ == "__main__":
    main()
