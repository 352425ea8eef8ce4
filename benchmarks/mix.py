"""Cost at matched accuracy of what `keff mix` chooses, from pilots of recorded branches, judged on the rest.

    python -m benchmarks.mix [DATA] [--pilots 20] [--equal] [--only NAME] [--json FILE]

A pilot is 50 questions (half of a smaller record) and 8 paths of every branch. The choice is judged on the
questions outside the pilot, by replay of all their recorded paths.
"""

from __future__ import annotations

import argparse
import json
import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from keff.analysis.mix.orders import Orders, draw_orders
from keff.analysis.mix.prices import path_costs
from keff.analysis.mix.search import CandidatePlan, replay_cascade, replay_mix
from keff.analysis.mix.study import MixAnalysis, MixSettings
from keff.policies.cascade import Cascade
from keff.policies.mix import Mix
from keff.policy import parse_policy
from keff.reading.join import Aligned, align
from keff.reading.open import Opening, open_record
from keff.sampling.cost import Price
from keff.stats.votes import FloatArray

QUESTIONS, PATHS = 50, 8
PRICES = Path(__file__).with_name("mix_prices.toml")
OUTPUT = "cruxeval_output_"
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "recorded"


@dataclass(frozen=True)
class Group:
    """One group of recorded branches: a file name with a place for each branch's own part."""

    name: str
    begin: str
    space: str
    branches: tuple[str, ...]


def groups(data: Path) -> Iterator[Group]:
    """Yield the shared groups: whole, and without the branch that dominates them."""
    spaces = {"gpqa_diamond": "choice", "math500": "exact", "aime2024": "exact", "aime2025": "exact"}
    for name, space in spaces.items():
        begin = f"boinf_{name}_"
        branches = tuple(sorted(file.stem[len(begin) :] for file in data.glob(f"{begin}*.jsonl")))
        yield Group(name, begin, space, branches)
        if len(branches) > 3:
            others = tuple(branch for branch in branches if not branch.startswith("Qwen3-30B"))
            yield Group(f"{name}, without Qwen3-30B", begin, space, others)
    sets = {
        "CRUXEval-O, open models": "codellama-7b_t0.2 codellama-34b_t0.8 codellama-34b+cot_t0.8 "
        "deepseek-base-6.7b_t0.8 deepseek-instruct-33b_t0.8",
        "CRUXEval-O, with GPT": "gpt-3.5-turbo-0613_t0.8 gpt-3.5-turbo-0613+cot_t0.2 gpt-4-0613+cot_t0.8 "
        "mixtral-8x7b_t0.8 phind_t0.8",
        "CRUXEval-O, small": "phi-1_t0.8 deepseek-base-1.3b_t0.8 starcoderbase-7b_t0.8 "
        "codellama-python-7b_t0.8 codellama-13b+cot_t0.8",
    }
    for name, branches in sets.items():
        yield Group(name, OUTPUT, "literal", tuple(branches.split()))


def read(data: Path, group: Group) -> Aligned:
    """Align the records of a group; a branch has the name of its file."""
    records = [
        open_record(data / f"{group.begin}{name}.jsonl", Opening(answer_space=group.space))
        for name in group.branches
    ]
    aligned = align(records)
    names = [name.replace("+", "-") for name in group.branches]
    return replace(
        aligned,
        branches=tuple(replace(b, name=name) for b, name in zip(aligned.branches, names, strict=True)),
    )


def prices(equal: bool) -> dict[str, Price]:
    """Return the price table; all equal where asked."""
    table = tomllib.loads(PRICES.read_text("utf-8"))
    return {
        name: Price(
            prompt=0, output=0 if "path" in row else 1 if equal else row["active"], path=_path(row, equal)
        )
        for name, row in table.items()
    }


def _path(row: dict[str, float], equal: bool) -> float:
    return 0.0 if "path" not in row else 1.0 if equal else row["path"]


@dataclass(frozen=True)
class Judged:
    """The means of one pilot on the questions outside it: costs of baselines A, B and the choice, and the
    gain in accuracy over A of each question (NaN in the pilot)."""

    best: float
    cheap: float
    taken: float
    gain: FloatArray
    single: bool
    policy: str


def judge(group: Aligned, table: dict[str, Price], pilots: int) -> list[Judged]:
    """Choose from random pilots and judge each choice on the other questions."""
    everything = draw_orders(group, path_costs(group, table).paths, PATHS, np.random.default_rng(7))
    known: dict[str, tuple[FloatArray, FloatArray]] = {}
    return [
        _one(group, table, everything, known, np.random.default_rng(100 + pilot)) for pilot in range(pilots)
    ]


def _one(
    group: Aligned,
    table: dict[str, Price],
    everything: Orders,
    known: dict[str, tuple[FloatArray, FloatArray]],
    rng: np.random.Generator,
) -> Judged:
    chosen = np.sort(rng.permutation(group.n)[: min(QUESTIONS, group.n // 2)])
    part = group.take(chosen)
    pilot = replace(
        part,
        branches=tuple(
            replace(branch, votes=branch.votes.paths(rng.permutation(branch.votes.k)[:PATHS]))
            for branch in part.branches
        ),
    )
    study = MixAnalysis(pilot, MixSettings(cap=PATHS, prices=table), path_costs(pilot, table))
    plans = [
        study.table.plans[place] for place in (study.choice.best, study.choice.cheap, study.choice.taken)
    ]
    outcomes = [_on_all(plan, group, everything, known) for plan in plans]
    rest = np.setdiff1d(np.arange(group.n), chosen)
    gain = np.full(group.n, np.nan)
    gain[rest] = (outcomes[2][0] - outcomes[0][0])[rest]
    best, cheap, taken = (float(cost[rest].mean()) for _, cost in outcomes)
    return Judged(best, cheap, taken, gain, len(plans[2].branches) == 1, plans[2].spec)


def _on_all(
    plan: CandidatePlan, group: Aligned, everything: Orders, known: dict[str, tuple[FloatArray, FloatArray]]
) -> tuple[FloatArray, FloatArray]:
    if plan.spec not in known:
        policy = parse_policy(plan.spec)
        if isinstance(policy, Mix):
            known[plan.spec] = replay_mix(policy, everything, group.names)
        else:
            assert isinstance(policy, Cascade)
            known[plan.spec] = replay_cascade(policy, everything, group.names)
    return known[plan.spec]


def row(name: str, group: Aligned, pilots: list[Judged]) -> dict[str, object]:
    """Return one line of the table."""
    best, cheap, taken = (
        np.array([getattr(p, field) for p in pilots]) for field in ("best", "cheap", "taken")
    )
    gains = np.array([p.gain for p in pilots])
    seen = ~np.isnan(gains).all(axis=0)
    by_question = np.nanmean(gains[:, seen], axis=0)
    within = [np.nanstd(p.gain, ddof=1) / math.sqrt((~np.isnan(p.gain)).sum()) for p in pilots]
    return {
        "group": name,
        "n": group.n,
        "branches": len(group.branches),
        "over_a": float(taken.mean() / best.mean()),
        "over_b": float(taken.mean() / cheap.mean()),
        "gain": 100 * float(by_question.mean()),
        "se": 100 * float(by_question.std(ddof=1) / math.sqrt(seen.sum())),
        "se_one_pilot": 100 * float(np.mean(within)),
        "one_branch": float(np.mean([p.single for p in pilots])),
        "policies": sorted({p.policy for p in pilots}),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?", default=SHARED)
    parser.add_argument("--pilots", type=int, default=20)
    parser.add_argument("--equal", action="store_true", help="all prices equal")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if not given.data.is_dir():
        print(f"skipped: {given.data} is not there")
        return
    table, rows = prices(given.equal), list[dict[str, object]]()
    print(
        "| group | questions | branches | cost over A | cost over B | accuracy over A, points | one branch |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|", flush=True)
    for group in groups(given.data):
        if given.only and given.only not in group.name:
            continue
        aligned = read(given.data, group)
        line = row(group.name, aligned, judge(aligned, table, given.pilots))
        rows.append(line)
        print(
            "| {group} | {n} | {branches} | {over_a:.2f} | {over_b:.2f} | {gain:+.2f} (se {se:.2f}; "
            "one pilot {se_one_pilot:.2f}) | {one_branch:.0%} |".format(**line),
            flush=True,
        )
    for field in ("over_a", "over_b"):
        print(
            field,
            "geometric mean",
            round(math.exp(np.mean([math.log(float(str(r[field]))) for r in rows])), 3),
        )
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
