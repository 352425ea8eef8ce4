"""Recorded generations of real models as workloads: what rules do on them, and pilots drawn from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keff.analysis.recommend import played
from keff.analysis.recommend.played import Played
from keff.errors import KeffError
from keff.reading.open import Opening, open_record
from keff.stats.draws import permuted
from keff.stats.plurality import plurality_at_k_items
from keff.stats.votes import FloatArray, IntArray, Votes

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "recorded"
CAP, SHORT_CAP = 32, 8
LONG, SHORT = 48, 9
"""Records of at least 48 paths are judged at 32; those of at least 9 tell at 8 what a vote's share costs."""

TRUTH_ORDERS = 40_000
PERMUTATION = 17
"""The seed by which the paths of each question are put in random order: some records list one temperature
after the other."""


@dataclass(frozen=True)
class Workload:
    """One record, what rules do on it, and its accuracy with one path and at the cap by question [n]."""

    name: str
    votes: Votes
    truth: Played
    one: FloatArray
    top: FloatArray

    @property
    def cap(self) -> int:
        return self.truth.rules.cap

    @property
    def source(self) -> str:
        """Who recorded it."""
        return self.name.split("_")[0]

    @property
    def data_set(self) -> str:
        """Which questions it answers, whatever the model."""
        parts = self.name.split("_")
        if parts[0] in ("boinf", "renze"):
            return parts[1]
        return "_".join(parts[:2]) if parts[0] == "cruxeval" else parts[0]

    @property
    def helped(self) -> bool:
        """Whether the vote at the cap is right more often than one path."""
        return bool(self.top.mean() > self.one.mean())

    def lost(self) -> FloatArray:
        """Return the accuracy that each rule loses on each question [n, C]."""
        assert self.truth.right is not None
        return self.truth.right


def pilot(votes: Votes, items: int, paths: int, seed: int) -> tuple[Votes, IntArray]:
    """Return a random pilot, at most half of the questions, and the questions that are not in it."""
    rng = np.random.default_rng([seed, 11])
    chosen = rng.choice(votes.n, min(items, votes.n // 2), replace=False)
    columns = rng.random((len(chosen), votes.k)).argsort(axis=1)[:, :paths]
    answers = np.take_along_axis(votes.answered()[chosen], columns, axis=1)
    correct = np.take_along_axis(votes.scored()[chosen], columns, axis=1)
    others = np.setdiff1d(np.arange(votes.n), chosen).astype(np.int64)
    return Votes(answers, correct, closed=votes.closed), others


def load(folder: Path, *, short: bool = False) -> Iterator[Workload]:
    """Read the long records of a folder, or the short ones."""
    for file in sorted(folder.glob("*.jsonl")):
        if "multimodel" in file.stem:  # different models, not repeated samples of one
            continue
        try:
            votes = open_record(file, Opening(None, None, None)).ballot.votes
        except KeffError as error:
            print(f"left out: {file.name}: {error}")
            continue
        fits = SHORT <= votes.k < LONG if short else votes.k >= LONG
        if fits and votes.correct is not None and votes.slots is None:
            yield _workload(file.stem, votes, SHORT_CAP if short else CAP)


def _workload(name: str, votes: Votes, cap: int) -> Workload:
    order = np.random.default_rng(PERMUTATION).random((votes.n, votes.k)).argsort(axis=1)
    answers = np.take_along_axis(votes.answered(), order, axis=1)
    votes = Votes(answers, np.take_along_axis(votes.scored(), order, axis=1), closed=votes.closed)
    orders = int(np.clip(TRUTH_ORDERS // votes.n, 40, 400))
    truth = played.replayed(votes, permuted(votes, cap, orders, np.random.default_rng(7)))
    curve = plurality_at_k_items(votes)
    return Workload(name, votes, truth, curve[:, 0].copy(), curve[:, cap - 1].copy())
