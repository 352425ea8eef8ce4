"""Stop when the leader is probably the most likely answer, under a uniform prior (Adaptive-Consistency)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from keff.errors import PolicyError
from keff.policies._table import BoundedTable, beats_half, check_value
from keff.policy import Policy
from keff.policy.spec import DEFAULT_CAP, check_cap, format_spec


def policy(value: float | None = 0.95, *, cap: int = DEFAULT_CAP, rule: str = "beta") -> Policy:
    """Return ``adaptive_consistency:threshold`` (default 0.95); ``rule`` is ``beta`` or ``dirichlet``.

    Aggarwal et al. 2023 (arXiv 2305.11860). The Dirichlet runs over all answers seen, by quadrature. The
    threshold is a posterior under a uniform prior, not an error rate. Up to 0.75 it stops at one path.
    """
    threshold = check_value("adaptive_consistency", value, 0, 1)
    check_cap("adaptive_consistency", cap)
    if rule not in ("beta", "dirichlet"):
        raise PolicyError(f"adaptive_consistency: rule must be beta or dirichlet, not {rule}")
    spec = format_spec("adaptive_consistency", threshold, cap=cap, rule=None if rule == "beta" else rule)
    if rule == "dirichlet":
        # The one rule that needs scipy, which would double the memory of a gateway that never uses it.
        from keff.policies._dirichlet import DirichletPolicy

        return DirichletPolicy(spec, threshold, cap)
    beta = beats_half(cap)
    table = np.broadcast_to(beta >= threshold, (cap + 1,) * 3)
    return BoundedTable(spec, cap, partial(_sure, threshold), (table, beta, _beta))


def _sure(threshold: float, n: Any, v1: Any, v2: Any, most: float) -> Any:  # noqa: ARG001
    # Rounding must not hide a posterior that is the threshold itself, such as .9375 of three votes.
    return _beta(v1, v2) >= threshold - 1e-12


def _beta(v1: Any, v2: Any) -> Any:
    """Return P(a share is above 1/2) of sums of votes that need not be whole; needs scipy, as weights do."""
    from scipy.special import betainc

    return betainc(np.asarray(v2, np.float64) + 1, np.asarray(v1, np.float64) + 1, 0.5)
