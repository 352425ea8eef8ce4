"""The verdict about voting on simulated workloads of known gain, and on recorded ones.

``python -m benchmarks.verdicts [--runs 200]``

Simulated: pilots of 50 x 8 from workloads whose true gain of plurality at 32 over one path is -5, -2, 0,
+0.5 or
+2 points, by four makers whose one knob is turned to that gain on 4000 questions:

    two answers    questions whose paths are right with chance .4 or .6 (or .95, that do not matter)
    misleading     mostly easy questions, and some on which one wrong answer beats the right one
    choice         four answers, beliefs from a Dirichlet law that leans on the right or on a wrong one
    hashes         right answers do not meet: each is a hash of its own program; wrong ones meet in part

Recorded: pilots of min(50, n/2) x 8 from every record, by its true gain; constants from the other families.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from benchmarks import learn_gain
from benchmarks.families import PARTITIONS, pilot, records

from keff.stats.plurality import plurality_at_k
from keff.stats.verdict import judge_voting
from keff.stats.votes import FloatArray, Votes

GAINS = (-0.05, -0.02, 0.0, 0.005, 0.02)
VERDICTS = ("sample", "single path", "do not vote", "pilot too small")
CAP, QUESTIONS, PATHS = 32, 50, 8
TRUTH_QUESTIONS = 4000
HASH_CODES = 10_000


class Maker(Protocol):
    """Makes n questions x k paths of a workload whose gain rises with ``knob`` in 0..1."""

    def __call__(self, knob: float, n: int, k: int, rng: np.random.Generator) -> Votes: ...


def from_beliefs(beliefs: FloatArray, k: int, rng: np.random.Generator) -> Votes:
    """Draw paths from beliefs [n, answers], of which answer 0 is right."""
    codes = (rng.random((len(beliefs), k, 1)) > beliefs.cumsum(axis=1)[:, None, :-1]).sum(axis=2)
    return Votes(codes, (codes == 0).astype(np.int64))


def two_answers(knob: float, n: int, k: int, rng: np.random.Generator) -> Votes:
    hard = rng.random(n) < 0.6
    right = np.where(hard, np.where(rng.random(n) < knob, 0.6, 0.4), 0.95)
    return from_beliefs(np.column_stack([right, 1 - right]), k, rng)


def misleading(knob: float, n: int, k: int, rng: np.random.Generator) -> Votes:
    trap = rng.random(n) < 0.35 * (1 - knob)
    right = np.where(trap, 0.3, rng.beta(6, 1, n))
    rest = 1 - right
    first = np.where(trap, 0.8, 0.4) * rest
    return from_beliefs(np.column_stack([right, first, *[(rest - first) / 3] * 3]), k, rng)


def choice(knob: float, n: int, k: int, rng: np.random.Generator) -> Votes:
    lean = np.full((n, 4), 0.5)
    lean[np.arange(n), np.where(rng.random(n) < knob, 0, 1)] += 2.0
    shares = rng.standard_gamma(lean)
    return from_beliefs(shares / shares.sum(axis=1, keepdims=True), k, rng)


def hashes(knob: float, n: int, k: int, rng: np.random.Generator) -> Votes:
    """Accuracy about .23: right programs hardly share a hash, and wrong ones meet more the lower the knob."""
    right = rng.random((n, k)) < rng.beta(0.5, 1.7, n)[:, None]
    own = np.arange(k) + 10
    meets = rng.random((n, k)) < 0.6 * (1 - knob)
    same = rng.random((n, k)) < 0.5 * knob
    codes = np.where(right, np.where(same, 0, own + HASH_CODES), np.where(meets, 1, own))
    return Votes(codes, right.astype(np.int64))


MAKERS: dict[str, Maker] = {
    "two answers": two_answers,
    "misleading": misleading,
    "choice": choice,
    "hashes": hashes,
}


def gain_of(votes: Votes) -> float:
    curve = plurality_at_k(votes)
    return float(curve[min(CAP, votes.k) - 1] - curve[0])


def tuned(maker: Maker, gain: float) -> float:
    """Return the knob at which a maker has this gain, by bisection on one large sample."""
    low, high = 0.0, 1.0
    for _ in range(14):
        middle = (low + high) / 2
        if gain_of(maker(middle, TRUTH_QUESTIONS, CAP, np.random.default_rng(3))) < gain:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@dataclass(frozen=True)
class Tally:
    """How often each verdict came from pilots of one workload, and whether the gain's interval held it."""

    verdicts: Counter[str]
    covered: float

    def share(self, name: str) -> float:
        return self.verdicts[name] / max(self.verdicts.total(), 1)

    def line(self, name: str) -> str:
        shares = "  ".join(f"{100 * self.share(v):5.0f}%" for v in VERDICTS)
        return f"{name:34s} {shares}   {100 * self.covered:5.0f}%"


def tally(draw: Callable[[], Votes], runs: int, truth: float, cap: int = CAP) -> Tally:
    seen, covered = Counter[str](), list[bool]()
    for _ in range(runs):
        found = judge_voting(draw(), cap)
        seen[found.verdict] += 1
        if found.gain is not None and found.gain.lo is not None and found.gain.hi is not None:
            covered.append(found.gain.lo - 1e-9 <= truth <= found.gain.hi + 1e-9)
    return Tally(seen, float(np.mean(covered)) if covered else float("nan"))


def simulated(runs: int) -> Iterator[tuple[float, str, Tally]]:
    """Yield the tally of every simulated workload that has the gain."""
    for gain in GAINS:
        for name, maker in MAKERS.items():
            knob = tuned(maker, gain)
            truth = gain_of(maker(knob, TRUTH_QUESTIONS, CAP, np.random.default_rng(4)))
            if abs(truth - gain) > 0.01:
                continue
            rng = np.random.default_rng([5, round(1000 * gain) + 100])
            yield gain, name, tally(lambda m=maker, k=knob, r=rng: m(k, QUESTIONS, PATHS, r), runs, truth)


def recorded(draws: int) -> None:
    """Print the verdicts of pilots of recorded workloads, by true gain, with left-out constants."""
    sources = records(8)
    if not sources:
        print("skipped: no recorded generations")
        return
    with learn_gain.without_between():
        parts = learn_gain.pieces(sources, 2)
    for partition in PARTITIONS:
        groups: dict[str, Counter[str]] = {}
        for index, record in enumerate(sources):
            family, cap = record.family(partition), min(CAP, record.votes.k)
            left = learn_gain.constants(parts, lambda r, f=family, p=partition: r.family(p) != f)
            gain, rng = gain_of(record.votes), np.random.default_rng([6, index])
            size = min(QUESTIONS, record.votes.n // 2)
            with learn_gain.using(left):
                found = tally(lambda v=record.votes, s=size, r=rng: pilot(v, s, PATHS, r), draws, gain, cap)
            groups.setdefault(_group(gain), Counter()).update(found.verdicts)
        print(f"\nrecorded pilots, constants without the record's family by {partition}")
        for name, counts in sorted(groups.items()):
            print("  " + Tally(counts, float("nan")).line(name))


def _group(gain: float) -> str:
    edges = ((0.0, "a: below 0"), (0.005, "b: 0 to .5 points"), (0.02, "c: .5 to 2 points"))
    return next((name for edge, name in edges if gain < edge), "d: above 2 points")


def main() -> None:
    """Print the tables and the claims."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--draws", type=int, default=10)
    options = parser.parse_args()
    print(f"{'workload':34s} " + "  ".join(f"{v[:6]:>6s}" for v in VERDICTS) + "   covers")
    worst: dict[float, float] = {}
    for gain, name, found in simulated(options.runs):
        print(found.line(f"{100 * gain:+.1f} {name}"), flush=True)
        worst[gain] = max(worst.get(gain, 0.0), found.share("sample"))
    for gain, most in ((-0.05, 0.05), (-0.02, 0.2)):
        print(
            f"claim: sample where the true gain is {100 * gain:.0f} points, worst of the makers, "
            f"{options.runs} pilots of "
            f"50 x 8 | {worst[gain]:.1%} | at most {most:.0%}"
        )
    recorded(options.draws)


if __name__ == "__main__":
    main()
