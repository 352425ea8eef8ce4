"""How far a score can be trusted, on recorded generations: noise, pass^8 from 4, error rates and power.

    python -m benchmarks.stats.repeats [--turns N]

Every recorded workload with 10 or more paths of a question is taken as the law: theta is the share of right
paths of each question. Trials of other repeats are its paths in random order.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.cli.scale import compiled, keff, write_jsonl
from benchmarks.families import Record, records
from keff.stats import scores
from keff.stats.intervals import mean_share
from keff.stats.repeats import (
    Repeats,
    components,
    quantiles,
    run_to_run,
)
from keff.stats.scores import (
    BEYOND_SD,
    all_right,
    chance_all,
    moment,
    paired_test,
)
from keff.stats.votes import FloatArray, IntArray

TRIALS, AHEAD = 4, 8


def drawn(y: IntArray, m: int, rng: np.random.Generator) -> IntArray:
    """Draw m paths of each question without replacement, and return how many are right [n]."""
    places = rng.permuted(np.tile(np.arange(y.shape[1]), (len(y), 1)), axis=1)[:, :m]
    return np.take_along_axis(y, places, 1).sum(axis=1)


def few(y: IntArray, m: int, rng: np.random.Generator) -> Repeats:
    """Return m repeats of each question."""
    return Repeats.of_counts(drawn(y, m, rng), np.full(len(y), m))


def noise(workloads: list[Record], turns: int, rng: np.random.Generator) -> None:
    """Print the stated standard deviation of a run against that of the recorded law, and its coverage."""
    print("\n| repeats | stated / true sd: median | 10 to 90% | median error | 95% interval covers |")
    print("|---|---|---|---|---|")
    for m in (2, 4, 8):
        ratios, hits = list[float](), list[bool]()
        for record in workloads:
            theta = record.votes.scored().mean(axis=1)
            truth = math.sqrt(float(np.mean(theta * (1 - theta))) / theta.size)
            for _ in range(turns):
                found = run_to_run(Repeats.of_counts(rng.binomial(m, theta), np.full(theta.size, m)))
                if found is not None and truth > 0:
                    lo, hi = found.limits or (0.0, 0.0)
                    ratios.append(found.value / truth)
                    hits.append(lo <= truth <= hi)
        low, high = np.quantile(ratios, [0.1, 0.9])
        off = float(np.median(np.abs(np.array(ratios) - 1)))
        print(
            f"| {m} | {np.median(ratios):.3f} | {low:.2f} to {high:.2f} | {off:.1%} | {np.mean(hits):.1%} |"
        )
        if m == TRIALS:
            print_claim("run-to-run sd from 4 repeats, median error", f"{off:.1%}", "at most 10%")
            print_claim("its 95% interval covers", f"{np.mean(hits):.1%}", "90 to 98%")


def print_claim(what: str, measured: str, aim: str) -> None:
    """Print a row of the summary."""
    print(f"claim: {what} | {measured} | {aim}")


WORKLOADS: list[Record] = []


def pass_powers(workloads: list[Record], turns: int, rng: np.random.Generator) -> None:
    """Print what pass^8 from 4 trials errs, beside other ways, and whether its interval covers."""
    left = without_each(law_errors(workloads, rng))
    errors: dict[str, list[float]] = {name: [] for name in ("keff", "beta-binomial alone", "rate^8", "p^8")}
    hits: dict[str, list[bool]] = {"new questions": [], "the same questions": []}
    by_family: dict[str, list[bool]] = {}
    for record in workloads:
        y = record.votes.scored()
        n, k = y.shape
        truth = float(chance_all(y.sum(axis=1), np.full(n, k), AHEAD).mean())
        for _ in range(turns):
            repeats = few(y, TRIALS, rng)
            # What the law errs is taken from the other data sets.
            scores.BEYOND_SD = left.get(record.data_set, BEYOND_SD)
            found = all_right(repeats, AHEAD)
            p = float(repeats.mean.mean())
            spread = components(repeats)
            assert spread is not None
            c = spread.questions / max(spread.questions + spread.repeats, 1e-12)
            ways = (found.value, float(moment(p, c, AHEAD)), float(np.mean(repeats.mean**AHEAD)), p**AHEAD)
            for name, value in zip(errors, ways, strict=True):
                errors[name].append(value - truth)
            lo, hi = found.limits or (0.0, 0.0)
            hits["the same questions"].append(lo <= truth <= hi)
            other = all_right(few(y[rng.integers(0, n, n)], TRIALS, rng), AHEAD)
            lo, hi = other.limits or (0.0, 0.0)
            hits["new questions"].append(lo <= truth <= hi)
            by_family.setdefault(record.data_set, []).append(lo <= truth <= hi)
    scores.BEYOND_SD = BEYOND_SD
    print("\n| pass^8 from 4 trials | RMSE, points | bias, points |\n|---|---|---|")
    for name, values in errors.items():
        off = 100 * np.array(values)
        print(f"| {name} | {math.sqrt(float(np.mean(off**2))):.1f} | {off.mean():+.1f} |")
    for name, values in hits.items():
        print(f"95% interval of pass^8, {name}: covers {np.mean(values):.1%}")
    print("by data set: " + ", ".join(f"{name} {np.mean(own):.0%}" for name, own in by_family.items()))
    off = 100 * np.array(errors["keff"])
    told = f"{math.sqrt(float(np.mean(off**2))):.1f} points, bias {off.mean():+.1f}"
    print_claim("pass^8 from 4 trials, RMSE", told, "at most 4.5, bias at most 1.5")
    print_claim(
        "its 95% interval covers, questions drawn anew", f"{np.mean(hits['new questions']):.1%}", "90 to 98%"
    )


def law_errors(workloads: list[Record], rng: np.random.Generator) -> list[tuple[str, float]]:
    """Return the data set, and the error in logit pass^8 from 4 trials, of every workload."""
    errors = list[tuple[str, float]]()
    for record in workloads:
        y = record.votes.scored()
        truth = float(chance_all(y.sum(axis=1), np.full(len(y), y.shape[1]), AHEAD).mean())
        if 0.02 < truth < 0.98:
            said = float(np.mean([all_right(few(y, TRIALS, rng), AHEAD).value for _ in range(15)]))
            errors.append((record.data_set, math.log(said / (1 - said)) - math.log(truth / (1 - truth))))
    return errors


def without_each(errors: list[tuple[str, float]]) -> dict[str, float]:
    """Return the root mean square error without each data set in turn."""
    return {
        family: math.sqrt(float(np.mean([value**2 for own, value in errors if own != family])))
        for family in {own for own, _ in errors}
    }


def halves(workloads: list[Record], turns: int, rng: np.random.Generator) -> None:
    """Print how often one half of a record's paths is called better than the other half."""
    called = list[bool]()
    for record in workloads:
        y = record.votes.scored()
        half = y.shape[1] // 2
        for _ in range(turns):
            order = rng.permuted(np.tile(np.arange(y.shape[1]), (len(y), 1)), axis=1)
            sides = (
                np.take_along_axis(y, order[:, part], 1) for part in (slice(half), slice(half, 2 * half))
            )
            called.append(
                paired_test(
                    *(Repeats.of_counts(side.sum(axis=1), np.full(len(y), half)) for side in sides)
                ).decided
            )
    print_claim("a model called better or worse than itself", f"{np.mean(called):.1%}", "at most 5%")


def power(workloads: list[Record], turns: int, rng: np.random.Generator) -> None:
    """Print how often differences of the stated size are found, of second models made from the recorded laws.

    On these very questions: every theta moves by the stated difference where it has room. On new questions:
    theta of the second model is another draw with the stated variance of differences, and both answer a new
    sample of questions.
    """
    rows: dict[str, list[float]] = {"these": [], "new": []}
    for record in workloads:
        theta = record.votes.scored().mean(axis=1)
        n, r = 200, 2
        inside = float(np.mean(theta * (1 - theta)))
        found = {"these": 0, "new": 0}
        between = 0.48 * float(theta.var(ddof=1))
        for which in found:
            omega = between if which == "new" else 0.0
            stated = quantiles() * math.sqrt((omega + 2 * inside / r) / n)
            for _ in range(turns * 10):
                own = theta[rng.integers(0, theta.size, n)]
                # The second model's noise is the first one's; only its level, and its own ups and downs,
                # differ.
                gap = stated + math.sqrt(omega) * rng.standard_normal(n)
                a, b = scores_of(own, r, rng), scores_of(own, r, rng) + gap[:, None]
                apart = b.mean(axis=1) - a.mean(axis=1)
                found[which] += abs(apart.mean()) > 1.972 * apart.std(ddof=1) / math.sqrt(n)
            rows[which].append(found[which] / (turns * 10))
    for which, values in rows.items():
        low, high = np.quantile(values, [0.1, 0.9])
        print(
            f"power where 80% is stated, {which} questions, by workload (10 to 90%): {low:.0%} to {high:.0%}"
        )
        print_claim(f"power where 80% is stated, {which} questions", f"{np.mean(values):.1%}", "75 to 85%")


def scores_of(theta: FloatArray, m: int, rng: np.random.Generator) -> FloatArray:
    """Draw m answers of each question [n, m]."""
    return (rng.random((theta.size, m)) < theta[:, None]).astype(np.float64)


def score_coverage(workloads: list[Record], turns: int, rng: np.random.Generator) -> None:
    """Print whether the interval of a score covers where questions are drawn anew."""
    hits = list[bool]()
    for record in workloads:
        y = record.votes.scored()
        for _ in range(turns):
            drawn = few(y[rng.integers(0, len(y), len(y))], TRIALS, rng)
            found = mean_share(drawn.mean, drawn.ids)
            hits.append((found.lo or 0.0) <= float(y.mean()) <= (found.hi or 1.0))
    print_claim("95% interval of a score covers, questions drawn anew", f"{np.mean(hits):.1%}", "90 to 98%")


def speed() -> None:
    """Print what ``keff noise`` and ``keff compare`` take on synthetic records."""
    compiled()
    with tempfile.TemporaryDirectory() as folder:
        for n, k, seconds, memory in ((1_000, 256, 1, 300), (100_000, 8, 2, 300), (10_000, 256, 5, 600)):
            files = [Path(folder) / f"{n}x{k}-{side}.jsonl" for side in "ab"]
            for file in files:
                write_jsonl(file, n, k)
            for command in (("noise", str(files[0])), ("compare", *map(str, files))):
                used = keff(*command)
                told = f"{used.seconds:.2f} s, {used.memory:.0f} MB"
                aim = f"under {seconds} s, {memory} MB"
                print(f"claim: {command[0]} {n:,} x {k}, processor time | {told} | {aim}")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=8)
    turns = parser.parse_args().turns
    WORKLOADS.extend(records(10))
    print(f"note: {len(WORKLOADS)} recorded workloads")
    rng = np.random.default_rng(0)
    noise(WORKLOADS, turns, rng)
    pass_powers(WORKLOADS, turns, rng)
    score_coverage(WORKLOADS, turns, rng)
    halves(WORKLOADS, turns, rng)
    power(WORKLOADS, turns, rng)
    speed()


if __name__ == "__main__":
    main()
