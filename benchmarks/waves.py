"""Planned rounds beside doubling waves, windows and one path at a time, on shared recorded generations.

    python -m benchmarks.waves [--rounds 3 5 7] [--every 1] [--orders 2500]

Every record with at least 48 paths per question is replayed at cap 32 along random orders. A planned rule is
``budget:k,rounds=R`` with the agreement fitted to a pilot of 50 questions x 8 paths; the laws of answers that
it is planned on are fitted anew without the record's source. Rivals test the same family of rules at the ends
of fixed waves: doubling from s paths (s, 2s, 4s, ...) and windows of w paths, the last round drawing what is
left; the best s and the best w over all records are taken for every R, with hindsight. Everything is compared
at equal loss: the answer share lost against the vote of 32, each rival's mean paths being interpolated over
the values of k. A record's loss is that of its questions and of ten more with the mean loss of the other
records, for on 30 questions many rules lose nothing by luck. Prints Markdown tables.

``ratio`` is the planned mean paths over the rival's, its error by a bootstrap over questions; ``kept`` is the
accuracy kept of that at the cap. Records have no seconds: ``p95`` is that of 2 s + tokens / 50 per second, on
records that count tokens.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.prior import mixture_weights
from benchmarks.workloads import CAP, FOLDER, LONG, PERMUTATION

from keff.analysis.recommend.played import leader_worth
from keff.analysis.replay.outcomes import follow_rounds
from keff.errors import KeffError
from keff.policies import TablePolicy
from keff.policy import InRounds, parse_policy
from keff.policy_rounds import fit_agreement
from keff.policy_schedule import make_schedule
from keff.policy_waves import Ahead, follow_all
from keff.reading.open import Opening, open_record
from keff.stats.courses import tilted
from keff.stats.draws import Draws, permuted
from keff.stats.mixture import vote_counts
from keff.stats.votes import FloatArray, Votes

KS = tuple(np.geomspace(1.3, 9, 9).round(2).tolist())
PLANNED_AT = (3.0, 5.0)
STARTS, WINDOWS = (1, 2, 3, 4, 6), (3, 4, 5, 6, 8)
REPLICATES = 100
PSEUDO_ITEMS = 10
"""So many questions is the loss on the other records worth."""

FIRST, RATE = 2.0, 50.0


@dataclass(frozen=True)
class Workload:
    """One record: its votes in random order, and who recorded it."""

    name: str
    votes: Votes

    @property
    def source(self) -> str:
        return self.name.split("_")[0]


@dataclass(frozen=True)
class Fixed:
    """Waves of given sizes, the last of ``rounds`` drawing the rest; the rule is tested at their ends."""

    first: int
    factor: int
    rounds: int
    cap: int

    def sizes(self, turn: int, at: Ahead, ahead: Ahead, counts: tuple[Ahead, Ahead]) -> Ahead:  # noqa: ARG002
        size = self.cap if turn >= self.rounds - 1 else self.first * self.factor**turn
        return np.where(ahead > 0, np.minimum(size, self.cap - at), 0)


@dataclass(frozen=True)
class Result:
    """Means by question [n]: paths, rounds, share lost, accuracy lost; and the seconds [n, R] where known."""

    paths: FloatArray
    rounds: FloatArray
    share: FloatArray
    right: FloatArray
    seconds: FloatArray | None


@dataclass(frozen=True)
class Bench:
    """One workload in many orders."""

    draws: Draws
    share: FloatArray
    credit: FloatArray

    @classmethod
    def of(cls, workload: Workload, orders: int) -> Bench:
        votes = workload.votes
        draws = permuted(votes, CAP, max(orders // votes.n, 20), np.random.default_rng(5))
        assert draws.tallies.credit is not None
        share = leader_worth(draws, vote_counts(votes)[0] / votes.k)
        return cls(draws, share, draws.tallies.credit.astype(np.float64))

    def result(self, ahead: Ahead) -> Result:
        seconds = None if self.draws.tokens is None else FIRST + self.draws.tokens / RATE
        stop, rounds, wait = follow_rounds(ahead, seconds)

        def lost(worth: FloatArray) -> FloatArray:
            return (worth[..., -1] - np.take_along_axis(worth, stop[..., None], 2)[..., 0]).mean(axis=1)

        return Result(stop.mean(axis=1), rounds.mean(axis=1), lost(self.share), lost(self.credit), wait)

    def rival(self, first: int, factor: int, rounds: int) -> list[Result]:
        """Return the family of rules at the ends of fixed waves."""
        sizes = Fixed(first, factor, rounds, CAP).sizes
        return [self.result(follow_all(sizes, rule, self.draws)) for rule in RULES]


RULES = [rule for k in KS if isinstance(rule := parse_policy(f"budget:{k}"), TablePolicy)]


def load(folder: Path, every: int) -> list[Workload]:
    """Read the long records; paths of each question in random order, for some records list temperatures."""
    out: list[Workload] = []
    for file in sorted(folder.glob("*.jsonl")):
        if "multimodel" in file.stem:
            continue
        try:
            votes = open_record(file, Opening()).ballot.votes
        except KeffError as error:
            print(f"left out: {file.name}: {error}")
            continue
        if votes.k < LONG or votes.correct is None or votes.slots is not None:
            continue
        order = np.random.default_rng(PERMUTATION).random((votes.n, votes.k)).argsort(axis=1)
        tokens = votes.tokens if votes.tokens is not None and np.isfinite(votes.tokens).all() else None
        out.append(
            Workload(
                file.stem,
                Votes(
                    np.take_along_axis(votes.answered(), order, 1),
                    np.take_along_axis(votes.scored(), order, 1),
                    tokens=None if tokens is None else np.take_along_axis(tokens, order, 1),
                ),
            )
        )
    return out[::every]


def planned(k: float, rounds: int, workload: Workload, weights: FloatArray) -> InRounds:
    """Plan rounds as they would be for a pilot of the workload, on laws that have not seen its source."""
    rng = np.random.default_rng(1)
    items = rng.choice(workload.votes.n, min(50, workload.votes.n // 2), replace=False)
    agreement = fit_agreement(workload.votes.take(items).paths(np.arange(8)))
    rule = parse_policy(f"budget:{k}")
    return InRounds(rule, rounds, agreement, make_schedule(rule, rounds, tilted(weights, agreement)))


def paths_at(rivals: FloatArray, losses: FloatArray, loss: FloatArray) -> FloatArray:
    """Return the mean paths [B] of a family [B, k] at a loss [B], randomised between neighbours."""
    out = np.empty(len(loss))
    for b, target in enumerate(loss):
        order = np.argsort(losses[b])
        out[b] = np.interp(target, losses[b][order], np.minimum.accumulate(rivals[b][order]))
    return out


def ratio(own: Result, family: Sequence[Result], elsewhere: tuple[float, FloatArray]) -> tuple[float, float]:
    """Return planned over rival mean paths at equal loss, with its standard error over questions.

    ``elsewhere``: the mean loss of the planned rule, and of the family [k], on the other records.
    """
    n = len(own.paths)
    drawn = np.random.default_rng(3).multinomial(n, np.ones(n) / n, REPLICATES)
    weights = np.vstack([np.ones(n), drawn]) / n
    paths, losses = (np.stack([getattr(r, what) for r in family], axis=1) for what in ("paths", "share"))
    known = n / (n + PSEUDO_ITEMS)
    loss = known * (weights @ own.share) + (1 - known) * elsewhere[0]
    rival = paths_at(weights @ paths, known * (weights @ losses) + (1 - known) * elsewhere[1], loss)
    values = weights @ own.paths / rival
    return float(values[0]), float(values[1:].std())


def ratios(name: str, some: Sequence[Line]) -> list[tuple[float, float]]:
    """Return the ratio of each line to the rival of this name, with its standard error."""
    own = np.array([line.own.share.mean() for line in some])
    rival = np.array([[r.share.mean() for r in line.rivals[name]] for line in some])
    out: list[tuple[float, float]] = []
    for i, line in enumerate(some):
        others = np.arange(len(some)) != i
        elsewhere = float(own[others].mean()), rival[others].mean(axis=0)
        out.append(ratio(line.own, line.rivals[name], elsewhere))
    return out


@dataclass
class Line:
    """One planned rule on one record, with its rivals (by name)."""

    name: str
    own: Result
    rivals: dict[str, list[Result]]
    top: float


def lines(
    workloads: Sequence[Workload], rounds: int, strengths: Sequence[float], orders: int
) -> dict[float, list[Line]]:
    """Replay everything, record after record."""
    out: dict[float, list[Line]] = {k: [] for k in strengths}
    laws = {
        source: mixture_weights([w.votes for w in workloads if w.source != source])
        for source in sorted({w.source for w in workloads})
    }
    for workload in workloads:
        bench = Bench.of(workload, orders)
        rivals = {f"doubling from {s}": bench.rival(s, 2, rounds) for s in STARTS}
        rivals |= {f"windows of {w}": bench.rival(w, 1, rounds) for w in WINDOWS}
        rivals["one at a time"] = [bench.result(rule.ahead(bench.draws)) for rule in RULES]
        for k in strengths:
            own = bench.result(planned(k, rounds, workload, laws[workload.source]).ahead(bench.draws))
            top = float(bench.credit[..., -1].mean())
            out[k].append(Line(workload.name, own, rivals, top))
    return out


@dataclass(frozen=True)
class Compared:
    """A planned rule beside the best of each kind of rival: ratios by record, with their errors."""

    rounds: int
    k: float
    some: Sequence[Line]
    best: dict[str, list[tuple[float, float]]]

    @classmethod
    def of(cls, rounds: int, k: float, some: Sequence[Line]) -> Compared:
        known = {name: ratios(name, some) for name in some[0].rivals}
        best = [
            max((name for name in known if name.startswith(kind)), key=lambda name: mean_of(known[name]))
            for kind in ("doubling", "windows", "one")
        ]
        return cls(rounds, k, some, {name: known[name] for name in best})

    def fixed(self) -> list[list[tuple[float, float]]]:
        """Return the ratios to doubling and to windows."""
        return list(self.best.values())[:2]

    def row(self) -> str:
        """Return one line of the first table."""
        own = [line.own for line in self.some]
        kept = 1 - np.mean([line.own.right.mean() / line.top for line in self.some])
        paths, turns = (np.mean([getattr(r, what).mean() for r in own]) for what in ("paths", "rounds"))
        timed = [np.quantile(r.seconds, 0.95) for r in own if r.seconds is not None]
        seconds = f"{np.mean(timed):,.0f}" if timed else "–"
        cells = [
            f"{name}: {mean_of(each):.3f}, worst {max(r for r, _ in each) - 1:+.1%} ({beyond(each)} beyond)"
            for name, each in self.best.items()
        ]
        start = f"| {self.rounds} | `budget:{self.k:g}` | {paths:.2f} | {turns:.2f} | {kept:.2%} | {seconds}"
        return f"{start} | {' | '.join(cells)} |"


def mean_of(each: Sequence[tuple[float, float]]) -> float:
    """Return the mean ratio over records."""
    return float(np.mean([value for value, _ in each]))


def beyond(each: Sequence[tuple[float, float]]) -> int:
    """Return on how many records the ratio is above one by 3% and by two standard errors."""
    return sum(value - 1 > max(0.03, 2 * error) for value, error in each)


def by_record(compared: Sequence[Compared]) -> None:
    """Print the change in paths from doubling and from windows, record by record."""
    titles = [f"R = {each.rounds}, `budget:{each.k:g}`" for each in compared]
    print(f"\n| record | {' | '.join(titles)} |\n|---|{'---:|' * len(titles)}")

    def change(fixed: tuple[float, float]) -> str:
        return f"{100 * (fixed[0] - 1):+.0f} ± {100 * fixed[1]:.0f}"

    for place, line in enumerate(compared[0].some):
        cells = [", ".join(change(fixed[place]) for fixed in each.fixed()) for each in compared]
        print(f"| {line.name} | {' | '.join(cells)} |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, nargs="+", default=[3, 5, 7])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--at", type=float, nargs="+", default=PLANNED_AT)
    parser.add_argument("--orders", type=int, default=2500)
    asked = parser.parse_args()
    workloads = load(FOLDER, asked.every)
    if not workloads:
        print(f"skipped: no recorded generations with {LONG} paths per question in {FOLDER}")
        return
    print(f"{len(workloads)} records\n")
    print("| at most rounds | rule | paths | rounds | kept | p95, s | doubling | windows | one at a time |")
    print("|---:|---|---:|---:|---:|---:|---|---|---|", flush=True)
    compared: list[Compared] = []
    for rounds in asked.rounds:
        for k, some in lines(workloads, rounds, asked.at, asked.orders).items():
            compared.append(Compared.of(rounds, k, some))
            print(compared[-1].row(), flush=True)
    by_record(compared)
    fixed = [each for some in compared for each in some.fixed()]
    worst, count = max(map(mean_of, fixed)), sum(map(beyond, fixed))
    print(f"\nclaim: paths of planned rounds over the best fixed waves, equal loss | {worst:.3f} | at most 1")
    print(f"claim: records on which they draw more by 3% and 2 standard errors | {count} | 0")


if __name__ == "__main__":
    main()
