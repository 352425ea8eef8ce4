"""Draw a fixed number of paths in one round, then take the plurality (self-consistency)."""

from __future__ import annotations

from typing import Any

import numpy as np

from keff.errors import PolicyError
from keff.policies._table import BoundedTable
from keff.policy import Policy
from keff.policy.spec import DEFAULT_CAP, check_cap


def policy(value: float | None = None, *, cap: int | None = None) -> Policy:
    """Return ``fixed:K``: K paths, then the plurality (Wang et al. 2023). Without K it draws ``cap``."""
    paths = value if value is not None else (DEFAULT_CAP if cap is None else cap)
    whole = check_cap("fixed", int(paths) if isinstance(paths, float) and paths.is_integer() else paths)
    if cap is not None and whole > cap:
        raise PolicyError(f"fixed:{whole} is above its cap {cap}: leave the cap out")
    return BoundedTable(f"fixed:{whole}", whole, _never)


def _never(n: Any, v1: Any, v2: Any, most: float) -> Any:  # noqa: ARG001
    return np.zeros_like(n + v1 + v2, np.bool_)
