"""Stop when one answer leads the next by k votes (a sequential probability ratio test)."""

from __future__ import annotations

import numpy as np

from keff.policies._table import TablePolicy, check_value
from keff.policy import Policy
from keff.policy.spec import DEFAULT_CAP, check_cap, format_spec
from keff.stats.models.top_two import grid


def policy(value: float | None = 3, *, cap: int = DEFAULT_CAP) -> Policy:
    """Return ``lead_k:k``: stop when v1 - v2 >= k (default 3).

    ConSol's default SPRT and mSPRT (arXiv 2503.17587) are ``lead_k:3``. Between two answers with shares p
    and q the error without a cap is 1 / (1 + (p/q)^k).
    """
    lead = check_value("lead_k", value, 0, 257, whole=True)
    _, v1, v2 = grid(check_cap("lead_k", cap))
    return TablePolicy(format_spec("lead_k", lead, cap=cap), np.broadcast_to(v1 - v2 >= lead, (cap + 1,) * 3))
