"""The shared recorded generations as votes, with the families that are left out whole.

A record belongs to one family by data set (aime2024, gpqa, each exam, ...) and to one by source (who
published it), whatever the model. Paths of every question are put into random order by a stated seed: renze
rows hold six temperatures in order, and cruxeval rows are ordered by sample.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.places import MORE, RECORDED
from keff.stats.votes import Votes

ORDER_SEED = 15


@dataclass(frozen=True, eq=False)
class Record:
    """One recorded workload: its name, its two families and its votes, cut to the shortest question."""

    name: str
    data_set: str
    source: str
    votes: Votes

    def family(self, partition: str) -> str:
        """Return the family by ``data set`` or by ``source``."""
        return self.data_set if partition == "data set" else self.source


PARTITIONS = ("data set", "source")


def abstains(name: str, answer: object) -> bool:
    """Say whether a recorded answer is none: empty, or no letter of a choice question."""
    if answer is None or answer == "":
        return True
    return ("gpqa" in name and answer not in "ABCD") or (name.startswith("renze") and answer == "N")


def read(path: Path, least_paths: int = 2) -> Record | None:
    """Return a recorded file with labels, or None when it has none or fewer paths a question."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    if any("all_correct" not in row or None in row["all_correct"] for row in rows):
        return None
    k = min(len(row["all_answers"]) for row in rows)
    if k < least_paths:
        return None
    rng = np.random.default_rng(ORDER_SEED)
    answers, correct = np.full((len(rows), k), -1), np.zeros((len(rows), k), np.int64)
    for i, row in enumerate(rows):
        codes: dict[str, int] = {}
        for j, place in enumerate(rng.permutation(len(row["all_answers"]))[:k]):
            answer = row["all_answers"][place]
            if not abstains(path.name, answer):
                answers[i, j] = codes.setdefault(str(answer), len(codes))
                correct[i, j] = int(row["all_correct"][place])
    return Record(path.stem, *families_of(path.stem), Votes(answers, correct))


def records(least_paths: int = 2, folder: Path = RECORDED) -> list[Record]:
    """Return the recorded files with labels and at least so many paths a question, by name."""
    return [r for path in sorted(folder.glob("*.jsonl")) if (r := read(path, least_paths)) is not None]


def newer_records(least_paths: int = 2) -> list[Record]:
    """Return records of families that no constant of keff was fitted to."""
    return records(least_paths, MORE)


def families_of(name: str) -> tuple[str, str]:
    """Return the family of a record by data set, and by source."""
    parts = name.split("_")
    if parts[0] in ("boinf", "renze", "cruxeval", "epoch"):
        return parts[0] + " " + parts[1], parts[0]
    return parts[0], parts[0]


def pilot(votes: Votes, items: int, paths: int, rng: np.random.Generator) -> Votes:
    """Draw questions without replacement, and so many of the paths of each at random."""
    rows = votes.take(rng.choice(votes.n, items, replace=False))
    columns = rng.permuted(np.tile(np.arange(votes.k), (items, 1)), axis=1)[:, :paths]
    return Votes(
        np.take_along_axis(rows.answered(), columns, 1), np.take_along_axis(rows.scored(), columns, 1)
    )
