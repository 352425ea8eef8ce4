"""How often the majority-vote bounds from a sampled pilot hold, under the mixing laws that strain them most.

The hardest laws are those that attain the sharp bound for a count law, found by linear programming; a law
inside its bounds has the identification gap to spare. Prints, for each law, how often the true MV@32 lies
below and above the 95% bounds, and their mean width.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import betainc
from scipy.stats import betabinom, binom

from keff.stats.models.bounds import majority_bounds

K = 32
THETA = np.sin(np.linspace(0, np.pi / 2, 2001)) ** 2


def extremal(law: NDArray[np.float64], sign: int) -> NDArray[np.float64]:
    """Return weights on THETA with this count law and the least (-1) or greatest (1) MV@32."""
    cells = np.arange(law.size)[:, None]
    target = -sign * betainc(K // 2, K // 2, THETA)
    found = linprog(target, A_eq=binom.pmf(cells, law.size - 1, THETA), b_eq=law)
    return found.x / found.x.sum()


def laws(k0: int) -> dict[str, NDArray[np.float64]]:
    """Return mixing laws by name, as weights on THETA."""
    out = {}
    for p, c in ((0.8, 0.6), (0.43, 0.45), (0.93, 0.33)):
        counts = betabinom.pmf(np.arange(k0 + 1), k0, p * (1 - c) / c, (1 - p) * (1 - c) / c)
        out[f"greatest for ({p}, {c})"] = extremal(counts, 1)
        out[f"least for ({p}, {c})"] = extremal(counts, -1)
    for atoms in ((0.5,), (0.58,), (0.42, 0.6), (0.3, 0.99), (0.97,)):
        weights = np.zeros(THETA.size)
        np.add.at(weights, [int(np.abs(THETA - a).argmin()) for a in atoms], 1 / len(atoms))
        out["atoms at " + ", ".join(map(str, atoms))] = weights
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--items", type=int, nargs="+", default=[30, 100])
    options = parser.parse_args()
    rng = np.random.default_rng(20)
    worst = 0.0
    print(f"{'law':26s} K0    n   MV@32  below%  above%  width")
    for k0 in (4, 8):
        for name, weights in laws(k0).items():
            counts = binom.pmf(np.arange(k0 + 1)[:, None], k0, THETA) @ weights
            truth = float(betainc(K // 2, K // 2, THETA) @ weights)
            for n in options.items:
                drawn = rng.multinomial(n, counts / counts.sum(), size=options.repeats)
                lo, hi = np.array([majority_bounds(hist, [K]) for hist in drawn])[..., 0].T
                below, above, width = np.mean(truth < lo), np.mean(truth > hi), np.mean(hi - lo)
                worst = max(worst, float(below), float(above))
                print(
                    f"{name:26s} {k0:2d} {n:4d}  {truth:.3f}  {100 * below:6.1f}  "
                    f"{100 * above:6.1f}  {width:.3f}"
                )
    print(
        f"claim: bounds of majority miss on one side, worst of {4 * len(laws(4))} cells, "
        f"{options.repeats} samples each "
        f"| {worst:.1%} | at most 2.5%, and what {options.repeats} samples can tell"
    )


if __name__ == "__main__":
    main()
