"""Change that a decision states beyond the recorded paths, against simulated truth, at every option.

Pilots of known laws (the chance of a right answer is beta, wrong answers scatter over one to twenty rivals)
are decided with the recorded K, today's paths and the cap varied; every stated change is compared with the
mean change on as many new questions, whose paths are drawn anew. ``python -m benchmarks.analysis.beyond``
prints coverage of the 95% intervals and the mean error, in points, for each option.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np

from keff.analysis.decision import Aim, decide
from keff.analysis.walks import run
from keff.policy import parse_policy
from keff.stats.votes import Votes
from keff.stats.voting.draws import Draws

QUESTIONS = 100
ORDERS = 40


def workload(rng: np.random.Generator) -> tuple[float, float, int]:
    """Return a law: the two shapes of the beta of the chance of a right answer, and the number of rivals."""
    mean, c = rng.uniform(0.3, 0.9), rng.uniform(0.1, 0.7)
    return mean * (1 / c - 1), (1 - mean) * (1 / c - 1), int(rng.choice([1, 2, 5, 20]))


def answers(
    law: tuple[float, float, int], chances: np.ndarray, k: int, rng: np.random.Generator
) -> np.ndarray:
    """Return ``k`` answers [n, k] of questions with given chances [n] of the right answer, 0."""
    wrong = rng.integers(1, law[2] + 1, (chances.size, k))
    return np.where(rng.random((chances.size, k)) < chances[:, None], 0, wrong).astype(np.int16)


def accuracy(spec: str, law: tuple[float, float, int], chances: np.ndarray, seed: int) -> float:
    """Return the accuracy of a rule on questions with given chances, over fresh paths."""
    rule, rng = parse_policy(spec), np.random.default_rng(seed)
    repeated = np.repeat(chances, ORDERS)
    codes = answers(law, repeated, max(rule.cap, 32), rng).reshape(chances.size, ORDERS, -1)
    walks = run(rule, Draws(codes, correct=codes == 0))
    assert walks.credit is not None
    return float(walks.credit.mean())


def main() -> None:
    """Print coverage and error of the stated change by option."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pilots", type=int, default=100)
    args = parser.parse_args()
    found: dict[tuple[object, ...], list[tuple[bool, float]]] = defaultdict(list)
    for seed in range(args.pilots):
        rng = np.random.default_rng([seed, 4])
        law = workload(rng)
        chances, new = rng.beta(*law[:2], QUESTIONS), rng.beta(*law[:2], QUESTIONS)
        paths = answers(law, chances, 8, rng)
        for k in (2, 4, 8):
            votes = Votes(paths[:, :k].astype(int), (paths[:, :k] == 0).astype(int))
            for now in (None, "8", "16"):
                for cap in (4, 8, 32):
                    decision = decide(votes, Aim(), now=now, cap=cap, seed=seed).decision
                    points = decision.change.points
                    if points is None or points.limits is None or decision.policy is None:
                        continue
                    true = accuracy(decision.policy, law, new, seed) - accuracy(
                        decision.reference, law, new, seed
                    )
                    lo, hi = points.limits
                    found[k, now, cap].append((lo - 5e-4 <= true <= hi + 5e-4, points.value - true))
    print(f"{'K':>3} {'now':>5} {'cap':>4} {'covered':>8} {'stated minus true, points':>26}")
    for (k, now, cap), rows in found.items():
        errors = 100 * np.array([error for _, error in rows])
        covered = np.mean([inside for inside, _ in rows])
        error = f"{errors.mean():>+12.2f} ({errors.std() / len(rows) ** 0.5:.2f})"
        print(f"{k:>3} {now or k:>5} {cap:>4} {covered:>8.1%} {error}")


if __name__ == "__main__":
    main()
