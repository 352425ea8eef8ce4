"""Change that a decision states beyond the recorded paths, against simulated truth, at every option.

Pilots of known laws (the chance of a right answer is beta, wrong answers scatter over one to twenty rivals)
are decided with the recorded K, today's paths and the cap varied; every stated change is compared with the
mean change on as many new questions, whose paths are drawn anew. ``python -m benchmarks.analysis.beyond``
prints coverage of the 95% intervals and the mean error, in points, for each option. With ``--shares`` it
prints, for six laws, how often the share that the paper's K* keeps of 32 paths lies in its interval, from a
pilot of 4 paths per question, where the truth is that of infinitely many questions.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np

from keff.analysis.decision import Aim, decide
from keff.analysis.decision.figures import Figures
from keff.analysis.walks import run
from keff.policy import parse_policy
from keff.stats.votes import Votes
from keff.stats.voting.choose import k_star
from keff.stats.voting.correlation import pooled_c
from keff.stats.voting.draws import Draws

QUESTIONS = 100
ORDERS = 40

# Hard and easy questions, and questions about equally hard; wrong answers that are one, few, or scattered.
SHAPES, WRONG = ((0.6, 0.5), (2.0, 1.5)), (1, 4, 20)


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


def shares(pilots: int) -> None:
    """Print coverage of the share that K* keeps, by law."""
    print("           law  wrong  covered  below  above  stated minus true  width")
    for shape in SHAPES:
        for wrong in WRONG:
            law = (*shape, wrong)
            chances = np.random.default_rng(55).beta(*shape, 4_000)
            truth: dict[int, float] = {}
            rows: list[tuple[float, float, float, float]] = []
            for seed in range(pilots):
                rng = np.random.default_rng([seed, wrong, 54])
                paths = answers(law, rng.beta(*shape, QUESTIONS), 4, rng)
                votes = Votes(paths.astype(int), (paths == 0).astype(int))
                star = k_star(pooled_c(votes), 0.025, 32)
                rule = parse_policy(f"fixed:{star}")
                known = decide(votes, Aim(), now="32", seed=seed, beside=(rule,)).posterior
                kept = known and Figures(known, known.specs.index(rule.spec)).kept(Aim())
                if kept is None or kept.limits is None:
                    continue
                for k in {star, 32} - set(truth):
                    truth[k] = accuracy(f"fixed:{k}", law, chances, seed)
                # At most all is kept, in truth as in what is stated.
                rows.append((min(truth[star] / truth[32], 1.0), kept.value, *kept.limits))
            true, value, lo, hi = np.array(rows).T
            below, above = np.mean(true < lo - 5e-4), np.mean(true > hi + 5e-4)
            print(
                f"{shape!s:>14} {wrong:>6} {1 - below - above:>8.1%} {below:>6.1%} {above:>6.1%} "
                f"{100 * np.mean(value - true):>+11.2f} points {100 * np.mean(hi - lo):>6.1f}",
                flush=True,
            )


def main() -> None:
    """Print coverage and error of the stated change by option."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pilots", type=int, default=100)
    parser.add_argument("--shares", action="store_true")
    args = parser.parse_args()
    if args.shares:
        shares(args.pilots)
        return
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
