"""Mutate logs of every format and compare what is read with what the unmutated rows hold.

    python -m benchmarks.log_fuzz [--inputs 10000] [--seed 0] [FORMAT ...]

Every mutated file must be refused with one of keff's own errors, or read as the truth: only questions of the
original, each with its own answers and correctness, or fewer of them in the original order. Mutations break
the
form of a file (cut, torn, repeated, mis-encoded, nested, hostile bytes); a changed letter within an answer
is another
answer, which no reader can know.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from keff import plugins
from keff.errors import KeffError
from keff.log import Log, Question
from keff.reading.transfer import export_log

Bytes = Callable[[bytes, np.random.Generator], bytes]
STRUCTURE = b'{}[],:"\n'
HOSTILE = (
    b"\0",
    b"\xff\xfe",
    b"\xc3\x28",
    b'"',
    b"\\ud800",
    b"[" * 3000,
    b"1e999",
    b"NaN",
    b"\n\n",
    b'"id": 7,',
    b"{}",
)
CSV = b",\n"
"""What separates in a table: a brace in a cell is a letter."""


def cut(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: int(rng.integers(0, len(data)))]


def _between(data: bytes) -> list[int]:
    """Return the places outside of values: between tokens of JSON, or anywhere in a table."""
    if not data.lstrip().startswith(b"{"):
        return list(range(len(data)))
    places: list[int] = []
    inside = False
    for place, byte in enumerate(data):
        if byte == 34:
            inside = not inside
        elif not inside and byte in b"{}[],:\n ":
            places.append(place)
    return places


def drop_structure(data: bytes, rng: np.random.Generator) -> bytes:
    marks = STRUCTURE if data.lstrip().startswith(b"{") else CSV
    place = int(rng.choice([place for place, byte in enumerate(data) if byte in marks]))
    return data[:place] + data[place + 1 :]


def add_structure(data: bytes, rng: np.random.Generator) -> bytes:
    marks = STRUCTURE if data.lstrip().startswith(b"{") else CSV
    place = int(rng.choice(_between(data)))
    return data[:place] + bytes([int(rng.choice(list(marks)))]) + data[place:]


def add_hostile(data: bytes, rng: np.random.Generator) -> bytes:
    kinds = HOSTILE if data.lstrip().startswith(b"{") else HOSTILE[:3]
    place = int(rng.choice(_between(data)))
    return data[:place] + kinds[int(rng.integers(0, len(kinds)))] + data[place:]


def repeat_line(data: bytes, rng: np.random.Generator) -> bytes:
    lines = data.splitlines(keepends=True)
    place = int(rng.integers(0, len(lines)))
    return b"".join([*lines[: place + 1], lines[place], *lines[place + 1 :]])


def drop_line(data: bytes, rng: np.random.Generator) -> bytes:
    lines = data.splitlines(keepends=True)
    del lines[int(rng.integers(0, len(lines)))]
    return b"".join(lines)


def swap_lines(data: bytes, rng: np.random.Generator) -> bytes:
    lines = data.splitlines(keepends=True)
    one, two = (int(place) for place in rng.integers(0, len(lines), 2))
    lines[one], lines[two] = lines[two], lines[one]
    return b"".join(lines)


def splice(data: bytes, rng: np.random.Generator) -> bytes:
    a, b, c = sorted(int(place) for place in rng.integers(0, len(data), 3))
    return data[:b] + data[a:c] + data[c:]


def flip(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        changed[int(rng.integers(0, len(changed)))] ^= 1 << int(rng.integers(0, 8))
    return bytes(changed)


def zeros(data: bytes, rng: np.random.Generator) -> bytes:
    place, size = int(rng.integers(0, len(data))), int(rng.integers(1, 200))
    return data[:place] + b"\0" * len(data[place : place + size]) + data[place + size :]


TEXT: tuple[Bytes, ...] = (
    cut,
    drop_structure,
    add_structure,
    add_hostile,
    repeat_line,
    drop_line,
    swap_lines,
)
BINARY: tuple[Bytes, ...] = (cut, flip, zeros, splice)
"""Only containers with checksums may have any byte changed: in others a changed answer is another answer."""


def draws(seed: int = 3, n: int = 6, k: int = 4) -> list[list[str]]:
    """Return answers that all differ between questions, so that a mixed-up row shows."""
    rng = np.random.default_rng(seed)
    return [[f"{100 * i + int(rng.integers(0, 3))}" for _ in range(k)] for i in range(n)]


def bases(folder: Path) -> dict[str, tuple[Path, tuple[Bytes, ...]]]:
    """Write one good log of each format, with the mutations it is given."""
    answers = draws()
    rows = [
        {"id": f"q{i}", "gold_answer": f"{100 * i}", "all_answers": row, "all_tokens": [9] * 4}
        for i, row in enumerate(answers)
    ]
    long = [
        {"id": f"q{i}", "path": j, "gold_answer": f"{100 * i}", "answer": answer, "tokens": 9}
        for i, row in enumerate(answers)
        for j, answer in enumerate(row)
    ]
    made: dict[str, tuple[Path, tuple[Bytes, ...]]] = {}

    def text(name: str, file: str, lines: list[Any]) -> None:
        path = folder / file
        path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
        made[name] = (path, TEXT)

    text("keff_jsonl", "log.jsonl", rows)
    text("jsonl", "long.jsonl", long)
    header = ",".join(long[0]) + "\n"
    text("csv", "long.csv", [header, *(",".join(map(str, row.values())) + "\n" for row in long)])
    text(
        "lm_eval",
        "samples_toy_2026-01-01T00-00-00.jsonl",
        [
            {"doc_id": i, "doc": {}, "target": f"{100 * i}", "resps": [row], "filter": "x"}
            for i, row in enumerate(answers)
        ],
    )
    text(
        "published",
        "m_sc.jsonl",
        [
            {
                "task": "gsm8k",
                "method": "sc",
                "seed": 1,
                "instance_id": f"q{i}",
                "K": 4,
                "gold_answer": f"{100 * i}",
                "all_answers": row,
            }
            for i, row in enumerate(answers)
        ],
    )
    text(
        "evalscope",
        "reviews.jsonl",
        [
            {
                "index": 4 * i + j,
                "input": "?",
                "target": f"{100 * i}",
                "sample_score": {
                    "sample_id": 4 * i + j,
                    "group_id": i,
                    "score": {
                        "value": {"acc": float(answer == f"{100 * i}")},
                        "extracted_prediction": answer,
                        "prediction": "so",
                    },
                },
            }
            for i, row in enumerate(answers)
            for j, answer in enumerate(row)
        ],
    )
    samples = [
        {
            "id": f"q{i}",
            "epoch": j + 1,
            "input": "?",
            "target": f"{100 * i}",
            "output": {"completion": f"It is {answer}."},
            "scores": {"match": {"value": "C" if answer == f"{100 * i}" else "I", "answer": answer}},
        }
        for i, row in enumerate(answers)
        for j, answer in enumerate(row)
    ]
    text(
        "inspect_json",
        "log.json",
        [{"version": 2, "status": "success", "eval": {"task": "toy", "model": "m/m"}, "samples": samples}],
    )
    made["inspect_eval"] = (_archive(folder / "log.eval", samples), BINARY)
    try:
        export_log(folder / "log.jsonl", folder / "log.parquet", "parquet")
        made["parquet"] = (folder / "log.parquet", BINARY)
    except KeffError:
        warnings.warn("no pyarrow: Parquet is left out", stacklevel=2)
    return made


def _archive(path: Path, samples: list[dict[str, Any]]) -> Path:
    import zipfile

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "header.json", json.dumps({"status": "success", "eval": {"task": "toy", "model": "m/m"}})
        )
        for sample in samples:
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
    return path


@dataclass
class Tally:
    """What became of the inputs of one format."""

    inputs: int = 0
    refused: int = 0
    true: int = 0
    wrong: list[str] = field(default_factory=list)


def read(path: Path, log: Log) -> dict[str, tuple[Any, ...]]:
    """Return what a reader says, by question; raises KeffError where it refuses."""
    reason = log.refuses(path)
    if reason is not None:
        raise KeffError(reason)
    return {question.id: _held(question) for question in log.questions(path)}


def _held(question: Question) -> tuple[Any, ...]:
    return question.answers, question.correct, question.gold


def within(part: tuple[Any, ...], whole: tuple[Any, ...]) -> bool:
    """Return whether the paths read are some of the original's, in its order, and nothing else changed."""
    if part[2] != whole[2] and part[2] is not None:
        return False
    pairs = list(zip(whole[0], whole[1] or [None] * len(whole[0]), strict=True))
    wanted = list(zip(part[0], part[1] or [None] * len(part[0]), strict=True))
    rest: Iterator[Any] = iter(pairs)
    return all(any(_same(pair, other) for other in rest) for pair in wanted)


def _same(read_pair: tuple[Any, Any], original: tuple[Any, Any]) -> bool:
    # An answer may be missing, never another; correctness that is gone is recomputed.
    return read_pair[0] in (None, original[0]) and read_pair[1] in (None, original[1])


def fuzz(name: str, base: Path, mutations: tuple[Bytes, ...], inputs: int, seed: int) -> Tally:
    """Read mutated copies of one log."""
    log: Log = plugins.load("log", "inspect_ai" if name.startswith("inspect") else name)
    truth, data, tally = read(base, log), base.read_bytes(), Tally()
    file = base.parent / "mutated" / base.name
    file.parent.mkdir(exist_ok=True)
    for number in range(inputs):
        rng = np.random.default_rng([seed, number])
        mutation = mutations[number % len(mutations)]
        file.write_bytes(mutation(data, rng))
        tally.inputs += 1
        try:
            found = read(file, log)
        except KeffError as error:
            tally.refused += 1
            if "\n" in str(error):
                tally.wrong.append(f"{number} {mutation.__name__}: an error of several lines")
            continue
        except Exception as error:  # anything else is what this looks for
            tally.wrong.append(f"{number} {mutation.__name__}: {type(error).__name__}: {str(error)[:120]}")
            continue
        bad = [key for key, held in found.items() if key not in truth or not within(held, truth[key])]
        if bad:
            tally.wrong.append(f"{number} {mutation.__name__}: {bad[0]!r} is {found[bad[0]]!r:.120}")
        else:
            tally.true += 1
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*")
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    kinds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for name, (base, mutations) in bases(Path(scratch)).items():
            if asked.formats and name not in asked.formats:
                continue
            begun = time.monotonic()
            tally = fuzz(name, base, mutations, asked.inputs, asked.seed)
            kinds["inputs"] += tally.inputs
            kinds["wrong"] += len(tally.wrong)
            print(
                f"{name}: {tally.inputs} inputs, {tally.refused} refused, {tally.true} read as they were, "
                f"{len(tally.wrong)} wrong, {time.monotonic() - begun:.0f} s, seed {asked.seed}"
            )
            for line in tally.wrong[:10]:
                print(f"  {line}")
    print(f"claim: mutated logs misread or crashed on | {kinds['wrong']} of {kinds['inputs']} | 0")


if __name__ == "__main__":
    main()
