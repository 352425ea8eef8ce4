"""How often keff suspects an answer that is never right, in records where none stands for "no answer".

    python -m benchmarks.logs.wrong_leader

Every recorded workload with open answers: whole, and 20 random parts of 20, 50 and 100 questions. Then the
parts with a word in place of a fifth of the answers, and of three quarters in every fifth question. Shares
are means over families (data sets), so that one of many records counts no more than others.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import TypeAlias

from benchmarks.places import MORE, RECORDED
from keff.errors import KeffError
from keff.reading.open import open_record

SIZES, PARTS, SEED = (20, 50, 100), 20, 1
SHARE_LOST, MOSTLY_LOST = 0.2, 0.75
Found: TypeAlias = dict[str, list[bool]]


def suspected(path: Path) -> bool | None:
    """Return whether keff suspects a leader; None where it does not look, or the file is no record."""
    try:
        ballot = open_record(path).ballot
    except KeffError:
        return None
    if ballot.votes.closed or ballot.votes.correct is None or ballot.votes.answers is None:
        return None
    return any(note.code == "wrong_leader" for note in ballot.notes)


def with_placeholder(line: str, rng: random.Random) -> str:
    """Return a question in which a fifth of the paths, or three quarters of some, found no answer."""
    row = json.loads(line)
    lost = MOSTLY_LOST if rng.random() < SHARE_LOST else SHARE_LOST
    places = [place for place in range(len(row["all_answers"])) if rng.random() < lost]
    for place in places:
        row["all_answers"][place] = "unparsable"
        for name, value in (("all_correct", 0), ("all_keys", "unparsable")):
            if row.get(name):
                row[name][place] = value
    return json.dumps(row) + "\n"


def main() -> None:
    whole: Found = defaultdict(list)
    parts: dict[int, Found] = {size: defaultdict(list) for size in SIZES}
    planted: dict[int, Found] = {size: defaultdict(list) for size in SIZES}
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted([*RECORDED.glob("*.jsonl"), *MORE.glob("*.jsonl")]):
            if (said := suspected(path)) is None:
                continue
            family = "_".join(path.stem.split("_")[:2])
            whole[family].append(said)
            lines, rng = path.read_text("utf-8").splitlines(keepends=True), random.Random(SEED)
            part = Path(folder) / path.name
            for size in SIZES:
                for _ in range(PARTS if len(lines) > size else 0):
                    chosen = rng.sample(lines, size)
                    for found, rows in (
                        (parts, chosen),
                        (planted, [with_placeholder(line, rng) for line in chosen]),
                    ):
                        part.write_text("".join(rows), "utf-8")
                        if (said := suspected(part)) is not None:
                            found[size][family].append(said)
                        if said and found is parts:
                            print(f"{path.name}, {size} questions: suspected")
    print(f"whole records: {share(whole)}")
    for size in SIZES:
        print(f"{size} questions: {share(parts[size])}; with a placeholder {share(planted[size])}")


def share(found: Found) -> str:
    """Return the share of alarms, each family with one weight, and of how many."""
    if not found:
        return "none of that size"
    return (
        f"{mean(map(mean, found.values())):.2%} of {sum(map(len, found.values()))} ({len(found)} data sets)"
    )


if __name__ == "__main__":
    main()
