"""What `keff mix` chooses from pilots of recorded branches, judged on the questions outside each pilot.

    python -m benchmarks.analysis.mix [DATA] [--pilots 8] [--seeds 100 500] [--questions 100]
        [--paths 4] [--equal]

Fourteen groups of six families. A pilot is 100 questions (half of a smaller record) and 4 paths of every
branch; single branches and cascades of two are compared. Worth is counted in median costs of a path; regret
is what the best plan in truth has more of V x accuracy - cost, over V, in points of accuracy. All tables of
docs/branches-measured.md come from here, but for the choice of constants
(`benchmarks/constants/mix_constants.py`).
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.places import RECORDED
from keff.analysis.mix.choose import LEAST_STANDARD_ERRORS, MixAim, PlanChoice, PlanTable, choose
from keff.analysis.mix.claims import claims_of
from keff.analysis.mix.drop import LOOKS, LOSS_ALLOWED, expected_losses, is_dominated
from keff.analysis.mix.orders import draw_orders
from keff.analysis.mix.prices import Costs, path_costs
from keff.analysis.mix.search import CandidatePlan, pairs, singles
from keff.analysis.mix.shrink import paths_of
from keff.errors import PolicyError
from keff.reading.join import Aligned, align
from keff.reading.open import Opening, open_record
from keff.sampling.cost import Price
from keff.stats.votes import FloatArray, IntArray

PRICES = Path(__file__).with_name("mix_prices.toml")
WORTHS = (30.0, 100.0, 300.0, 1000.0, 3000.0)
MOST_PATHS = 8
"""What is true is found with at most so many paths of a branch."""
EXACTLY = 1e-5
"""Two figures in single precision that are closer are equal."""


@dataclass(frozen=True)
class Group:
    """One group of recorded branches: a file name with a place for each branch's own part."""

    name: str
    family: str
    begin: str
    space: str
    branches: tuple[str, ...]


COT = "_chain_of_thought"
CODE, EXAMS = "cruxeval_output_", "renze_comprehensive-100_"
SETS = (
    ("CRUXEval-O, open models", "CRUXEval", CODE, "literal", "codellama-7b_t0.2 codellama-34b_t0.8 "
     "codellama-34b+cot_t0.8 deepseek-base-6.7b_t0.8 deepseek-instruct-33b_t0.8"),
    ("CRUXEval-O, with GPT", "CRUXEval", CODE, "literal", "gpt-3.5-turbo-0613_t0.8 "
     "gpt-3.5-turbo-0613+cot_t0.2 gpt-4-0613+cot_t0.8 mixtral-8x7b_t0.8 phind_t0.8"),
    ("CRUXEval-O, small", "CRUXEval", CODE, "literal", "phi-1_t0.8 deepseek-base-1.3b_t0.8 "
     "starcoderbase-7b_t0.8 codellama-python-7b_t0.8 codellama-13b+cot_t0.8"),
    ("CRUXEval-O, middle", "CRUXEval", CODE, "literal", "wizard-34b_t0.8 magicoder-ds-7b_t0.8 "
     "codellama-python-13b_t0.8 mixtral-8x7b_t0.8 deepseek-instruct-33b_t0.8 gpt-3.5-turbo-0613_t0.8"),
    # An input is right when the function returns the output with it, so the record's own correctness counts.
    ("CRUXEval-I", "CRUXEval", "cruxeval_input_", "exact", "codellama-34b+cot_t0.8 deepseek-base-33b_t0.8 "
     "gpt-3.5-turbo-0613_t0.8 gpt-4-0613_t0.8"),
    ("comprehensive-100, models", "models", EXAMS, "choice", f"claude-3-opus-20240229{COT} "
     f"cohere-command-r-plus{COT} gemini-1.0-pro{COT} gpt-35-turbo{COT} llama-2-7b-chat{COT} "
     f"mistral-large{COT}"),
    ("comprehensive-100, prompts", "prompts", EXAMS, "choice", "gpt-35-turbo_baseline "
     f"gpt-35-turbo{COT} gpt-35-turbo_composite gpt-35-turbo_domain_expert gpt-35-turbo_self_recitation"),
)  # fmt: skip


def groups(data: Path) -> Iterator[Group]:
    """Yield the groups; those of reasoning models also without the branch that dominates them."""
    for name, space in (
        ("gpqa_diamond", "choice"),
        ("math500", "exact"),
        ("aime2024", "exact"),
        ("aime2025", "exact"),
    ):
        begin, family = f"boinf_{name}_", "aime" if name.startswith("aime") else name
        branches = tuple(sorted(file.stem[len(begin) :] for file in data.glob(f"{begin}*.jsonl")))
        yield Group(name, family, begin, space, branches)
        if len(branches) > 3:
            others = tuple(branch for branch in branches if not branch.startswith("Qwen3-30B"))
            yield Group(f"{name}, without Qwen3-30B", family, begin, space, others)
    for name, family, begin, space, told in SETS:
        yield Group(name, family, begin, space, tuple(told.split()))


def read(data: Path, group: Group) -> Aligned:
    """Align the records of a group; a branch has the name of its file.

    Raises ValueError for a branch whose paths are all wrong or all right: it is read in the wrong space.
    """
    opening = Opening(answer_space=group.space)
    aligned = align([open_record(data / f"{group.begin}{name}.jsonl", opening) for name in group.branches])
    for name, branch in zip(group.branches, aligned.branches, strict=True):
        if branch.votes.p in (0, 1):
            raise ValueError(f"{group.name}: {name} has accuracy {branch.votes.p:g} as {group.space}")
    names = [name.replace("+", "-") for name in group.branches]
    return replace(
        aligned,
        branches=tuple(replace(b, name=name) for b, name in zip(aligned.branches, names, strict=True)),
    )


def prices(equal: bool = False) -> dict[str, Price]:
    """Return the price table; all equal where asked."""
    table = tomllib.loads(PRICES.read_text("utf-8"))
    return {
        name: Price(output=0 if "path" in row else 1 if equal else row["active"], path=_path(row, equal))
        for name, row in table.items()
    }


def _path(row: dict[str, float], equal: bool) -> float:
    return 0.0 if "path" not in row else 1.0 if equal else row["path"]


@dataclass(frozen=True)
class Pilot:
    """What a pilot shows of every plan, and their accuracy [P] and cost [P] on the other questions.

    ``every`` [2, Q] are those of all plans of up to eight paths, shown or not. ``gain_error`` [P] is the
    standard error of the difference to A there. ``on_all`` [2, P] are accuracy and cost on all questions,
    the pilot's too, ``in_full`` [2, P] those on the pilot's questions by all recorded paths. ``path`` [2A]
    is the accuracy of ``paths_of`` on all. ``part`` holds the pilot's paths, which cost ``costs``.
    """

    table: PlanTable
    ids: IntArray
    unit: float
    true: FloatArray
    paid: FloatArray
    every: FloatArray
    gain_error: FloatArray
    on_all: FloatArray
    in_full: FloatArray
    path: FloatArray
    part: Aligned
    costs: tuple[FloatArray, ...]

    @cached_property
    def default(self) -> PlanChoice:
        """The choice without an aim."""
        return choose(self.table, MixAim())

    @cached_property
    def looks(self) -> list[tuple[int, FloatArray, FloatArray]]:
        """The questions of each look, the expected losses of branches there, and the cost of a path."""
        return [
            (look, expected_losses(self.part.take(np.arange(look))), self.path_cost(look))
            for look in LOOKS
            if look < self.part.n
        ]

    def path_cost(self, questions: int) -> FloatArray:
        """Return the mean cost of a path of each branch on the first questions [A]."""
        return np.array([float(cost[:questions].mean()) for cost in self.costs])

    def regret(self, plan: int, worth: float, recorded: bool = False) -> float:
        """Return what the best plan in truth has more at a worth in median path costs, in points.

        ``recorded``: the best of those that draw no more paths than the pilot recorded.
        """
        few = np.array([self.true, self.paid])[:, self.table.measured]
        true, paid = few if recorded else self.every
        net = worth * self.unit * self.true[plan] - self.paid[plan]
        return 100 * float((worth * self.unit * true - paid).max() - net) / (worth * self.unit)

    def at(self, worth: float, places: IntArray) -> int:
        """Return the plan at a worth among some."""
        names = ("accuracy", "cost", "single", "measured")
        arrays = {name: getattr(self.table, name)[places] for name in names}
        some = replace(self.table, plans=tuple(self.table.plans[place] for place in places), **arrays)
        return int(places[some.best_at(worth)])

    def dropping(self, given_up: float = LOSS_ALLOWED) -> tuple[IntArray, float]:
        """Return the places of the plans that dropping branches leaves, and the part of the cost it spends.

        As ``keff pilot`` looks at it: after some questions, at the branches that are still drawn.
        """
        ends = np.full(len(self.costs), self.part.n)
        for look, losses, cost in self.looks:
            going = np.flatnonzero(ends == self.part.n)
            ends[going[list(is_dominated(losses[np.ix_(going, going)], cost[going], given_up))]] = look
        spent = sum(float(cost[:end].sum()) for cost, end in zip(self.costs, ends, strict=True))
        kept = [bool((ends[list(plan.branches)] == self.part.n).all()) for plan in self.table.plans]
        return np.flatnonzero(kept), spent / sum(float(cost.sum()) for cost in self.costs)

    def after_dropping(self, worth: float, given_up: float = LOSS_ALLOWED) -> int:
        """Return the plan at a worth among those that dropping leaves."""
        return self.at(worth, self.dropping(given_up)[0])

    def of_recorded_paths(self, worth: float) -> int:
        """Return the plan at a worth among those without predicted paths."""
        return self.at(worth, np.flatnonzero(self.table.measured))


def plans_of(group: Aligned, costs: Costs, seed: int) -> list[CandidatePlan]:
    """Return single branches and cascades of two."""
    orders = draw_orders(group, costs, MOST_PATHS, np.random.default_rng(seed))
    return [*singles(group, costs, orders, seed), *pairs(orders, group.names)]


def pilots_of(
    group: Aligned, table: dict[str, Price], seeds: Sequence[int], questions: int, paths: int
) -> list[Pilot]:
    """Return random pilots of a group, one for each seed, each judged on the questions that it leaves."""
    costs = path_costs(group, table)
    whole = {plan.spec: plan for plan in plans_of(group, costs, 7)}
    unit = float(np.median([cost.mean() for cost in costs.paths]))
    return [
        _pilot(group, table, whole, unit, np.random.default_rng(seed), (questions, paths)) for seed in seeds
    ]


def _pilot(
    group: Aligned,
    table: dict[str, Price],
    whole: dict[str, CandidatePlan],
    unit: float,
    rng: np.random.Generator,
    shape: tuple[int, int],
) -> Pilot:
    drawn = rng.permutation(group.n)[: min(shape[0], group.n // 2)]
    part = group.take(drawn)
    taken = (replace(b, votes=b.votes.paths(rng.permutation(b.votes.k)[: shape[1]])) for b in part.branches)
    part = replace(part, branches=tuple(taken))
    costs = path_costs(part, table)
    recorded = [branch.votes.k for branch in part.branches]
    ids = np.unique(part.clusters, return_inverse=True)[1]
    held = [plan for plan in plans_of(part, costs, 0) if plan.spec in whole]
    shown = PlanTable.of(held, recorded, part.answered, ids)
    rest = np.setdiff1d(np.arange(group.n), drawn)
    accuracy = np.array([whole[plan.spec].accuracy[rest] for plan in shown.plans], np.float64)
    paid = np.array([whole[plan.spec].cost[rest].mean(dtype=np.float64) for plan in shown.plans])
    best = choose(shown, MixAim()).best
    error = (accuracy - accuracy[best]).std(axis=1) / np.sqrt(len(rest))
    on_all, in_full = (
        np.array([[getattr(whole[plan.spec], name)[rows].mean(dtype=np.float64) for plan in shown.plans]
                  for name in ("accuracy", "cost")])
        for rows in (slice(None), drawn)
    )  # fmt: skip
    every = [
        [getattr(plan, name)[rest].mean(dtype=np.float64) for plan in whole.values()]
        for name in ("accuracy", "cost")
    ]
    ones = [whole[plan.spec] for plan in shown.plans if plan.kind == "single"]
    path = paths_of(ones, np.array([plan.accuracy for plan in ones]), group.answered)[1].mean(axis=1)
    true, found = accuracy.mean(axis=1), np.array(every)
    return Pilot(shown, ids, unit, true, paid, found, error, on_all, in_full, path, part, costs.paths)


Known = dict[Group, list[Pilot]]


def regrets(known: Known, rule: Callable[[Pilot, float], int], recorded: bool = False) -> FloatArray:
    """Return the mean regret of a rule (pilot, worth) -> plan, by group and worth [groups, worths].

    ``recorded``: against plans of no more paths than the pilots recorded.
    """
    return np.array(
        [
            [np.mean([p.regret(rule(p, w * p.unit), w, recorded) for p in pilots]) for w in WORTHS]
            for pilots in known.values()
        ]
    )


def at_margin(margin: float) -> Callable[[Pilot, float], int]:
    """Return the rule of worth that leaves the best single branch for so many paired errors."""
    return lambda pilot, worth: pilot.table.best_at(worth, margin)


def best_in_truth(pilot: Pilot, worth: float) -> int:
    """Return the single branch's plan that is best on the other questions."""
    net = worth * pilot.true - pilot.paid
    return int(np.argmax(np.where(pilot.table.single, net, -np.inf)))


def best_on_all(pilot: Pilot, worth: float) -> int:
    """Return the plan that is best on all questions of the group, the pilot's too."""
    return int(np.argmax(worth * pilot.on_all[0] - pilot.on_all[1]))


def best_in_full(pilot: Pilot, worth: float) -> int:
    """Return the plan that is best on the pilot's questions by all their recorded paths."""
    return int(np.argmax(worth * pilot.in_full[0] - pilot.in_full[1]))


def holding(pilot: Pilot, _: float) -> int:
    """Return the cheapest plan that is in truth as accurate as A: no default that holds it costs less."""
    as_good = pilot.true >= pilot.true[pilot.default.best] - EXACTLY
    return int(np.argmin(np.where(as_good, pilot.paid, np.inf)))


def _line(name: str, values: FloatArray) -> str:
    mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / max(len(values), 1) ** 0.5
    return f"| {name} | " + " | ".join(f"{m:.2f} ({e:.2f})" for m, e in zip(mean, error, strict=True)) + " |"


def print_regret(known: Known) -> None:
    """Print regret by worth: of rules, of an oracle, and of the rule by group."""
    full = {group: pilots for group, pilots in known.items() if len(pilots[0].ids) >= 90}
    rules = {
        "best single branch at V": at_margin(1e9),
        "0 errors": at_margin(0),
        "as now": at_margin(LEAST_STANDARD_ERRORS),
        "as now, after dropping": Pilot.after_dropping,
        "plans of recorded paths only": Pilot.of_recorded_paths,
        "best on all questions": best_on_all,
        "best on the pilot's questions, all paths": best_in_full,
        "oracle of one branch": best_in_truth,
        "oracle that holds A's accuracy": holding,
        "default": lambda pilot, _: pilot.default.taken,
        "A": lambda pilot, _: pilot.default.best,
    }
    head = "| | " + " | ".join(f"V = {worth:g}" for worth in WORTHS) + " |\n|---|" + "--:|" * len(WORTHS)
    for some, what in ((known, "all groups"), (full, "groups with 90 questions or more in a pilot")):
        print(f"\n{what} ({len(some)}): mean regret in points (standard error over groups)\n\n{head}")
        for name, rule in rules.items():
            print(_line(name, regrets(some, rule)), flush=True)
        for name in ("as now", "best on the pilot's questions, all paths", "default"):
            print(_line(f"{name}, against recorded paths", regrets(some, rules[name], recorded=True)))
    print(
        "\n| as now | questions of a pilot | "
        + head.split("\n")[0][4:]
        + "\n|---|--:|"
        + "--:|" * len(WORTHS)
    )
    for (group, pilots), row in zip(
        known.items(), regrets(known, at_margin(LEAST_STANDARD_ERRORS)), strict=True
    ):
        print(
            f"| {group.name} | {len(pilots[0].ids)} | " + " | ".join(f"{value:.2f}" for value in row) + " |"
        )


def print_default(known: Known) -> None:
    """Print what the choice without an aim costs and loses against A, and what dropping saves of a pilot."""
    print(
        "\n| group | cost over A | cost over B | points over A (se of one pilot) | worst | one branch "
        "| pilot with dropping |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|")
    ratios: list[FloatArray] = []
    for group, pilots in known.items():
        chosen = [pilot.default for pilot in pilots]
        taken, best, cheap = (
            np.mean([p.paid[getattr(c, name)] for p, c in zip(pilots, chosen, strict=True)])
            for name in ("taken", "best", "cheap")
        )
        gains = [100 * float(p.true[c.taken] - p.true[c.best]) for p, c in zip(pilots, chosen, strict=True)]
        error = 100 * np.mean([p.gain_error[c.taken] for p, c in zip(pilots, chosen, strict=True)])
        one = np.mean([p.table.single[c.taken] for p, c in zip(pilots, chosen, strict=True)])
        drawn = np.mean([p.dropping()[1] for p in pilots])
        ratios.append(np.array([taken / best, taken / cheap, drawn]))
        print(
            f"| {group.name} | {taken / best:.2f} | {taken / cheap:.2f} | "
            f"{np.mean(gains):+.2f} ({error:.2f}) | {min(gains):+.1f} | {one:.0%} | {drawn:.2f} |",
            flush=True,
        )
    over_a, over_b, _ = np.exp(np.log(ratios).mean(axis=0))
    print(
        f"\nGeometric means: {over_a:.2f} of A's cost, {over_b:.2f} of B's; "
        f"a pilot {np.mean(ratios, axis=0)[2]:.2f}."
    )


def print_claims(known: Known) -> None:
    """Print how often intervals cover what is true elsewhere, where the plan leaves A; and budgets."""
    print(
        "\n| aim | plans that leave A | difference covered | cost ratio covered | flattered by, raw "
        "| corrected | covered |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|")
    every: list[list[float]] = []
    for worth in (None, 100.0, 1000.0):
        rows: list[list[float]] = []
        for pilots in known.values():
            for number, p in enumerate(pilots):
                aim = MixAim() if worth is None else MixAim(value_per_correct=worth * p.unit)
                choice = choose(p.table, aim)
                if choice.taken != choice.best:
                    rows.append(_covered(p, choice, aim, np.random.default_rng(number)))
        every += rows
        print(f"| {'none' if worth is None else f'V = {worth:g}'} | {_told(rows)}", flush=True)
    print(f"| all | {_told(every)}")
    over = [_overrun(p, step) for pilots in known.values() for p in pilots for step in np.linspace(0, 1, 9)]
    seen = [value for value in over if value is not None]
    print(f"\nBudgets that overrun: {np.mean(seen):.1%} of {len(seen)}.")


def _covered(p: Pilot, choice: PlanChoice, aim: MixAim, rng: np.random.Generator) -> list[float]:
    found = claims_of(p.table, choice, lambda table: choose(table, aim), rng)
    taken, best = choice.taken, choice.best
    ratio, difference = found.best.intervals()
    intervals = difference, ratio, found.accuracy
    truths = p.true[taken] - p.true[best], p.paid[taken] / p.paid[best], p.true[taken]
    hits = [
        float(i.lo - EXACTLY <= truth <= i.hi + EXACTLY)  # type: ignore[operator]
        for i, truth in zip(intervals, truths, strict=True)
    ]
    raw = 100 * (float(p.table.mean_accuracy[taken]) - truths[2])
    return [*hits, raw, 100 * (found.accuracy.value - truths[2])]


def _told(rows: Sequence[Sequence[float]]) -> str:
    if not rows:
        return "0 | | | | | |"
    gain, ratio, covered, raw, left = np.mean(rows, axis=0)
    return f"{len(rows)} | {gain:.0%} | {ratio:.0%} | {raw:+.1f} | {left:+.1f} | {covered:.0%} |"


def _overrun(p: Pilot, step: float) -> bool | None:
    costs = p.table.mean_cost
    budget = float(np.exp(np.log(1.3 * costs.min()) + step * np.log(0.8 * costs.max() / (1.3 * costs.min()))))
    try:
        taken = choose(p.table, MixAim(budget=budget)).taken
    except PolicyError:
        return None
    return bool(p.paid[taken] > budget * (1 + EXACTLY))


def parser(about: str | None) -> argparse.ArgumentParser:
    """Return the options that all tables of pilots take."""
    out = argparse.ArgumentParser(description=about)
    out.add_argument("data", type=Path, nargs="?", default=RECORDED)
    out.add_argument("--pilots", type=int, default=8)
    out.add_argument("--seeds", type=int, nargs="+", default=[100, 500], help="so many pilots from each on")
    out.add_argument("--questions", type=int, default=100)
    out.add_argument("--paths", type=int, default=4)
    out.add_argument("--equal", action="store_true", help="all prices equal")
    out.add_argument("--only", default="")
    return out


def known_pilots(given: argparse.Namespace) -> Known:
    """Return the pilots of every group that is asked for; none where the records are not there."""
    if not given.data.is_dir():
        print(f"skipped: {given.data} is not there")
        return {}
    seeds = [first + number for first in given.seeds for number in range(given.pilots)]
    return {
        group: pilots_of(read(given.data, group), prices(given.equal), seeds, given.questions, given.paths)
        for group in groups(given.data)
        if given.only in group.name
    }


def main() -> None:
    """Print the tables."""
    if known := known_pilots(parser(__doc__).parse_args()):
        print_default(known)
        print_regret(known)
        print_claims(known)


if __name__ == "__main__":
    main()
