"""Stop when one answer leads the next by k votes (a sequential probability ratio test)."""

from __future__ import annotations

from functools import partial
from typing import Any

from keff.policies._table import BoundedTable, check_value
from keff.policy import Policy
from keff.policy.spec import DEFAULT_CAP, format_spec


def policy(value: float | None = 3, *, cap: int = DEFAULT_CAP) -> Policy:
    """Return ``lead_k:k``: stop when v1 - v2 >= k (default 3).

    ConSol's default SPRT and mSPRT (arXiv 2503.17587) are ``lead_k:3``. Between two answers with shares p
    and q the error without a cap is 1 / (1 + (p/q)^k).
    """
    # A lead above the largest cap (256) can never be reached.
    lead = check_value("lead_k", value, 257, whole=True)
    spec = format_spec("lead_k", lead, cap=cap)
    return BoundedTable(spec, cap, partial(_leads, lead))


def _leads(lead: float, n: Any, v1: Any, v2: Any, most: float) -> Any:  # noqa: ARG001
    return v1 - v2 >= lead
