"""Fit the mixture of partition laws that stands for a generic workload's answers, families left out.

    python -m benchmarks.constants mixture_weights

EM on 32 paths of every question of each record with at least 48, each record counting once and the
components a 50th of a record together. What it is for is how often a rule changes an answer on generic
questions: the second table says how far one path does, by the family by data set that is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.constants._row import HEAD, row, span
from benchmarks.families import families_of
from benchmarks.places import RECORDED
from keff.errors import KeffError
from keff.reading.open import Opening, open_record
from keff.stats.models.mixture import COMPONENTS, partition_log_law, prior_shares, vote_counts
from keff.stats.votes import FloatArray, Votes

LEAST, USED = 48, 32
ORDER_SEED = 17
"""Some records list one temperature after the other: paths of each question are put in random order."""
PSEUDO_RECORDS = 0.02


def records() -> Iterator[tuple[str, Votes]]:
    """Yield data set and votes of every record of one model, as keff reads it by itself."""
    for file in sorted(RECORDED.glob("*.jsonl")):
        if "multimodel" in file.stem:
            continue
        try:
            votes = open_record(file, Opening(None, None, None)).ballot.votes
        except KeffError as error:
            print(f"left out: {file.name}: {error}")
            continue
        if votes.k >= LEAST and votes.correct is not None and votes.slots is None:
            order = np.random.default_rng(ORDER_SEED).random((votes.n, votes.k)).argsort(axis=1)
            answers = np.take_along_axis(votes.answered(), order, axis=1)
            yield families_of(file.stem)[0], Votes(answers[:, :USED], None, closed=votes.closed)


def fitted(laws: Sequence[FloatArray]) -> FloatArray:
    """Return the weights of the components, from log laws [n, components] of each record."""
    law = np.concatenate([np.exp(each - each.max(axis=1, keepdims=True)) for each in laws])
    weight = np.concatenate([np.full(len(each), 1 / len(each) / len(laws)) for each in laws])
    share = np.full(len(COMPONENTS), 1 / len(COMPONENTS))
    for _ in range(300):
        each = law * share
        share = PSEUDO_RECORDS / len(COMPONENTS) + weight @ (each / each.sum(axis=1, keepdims=True))
        share /= share.sum()
    return share


def apart(weights: FloatArray) -> float:
    """Return how often two paths of a generic question differ."""
    shares = prior_shares(weights, 20_000, np.random.default_rng(0))
    return float(1 - np.square(shares).sum(axis=1).mean())


def main() -> None:
    """Print the weights, and how far they move without each family."""
    known = [(family, partition_log_law(vote_counts(votes)[0])) for family, votes in records()]
    weights = fitted([law for _, law in known])
    families = list(dict.fromkeys(family for family, _ in known))
    without = {name: fitted([law for family, law in known if family != name]) for name in families}
    moved = [float(np.abs(each - weights).sum() / 2) for each in without.values()]
    print(f"{len(known)} records of {len(families)} families by data set\n\n{HEAD}")
    said = f"{span(moved)} of the weight moves"
    print(row("keff.stats.models.mixture:GENERIC_WEIGHTS", np.round(weights, 3), said))
    print(f"\n| left out | two paths differ |\n|---|--:|\n| none | {apart(weights):.3f} |")
    for name, each in without.items():
        print(f"| {name} | {apart(each):.3f} |")


if __name__ == "__main__":
    main()
