"""A stopping rule of your own, replayed on recorded answers beside those of keff, at equal cost.

    python examples/own_policy.py

A rule sees the votes so far, never the gold answer.
"""

from __future__ import annotations

import numpy as np

import keff
from keff.policy import tally


class Agreement:
    """Stop when at least ``least`` paths are drawn and a share of the votes agrees."""

    needs = frozenset({"answers"})

    def __init__(self, share: float, least: int = 3, cap: int = 16) -> None:
        self.share, self.least, self.cap = share, least, cap
        self.spec = f"agreement:{share:g},least={least},cap={cap}"

    def decide(self, view: keff.View) -> keff.Sample | keff.Stop:
        """Draw the least number at once, then one by one."""
        drawn, seen = len(view.keys), tally(view.keys)
        if drawn < self.least:
            return keff.Sample(self.least - drawn)
        if drawn >= self.cap or seen.v1 >= self.share * drawn:
            return keff.Stop(seen.leader, seen.v1 / drawn, "vote_share", "enough agree")
        return keff.Sample(1)


rng = np.random.default_rng(3)
right = rng.random((80, 16)) < rng.beta(1.4, 1.0, (80, 1))
answers = np.where(right, "a", rng.choice(["b", "c", "d", "e"], right.shape))

rules = [Agreement(0.7), "fixed:4", "fixed:16", "lead_k:2,cap=16", "curtailed:cap=16"]
replay = keff.replay(answers, rules, gold_answer=["a"] * 80)
print(f"{'rule':28} {'paths':>6} {'right':>7} {'kept':>7} {'at equal cost':>14}")
for row in replay.policies:
    gain = row.delta_at_equal_cost.value
    print(
        f"{row.policy:28} {row.mean_paths:6.2f} {row.accuracy.value:7.1%} {row.kept.value:7.1%} {gain:+14.2%}"
    )
