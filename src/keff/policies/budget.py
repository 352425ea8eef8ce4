"""Stop when the lead is as convincing as k unanimous votes, given how many paths are still to come."""

from __future__ import annotations

import numpy as np

from keff.errors import PolicyError
from keff.policies._table import TablePolicy, check_cap, check_value, grid
from keff.policy import DEFAULT_CAP, Policy, format_spec


def policy(value: float | None = 4, *, cap: int = DEFAULT_CAP) -> Policy:
    """Return ``budget:k``: stop when (v1-v2)^2 / ((v1+v2)(1-n/cap)) >= k / (1-k/cap), with k real.

    The left side is the squared z-score that the leader still leads after the cap, when the top two keep
    their joint share of the paths that remain. It asks less and less as the cap comes near.
    """
    k = check_value("budget", value, 0, np.inf)
    if k > check_cap("budget", cap):
        raise PolicyError(f"budget:{k:g} is above its cap {cap}: lower k or raise the cap")
    n, v1, v2 = grid(cap)
    # Multiplied out: no division by zero at n = cap, at k = cap, or before the first vote.
    with_rest = (v1 - v2) ** 2 * (cap - k) >= k * (v1 + v2) * (cap - n) * (1 - 1e-12)
    return TablePolicy(format_spec("budget", k, cap=cap), with_rest & (v1 > v2))
