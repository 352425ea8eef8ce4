"""The verdict about voting on simulated workloads of known gain, and on recorded ones.

``python -m benchmarks.verdicts [--runs 200]``

Simulated: pilots of 50 x 8 from workloads whose true gain of plurality at 32 over one path is -5, -2, 0,
+0.5 or +2 points, by the eight makers of ``benchmarks.makers`` whose one knob is turned to that gain: four
that were known while the verdict was written, and four that were not. Printed beside the verdicts is the gain
at 8 paths, for a curve may rise within the pilot and fall after it.

Recorded: pilots of min(50, n/2) x 8 from every record, by its true gain; constants from the other families.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from benchmarks import learn_gain
from benchmarks.families import PARTITIONS, pilot, records
from benchmarks.makers import HELD_OUT, KNOWN, Maker

from keff.stats.plurality import plurality_at_k
from keff.stats.verdict import judge_voting
from keff.stats.votes import Votes

GAINS = (-0.05, -0.02, 0.0, 0.005, 0.02)
VERDICTS = ("sample", "single path", "do not vote", "pilot too small")
CAP, QUESTIONS, PATHS = 32, 50, 8
TRUTH_QUESTIONS = 3000


def gain_of(votes: Votes, k: int = CAP) -> float:
    """Return the gain of plurality at ``k`` (or all recorded) paths over one."""
    curve = plurality_at_k(votes)
    return float(curve[min(k, votes.k) - 1] - curve[0])


def tuned(maker: Maker, gain: float) -> float:
    """Return the knob at which a maker has this gain, by bisection on one large sample."""
    low, high = 0.0, 1.0
    for _ in range(10):
        middle = (low + high) / 2
        if gain_of(maker(middle, TRUTH_QUESTIONS, CAP, np.random.default_rng(4))) < gain:
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


def simulated(makers: dict[str, Maker], runs: int) -> Iterator[tuple[float, str, float, Tally]]:
    """Yield the true gain, the maker, its gain at the pilot's paths and the tally of every workload."""
    for gain in GAINS:
        for name, maker in makers.items():
            knob = tuned(maker, gain)
            whole = maker(knob, TRUTH_QUESTIONS, CAP, np.random.default_rng(4))
            if abs(gain_of(whole) - gain) > 0.01:
                continue
            rng = np.random.default_rng([5, round(1000 * gain) + 100])
            found = tally(lambda m=maker, k=knob, r=rng: m(k, QUESTIONS, PATHS, r), runs, gain_of(whole))
            yield gain, name, gain_of(whole, PATHS), found


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
    for title, makers in (("known", KNOWN), ("held out", HELD_OUT)):
        head = "  ".join(f"{v[:6]:>6s}" for v in VERDICTS)
        print(f"{title + ' makers, gain (gain at 8)':34s} {head}   covers")
        worst: dict[float, list[float]] = {gain: [] for gain in GAINS}
        for gain, name, early, found in simulated(makers, options.runs):
            print(found.line(f"{100 * gain:+.1f} ({100 * early:+.1f}) {name}"), flush=True)
            worst[gain].append(found.share("sample"))
        for gain, most in ((-0.05, 0.05), (-0.02, 0.2)):
            shares = ", ".join(f"{share:.0%}" for share in sorted(worst[gain]))
            print(
                f"claim: sample where the true gain is {100 * gain:.0f} points, {title} makers, "
                f"{options.runs} pilots of 50 x 8 | {shares} | each at most {most:.0%}"
            )
    recorded(options.draws)


if __name__ == "__main__":
    main()
