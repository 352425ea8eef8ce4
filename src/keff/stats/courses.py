"""Questions as workloads have them in general, and as many courses of votes of them as are asked for."""

from __future__ import annotations

import numpy as np

from keff.stats.dense import ABSTAINS
from keff.stats.draws import Draws
from keff.stats.partitions import ABSTENTION_PRIOR, COMPONENTS, Simulated, prior_shares
from keff.stats.votes import FloatArray

# Made by ``python -m benchmarks.prior`` from 35 recorded sets of generations with at least 48 paths per
# question (mathematics, science, multiple choice, puzzles). Each record counts once. In the order of
# ``stats.partitions.COMPONENTS``.
_ONE = [0.202]
_OPEN = [0.113, 0.064, 0.04, 0.047, 0.199, 0.006, 0.001, 0.001, 0.001, 0.002]
_OPEN_HEAVY_TAIL = [0.075, 0.04, 0.018, 0.01, 0.007, 0.007, 0.015, 0.015, 0.031, 0.001]
_TWO_ANSWERS = [0.033, 0.009, 0.004, 0.002, 0.002, 0.002]
_FOUR_ANSWERS = [0.017, 0.009, 0.01, 0.008, 0.003, 0.002]

GENERIC_WEIGHTS: FloatArray = np.concatenate([_ONE, _OPEN, _OPEN_HEAVY_TAIL, _TWO_ANSWERS, _FOUR_ANSWERS])
"""How often each component of ``stats.partitions`` holds for a question of a workload like those recorded."""

STEEPEST = 60.0


def component_agreement() -> FloatArray:
    """Return how often two paths agree under each component."""

    def of(kind: str, x: float, y: float) -> float:
        if kind == "one":
            return 1.0
        return (1 - x) / (1 + y) if kind == "open" else (y + 1) / (x * y + 1)

    return np.array([of(*component) for component in COMPONENTS])


def tilted(weights: FloatArray, agreement: float) -> FloatArray:
    """Return the weights nearest to ``weights`` under which two paths agree this often.

    Nearest in relative entropy: each weight times exp(t A), A the component's own agreement, t by bisection.
    An agreement that no t reaches gives that of the steepest.
    """
    each = component_agreement()

    def at(t: float) -> FloatArray:
        raw = weights * np.exp(t * (each - each.max() if t > 0 else each - each.min()))
        return raw / raw.sum()

    low, high = -STEEPEST, STEEPEST
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle) @ each < agreement else (low, middle)
    return at((low + high) / 2)


def courses(weights: FloatArray, count: int, cap: int, rng: np.random.Generator) -> Simulated:
    """Simulate ``cap`` paths of ``count`` new questions, one course each; some paths abstain.

    Beyond the named answers of an open law every path has an answer of its own, whose share is 0.
    """
    shares = prior_shares(weights, count, rng)
    edges, named = shares.cumsum(axis=1), shares.shape[1]
    codes = np.stack([(rng.random((count, 1)) > edges).sum(axis=1) for _ in range(cap)], axis=1)
    codes = np.where(codes < named, codes, named + np.arange(cap)).astype(np.int16)
    rate = rng.beta(*ABSTENTION_PRIOR, size=(count, 1))
    codes[rng.random(codes.shape) < rate] = ABSTAINS
    every = np.concatenate([shares, np.zeros((count, cap))], axis=1)
    return Simulated(Draws(codes[:, None]), every[:, None])
