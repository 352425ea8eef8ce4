"""Draw in windows, and stop when a whole window agrees (early-stopping self-consistency)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.policies._table import check_value
from keff.policy import Need, Policy, Sample, Stop, View, tally
from keff.policy.spec import DEFAULT_CAP, format_spec
from keff.records import frozen
from keff.stats.voting.draws import Draws


@frozen
class Windows:
    """Unanimity rule on windows of ``w`` paths, in which an abstention is a disagreement."""

    spec: str
    w: int
    cap: int
    needs: frozenset[Need] = frozenset({"answers"})

    def decide(self, view: View) -> Sample | Stop:
        """Stop after a unanimous window or at the cap; else draw to the end of the next window."""
        keys = view.keys[: self.cap]
        n = len(keys)
        agreed = self._agreed(keys, n)
        if not agreed and n < self.cap:
            return Sample(min(self.w - n % self.w, self.cap - n))
        seen = tally(keys)
        why = f"the last {self.w} paths agree" if agreed else "the cap"
        return Stop(seen.leader, seen.share, "vote_share", f"{why}: after {n} of at most {self.cap} paths")

    def _agreed(self, keys: Sequence[str | None], n: int) -> bool:
        """Return whether any whole window is unanimous."""
        windows = (keys[end - self.w : end] for end in range(self.w, n + 1, self.w))
        return any(window[0] is not None and len(set(window)) == 1 for window in windows)

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Return the paths to draw next, or 0 to stop, after each prefix of every order [n, R, cap + 1]."""
        n = np.arange(self.cap + 1)
        ahead = np.broadcast_to(
            np.minimum(self.w - n % self.w, self.cap - n), (*draws.codes.shape[:2], len(n))
        )
        ahead = ahead.copy()
        agreed = np.zeros(ahead.shape[:2], np.bool_)
        for end in range(self.w, self.cap + 1, self.w):
            window = draws.codes[..., end - self.w : end]
            agreed |= (window[..., 0] >= 0) & (window == window[..., :1]).all(axis=-1)
            ahead[..., end : end + self.w][agreed] = 0
        return ahead


def policy(value: float | None = 5, *, cap: int = DEFAULT_CAP) -> Policy:
    """Return ``esc:w`` (default 5); the answer is the plurality of all paths.

    Li et al. 2024 (arXiv 2401.10480), whose code answers with the window: never better on recorded paths. Its
    expected cost for independent paths is w(1 - (1-Q)^floor(cap/w))/Q with Q the sum of p^w, when w divides
    the cap.
    """
    w = int(check_value("esc", value, cap + 1, whole=True))
    return Windows(format_spec("esc", w, cap=cap), w, cap)
