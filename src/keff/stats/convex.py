"""Two small convex solvers for problems with few variables and many constraints: barrier and simplex."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keff.stats.votes import FloatArray

GAP = 1e-7

Objective = Callable[[FloatArray], tuple[float, FloatArray, FloatArray]]
"""Value, gradient and Hessian of a convex function."""


def minimise(objective: Objective, rows: FloatArray, floor: FloatArray, start: FloatArray) -> FloatArray:
    """Minimise a convex objective subject to rows @ x >= floor, from a strictly feasible ``start``.

    Log-barrier Newton, optimal to about GAP; where rounding stops it sooner, x is still feasible.
    """
    x, weight = start, 0.1
    while True:
        x = _centre(objective, rows, floor, x, weight)
        if weight * floor.size < GAP:
            return x
        weight /= 30


def _centre(
    objective: Objective, rows: FloatArray, floor: FloatArray, x: FloatArray, weight: float
) -> FloatArray:
    """Minimise objective - weight * sum log(rows @ x - floor) by damped Newton steps."""
    ridge = 1e-14 * np.eye(x.size)
    for _ in range(60):
        slack = rows @ x - floor
        value, slope, curve = objective(x)
        slope = slope - weight * (1 / slack) @ rows
        curve = curve + weight * (rows / slack[:, None] ** 2).T @ rows
        scale = 1 / np.sqrt(np.diag(curve))
        step = -scale * np.linalg.solve(curve * scale[:, None] * scale + ridge, slope * scale)
        gain = -float(slope @ step)
        if gain < 0.1 * weight:
            break
        change = rows @ step
        shrinking = change < 0
        length = min(1.0, 0.99 * float(np.min(-slack[shrinking] / change[shrinking], initial=np.inf)))
        before = value - weight * float(np.log(slack).sum())
        while length > 1e-9 and not _falls(objective, rows, floor, x + length * step, (before, weight)):
            length /= 2
        if length <= 1e-9:
            break
        x = x + length * step
    return x


def _falls(
    objective: Objective, rows: FloatArray, floor: FloatArray, x: FloatArray, than: tuple[float, float]
) -> bool:
    slack = rows @ x - floor
    if slack.min() <= 0:
        return False
    return objective(x)[0] - than[1] * float(np.log(slack).sum()) < than[0]


def simplex_prices(m: FloatArray, b: FloatArray, law: FloatArray, unmatched: float) -> FloatArray:
    """Return dual prices [K0+1] of: maximise m @ w over w >= 0 with b @ w = law.

    Revised simplex with the steepest reduced cost; unmatched cells cost ``unmatched``. Prices of an
    unfinished run are still usable: the caller checks the polynomial they define.
    """
    cells = law.size
    columns = np.hstack([np.eye(cells), -np.eye(cells), b])
    gain = np.r_[np.full(2 * cells, -unmatched), m]
    basis = np.arange(cells)
    prices = gain[basis]
    for _ in range(60 * cells):
        inverse = np.linalg.inv(columns[:, basis])
        prices = gain[basis] @ inverse
        excess = gain - prices @ columns
        enter = int(np.argmax(excess))
        if excess[enter] < 1e-9:
            break
        direction, amount = inverse @ columns[:, enter], np.maximum(inverse @ law, 0.0)
        ratio = np.full(cells, np.inf)
        np.divide(amount, direction, out=ratio, where=direction > 1e-12)
        basis[int(np.argmin(ratio))] = enter
    return prices
