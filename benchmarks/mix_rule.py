"""The constants of `keff mix`'s choice, with whole families of records left out, and how much they matter.

    python -m benchmarks.mix_rule [DATA] [--pilots 16] [--hindsight 2500]

Pilots as in `benchmarks/mix.py`, over more groups; only single branches and cascades of two are compared,
whose outcomes on all questions are replayed once. Beside the rule stand the oracle (the cheapest plan that
really loses nothing against A, pilot by pilot) and the rule of half a standard error. With ``--hindsight``
constants drawn at random are chosen on the very groups that they are judged on: what the rule cannot pass.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from benchmarks.mix import OUTPUT, PATHS, QUESTIONS, SHARED, Group, groups, prices, read

from keff.analysis.mix.choose import MixAim, PlanTable, choose
from keff.analysis.mix.orders import Orders, draw_orders
from keff.analysis.mix.prices import path_costs
from keff.analysis.mix.search import CandidatePlan, pairs, singles
from keff.analysis.mix.shrink import LAW, Law, cheapest_expected, errors, expected_gain
from keff.reading.join import Aligned
from keff.sampling.cost import Price
from keff.stats.votes import FloatArray, IntArray

RENZE = "renze_comprehensive-100_"
COT = "_chain_of_thought"
MODELS = (
    f"claude-3-opus-20240229{COT}",
    f"cohere-command-r-plus{COT}",
    f"gemini-1.0-pro{COT}",
    f"gpt-35-turbo{COT}",
    f"llama-2-7b-chat{COT}",
    f"mistral-large{COT}",
)
PROMPTS = ("baseline", "chain_of_thought", "composite", "domain_expert", "self_recitation")
INPUTS = ("codellama-34b+cot", "deepseek-base-33b", "gpt-3.5-turbo-0613", "gpt-4-0613")
MIDDLE = (
    "wizard-34b",
    "magicoder-ds-7b",
    "codellama-python-13b",
    "mixtral-8x7b",
    "deepseek-instruct-33b",
    "gpt-3.5-turbo-0613",
)
MORE = (
    Group("CRUXEval-I", "cruxeval_input_", "exact", tuple(f"{name}_t0.8" for name in INPUTS)),
    Group("CRUXEval-O, middle", OUTPUT, "literal", tuple(f"{name}_t0.8" for name in MIDDLE)),
    Group("comprehensive-100, models", RENZE, "choice", MODELS),
    Group("comprehensive-100, prompts", RENZE, "choice", tuple(f"gpt-35-turbo_{name}" for name in PROMPTS)),
)
FAMILIES = ("gpqa", "math500", "aime", "CRUXEval", "models", "prompts")
GRID = {
    "unseen": (0.003, 0.006, 0.009),
    "own": (0.01, 0.015, 0.02),
    "slack": (0.004, 0.006, 0.008),
    "spread": (0.03, 0.04, 0.05),
}
DRAWN = {
    "first": (0.02, 1.0),
    "last": (0.02, 0.6),
    "unseen": (0.0005, 0.03),
    "own": (0.002, 0.06),
    "spread": (0.005, 0.15),
    "worth": (0.5, 16.0),
    "slack": (0.0005, 0.03),
}
"""Between which values each constant is drawn, evenly in its logarithm."""
FLOOR = 0.15
"""Points below which a standard error is not taken for smaller, in what the grid is judged by."""


@dataclass(frozen=True)
class Pilot:
    """What one pilot shows of every plan, and what is true on the other questions."""

    plans: tuple[CandidatePlan, ...]
    accuracy: FloatArray
    cost: FloatArray
    ids: IntArray
    best: int
    cheap: int
    true: FloatArray
    paid: FloatArray
    error: FloatArray


Rule = Callable[[Pilot], int]


def more_groups(data: Path) -> Iterator[Group]:
    """Yield the groups of `benchmarks/mix.py` and further ones."""
    yield from groups(data)
    yield from MORE


def tables() -> dict[str, Price]:
    """Return the prices, with those of the further groups (assumed: list prices of 2024, per path)."""
    paths = {"wizard-34b": 34.0, "magicoder-ds-7b": 7.0, "claude-3-opus": 75.0, "cohere-command-r": 15.0}
    paths |= {"gemini-1.0-pro": 1.5, "gpt-35-turbo_chain": 1.5, "llama-2-7b-chat": 0.2, "mistral-large": 24.0}
    paths |= {"gpt-35-turbo_baseline": 0.15, "gpt-35-turbo_composite": 3.0, "gpt-35-turbo_domain": 1.6}
    paths |= {"gpt-35-turbo_self": 2.0}
    return prices(equal=False) | {name: Price(prompt=0, output=0, path=path) for name, path in paths.items()}


def _all_plans(orders: Orders, names: Sequence[str]) -> list[CandidatePlan]:
    return [*singles(orders, names), *pairs(orders, names)]


def pilots_of(group: Aligned, table: dict[str, Price], count: int) -> list[Pilot]:
    """Return random pilots of a group."""
    everything = draw_orders(group, path_costs(group, table).paths, PATHS, np.random.default_rng(7))
    whole = {plan.spec: plan for plan in _all_plans(everything, group.names)}
    return [_pilot(group, table, whole, np.random.default_rng(100 + number)) for number in range(count)]


def _pilot(
    group: Aligned, table: dict[str, Price], whole: dict[str, CandidatePlan], rng: np.random.Generator
) -> Pilot:
    chosen = np.sort(rng.permutation(group.n)[: min(QUESTIONS, group.n // 2)])
    part = group.take(chosen)
    drawn = (
        replace(branch, votes=branch.votes.paths(rng.permutation(branch.votes.k)[:PATHS]))
        for branch in part.branches
    )
    part = replace(part, branches=tuple(drawn))
    orders = draw_orders(part, path_costs(part, table).paths, PATHS, np.random.default_rng(0))
    shown = PlanTable.of([plan for plan in _all_plans(orders, part.names) if plan.spec in whole])
    baselines = choose(shown, np.arange(part.n), part.clusters, MixAim())
    limit = shown.cost[baselines.best].mean()
    # What costs more than A is never taken; single branches stay, for they say how far branches are apart.
    shown = PlanTable.of([plan for plan in shown.plans if plan.kind == "single" or plan.cost.mean() <= limit])
    baselines = choose(shown, np.arange(part.n), part.clusters, MixAim())
    rest = np.setdiff1d(np.arange(group.n), chosen)
    accuracy = np.array([whole[plan.spec].accuracy[rest] for plan in shown.plans])
    difference = accuracy - accuracy[baselines.best]
    paid = np.array([whole[plan.spec].cost[rest].mean() for plan in shown.plans])
    ids = np.unique(part.clusters, return_inverse=True)[1]
    error = difference.std(axis=1) / math.sqrt(len(rest))
    true, cost = difference.mean(axis=1), shown.cost.mean(axis=1)
    best, cheap = baselines.best, baselines.cheap
    return Pilot(shown.plans, shown.accuracy, cost, ids, best, cheap, true, paid, error)


def row(pilots: Sequence[Pilot], rule: Rule) -> FloatArray:
    """Return cost over A's and over B's, the gain in points and the mean error of one pilot."""
    taken = [rule(pilot) for pilot in pilots]
    paid, best, cheap = (
        np.mean([pilot.paid[place] for pilot, place in zip(pilots, places, strict=True)])
        for places in (taken, [p.best for p in pilots], [p.cheap for p in pilots])
    )
    gain, error = (
        100 * np.mean([values[place] for values, place in zip(each, taken, strict=True)])
        for each in ([p.true for p in pilots], [p.error for p in pilots])
    )
    return np.array([paid / best, paid / cheap, gain, error], dtype=np.float64)


def by(law: Law) -> Rule:
    """Return the rule of `keff mix` under some constants."""
    return lambda p: cheapest_expected(p.plans, p.accuracy, p.cost, p.ids, p.best, law)


def half_an_error(pilot: Pilot) -> int:
    """Return the cheapest plan at least half a paired standard error above A, else A."""
    difference = pilot.accuracy - pilot.accuracy[pilot.best]
    can = difference.mean(axis=1) >= 0.5 * errors(difference, pilot.ids)
    can[pilot.best] = True
    return int(np.argmin(np.where(can, pilot.cost, np.inf)))


def within_cheap(pilot: Pilot) -> int:
    """Return the plan of the most expected accuracy among those that cost at most what B does."""
    gain, _ = expected_gain(pilot.plans, pilot.accuracy, pilot.ids, pilot.best, LAW)
    return int(np.argmax(np.where(pilot.cost <= pilot.cost[pilot.cheap] + 1e-12, gain, -np.inf)))


def oracle(pilot: Pilot) -> int:
    """Return the cheapest plan that loses nothing against A outside the pilot."""
    return int(np.argmin(np.where(pilot.true >= -1e-9, pilot.paid, np.inf)))


def oracle_alone(pilot: Pilot) -> int:
    """Return the same among the plans of A's own branch: what stopping earlier there could save."""
    own = np.array([plan.branches == pilot.plans[pilot.best].branches for plan in pilot.plans])
    return int(np.argmin(np.where((pilot.true >= -1e-9) & own, pilot.paid, np.inf)))


def oracle_within(pilot: Pilot) -> int:
    """Return the cheapest plan that loses at most half a standard error of one pilot."""
    return int(np.argmin(np.where(pilot.true >= -0.5 * pilot.error - 1e-9, pilot.paid, np.inf)))


def shallower(pilot: Pilot) -> int:
    """Return the cheapest plan of A's own branch within a quarter of a paired standard error of A."""
    difference = pilot.accuracy - pilot.accuracy[pilot.best]
    can = difference.mean(axis=1) >= -0.25 * errors(difference, pilot.ids) - 1e-12
    can &= [plan.branches == pilot.plans[pilot.best].branches for plan in pilot.plans]
    return int(np.argmin(np.where(can, pilot.cost, np.inf)))


def badness(rows: FloatArray, weights: FloatArray) -> float:
    """Return what the grid minimises.

    Errors of accuracy lost beyond a half, and a quarter of the log cost over B's.
    """
    lost = np.clip(-rows[:, 2] / np.maximum(rows[:, 3], FLOOR) - 0.5, 0, 20)
    return float((weights * (lost + 0.25 * np.log(rows[:, 1]))).sum())


def family_weights(families: Sequence[str], without: str = "") -> FloatArray:
    """Return weights of groups that give each family the same, and one none."""
    counts = {family: families.count(family) for family in families}
    raw = np.array([0.0 if family == without else 1 / counts[family] for family in families])
    return raw / raw.sum()


def told(rows: FloatArray) -> str:
    """Return the geometric means, the mean gain and how many groups fall short."""
    over_a, over_b = np.exp(np.log(rows[:, :2]).mean(axis=0))
    short = int((rows[:, 2] < -rows[:, 3]).sum())
    return f"{over_a:.2f} | {over_b:.2f} | {rows[:, 2].mean():+.2f} | {short} of {len(rows)}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?", default=SHARED)
    parser.add_argument("--pilots", type=int, default=16)
    parser.add_argument("--hindsight", type=int, default=0, help="so many constants are drawn at random")
    given = parser.parse_args()
    if not given.data.is_dir():
        print(f"skipped: {given.data} is not there")
        return
    known = {
        group.name: pilots_of(read(given.data, group), tables(), given.pilots)
        for group in more_groups(given.data)
    }
    names = list(known)
    families = [next(family for family in FAMILIES if family in name) for name in names]

    def rows_of(rule: Rule) -> FloatArray:
        return np.array([row(known[name], rule) for name in names])

    laws = [Law(**dict(zip(GRID, values, strict=True))) for values in product(*GRID.values())]
    every = [rows_of(by(law)) for law in laws]
    _print_rules(rows_of)
    if given.hindsight:
        _print_hindsight(rows_of, given.hindsight)
    _print_left_out(names, families, laws, every)
    print("\n| changed | over A | over B | points | short |\n|---|--:|--:|--:|--:|")
    for name in ("first", "last", "unseen", "own", "spread", "worth", "slack"):
        for value in (getattr(LAW, name) / 2, 2 * getattr(LAW, name)):
            print(f"| {name} {value:g} | {told(rows_of(by(replace(LAW, **{name: value}))))} |")


def _print_rules(rows_of: Callable[[Rule], FloatArray]) -> None:
    print("| rule | over A | over B | points | short |\n|---|--:|--:|--:|--:|")
    rules: dict[str, Rule] = {
        "A": lambda p: p.best,
        "B": lambda p: p.cheap,
        "half a standard error": half_an_error,
        "the most accurate within B's cost": within_cheap,
        "A's branch, stopped earlier": shallower,
        "keff mix": by(LAW),
        "oracle": oracle,
        "oracle in A's branch": oracle_alone,
        "oracle that may lose half an error": oracle_within,
    }
    for name, rule in rules.items():
        print(f"| {name} | {told(rows_of(rule))} |")


def _print_hindsight(rows_of: Callable[[Rule], FloatArray], count: int) -> None:
    """Print the least cost over B's of constants drawn at random, by how many groups fall short at most."""
    rng, drawn = np.random.default_rng(0), list[FloatArray]()
    for _ in range(count):
        law = Law(**{name: float(np.exp(rng.uniform(*np.log(ends)))) for name, ends in DRAWN.items()})
        drawn.append(rows_of(by(law)))
    short = np.array([int((rows[:, 2] < -rows[:, 3]).sum()) for rows in drawn])
    over_b = np.array([np.log(rows[:, 1]).mean() for rows in drawn])
    print("\n| short at most, in hindsight | over A | over B | points | short |\n|---|--:|--:|--:|--:|")
    for most in np.unique(short).tolist():
        best = int(np.argmin(np.where(short <= most, over_b, np.inf)))
        print(f"| {most} | {told(drawn[best])} |")


def _print_left_out(
    names: Sequence[str], families: Sequence[str], laws: Sequence[Law], every: Sequence[FloatArray]
) -> None:
    out = np.zeros((len(names), 4))
    for family in dict.fromkeys(families):
        weights = family_weights(families, family)
        best = int(np.argmin([badness(rows, weights) for rows in every]))
        here = np.array(families) == family
        out[here] = every[best][here]
        print(f"\nwithout {family}: {laws[best]}", end="")
    print("\n\n| left out | over A | over B | points (error of one pilot) |\n|---|--:|--:|--:|")
    for name, (over_a, over_b, gain, error) in zip(names, out, strict=True):
        print(f"| {name} | {over_a:.2f} | {over_b:.2f} | {gain:+.2f} ({error:.2f}) |")
    print(f"| all | {told(out)} |")


if __name__ == "__main__":
    main()
