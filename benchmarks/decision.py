"""What decisions from pilots deliver on the other questions of recorded workloads, families left out.

    python -m benchmarks.decision [--pilots 4] [--questions 50] [--fit]

Pilots of min(N, n/2) questions x 8 paths, judged on the other questions with all paths; the prices of flips
come from the other families (by data set). ``--fit`` prints the constants of ``decision.prior``.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from benchmarks.families import Record, records

from keff.analysis.decision.aim import Aim
from keff.analysis.decision.chain import chain
from keff.analysis.decision.choose import choose
from keff.analysis.decision.outcomes import RuleOutcomes, replayed
from keff.analysis.decision.posterior import posterior_of
from keff.analysis.decision.prior import GENERIC, FlipPrice, generic_ratios
from keff.policy import parse_policy
from keff.stats.votes import FloatArray, Votes

PATHS = 8
ASKED = (0.98, 0.99, 0.995, 0.999)
WRONG = 0.005
"""A verdict is wrong where voting gains, or loses, more than half a point."""

RULES, REFERENCE = chain(PATHS), parse_policy(f"fixed:{PATHS}")


@dataclass(frozen=True)
class Delivered:
    """What one pilot's decision did on the other questions; ``covered``: points, kept and paths."""

    name: str
    kept: float
    stated: float
    paths: float
    verdict: str
    gain: float
    covered: tuple[bool, bool, bool]


def fit(truth: dict[str, RuleOutcomes], families: dict[str, str], left_out: str | None) -> FlipPrice:
    """Fit the prices of flips, as parts of the accuracy, to all families but one; each weighs the same."""
    ratios = generic_ratios((*RULES, REFERENCE))
    use = (ratios > 0.05) & (ratios < 0.3)  # rules that stop at a lead: where the line ends is seen there
    one: dict[str, list[float]] = defaultdict(list)
    deep: dict[str, list[float]] = defaultdict(list)
    for name, seen in truth.items():
        if families[name] == left_out or seen.loss is None or seen.right is None:
            continue
        scale, flips, loss = float(seen.right.mean()), seen.flips.mean(axis=0), seen.loss.mean(axis=0)
        if scale * len(seen.paths) < 10:
            continue
        price = loss / np.maximum(flips, 1e-9) / scale
        one[families[name]].append(float(price[0]))
        # On the line from one path down to no flip at all, each rule says where its foot is.
        foot = (price[use] - price[0] * ratios[use]) / (1 - ratios[use])
        deep[families[name]].append(float(np.average(foot, weights=flips[use])))
    means = np.array([np.mean(values) for values in one.values()])
    every = np.concatenate([np.asarray(values) for values in one.values()])
    level = float(np.mean([np.mean(values) for values in deep.values()]))
    return FlipPrice(float(means.mean()), max(level, 0.0) * PATHS, float(every.std()))


def drawn(record: Record, questions: int, seed: int) -> tuple[Votes, FloatArray]:
    """Return a pilot and which questions are not in it [n]."""
    votes, rng = record.votes, np.random.default_rng([seed, record.votes.n])
    chosen = rng.choice(votes.n, min(questions, votes.n // 2), replace=False)
    columns = rng.permuted(np.tile(np.arange(votes.k), (len(chosen), 1)), axis=1)[:, :PATHS]
    rows, others = votes.take(chosen), np.ones(votes.n, bool)
    others[chosen] = False
    answers = np.take_along_axis(rows.answered(), columns, axis=1)
    return Votes(answers, np.take_along_axis(rows.scored(), columns, axis=1)), others


def judge(
    name: str, pilot: Votes, others: FloatArray, truth: RuleOutcomes, price: FlipPrice
) -> dict[float, Delivered]:
    """Return what the decision of a pilot delivers, at each share asked."""
    seen = replayed(pilot, RULES, REFERENCE, None, np.random.default_rng(0))
    known = posterior_of(seen, generic_ratios((*RULES, REFERENCE)), PATHS, price)
    assert truth.loss is not None and truth.right is not None
    assert known.level is not None and known.new.level is not None
    level = float(truth.right[others].mean())
    loss, paths = truth.loss[others].mean(axis=0), truth.paths[others].mean(axis=0)
    out: dict[float, Delivered] = {}
    for asked in ASKED:
        choice = choose(known, Aim(retain=asked))
        rule = choice.rule
        draws = known.new.loss[:, rule], 1 - known.new.loss[:, rule] / np.maximum(known.new.level, 1e-9)
        truths = float(loss[rule]), 1 - float(loss[rule]) / level
        pairs = [*zip(draws, truths, strict=True), (known.new.paths[:, rule], float(paths[rule]))]
        covered = tuple(
            bool(np.quantile(values, 0.025) - 1e-6 <= value <= np.quantile(values, 0.975) + 1e-6)
            for values, value in pairs
        )
        stated = 1 - float(known.loss[rule]) / known.level
        gain = float(truth.loss.mean(axis=0)[0])
        out[asked] = Delivered(
            name,
            truths[1],
            stated,
            float(paths[rule]),
            choice.verdict,
            gain,
            (covered[0], covered[1], covered[2]),
        )
    return out


def table(found: dict[float, list[Delivered]]) -> None:
    """Print one row for each share asked."""
    print(
        "| asked | kept | stated | paths | worst 10% | open | wrong vote, once | covers points, kept, paths |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for asked, rows in found.items():
        by_name: dict[str, list[float]] = defaultdict(list)
        for row in rows:
            by_name[row.name].append(row.kept)
        kept = np.array([np.mean(values) for values in by_name.values()])
        vote = np.mean([row.verdict == "vote" and row.gain < -WRONG for row in rows])
        once = np.mean([row.verdict == "ask once" and row.gain > WRONG for row in rows])
        cover = [100 * float(np.mean([row.covered[place] for row in rows])) for place in range(3)]
        print(
            f"| {asked:g} | {100 * kept.mean():.2f}% | {100 * np.mean([row.stated for row in rows]):.2f}% | "
            f"{np.mean([row.paths for row in rows]):.2f} | {100 * np.quantile(kept, 0.1):.1f}% | "
            f"{np.mean([row.verdict == 'open' for row in rows]):.0%} | {vote:.1%}, {once:.1%} | "
            f"{cover[0]:.0f}, {cover[1]:.0f}, {cover[2]:.0f}% |"
        )


def main() -> None:
    """Judge pilots of all records, or print the constants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pilots", type=int, default=4)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--fit", action="store_true")
    asked = parser.parse_args()
    sources = [record for record in records(PATHS) if "multimodel" not in record.name]
    if not sources:
        print("skipped: the recorded generations are not here")
        return
    truth = {
        record.name: replayed(record.votes, RULES, REFERENCE, None, np.random.default_rng(5))
        for record in sources
    }
    families = {record.name: record.data_set for record in sources}
    if asked.fit:
        print(fit(truth, families, None), "in place:", GENERIC)
        return
    prices = {family: fit(truth, families, family) for family in set(families.values())}
    found: dict[float, list[Delivered]] = {share: [] for share in ASKED}
    for record in sources:
        for seed in range(asked.pilots):
            pilot, others = drawn(record, asked.questions, seed)
            price = prices[families[record.name]]
            for share, row in judge(record.name, pilot, others, truth[record.name], price).items():
                found[share].append(row)
    print(f"{len(sources)} records, {asked.pilots} pilots of {asked.questions} questions x {PATHS} paths\n")
    table(found)
    kept = np.mean([row.kept for row in found[0.99]])
    paths = np.mean([row.paths for row in found[0.99]])
    print(f"\nclaim: kept where 99% of 8 paths is asked | {kept:.2%} at {paths:.2f} paths | 99% at 3.6")


if __name__ == "__main__":
    main()
