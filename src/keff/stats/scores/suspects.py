"""The posterior that a gold answer is wrong, from how much more often its question's paths say another."""

from __future__ import annotations

import numpy as np

from keff.stats.votes import FloatArray

# Quantiles of the share of wrong gold answers before looking: Beta(1, 29), with the mean (3.3%) and range
# (0.2 to 10%) of ten public test sets (Northcutt et al. 2021, "Pervasive label errors in test sets").
WRONG: FloatArray = np.asarray(1 - (1 - (np.arange(50) + 0.5) / 50) ** (1 / 29))

# Cells of a lead from 0 to 1.
STEPS = 100

# Standard deviation of the kernel that smooths leads; half of it changes posteriors by a few points.
WIDTH = 0.1


def posterior_wrong(lead: FloatArray) -> FloatArray:
    """Return the posterior [n] that each gold answer is wrong, from how far another answer leads it [n].

    ``lead`` is the share of paths with the most frequent other answer less that with the gold one, -1 to 1.
    Where marking is right, leads have a density f; where the gold answer is wrong and the other is right,
    they have its mirror image. What is seen is h(s) = (1 - w) f(s) + w f(-s), so that f(-s) = ((1 - w) h(-s)
    - w h(s)) / (1 - 2w), and the posterior at lead s is w f(-s) / h(s), at most 1: how many more questions
    are answered right as firmly than are answered otherwise, weighed with w, averaged over what w may be
    (``WRONG``). h is smoothed by a normal kernel (``WIDTH``). Branches that share their errors raise h(s),
    and so are not taken for independent witnesses.
    """
    cell = np.rint((lead + 1) * STEPS).astype(np.int64)
    grid = np.arange(2 * STEPS + 1)
    kernel = np.exp(-0.5 * ((grid[:, None] - grid) / (WIDTH * STEPS)) ** 2)
    seen = kernel @ np.bincount(cell, minlength=grid.size)
    w = WRONG[:, None]
    mirrored = np.maximum((1 - w) * seen[::-1] - w * seen, 0.0) / (1 - 2 * w)
    found = np.minimum(w * mirrored / np.maximum(seen, 1e-9), 1.0).mean(axis=0)
    return np.asarray(found[cell], np.float64)


def unsolved_yet(solved: FloatArray) -> tuple[float, float]:
    """Return how many questions without a right path more paths would solve, and its standard deviation.

    From the right paths of each question [n]: the second-order jackknife of species counts, 2 f1 - f2
    (Burnham and Overton 1978), f1 questions with one right path and f2 with two, at least Chao's bound
    f1 (f1 - 1) / (2 (f2 + 1)) and at most all that have none.
    """
    once, twice = float(np.sum(solved == 1)), float(np.sum(solved == 2))
    more = max(2 * once - twice, once * (once - 1) / (2 * (twice + 1)))
    return min(more, float(np.sum(solved == 0))), float(np.sqrt(4 * once + twice))
