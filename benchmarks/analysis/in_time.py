"""What decisions that bound the time deliver on the other questions of recorded workloads, families left out.

    python -m benchmarks.analysis.in_time [--pilots 6] [--first 0] [--every 1]

Pilots of min(50, n/2) questions x 8 paths of records that count tokens, which stand for seconds; judged on
the other questions, as many as the pilot had for the intervals. The prices of flips come from the other
families (by data set). The candidates and the least votes on arrival were chosen with all of these records in
sight. ``known`` is what one would pay who knows each record: the
cheapest candidate that keeps what is asked on all of its questions.
"""

from __future__ import annotations

import argparse
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from typing import TypeAlias

import numpy as np

from benchmarks.analysis.decision import PATHS, REFERENCE, RULES, by_question, fit
from benchmarks.families import records as all_records
from benchmarks.places import RECORDED
from keff.analysis.decision import Aim, Candidates
from keff.analysis.decision.chain import in_flight_rules
from keff.analysis.decision.choose import choose
from keff.analysis.decision.prior import Prior
from keff.analysis.walks import expectations, run
from keff.policy import Policy, parse_policy
from keff.reading.open import Opening, open_record
from keff.records import Interval
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.draws import permute_paths

BOUNDS: tuple[float | None, ...] = (1.0, 0.7, 1.5, None)
RETAIN = (0.99, 0.999)
FLIGHTS = in_flight_rules(PATHS)
ORDERS_IN_ALL = 3_000

# Stated limits hold 95%; drawn in so far, they hold 90% where errors are normal.
NORMAL_95, NORMAL_90 = 1.960, 1.645

Asked: TypeAlias = tuple[float, float | None]


@dataclass(frozen=True)
class Delivered:
    """What one pilot's decision did on the other questions, as parts of 8 in parallel.

    ``covered``: tokens, median, 95th percentile by the stated 95% limits, then by those of 90%.
    """

    name: str
    kept: float
    tokens: float
    p50: float
    p95: float
    covered: tuple[bool, ...]


@dataclass(frozen=True)
class Truth:
    """Accuracy and tokens of a rule on every question [n], and its times along orders [n, R]."""

    right: FloatArray
    tokens: FloatArray
    waits: FloatArray


class Workload:
    """A recorded workload with the truth of every rule that is asked for."""

    def __init__(self, name: str, votes: Votes) -> None:
        self.name, self.votes = name, votes
        timed = replace(votes, seconds=votes.tokens)
        orders = max(ORDERS_IN_ALL // votes.n, 20)
        self.draws = permute_paths(timed, PATHS, orders, np.random.default_rng(7))
        self.truth = cache(self._truth)

    def _truth(self, spec: str) -> Truth:
        walks = run(parse_policy(spec), self.draws)
        seen = expectations(walks, self.draws, PATHS)
        assert seen.accuracy is not None and seen.tokens is not None and walks.wait is not None
        return Truth(seen.accuracy, seen.tokens, np.asarray(walks.wait))

    def judged(
        self, spec: str, rows: FloatArray, stated: tuple[Interval, ...], same: FloatArray
    ) -> Delivered:
        """Return what a rule did on some questions; intervals are judged on ``same``."""
        kept, tokens, p50, p95 = self.parts(spec, rows)
        saved = self.truth(spec).tokens[same] - self.truth(REFERENCE.spec).tokens[same]
        truths = float(saved.mean()), *self.parts(spec, same)[2:]
        covered = tuple(
            each.limits is not None
            and each.limits[0] - 1e-6 <= each.value + (value - each.value) * wider <= each.limits[1] + 1e-6
            for wider in (1.0, NORMAL_95 / NORMAL_90)
            for each, value in zip(stated, truths, strict=True)
        )
        return Delivered(self.name, kept, tokens, p50, p95, covered)

    @cached_property
    def whole(self) -> FloatArray:
        """What every candidate is on all questions [4, C], as ``parts``."""
        rows = np.arange(self.votes.n)
        return np.array([self.parts(rule.spec, rows) for rule in (*RULES, *FLIGHTS)]).T

    def known(self, asked: Asked) -> float:
        """Return the tokens of the cheapest candidate that keeps what is asked, bounded as by a decision."""
        (share, slower), (kept, tokens, p50, p95) = asked, self.whole
        within = kept >= share
        if slower is not None:
            ways = [within & (p50 <= slower) & (p95 <= 1.05 * high) for high in (slower, max(slower, 1.0))]
            fastest = within & (p50 <= p50[within].min())
            within = next((fast for fast in ways if fast.any()), fastest)
        return float(tokens[within].min())

    def parts(self, spec: str, rows: FloatArray) -> tuple[float, float, float, float]:
        """Return accuracy, tokens and quantiles of the time as parts of the full vote's."""
        mine, full = self.truth(spec), self.truth(REFERENCE.spec)
        quantiles = [np.quantile(mine.waits[rows], q) / np.quantile(full.waits[rows], q) for q in (0.5, 0.95)]
        kept = mine.right[rows].mean() / full.right[rows].mean()
        tokens = mine.tokens[rows].mean() / full.tokens[rows].mean()
        return float(kept), float(tokens), float(quantiles[0]), float(quantiles[1])


def workloads(every: int) -> Iterator[Workload]:
    """Yield the recorded workloads that count tokens."""
    for file in sorted(RECORDED.glob("boinf_*.jsonl"))[::every]:
        votes = open_record(file, Opening()).ballot.votes
        if votes.correct is not None and votes.tokens is not None:
            yield Workload(file.stem, votes)


def pilots(work: Workload, price: Prior, seed: int) -> Iterator[tuple[Asked, Delivered]]:
    """Yield what one pilot's decisions deliver for every share and bound on the time."""
    votes, rng = work.votes, np.random.default_rng([seed, zlib.crc32(work.name.encode())])
    order = rng.permutation(votes.n)
    size = min(50, votes.n // 2)
    chosen, others = order[:size], order[size:]
    columns = rng.permuted(np.tile(np.arange(votes.k), (size, 1)), axis=1)[:, :PATHS]
    rows = votes.take(chosen)
    assert rows.tokens is not None
    picked = (
        np.take_along_axis(each, columns, axis=1) for each in (rows.answered(), rows.scored(), rows.tokens)
    )
    answers, correct, tokens = picked
    pilot = Votes(answers, correct, tokens=tokens)
    rules: list[Policy] = list(RULES)
    seen = Candidates.of(pilot, rules, FLIGHTS, REFERENCE, Aim(), PATHS, None, seed, price)
    for share, slower in product(RETAIN, BOUNDS):
        aim = Aim(retain=share, slower=slower)
        choice = choose(seen.posterior, aim, seen.allowed, seen.timing)
        told = replace(seen, choice=choice).result(pilot, aim).decision
        change = told.change
        assert change.tokens is not None and change.p50_ratio is not None and change.p95_ratio is not None
        stated = change.tokens, change.p50_ratio, change.p95_ratio
        yield (share, slower), work.judged(told.policy, others, stated, others[:size])


def above(asked: Asked, each: Delivered) -> tuple[bool, bool]:
    """Return whether the median and the 95th percentile are above their bound; the latter by a twentieth."""
    limit = asked[1] or np.inf
    return each.p50 > limit, each.p95 > 1.05 * max(limit, 1)


HEADER = (
    "asked",
    "slower",
    "kept %",
    "worst record",
    "tokens",
    "known",
    "p50",
    "p95",
    "p50 above the bound",
    "p95 above 1.05 of it, or of today's",
    "95% limits cover tokens, p50, p95 %",
    "90% limits",
    "their error",
)


def row(asked: Asked, found: list[Delivered], known: float) -> str:
    """Return one line of the table; the error of a coverage is that of its mean over records."""
    share, bound = asked
    over = np.mean([above(asked, each) for each in found], axis=0)
    by_name: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for each in found:
        by_name[each.name].append((each.kept, *each.covered[3:]))
    kept, *inside = np.array([np.mean(values, axis=0) for values in by_name.values()]).T
    error = 100 * max(float(each.std(ddof=1)) for each in inside) / len(by_name) ** 0.5
    tokens, p50, p95 = (
        np.array([getattr(each, name) for each in found]) for name in ("tokens", "p50", "p95")
    )
    cover = [100 * float(np.mean([each.covered[place] for each in found])) for place in range(6)]
    return (
        f"| {share} | {bound or 'any'} | {100 * kept.mean():.2f} | {100 * kept.min():.1f} | "
        f"{tokens.mean():.3f} | {known:.3f} | {p50.mean():.2f} | {p95.mean():.2f} | "
        f"{over[0]:.0%} | {over[1]:.0%} | {cover[0]:.0f}, {cover[1]:.0f}, {cover[2]:.0f} | "
        f"{cover[3]:.0f}, {cover[4]:.0f}, {cover[5]:.0f} | {error:.0f} |"
    )


def main() -> None:
    """Judge pilots of all records."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--pilots", type=int, default=6)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first pilot")
    parser.add_argument("--every", type=int, default=1)
    asked = parser.parse_args()
    sources = [record for record in all_records(PATHS) if "multimodel" not in record.name]
    truth = {each.name: by_question(each.votes, RULES, REFERENCE) for each in sources}
    families = {each.name: each.data_set for each in sources}
    prices = {family: fit(truth, families, family) for family in set(families.values())}
    every_asked = list(product(RETAIN, BOUNDS))
    found: list[tuple[Asked, Delivered]] = []
    known: list[list[float]] = []
    for work in workloads(asked.every):
        for seed in range(asked.first, asked.first + asked.pilots):
            found += pilots(work, prices[families[work.name]], seed)
        known.append([work.known(each) for each in every_asked])
    print(f"{asked.pilots} pilots of each record; parts of 8 in parallel with a full vote\n")
    print(f"| {' | '.join(HEADER)} |")
    print("|---|" + "--:|" * (len(HEADER) - 1))
    for bound, least_tokens in zip(every_asked, np.mean(known, axis=0).tolist(), strict=True):
        print(row(bound, [each for of, each in found if of == bound], least_tokens))
    over = Counter(each.name for of, each in found if of == (RETAIN[0], 0.7) and above(of, each)[0])
    print(f"\npilots above the bound on the median at {RETAIN[0]}, 0.7: {dict(over)}")


if __name__ == "__main__":
    main()
