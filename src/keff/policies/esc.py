"""Draw in windows, and stop when a whole window agrees (early-stopping self-consistency)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.errors import PolicyError
from keff.policies._table import check_value
from keff.policy import Need, Policy, Sample, Stop, View, tally
from keff.policy.spec import DEFAULT_CAP, check_cap, format_spec
from keff.stats.votes import FloatArray, IntArray
from keff.stats.voting.draws import Draws


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of ``w`` paths. An abstention breaks a window; the last paths below a window have no test."""

    spec: str
    w: int
    cap: int
    pooled: bool
    needs: frozenset[Need] = frozenset({"answers"})
    monotone: bool = False

    def decide(self, view: View) -> Sample | Stop:
        """Stop after a unanimous window or at the cap; else draw to the end of the next window."""
        keys = view.keys[: self.cap]
        n = len(keys)
        agreed = self._agreed(keys, n)
        if agreed is None and n < self.cap:
            return Sample(min(self.w - n % self.w, self.cap - n))
        seen = tally(keys)
        answer = seen.leader if self.pooled or agreed is None else agreed
        share = seen.counts[answer] / seen.counts.total() if answer is not None else 0.0
        why = "the cap" if agreed is None else f"the last {self.w} paths agree"
        return Stop(answer, share, "vote_share", f"{why}: after {n} of at most {self.cap} paths")

    def _agreed(self, keys: Sequence[str | None], n: int) -> str | None:
        """Return the answer of the last whole window that agrees; longer waves may hold several."""
        for end in range(n - n % self.w, 0, -self.w):
            window = keys[end - self.w : end]
            if window[0] is not None and len(set(window)) == 1:
                return window[0]
        return None

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Decide on every prefix of every order."""
        n = np.arange(self.cap + 1)
        ahead = np.broadcast_to(
            np.minimum(self.w - n % self.w, self.cap - n), (*draws.codes.shape[:2], len(n))
        )
        ahead = ahead.copy()
        agreed = np.zeros(ahead.shape[:2], np.bool_)
        for end in range(self.w, self.cap + 1, self.w):
            agreed |= self._unanimous(draws, end)
            ahead[..., end : end + self.w][agreed] = 0
        return ahead

    def _unanimous(self, draws: Draws, end: int) -> np.ndarray:
        window = draws.codes[..., end - self.w : end]
        return (window[..., 0] >= 0) & (window == window[..., :1]).all(axis=-1)

    def weights(self, draws: Draws, stop: IntArray) -> FloatArray:
        """Return one vote per path before ``stop``, and none outside an agreed window unless pooled."""
        n = np.arange(draws.cap)
        weights = (n < stop[..., None]).astype(np.float64)
        if self.pooled:
            return weights
        for end in range(self.w, self.cap + 1, self.w):
            agreed = (stop >= end) & self._unanimous(draws, end)
            weights[agreed] = (n >= end - self.w) & (n < end)
        return weights


def policy(value: float | None = 5, *, cap: int = DEFAULT_CAP, answer: str = "pooled") -> Policy:
    """Return ``esc:w`` (default 5); ``answer`` is ``pooled`` (plurality of all paths) or ``window``.

    Li et al. 2024 (arXiv 2401.10480), whose code answers with the window. Its expected cost for
    independent paths is w(1 - (1-Q)^floor(cap/w))/Q with Q the sum of p^w, when w divides the cap.
    """
    check_cap("esc", cap)
    w = int(check_value("esc", value, 0, cap + 1, whole=True))
    if answer not in ("pooled", "window"):
        raise PolicyError(f"esc: answer must be pooled or window, not {answer}")
    spec = format_spec("esc", w, cap=cap, answer=None if answer == "pooled" else answer)
    return Windows(spec, w, cap, answer == "pooled")
