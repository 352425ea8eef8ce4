"""The gate on recorded generations: false alarms, passes at the tolerance, power, repeats, wrong names.

    python -m benchmarks.stats.gate [--turns N]

Every recorded workload with 10 or more paths and 60 or more questions (at most 300 of them) is taken as the
law: theta is the share of right paths of each question. A loss is spread over all questions, or breaks some
entirely. Nothing was fitted to the recordings: figures are told for each data set, and the worst of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.families import records
from benchmarks.places import RECORDED
from keff.stats.gate import SURE, look, worse_chances
from keff.stats.repeats import Repeats
from keff.stats.scores import paired
from keff.stats.votes import FloatArray, IntArray

TOLERANCE, MOST, QUESTIONS, FEWEST = 0.05, 8, 300, 60
BASELINES = (8, 3, 1)
LOSSES = (0.0, 0.03, 0.05, 0.06, 0.09, 0.12)

# What a model that is less than twice as good as the largest loss can lose is not comparable.
LEAST_SCORE = 0.2


@dataclass(frozen=True)
class Outcome:
    """The verdict on one run, and the repeats it took."""

    data_set: str
    name: str
    verdict: str
    repeats: int


def of_rates(theta: FloatArray, k: int, rng: np.random.Generator) -> Repeats:
    """Draw k repeats of each question."""
    return Repeats.of_counts(rng.binomial(k, theta), np.full(theta.size, k))


def lost(theta: FloatArray, loss: float, rng: np.random.Generator, *, spread: bool) -> FloatArray:
    """Return the rates after a loss of the mean, spread over all questions or of broken ones."""
    if spread:
        return theta * (1 - loss / theta.mean())
    order = rng.permutation(theta.size)
    before = np.cumsum(theta[order]) - theta[order]
    after = theta.copy()
    after[order] -= np.clip(loss * theta.size - before, 0, theta[order])
    return after


def judged(baseline: Repeats, after: FloatArray, rng: np.random.Generator) -> tuple[str, int]:
    """Return the verdict on one run against a baseline, and how many repeats it took."""
    right = np.zeros(after.size, np.int64)
    for repeats in range(1, MOST + 1):
        right += rng.random(after.size) < after
        run = Repeats.of_counts(right, np.full(after.size, repeats))
        lo, hi = look(baseline, run, TOLERANCE, MOST).difference.limits or (-1.0, 1.0)
        if lo > -TOLERANCE:
            return "pass", repeats
        if hi < 0:
            return "worse", repeats
    return "undecided", MOST


def laws(rng: np.random.Generator) -> Iterator[tuple[str, str, FloatArray]]:
    """Yield the name, the data set and the rates of the recorded workloads in use."""
    for record in records(10):
        theta = record.votes.scored().mean(axis=1)
        if theta.size >= FEWEST and theta.mean() >= LEAST_SCORE:
            yield record.name, record.data_set, theta[rng.permutation(theta.size)[:QUESTIONS]]


def share(told: list[Outcome], verdict: str) -> float:
    """Return the share of runs with a verdict."""
    return float(np.mean([each.verdict == verdict for each in told]))


def worst(told: list[Outcome], verdict: str) -> float:
    """Return the largest share of runs with a verdict over workloads."""
    own: dict[str, list[Outcome]] = {}
    for each in told:
        own.setdefault(each.name, []).append(each)
    return max(share(runs, verdict) for runs in own.values())


def without_each(told: list[Outcome], verdict: str) -> str:
    """Return the range of the share of a verdict with each data set left out in turn."""
    kept = [share([o for o in told if o.data_set != left], verdict) for left in {o.data_set for o in told}]
    return f"{min(kept):.1%} to {max(kept):.1%} without any one data set"


def fixed(named: list[tuple[str, str, FloatArray]], turns: int, rng: np.random.Generator) -> None:
    """Print verdicts and repeats by true loss, on a fixed suite."""
    print("\n| baseline | points lost | pass | worse | undecided | repeats |\n|---|--:|--:|--:|--:|--:|")
    for b in BASELINES:
        for loss in LOSSES:
            # The worst workload of many is known from many runs of each.
            runs = turns * (10 if loss == 0 and b == MOST else 1)
            told = [
                Outcome(family, name, *judged(of_rates(theta, b, rng), after, rng))
                for name, family, theta in named
                for turn in range(runs)
                for after in [lost(theta, loss, rng, spread=turn % 2 == 0)]
            ]
            shares = " | ".join(f"{share(told, verdict):.1%}" for verdict in ("pass", "worse", "undecided"))
            used = float(np.mean([each.repeats for each in told]))
            print(f"| {b} | {100 * loss:g} | {shares} | {used:.1f} |", flush=True)
            if b == 8:
                claims(loss, told, used, runs)


def claims(loss: float, told: list[Outcome], used: float, runs: int) -> None:
    """Print the rows of the summary for a baseline of 8 repeats."""
    if loss == 0:
        what = "gate: called worse though nothing changed, baseline of 8"
        print_claim(what, f"{share(told, 'worse'):.1%} ({without_each(told, 'worse')})", "at most 3%")
        print_claim(f"the same, worst workload ({runs:,} runs)", f"{worst(told, 'worse'):.1%}", "at most 8%")
        print_claim("repeats used where nothing changed", f"{used:.1f} of {MOST}", "at most 3.2")
    if loss == TOLERANCE:
        passed = f"{share(told, 'pass'):.1%} ({without_each(told, 'pass')})"
        print_claim("a run that lost the whole tolerance passes", passed, "at most 5%")
    if loss == 0.09:
        print_claim("a loss of 9 points is found", f"{share(told, 'worse'):.1%}", "at least 97%")


def print_claim(what: str, measured: str, aim: str) -> None:
    """Print a row of the summary."""
    print(f"claim: {what} | {measured} | {aim}", flush=True)


def sampled(named: list[tuple[str, str, FloatArray]], turns: int, rng: np.random.Generator) -> None:
    """Print errors for new questions: both sides answer a fresh sample of the recorded questions."""
    told: dict[float, list[str]] = {0.0: [], TOLERANCE: []}
    for _, _, theta in named:
        # Two versions of a model differ by question though their scores are the same.
        for loss, verdicts in told.items():
            other = lost(np.clip(rng.permuted(theta) * 0.2 + theta * 0.8, 0, 1), loss, rng, spread=True)
            for _ in range(turns):
                rows: IntArray = rng.integers(0, theta.size, theta.size)
                found = paired(of_rates(theta[rows], 8, rng), of_rates(other[rows], 4, rng)).difference
                lo, hi = found.limits or (-1.0, 1.0)
                verdicts.append("pass" if lo > -TOLERANCE else "worse" if hi < 0 else "undecided")
    for loss, verdict, what in (
        (0.0, "worse", "called worse"),
        (TOLERANCE, "pass", "passes at the tolerance"),
    ):
        seen = float(np.mean([each == verdict for each in told[loss]]))
        print_claim(f"new questions: {what}", f"{seen:.1%}", "at most 5%")


def names(named: list[tuple[str, str, FloatArray]], turns: int, rng: np.random.Generator) -> None:
    """Print how many broken questions are named, and how many of those named are wrong."""
    print("\n| baseline | repeats | broken ones named | wrongly named |\n|---|--:|--:|--:|")
    for b in BASELINES[:2]:
        for k in (2, 4, 8):
            found = wrong = said = broken = 0
            for _, _, theta in named:
                for turn in range(max(2, turns // 20)):
                    hit = rng.random(theta.size) < 0.1
                    rates = np.where(hit, theta * (0.0, 0.3)[turn % 2], theta)
                    sure = worse_chances(of_rates(theta, b, rng), of_rates(rates, k, rng)) >= SURE
                    real = hit & (theta > 0)
                    said, found = said + int(sure.sum()), found + int((sure & real).sum())
                    wrong, broken = wrong + int((sure & ~real).sum()), broken + int(real.sum())
            print(f"| {b} | {k} | {found / broken:.0%} | {wrong / max(said, 1):.1%} |", flush=True)
            if b == 8:
                measured = f"{wrong / max(said, 1):.1%}, {found / broken:.0%} of broken ones named"
                print_claim(f"wrongly named questions after {k} repeats", measured, "at most 10%")


def luck(named: list[tuple[str, str, FloatArray]], rng: np.random.Generator) -> None:
    """Print how often runs in which nothing changed are called worse than the luckiest of 40 baselines."""
    print("\n| baseline | called worse than the luckiest of 40 |\n|---|--:|")
    for b in BASELINES:
        called = list[bool]()
        for _, _, theta in named:
            lucky = max(
                (of_rates(theta, b, rng) for _ in range(40)), key=lambda each: float(each.mean.mean())
            )
            called += [judged(lucky, theta, rng)[0] == "worse" for _ in range(20)]
        print(f"| {b} | {np.mean(called):.0%} |")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=40)
    turns = parser.parse_args().turns
    if not RECORDED.is_dir():
        print(f"skipped: the recorded generations are not in {RECORDED}")
        return
    rng = np.random.default_rng(0)
    named = list(laws(rng))
    print(f"note: {len(named)} recorded workloads of {FEWEST} or more questions")
    fixed(named, turns, rng)
    sampled(named, turns, rng)
    names(named, turns, rng)
    luck(named, rng)


if __name__ == "__main__":
    main()
