"""The gate on recorded generations: false alarms, passes at the tolerance, power, repeats, wrong names.

    python -m benchmarks.stats.gate [--turns N]

Every recorded workload with 10 or more paths and 60 or more questions (at most 300 of them) is taken as the
law: theta is the share of right paths of each question. A loss is spread over all questions, or breaks some
entirely. The errors allowed are promises, not chosen; how they are spent over the looks is also chosen on all
data sets but one and judged on that one, for each in turn.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.families import records
from keff.stats.gate import (
    FALSE_ALARM,
    FALSE_PASS,
    SURE,
    bounds,
    conditional_variance,
    look,
    worse_chances,
)
from keff.stats.repeats import Repeats
from keff.stats.scores import paired_test
from keff.stats.votes import FloatArray, IntArray

TOLERANCE, MOST, QUESTIONS, FEWEST = 0.05, 8, 300, 60
BASELINES = (8, 3, 1)
LOSSES = (0.0, 0.03, 0.05, 0.06, 0.09, 0.12)

Law = tuple[str, str, FloatArray]

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


Bounds = Callable[[tuple[float, ...], float], Sequence[float]]


def pocock(information: float, alpha: float) -> float:
    """Return the error that may be spent up to a share of the information (Lan and DeMets, Pocock's kind)."""
    return alpha * math.log(1 + (math.e - 1) * information)


def linear(information: float, alpha: float) -> float:
    """Return the error that may be spent where it grows as the information does."""
    return alpha * information


def mixture(shares: tuple[float, ...], alpha: float) -> list[float]:
    """Return the bound of a normal mixture of likelihood ratios, which holds at any number of looks.

    Two-sided at 2 alpha; its width is about the one that is narrowest at half of the information.
    """
    odds = 2 * math.log(1 / (2 * alpha))
    wide = 0.5 / (odds + 1)
    return [math.sqrt((at + wide) / at * (odds + math.log((at + wide) / wide))) for at in shares]


RULES: dict[str, Bounds] = {
    "O'Brien and Fleming": bounds,
    "Pocock's kind": lambda shares, alpha: bounds(shares, alpha, pocock),
    "linear": lambda shares, alpha: bounds(shares, alpha, linear),
    "mixture bound": mixture,
}


def looked(baseline: Repeats, after: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return a run's difference after each repeat, and its deviations for "worse" and for a pass [3, 8]."""
    right, told = np.zeros(after.size, np.int64), np.zeros((3, MOST))
    for repeats in range(1, MOST + 1):
        right += rng.random(after.size) < after
        run = Repeats.of_counts(right, np.full(after.size, repeats))
        variance = conditional_variance(baseline, run)
        # As `look` has it: of few questions all may be right by chance.
        least = TOLERANCE * (1 - TOLERANCE) / (after.size * repeats)
        told[0, repeats - 1] = float((run.mean - baseline.mean).mean())
        told[1:, repeats - 1] = math.sqrt(variance), math.sqrt(max(variance, least))
    return told


def verdicts(told: FloatArray, rule: str) -> tuple[FloatArray, FloatArray]:
    """Return whether runs [R, 3, 8] pass (1), are worse (-1) or undecided (0), and the repeats they took."""
    known = 2 / MOST
    shares = tuple(known / (1 / MOST + 1 / at) for at in range(1, MOST + 1))
    worse, passed = (RULES[rule](shares, alpha) for alpha in (FALSE_ALARM, FALSE_PASS))
    good = told[:, 0] - np.array(passed) * told[:, 2] > -TOLERANCE
    bad = told[:, 0] + np.array(worse) * told[:, 1] < 0
    decided = good | bad
    at = np.where(decided.any(axis=1), decided.argmax(axis=1), MOST - 1)
    rows = np.arange(len(told))
    return np.where(good[rows, at], 1.0, np.where(bad[rows, at], -1.0, 0.0)), at + 1.0


# The runs of each workload by the points that were lost, each [R, 3, 8].
Runs = dict[str, dict[float, FloatArray]]

# The most, or least, of each figure that a bound may have (see the page of the gate).
AIMS = {"false alarms": 0.03, "worst": 0.08, "passes at 5": 0.05, "9 found": 0.97, "repeats": 3.2}


def figures(runs: Runs, rule: str) -> dict[str, float]:
    """Return what a bound does: shares of runs, and the largest share of false alarms of a workload."""
    of = {loss: [verdicts(each[loss], rule) for each in runs.values()] for loss in (0.0, TOLERANCE, 0.09)}
    false = [float(np.mean(verdict == -1)) for verdict, _ in of[0.0]]
    return {
        "false alarms": float(np.mean(false)),
        "worst": max(false),
        "passes at 5": float(np.mean([np.mean(verdict == 1) for verdict, _ in of[TOLERANCE]])),
        "9 found": float(np.mean([np.mean(verdict == -1) for verdict, _ in of[0.09]])),
        "repeats": float(np.mean([used.mean() for _, used in of[0.0]])),
    }


def kept(told: dict[str, float]) -> bool:
    """Return whether figures keep the aims."""
    return told["9 found"] >= AIMS["9 found"] and all(
        told[name] <= aim for name, aim in AIMS.items() if name != "9 found"
    )


def best(runs: Runs) -> str:
    """Return the bound that keeps the aims on some runs with the fewest repeats where nothing changed."""
    told = {rule: figures(runs, rule) for rule in RULES}
    fit = [rule for rule, each in told.items() if kept(each)]
    return min(fit or RULES, key=lambda rule: told[rule]["repeats"])


def chosen_elsewhere(named: list[Law], turns: int, rng: np.random.Generator) -> None:
    """Print the figures of every bound, and of the one chosen without the data set that it is judged on."""
    families = {name: family for name, family, _ in named}
    runs: Runs = {}
    for name, _, theta in named:
        for loss in (0.0, TOLERANCE, 0.09):
            afters = [lost(theta, loss, rng, spread=turn % 2 == 0) for turn in range(turns)]
            told = [looked(of_rates(theta, MOST, rng), after, rng) for after in afters]
            runs.setdefault(name, {})[loss] = np.array(told)
    print("\n| bound | " + " | ".join(AIMS) + " |\n|---|--:|--:|--:|--:|--:|")
    for rule in RULES:
        print(f"| {rule} | {cells(figures(runs, rule))} |")
    picked, held = dict[str, str](), list[dict[str, float]]()
    for family in dict.fromkeys(families.values()):
        picked[family] = best({name: each for name, each in runs.items() if families[name] != family})
        held += [
            figures({name: each}, picked[family]) for name, each in runs.items() if families[name] == family
        ]
    mean = {name: float(np.mean([each[name] for each in held])) for name in AIMS}
    mean["worst"] = max(each["worst"] for each in held)
    counts = ", ".join(f"{rule} {count} times" for rule, count in Counter(picked.values()).items())
    print(f"| chosen on other data sets ({counts}) | {cells(mean)} |")
    print_claim(
        f"gate: bound chosen without the data set that it is judged on ({counts})",
        f"{mean['false alarms']:.1%} false alarms, worst workload {mean['worst']:.1%}; "
        f"{mean['passes at 5']:.1%} pass at the tolerance; {mean['9 found']:.1%} of 9 points found; "
        f"{mean['repeats']:.1f} repeats",
        "at most 3%, 8%; 5%; at least 97%; at most 3.2",
    )


def cells(each: dict[str, float]) -> str:
    """Return figures as cells of a table."""
    return " | ".join(f"{value:.1f}" if name == "repeats" else f"{value:.1%}" for name, value in each.items())


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


def fixed(named: list[Law], turns: int, rng: np.random.Generator) -> None:
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


def sampled(named: list[Law], turns: int, rng: np.random.Generator) -> None:
    """Print errors for new questions: both sides answer a fresh sample of the recorded questions."""
    told: dict[float, list[str]] = {0.0: [], TOLERANCE: []}
    for _, _, theta in named:
        # Two versions of a model differ by question though their scores are the same.
        for loss, verdicts in told.items():
            other = lost(np.clip(rng.permuted(theta) * 0.2 + theta * 0.8, 0, 1), loss, rng, spread=True)
            for _ in range(turns):
                rows: IntArray = rng.integers(0, theta.size, theta.size)
                found = paired_test(of_rates(theta[rows], 8, rng), of_rates(other[rows], 4, rng)).difference
                lo, hi = found.limits or (-1.0, 1.0)
                verdicts.append("pass" if lo > -TOLERANCE else "worse" if hi < 0 else "undecided")
    for loss, verdict, what in (
        (0.0, "worse", "called worse"),
        (TOLERANCE, "pass", "passes at the tolerance"),
    ):
        seen = float(np.mean([each == verdict for each in told[loss]]))
        print_claim(f"new questions: {what}", f"{seen:.1%}", "at most 5%")


def names(named: list[Law], turns: int, rng: np.random.Generator) -> None:
    """Print how many broken questions are named by what is left of their rates, and how many wrongly."""
    print("\n| share broken | rate left | baseline | repeats | named | broken ones named | wrongly named |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    worst_of = dict.fromkeys((2, 4, 8), 0.0)
    for some, left in (
        (0.1, 0.0),
        (0.1, 0.3),
        (0.1, 0.5),
        (0.1, 0.75),
        (0.1, 0.85),
        (0.02, 0.0),
        (0.02, 0.5),
    ):
        for b in BASELINES[:2]:
            for k in worst_of:
                found = wrong = said = broken = 0
                for _, _, theta in named:
                    for _ in range(max(2, turns // 10)):
                        hit = rng.random(theta.size) < some
                        rates = np.where(hit, theta * left, theta)
                        sure = worse_chances(of_rates(theta, b, rng), of_rates(rates, k, rng)) >= SURE
                        real = hit & (theta > 0)
                        said, found = said + int(sure.sum()), found + int((sure & real).sum())
                        wrong, broken = wrong + int((sure & ~real).sum()), broken + int(real.sum())
                share_wrong = wrong / max(said, 1)
                told = f"{said} | {found / broken:.0%} | {share_wrong:.1%}"
                print(f"| {some:.0%} | {left:.0%} | {b} | {k} | {told} |", flush=True)
                # Of a handful no share can be told.
                worst_of[k] = max(worst_of[k], share_wrong if said >= 20 else 0.0)
                if b == MOST and some == 0.1 and left == 0:
                    print_claim(
                        f"broken questions named after {k} repeats",
                        f"{found / broken:.0%}",
                        "more with more repeats",
                    )
    for k, share_wrong in worst_of.items():
        what = f"wrongly named questions after {k} repeats, worst of 14 kinds of breaks"
        print_claim(what, f"{share_wrong:.1%}", "at most 10%")
    named_one = [
        bool(np.any(worse_chances(of_rates(theta, 8, rng), of_rates(theta, 4, rng)) >= SURE))
        for _, _, theta in named
        for _ in range(turns)
    ]
    what = "runs in which a question is named though nothing changed"
    print_claim(what, f"{np.mean(named_one):.1%}", "at most 10%")


def luck(named: list[Law], rng: np.random.Generator) -> None:
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
    rng = np.random.default_rng(0)
    named = list(laws(rng))
    print(f"note: {len(named)} recorded workloads of {FEWEST} or more questions")
    fixed(named, turns, rng)
    chosen_elsewhere(named, 5 * turns, rng)
    sampled(named, turns, rng)
    names(named, turns, rng)
    luck(named, rng)


if __name__ == "__main__":
    main()
