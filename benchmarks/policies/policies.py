"""Speed of policies: a live decision of each, and the replay of twelve on 500 questions x 80 paths.

Targets: a decision under 50 microseconds, the replay with 1,000 bootstrap replicates under 20 seconds on
one core.
"""

from __future__ import annotations

import time

import numpy as np

from keff.analysis.replay import replay
from keff.policy import View, parse_policy
from keff.stats.votes import Votes

TWELVE = (
    "fixed:8",
    "fixed:32",
    "curtailed",
    "lead_k:3",
    "adaptive_consistency:0.95",
    "adaptive_consistency:0.99",
    "esc:5",
    "esc:3",
    "e_value:0.05",
    "budget:4",
    "pilot_budget:0.98",
    "adaptive_k",
)


def workload() -> Votes:
    """500 questions x 80 paths: shares of a leading answer from certain to hopeless, and a long tail."""
    rng = np.random.default_rng(0)
    share = rng.beta(1.5, 0.7, 500)[:, None]
    tail = rng.geometric(0.4, (500, 80))
    answers = np.where(rng.random((500, 80)) < share, 0, tail)
    return Votes(answers, (answers == 0).astype(int), tokens=rng.gamma(4, 500, (500, 80)))


def decision_seconds(spec: str, keys: list[str | None]) -> float:
    """Return the mean time of a decision on the first 0..32 of these votes, the least of five rounds."""
    policy = parse_policy(spec)
    views = [View(keys[:n]) for n in range(policy.cap + 1)]
    rounds = []
    for _ in range(5):
        start = time.perf_counter()
        for view in views:
            policy.decide(view)
        rounds.append((time.perf_counter() - start) / len(views))
    return min(rounds)


def main() -> None:
    """Print both tables."""
    keys: list[str | None] = [*"abacabadabacabaeaabacabadabacaba"]
    times = {spec: 1e6 * decision_seconds(spec, keys) for spec in TWELVE[:-1]}
    for spec, micro in times.items():
        print(f"{spec:44s} {micro:6.1f} us a decision")
    print(
        f"claim: a live decision, slowest of {len(times)} policies | {max(times.values()):.1f} us "
        "| under 50 us"
    )
    start, cpu = time.perf_counter(), time.process_time()
    replay(workload(), TWELVE, np.random.default_rng(0))
    wall, used = time.perf_counter() - start, time.process_time() - cpu
    print(f"replay of {len(TWELVE)}: {wall:.1f} s, {used:.1f} s of processor")
    print(
        f"claim: replay of 12 policies, 500 x 80, 1,000 replicates | {used:.1f} s of processor | under 20 s"
    )


if __name__ == "__main__":
    main()
