"""What the intervals of shares, differences and expected figures cover, at 10 to 300 questions.

    python -m benchmarks.stats.intervals [--samples 2000] [--pilots 100]

Shares and differences are those of questions drawn from known laws, alone or in clusters (copies of one
question, or passages whose questions are alike), and are held against the law's own mean. Expected figures
come from a pilot's decision and are held against as many new questions.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
from scipy.special import betaincinv

from keff.analysis.decision import Aim, decide
from keff.analysis.walks import expectations, run
from keff.policy import parse_policy
from keff.records import Interval
from keff.stats.intervals import mean_share, paired_difference
from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting.draws import permute_paths

QUESTIONS = (10, 30, 100, 300)

# Questions of a cluster, and the correlation of their difficulty: alone, copies, and passages.
CLUSTERS = {"alone": (1, 0.0), "copies of 2": (2, 1.0), "passages of 5": (5, 0.5)}

Sample = Callable[[int, int, float, np.random.Generator], tuple[FloatArray, IntArray]]


def uniforms(n: int, size: int, alike: float, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Return uniform numbers [n], equal within a cluster with chance ``alike``, and the clusters [n]."""
    ids = np.arange(n) // size
    own = rng.random(n)
    return np.where(rng.random(n) < alike, rng.random(ids[-1] + 1)[ids], own), ids


def share_of(p: float, c: float, paths: int) -> tuple[Sample, float]:
    """Return a sampler of the shares of right paths, by a beta law of mean p and correlation c."""
    a, b = p * (1 - c) / c, (1 - p) * (1 - c) / c
    law = betaincinv(a, b, (np.arange(4000) + 0.5) / 4000)

    def sample(n: int, size: int, alike: float, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        at, ids = uniforms(n, size, alike, rng)
        theta = law[(at * 4000).astype(int)]
        right = rng.binomial(paths, theta)
        # A copy has the same answers, too.
        return (right if alike < 1 else right[ids * size]) / paths, ids

    return sample, float(law.mean())


def difference_of(flips: float, gained: float, whole: bool) -> tuple[Sample, float]:
    """Return a sampler of differences: a share ``flips`` of the questions differs, ``gained`` of these up.

    By a whole answer, as single answers do, or by up to one, as chances over orders do.
    """

    def sample(n: int, size: int, alike: float, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        at, ids = uniforms(n, size, alike, rng)
        wide = np.ones(n) if whole else 0.1 + 0.9 * (at / flips) % 1
        sign = np.where((at / flips * 7919) % 1 < gained, 1.0, -1.0)
        return np.where(at < flips, sign * wide, 0.0), ids

    return sample, flips * (2 * gained - 1) * (1.0 if whole else 0.55)


def covered(
    sample: Sample,
    truth: float,
    n: int,
    design: tuple[int, float],
    interval: Callable[[FloatArray, IntArray], Interval],
    samples: int,
) -> float:
    """Return how often the interval of a sample holds the truth."""
    rng, inside = np.random.default_rng(n), 0
    for _ in range(samples):
        found = interval(*sample(n, *design, rng))
        assert found.limits is not None
        inside += found.limits[0] - 1e-9 <= truth <= found.limits[1] + 1e-9
    return inside / samples


SHARES = [(p, c, paths) for p in (0.03, 0.3, 0.7, 0.97) for c, paths in ((0.3, 8), (0.8, 8), (0.5, 1))]
DIFFERENCES = [(f, g) for f in (0.02, 0.1, 0.3) for g in (0.5, 0.7)]
KINDS: dict[str, tuple[list[tuple[Sample, float]], Callable[..., Interval]]] = {
    "share": ([share_of(*law) for law in SHARES], mean_share),
    "difference of chances": ([difference_of(*law, False) for law in DIFFERENCES], paired_difference),
    "difference of single answers": (
        [difference_of(*law, True) for law in DIFFERENCES],
        partial(paired_difference, answer=1.0),
    ),
}


def shares_covered(kind: str, design: str, n: int, samples: int) -> list[float]:
    """Return the coverage of one kind of interval under each of its laws."""
    laws, interval = KINDS[kind]
    return [covered(sample, truth, n, CLUSTERS[design], interval, samples) for sample, truth in laws]


def cells(samples: int) -> None:
    """Print the coverage of shares and of differences: mean and range over the laws."""
    print("| kind | questions | " + " | ".join(CLUSTERS) + " |\n|---|--:|" + "--:|" * len(CLUSTERS))
    for kind, n in product(KINDS, QUESTIONS):
        row: list[str] = []
        for design in CLUSTERS:
            found = [100 * share for share in shares_covered(kind, design, n, samples)]
            row.append(f"{np.mean(found):.1f} ({min(found):.0f} to {max(found):.0f})%")
        print(f"| {kind} | {n} | {' | '.join(row)} |", flush=True)


LAWS = {
    "easy and hard": (((0.6, 0.85), (0.4, 0.40)), 0.6),
    "nearly perfect": (((0.97, 0.995), (0.03, 0.4)), 0.5),
    "weak": (((0.3, 0.6), (0.7, 0.15)), 0.4),
}
"""Shares of the questions with the chance of a right answer, and how much of the rest goes to one rival."""


def votes_of(name: str, n: int, size: int, rng: np.random.Generator) -> Votes:
    """Return 8 votes on each of n questions of a law, in copies of ``size``."""
    law, rival = LAWS[name]
    kinds = rng.choice(len(law), -(-n // size), p=[part for part, _ in law])
    chance = np.array([right for _, right in law])[kinds]
    at = rng.random((len(kinds), 8))
    wrong = np.where(at < (chance + (1 - chance) * rival)[:, None], 1, rng.integers(2, 6, at.shape))
    codes = np.where(at < chance[:, None], 0, wrong)
    rows = np.repeat(np.arange(len(kinds)), size)[:n]
    return Votes(codes[rows], (codes[rows] == 0).astype(int), clusters=rows if size > 1 else None)


FIGURES = ("accuracy", "points", "kept", "paths")


def expected_covered(law: str, n: int, size: int, pilots: int) -> FloatArray:
    """Return how often each figure of a decision holds that of as many new questions; NaN if never stated."""
    inside, stated, rng = np.zeros(4), np.zeros(4), np.random.default_rng([n, size])
    for _ in range(pilots):
        told = decide(votes_of(law, n, size, rng), Aim(retain=0.98)).decision
        new = votes_of(law, n, size, rng)
        draws = permute_paths(new, 8, 60, rng)
        mine, today = (
            expectations(run(parse_policy(spec), draws), draws, 8) for spec in (told.policy, told.reference)
        )
        assert mine.accuracy is not None and today.accuracy is not None
        right, level = float(mine.accuracy.mean()), float(today.accuracy.mean())
        # There is no share of a vote that is right on no new question.
        kept = min(right / level, 1.0) if level > 0 else np.nan
        truth = np.array([right, right - level, kept, mine.paths.mean()])
        for place, figure in enumerate((told.accuracy, told.change.points, told.kept, told.expected_paths)):
            # None of kept where the reference may never be right, nothing without a decision.
            if figure is not None and figure.limits is not None and not np.isnan(truth[place]):
                stated[place] += 1
                inside[place] += figure.limits[0] - 1e-3 <= truth[place] <= figure.limits[1] + 1e-3
    return np.divide(inside, stated, out=np.full(4, np.nan), where=stated > 0)


def expected(pilots: int) -> None:
    """Print what a decision's expected figures cover of as many new questions."""
    print(f"\n| law | questions | in clusters of | {' | '.join(FIGURES)} |\n|---|{'--:|' * 6}")
    for law, n, size in product(LAWS, QUESTIONS, (1, 2)):
        if n // size >= 10:
            cover = " | ".join(f"{share:.0%}" for share in expected_covered(law, n, size, pilots))
            print(f"| {law} | {n} | {size} | {cover} |", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--pilots", type=int, default=100)
    asked = parser.parse_args()
    cells(asked.samples)
    expected(asked.pilots)


if __name__ == "__main__":
    main()
