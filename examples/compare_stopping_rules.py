"""Compare stopping rules, one of them written here, on recorded paths at equal cost.

    python examples/compare_stopping_rules.py [answers.jsonl]

Without a file it uses made-up votes. A rule sees the votes so far, never the gold answer.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import keff
from keff.analysis.replay import replay
from keff.policy import Policy, tally


class Agreement:
    """Stop when at least ``least`` paths are drawn and a share of the votes agrees."""

    needs = frozenset({"answers"})
    monotone = True

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


def made_up_votes() -> keff.Votes:
    """Return 80 questions x 16 votes whose wrong answers scatter; code 0 is the right answer."""
    rng = np.random.default_rng(3)
    right = rng.random((80, 16)) < rng.beta(1.4, 1.0, (80, 1))
    wrong = rng.integers(1, 5, (80, 16))
    return keff.Votes(answers=np.where(right, 0, wrong), correct=right.astype(int))


def main(votes: keff.Votes) -> None:
    """Print what each rule costs and keeps."""
    rules: list[str | Policy] = [Agreement(0.7), "fixed:4", "fixed:16", "lead_k:2,cap=16", "curtailed:cap=16"]
    found = replay(votes, rules, np.random.default_rng(0))
    print(f"{'rule':28} {'paths':>6} {'right':>7} {'kept':>7} {'at equal cost':>14}")
    for row in found.policies:
        print(
            f"{row.policy:28} {row.mean_paths:6.2f} {row.accuracy.value:7.1%}"
            f" {row.kept.value:7.1%} {row.delta_at_equal_cost.value:+14.2%}"
        )


if __name__ == "__main__":
    main(keff.open_record(Path(sys.argv[1])).ballot.votes if len(sys.argv) > 1 else made_up_votes())
