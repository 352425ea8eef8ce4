"""The user's aim: a share of accuracy to keep, a budget, or the worth of a right answer."""

from __future__ import annotations

import numpy as np

from keff.analysis.money import StatedAim
from keff.errors import PolicyError
from keff.records import frozen

# The share to keep when no aim is stated.
RETAIN = 0.99


@frozen
class Aim(StatedAim):
    """The user's aim for a policy; at most one is stated.

    ``retain`` asks for the fewest paths that keep at least this share of the accuracy of plurality at the
    cap (default 0.99). The share holds on average over workloads; with ``confidence`` it holds on this
    workload with that probability. ``budget`` asks for the most accuracy with at most this many paths per
    question on average, 90% sure. ``value_per_correct`` asks for the most ``value_per_correct`` *
    accuracy - ``cost_per_path`` * paths. ``slower`` limits the median and the 95th percentile of the time
    to answer, as a multiple of today's (None: no limit). Raises PolicyError outside the ranges.
    """

    confidence: float | None = None
    slower: float | None = 1.0

    def __post_init__(self) -> None:
        if self.budget is not None and self.budget < 1:
            raise PolicyError(f"budget must be at least 1 path per question, not {self.budget:g}")
        StatedAim.__post_init__(self)
        if (self.value_per_correct is None) != (self.cost_per_path is None):
            raise PolicyError("value_per_correct and cost_per_path go together")
        self._check_confidence()
        if self.slower is not None and not 0 < self.slower < np.inf:
            raise PolicyError(f"slower must be above 0, or any: not {self.slower:g}")

    def _check_confidence(self) -> None:
        if self.confidence is None:
            return
        if not 0 < self.confidence < 1:
            raise PolicyError(f"sure must be above 0 and below 1, not {self.confidence:g}")
        if not self.asks_share:
            raise PolicyError("sure needs retain: it is how likely the share is kept")

    @property
    def asks_share(self) -> bool:
        """Whether the aim is a share of accuracy to keep (the default)."""
        return self.retain is not None or not self.is_stated

    @property
    def share(self) -> float:
        """The share of accuracy to keep: the stated one, or 0.99."""
        return RETAIN if self.retain is None else self.retain
