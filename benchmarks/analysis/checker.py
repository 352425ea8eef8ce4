"""How many tries of a small model, then of a large one, a pilot of a checker's verdicts chooses: its regret.

    KEFF_SHARED=DIR python -m benchmarks.analysis.checker [--pilots 20] [--questions 50] [--turns 200]

Pairs of recorded models with right and wrong paths; what m tries do in truth comes from all recorded paths. A
try of the large model costs 5 or 20 of the small one, and a right answer is worth 30, 100 or 300. Regret is
what the best plan in truth has more of worth - cost, in tries of the small model; the best fixed plan is
chosen on the other families. Pilots of sets with fewer than twice the questions draw them with replacement.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations, product

import numpy as np

from benchmarks.families import read
from benchmarks.places import RECORDED
from keff.analysis.decision.tries import TryFigures, Verdicts
from keff.analysis.mix.choose import PlanTable
from keff.analysis.mix.search import CandidatePlan
from keff.analysis.mix.tries import BranchTries, try_plans
from keff.stats.intervals import interval_mean, mean_share
from keff.stats.models.tries import fail_and_solve_chances, until_passed
from keff.stats.votes import BoolArray, FloatArray, IntArray

THREE = (1.0, 5.0, 20.0)
WORTHS, PRICES = (30.0, 100.0, 300.0), (5.0, 20.0)
MOST_PAIRS = 9
FIXED = ("small(retry:1)", "small(retry:3)", "large(retry:1)", "small(retry:1)/large(retry:1)",
         "small(retry:2)/large(retry:1)", "small(retry:3)/large(retry:1)", "small(retry:3)/large(retry:3)",
         "small(retry:8)/large(retry:3)")  # fmt: skip
NAMES = ("smallest", "small", "large")


def records() -> dict[str, dict[str, BoolArray]]:
    """Return right paths [n, K] by data set and model."""
    out: dict[str, dict[str, BoolArray]] = defaultdict(dict)
    for path in sorted([*RECORDED.glob("boinf_*.jsonl"), *RECORDED.glob("cruxeval_*.jsonl")]):
        found = read(path)
        assert found is not None
        out["_".join(path.stem.split("_")[:2])][found.name] = found.votes.scored() == 1
    return out


def plans_of(rights: Sequence[BoolArray], prices: Sequence[float], most: int) -> list[CandidatePlan]:
    """Return the plans on some questions, as ``keff mix`` replays them."""
    tried = [
        BranchTries.of(Verdicts(own, None, np.arange(len(own))), np.full(own.shape, cost), most, 0.0)
        for own, cost in zip(rights, prices, strict=True)
    ]
    return list(try_plans(tried, NAMES[-len(prices) :], np.array(prices)))


def table(plans: list[CandidatePlan], n: int, k: tuple[int, ...]) -> PlanTable:
    """Return the table that ``keff mix`` chooses from."""
    return PlanTable.of(plans, k, np.ones((len(k), n), np.float32), np.arange(n))


def pilot_of(right: BoolArray, rows: IntArray, k: int, rng: np.random.Generator) -> BoolArray:
    """Return k paths in random order of some questions."""
    order = rng.random((rows.size, right.shape[1])).argsort(axis=1)[:, :k]
    return np.take_along_axis(right[rows], order, axis=1)


def of_three(
    models: Sequence[BoolArray], rng: np.random.Generator, shape: tuple[int, int]
) -> Iterator[tuple[float, float, float]]:
    """Yield worth and regret of the plan chosen on a pilot of three models: of all plans, of those of two."""
    (questions, k), n = shape, len(models[0])
    most = min(16, *(own.shape[1] for own in models))
    rows = rng.choice(n, questions, replace=n < 2 * questions)
    plans = plans_of([pilot_of(own, rows, k, rng) for own in models], THREE, most)
    held, two = table(plans, questions, (k,) * 3), np.array([len(plan.branches) < 3 for plan in plans])
    figures = [
        [until_passed(own.astype(float), own), until_passed(np.ones(own.shape), own) * price]
        for own, price in zip(models, THREE, strict=True)
    ]
    true = np.array([_in_truth(plan, figures) for plan in plans])
    for worth in (*WORTHS, 1000.0):
        net, expected = worth * true[:, 0] - true[:, 1], worth * held.expected - held.expected_cost
        chosen = net[np.argmax(expected)], net[np.argmax(np.where(two, expected, -np.inf))]
        yield worth, float(net.max() - chosen[0]), float(net.max() - chosen[1])


def _in_truth(plan: CandidatePlan, figures: Sequence[Sequence[FloatArray]]) -> tuple[float, float]:
    right = paid = np.zeros(len(figures[0][0]))
    left = 1.0 + right
    for branch, tries in zip(plan.branches, plan.most, strict=True):
        solved, spent = (values[:, tries] for values in figures[branch])
        right, paid, left = right + left * solved, paid + left * spent, left * (1 - solved)
    return float(right.mean()), float(paid.mean())


def plug_in(passed: BoolArray, most: int) -> FloatArray:
    """Return (1 - x / K)^j of each question, as if its share of right tries were known."""
    return (1 - passed.mean(axis=1, keepdims=True)) ** np.arange(most + 1)


class Regrets:
    """Regret by way, price and worth, of each pair, and how often stated figures hold the truth."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, float, float], dict[tuple[str, str, str], list[float]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self.covered: dict[str, list[bool]] = defaultdict(list)
        self.true: dict[tuple[tuple[str, str, str], float], tuple[FloatArray, FloatArray]] = {}

    def truth(
        self, pair: tuple[str, str, str], truth: tuple[BoolArray, BoolArray], price: float, most: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the share right and the cost of each plan, from all recorded paths."""
        if (pair, price) not in self.true:
            plans = plans_of(truth, (1.0, price), most)
            figures = (
                np.array([getattr(plan, name).mean() for plan in plans]) for name in ("accuracy", "cost")
            )
            right, paid = figures
            self.true[pair, price] = right, paid
        return self.true[pair, price]

    def pilot(
        self,
        pair: tuple[str, str, str],
        truth: tuple[BoolArray, BoolArray],
        rng: np.random.Generator,
        shape: tuple[int, int],
    ) -> None:
        """Draw one pilot of a pair and note what is chosen."""
        questions, k = shape
        n = len(truth[0])
        rows = rng.choice(n, questions, replace=n < 2 * questions)
        seen = [pilot_of(own, rows, k, rng) for own in truth]
        most = min(16, *(own.shape[1] for own in truth))
        small, large = (plug_in(own, most) for own in seen)
        for price in PRICES:
            plans = plans_of(seen, (1.0, price), most)
            right, paid = self.truth(pair, truth, price, most)
            held = table(plans, questions, (k, k))
            naive = np.array([_naive(plan, small, large) for plan in plans])
            named = [plan.spec.removeprefix("cascade:") for plan in plans]
            for worth in WORTHS:
                net = worth * right - paid
                chosen = {
                    "law": held.best_at(worth),
                    "measured": int(np.argmax(worth * held.mean_accuracy - held.mean_cost)),
                    "plug-in": int(np.argmax(worth * naive - held.mean_cost)),
                    **{f"always {spec}": named.index(spec) for spec in FIXED},
                }
                for way, place in chosen.items():
                    self.of[way, price, worth][pair].append(float(net.max() - net[place]))
                plan = plans[chosen["law"]]
                if plan.within((k, k)):
                    stated, cost = mean_share(plan.accuracy), interval_mean(plan.cost).interval
                    for what, at, value in (
                        ("right", stated, right[chosen["law"]]),
                        ("cost", cost, paid[chosen["law"]]),
                    ):
                        self.covered[what].append(at.lo <= value <= at.hi)

    def fixed(self, price: float, worth: float) -> tuple[float, float]:
        """Return mean and worst regret of the fixed plan that is best on the other data sets."""
        ways = [f"always {spec}" for spec in FIXED]
        means = {
            way: {pair: np.mean(own) for pair, own in self.of[way, price, worth].items()} for way in ways
        }
        out: list[float] = []
        for pair in means[ways[0]]:
            others = {
                way: np.mean([value for other, value in own.items() if other[0] != pair[0]])
                for way, own in means.items()
            }
            out.append(float(means[min(others, key=others.__getitem__)][pair]))
        return float(np.mean(out)), max(out)

    def show(self) -> None:
        """Print the tables."""
        print(f"{'':>10} {'price':>5} {'worth':>5}  mean  worst   by data set")
        for way in ("law", "measured", "plug-in"):
            for price in PRICES:
                for worth in WORTHS:
                    own = {pair: float(np.mean(each)) for pair, each in self.of[way, price, worth].items()}
                    sets = sorted({pair[0] for pair in own})
                    by = {s: float(np.mean([v for pair, v in own.items() if pair[0] == s])) for s in sets}
                    told = ", ".join(f"{name} {value:.2f}" for name, value in by.items())
                    mean, worst = np.mean(list(own.values())), max(own.values())
                    print(f"{way:>10} {price:5g} {worth:5g} {mean:5.2f} {worst:6.2f}   {told}")
        for price in PRICES:
            for worth in WORTHS:
                mean, worst = self.fixed(price, worth)
                print(f"best fixed {price:5g} {worth:5g} {mean:5.2f} {worst:6.2f}")
        for what, held in self.covered.items():
            print(f"{what}: stated interval holds the truth in {np.mean(held):.1%} of {len(held)} pilots")


def _naive(plan: CandidatePlan, small: FloatArray, large: FloatArray) -> float:
    left = np.ones(len(small))
    for branch, tries in zip(plan.branches, plan.most, strict=True):
        left = left * (small, large)[branch][:, tries]
    return float(1 - left.mean())


# Simulated laws of the chance that a try is right: beta, and the share of questions never solved.
LAWS = {"even": (1.0, 1.0, 0.2), "together": (0.4, 0.6, 0.0), "hard": (0.7, 2.0, 0.4)}


def false_accepts(turns: int, rng: np.random.Generator) -> None:
    """Print how often stated shares hold the truth with a checker that passes some wrong answers.

    50 questions with 8 tries. What m tries solve, and which share of what passes is wrong, are known from the
    law; keff knows the share of false accepts from gold answers, or is told.
    """
    print(
        f"{'law':>10} {'false':>5} {'m':>3}  right held: gold, told   wrong, mean error in points: gold, told"
    )
    for (name, (a, b, never)), share in product(LAWS.items(), (0.02, 0.1, 0.3)):
        theta = np.where(rng.random(200_000) < never, 0.0, rng.beta(a, b, 200_000))
        failing, solved = fail_and_solve_chances((1 - theta)[:, None] ** np.arange(17.0), share)
        true, passes = solved.mean(axis=0), 1 - failing.mean(axis=0)
        held, errors = defaultdict[int, list[list[bool]]](list), defaultdict[int, list[list[float]]](list)
        for _ in range(turns):
            right = rng.random((50, 8)) < rng.choice(theta, 50)[:, None]
            passed = right | (rng.random((50, 8)) < share)
            ids = np.arange(50)
            known = Verdicts(passed, right, ids)
            if known.checker_errors is None:
                continue
            both = (
                TryFigures.of(known, 16, known.checker_errors.accepts.value),
                TryFigures.of(Verdicts(passed, None, ids), 16, share),
            )
            for m in (1, 4, 8, 16):
                lines = [figures.line(m) for figures in both]
                limits = [line.right.limits or (0.0, 1.0) for line in lines]
                held[m].append([lo <= true[m] <= hi for lo, hi in limits])
                errors[m].append([(line.wrong or 0.0) - (1 - true[m] / passes[m]) for line in lines])
        for m, each in held.items():
            gold, told = np.mean(each, axis=0)
            wrong = 100 * np.mean(errors[m], axis=0)
            print(
                f"{name:>10} {share:5.0%} {m:3d}  {gold:.1%}, {told:.1%}   {wrong[0]:+.1f}, {wrong[1]:+.1f}"
            )


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pilots", type=int, default=20)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--paths", type=int, default=8)
    parser.add_argument("--thirds", type=int, default=140, help="pilots of three models, each data set")
    parser.add_argument("--turns", type=int, default=200, help="simulated records with false accepts")
    asked = parser.parse_args()
    false_accepts(asked.turns, np.random.default_rng(1))
    rng, found, thirds = np.random.default_rng(0), Regrets(), defaultdict[float, list[list[float]]](list)
    for group, models in records().items():
        order = sorted(models, key=lambda name: models[name].mean())
        pairs = list(combinations(order, 2))
        if len(pairs) > MOST_PAIRS:
            pairs = [pairs[place] for place in rng.choice(len(pairs), MOST_PAIRS, replace=False)]
        for small, large in pairs:
            for _ in range(asked.pilots):
                pair = (models[small], models[large])
                found.pilot((group, small, large), pair, rng, (asked.questions, asked.paths))
        triples = list(combinations(order, 3))
        for _ in range(asked.thirds):
            three = [models[name] for name in triples[rng.integers(len(triples))]]
            for worth, *regrets in of_three(three, rng, (asked.questions, asked.paths)):
                thirds[worth].append(regrets)
    found.show()
    for worth, each in thirds.items():
        all_plans, pairs_only = np.mean(each, axis=0)
        told = f"regret {all_plans:.2f}, of plans of two {pairs_only:.2f}"
        print(f"three models, worth {worth:g}: {told} ({len(each)} pilots)")


if __name__ == "__main__":
    main()
