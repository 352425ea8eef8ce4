"""How many paths of each question a pilot should draw, when only their total is fixed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from keff.stats.votes import FloatArray

# Paths a question up to which the best number is looked for; a c below about 1/63 wants more.
MOST = 64


@dataclass(frozen=True, slots=True)
class PilotDesign:
    """The number of paths per question that measures c best, at a fixed number of paths in all.

    ``k`` is the best whole number (2..64), ``exact`` the real one, ``limit`` (1 + c)/c, what it tends to for
    even odds and small c; ``loss`` is by how much the standard error of c grows at 2, 3, 4, 6, 8, 12, 16
    paths per question (0 at the best). It is the best design for c, not for choosing a number of paths:
    curves of votes need more paths per question.
    """

    k: int
    exact: float
    limit: float
    loss: dict[int, float]


def pilot_design(p: float, c: float) -> PilotDesign:
    """Return the pilot that measures c best where questions are beta with mean ``p`` and correlation ``c``.

    Raises ValueError for p outside (0, 1) or c outside (0, 1).
    """
    if not (0 < p < 1 and 0 < c < 1):
        raise ValueError("a pilot is designed for an accuracy and a correlation between 0 and 1")
    constant, _, pairs = _parts(p, c)
    shown = np.array([2, 3, 4, 6, 8, 12, 16])
    ks = np.arange(2, MOST + 1)
    cost = ks * variance_of_c(p, c, ks)
    loss = np.sqrt(shown * variance_of_c(p, c, shown) / cost.min()) - 1
    return PilotDesign(
        k=int(ks[np.argmin(cost)]),
        exact=1 + math.sqrt(pairs / constant),
        limit=(1 + c) / c,
        loss={int(k): float(value) for k, value in zip(shown, loss, strict=True)},
    )


def variance_of_c(p: float, c: float, k: ArrayLike) -> FloatArray:
    """Return n times the asymptotic variance of the estimated c from n questions of k paths.

    A + B/k + D/(k(k-1)), exact for the first-order influence of a question under the beta law:
    with h = theta^2 - a theta, a = 2p + c(1-2p), q = 1-theta and T = p(1-p),
    A = Var(h)/T^2, B = E[theta q (2 theta - a)^2]/T^2 and D = 2 E[theta^2 q^2]/T^2.
    Hence k(A + B/k + D/(k(k-1))), the variance at a fixed number of paths, is least at k = 1 + sqrt(D/A).
    """
    k = np.asarray(k, np.float64)
    constant, single, pairs = _parts(p, c)
    return constant + single / k + pairs / (k * (k - 1))


def _parts(p: float, c: float) -> tuple[float, float, float]:
    """Return A, B and D of ``variance_of_c``, from the first four moments of the beta law."""
    steps = [(p * (1 - c) + i * c) / ((1 - c) + i * c) for i in range(4)]
    first, second, third, fourth = np.cumprod(steps).tolist()
    scale = (p * (1 - p)) ** 2
    a = 2 * p + c * (1 - 2 * p)
    constant = fourth - 2 * a * third + a * a * second - (second - a * first) ** 2
    single = 4 * (third - fourth) - 4 * a * (second - third) + a * a * (first - second)
    pairs = 2 * (second - 2 * third + fourth)
    return constant / scale, single / scale, pairs / scale
