"""Stop when the leader is probably the most likely answer, under a uniform prior (Adaptive-Consistency)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from keff.policies._table import BoundedTable, beats_half, check_value
from keff.policy import Policy
from keff.policy.spec import DEFAULT_CAP, format_spec


def policy(value: float | None = 0.95, *, cap: int = DEFAULT_CAP) -> Policy:
    """Return ``adaptive_consistency:threshold`` (default 0.95), the Beta rule of Aggarwal et al.

    2023 (arXiv 2305.11860): the posterior that the leader beats the runner-up, under a uniform prior, which
    is not an error rate. Up to 0.75 it stops at one path.
    """
    threshold = check_value("adaptive_consistency", value, 1)
    spec = format_spec("adaptive_consistency", threshold, cap=cap)
    beta = beats_half(cap)
    table = np.broadcast_to(beta >= threshold, (cap + 1,) * 3)
    return BoundedTable(spec, cap, partial(_sure, threshold), (table, beta, _beta))


def _sure(threshold: float, n: Any, v1: Any, v2: Any, most: float) -> Any:  # noqa: ARG001
    # Rounding must not hide a posterior that is the threshold itself, such as .9375 of three votes.
    return _beta(v1, v2) >= threshold - 1e-12


def _beta(v1: Any, v2: Any) -> Any:
    """Return P(share > 1/2 | real-valued vote sums), by scipy's incomplete beta function.

    scipy is loaded where it is used: it would double the memory of a gateway that never asks for it.
    """
    from scipy.special import betainc

    return betainc(np.asarray(v2, np.float64) + 1, np.asarray(v1, np.float64) + 1, 0.5)
