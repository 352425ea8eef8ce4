"""Stop when the lead is as convincing as k unanimous votes, given how many paths are still to come."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from keff.errors import PolicyError
from keff.policies._table import BoundedTable, check_value
from keff.policy import Policy
from keff.policy.spec import DEFAULT_CAP, format_spec


def boundary(k: float, cap: int, b: float, n: Any, v1: Any, v2: Any, most: float) -> Any:  # noqa: ARG001
    """Return a mask of the states where ``budget:k,b=b`` stops before its cap."""
    # Multiplied out: no division by zero at n = cap, at k = cap, or before the first vote. What does not
    # depend on votes is multiplied first: there are millions of them.
    enough = (v1 - v2) ** 2 * ((k + b) * (cap - k)) >= (v1 + v2 + b) * (k**2 * (1 - 1e-12) * (cap - n))
    return enough & (v1 > v2)


def policy(value: float | None = 4, *, cap: int = DEFAULT_CAP, b: float = 0.0) -> Policy:
    """Return ``budget:k``: stop when (v1-v2)^2 / ((v1+v2)(1-n/cap)) >= k / (1-k/cap), with k real.

    The left side is the squared z-score that the leader still leads after the cap, when the top two keep
    their joint share of the paths that remain. It asks less and less as the cap comes near. ``b`` adds as
    many even votes to v1 + v2 on the left and to k on the right: at 0 it is a z-test, and as it grows the
    rule comes to ask for a lead, whatever the number of votes.
    """
    k = check_value("budget", value, np.inf)
    if k > cap:
        raise PolicyError(f"budget:{k:g} is above its cap {cap}: lower k or raise the cap")
    if isinstance(b, str) or not 0 <= b < np.inf:
        raise PolicyError(f"budget: b must be a number of at least 0, not {b}")
    spec = format_spec("budget", k, cap=cap, b=b or None)
    return BoundedTable(spec, cap, partial(boundary, k, cap, b))
