"""Mutate logs of every format and compare what is read with what the unmutated rows hold.

    python -m benchmarks.logs.log_fuzz [--inputs 300] [--first 0] [--seconds 0] [--seed 0] [FORMAT ...]

Every mutated file must be refused with one of keff's own errors, or read as the truth: only questions of
the original, each with its own answers and correctness, or fewer of them in the original order. Mutations
break the form of a file (cut, torn, repeated, mis-encoded, nested, hostile bytes, lost pages); a changed
letter within an answer is another answer, which no reader can know. ``--first`` and ``--seconds`` run a long
campaign in pieces: input number i is the same in every piece.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.logs.log_bases import FORMATS, NEEDS_ARROW, Base, draws
from keff import plugins
from keff.errors import KeffError
from keff.log import Log, LogInfo, Question
from keff.logs.parquet import ParquetLog
from keff.reading.ballot import Ballot, ballot
from keff.reading.open import Opening, read_log, reading
from keff.records import Note

Mutation = Callable[[bytes, np.random.Generator], bytes]
Held = tuple[tuple[str | None, ...], tuple[int, ...] | None, object]
"""Answers, correctness and gold answer of a question."""

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


def _is_json(data: bytes) -> bool:
    return data.lstrip().startswith((b"{", b"["))


@lru_cache(maxsize=4)
def _between(data: bytes) -> tuple[int, ...]:
    """Return the places outside of values: between tokens of JSON, or anywhere in a table."""
    if not _is_json(data):
        return tuple(range(len(data)))
    places: list[int] = []
    inside = False
    for place, byte in enumerate(data):
        if byte == 34:
            inside = not inside
        elif not inside and byte in b"{}[],:\n ":
            places.append(place)
    return tuple(places)


def _marks(data: bytes) -> bytes:
    return STRUCTURE if _is_json(data) else CSV


@lru_cache(maxsize=4)
def _structure(data: bytes) -> tuple[int, ...]:
    marks = _marks(data)
    return tuple(place for place, byte in enumerate(data) if byte in marks)


def _pick(places: tuple[int, ...], rng: np.random.Generator) -> int:
    return places[int(rng.integers(0, len(places)))]


def drop_structure(data: bytes, rng: np.random.Generator) -> bytes:
    place = _pick(_structure(data), rng)
    return data[:place] + data[place + 1 :]


def add_structure(data: bytes, rng: np.random.Generator) -> bytes:
    place = _pick(_between(data), rng)
    return data[:place] + bytes([_pick(tuple(_marks(data)), rng)]) + data[place:]


def add_hostile(data: bytes, rng: np.random.Generator) -> bytes:
    kinds = HOSTILE if _is_json(data) else HOSTILE[:3]
    place = _pick(_between(data), rng)
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


VALUE = re.compile(rb'(?<=[:\[,])\s*("(?:[^"\\\\]|\\\\.)*"|-?\d+(?:\.\d+)?|true|false|null)(?=\s*[,\]}])')
CELL = re.compile(rb"(?<=,)[^,\n]*(?=[,\n])")
OTHERS = (b"null", b"[]", b"{}", b"true", b"-1", b"1e400", b'"x"', b'[["y"]]', b'{"a": null}', b"0.5", b'""')


def retype(data: bytes, rng: np.random.Generator) -> bytes:
    """Put a value of another type in the place of one: whatever comes of it, it is no traceback."""
    json_text = _is_json(data)
    places = list((VALUE if json_text else CELL).finditer(data))
    place = places[int(rng.integers(0, len(places)))]
    other = OTHERS[int(rng.integers(0, len(OTHERS)))]
    return data[: place.start()] + other + data[place.end() :]


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


PAGE = 4096


def _page(data: bytes, rng: np.random.Generator) -> int:
    return PAGE * int(rng.integers(0, len(data) // PAGE))


def lose_page(data: bytes, rng: np.random.Generator) -> bytes:
    place = _page(data, rng)
    return data[:place] + b"\0" * PAGE + data[place + PAGE :]


def drop_page(data: bytes, rng: np.random.Generator) -> bytes:
    place = _page(data, rng)
    return data[:place] + data[place + PAGE :]


def copy_page(data: bytes, rng: np.random.Generator) -> bytes:
    source, place = _page(data, rng), _page(data, rng)
    return data[:place] + data[source : source + PAGE] + data[place + PAGE :]


def break_page_head(data: bytes, rng: np.random.Generator) -> bytes:
    """Change the header of a page: what kind of page it is, how many cells it has and where they begin."""
    changed = bytearray(data)
    place = _page(data, rng)
    changed[place + (100 if place == 0 else 0) + int(rng.integers(0, 8))] ^= 1 << int(rng.integers(0, 8))
    return bytes(changed)


def break_file_head(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    changed[int(rng.integers(0, 100))] ^= 1 << int(rng.integers(0, 8))
    return bytes(changed)


MUTATIONS: dict[str, tuple[Mutation, ...]] = {
    "text": (
        cut,
        drop_structure,
        add_structure,
        add_hostile,
        repeat_line,
        drop_line,
        swap_lines,
        retype,
    ),
    "unnumbered": (cut, drop_structure, add_structure, add_hostile, repeat_line, drop_line, retype),
    "binary": (cut, flip, zeros, splice),
    "pages": (cut, lose_page, drop_page, copy_page, break_page_head, break_file_head),
}
"""Only containers with checksums may have any byte changed: in others a changed answer is another answer.
Where nothing numbers the lines of a question, their order is the order of the file."""

SAID = {"identical_lines", "no_final_newline"}
"""Notes that name what no reader can decide: a line written twice in a format that numbers none, and a last
value of a table that may go on. What is said is no quiet misreading."""


@dataclass
class Tally:
    """What became of the inputs of one format."""

    inputs: int = 0
    refused: int = 0
    true: int = 0
    wrong: list[str] = field(default_factory=list[str])


def read(path: Path, log: Log, notes: list[Note] | None = None) -> dict[str, Held]:
    """Return what a reader says, by question; raises KeffError where it refuses."""
    reason = log.refuses(path)
    if reason is not None:
        raise KeffError(reason)
    log.info(path)
    tell = [].append if notes is None else notes.append
    return {question.id: _held(question) for question in log.questions(path, tell=tell)}


def by_columns(path: Path, log: Log, original: Path) -> str:
    """Return how batches of Parquet are read otherwise than its rows, empty where they are not.

    Where the damage is in a column that votes do not need, the truth of the original is as good as a refusal.
    """
    if not isinstance(log, ParquetLog):
        return ""
    how = reading(LogInfo(space="exact"), Opening())
    exact = Opening(format=log.name, answer_space="exact")
    said = [
        _voted(lambda: ballot(read_log(path, exact).questions, how)),
        _voted(lambda: ballot(log.questions(path), how)),
    ]
    if said[1] == "refused" and said[0] == _voted(lambda: ballot(log.questions(original), how)):
        return ""
    return "" if said[0] == said[1] else f"by columns {said[0]!r:.200}, by rows {said[1]!r:.200}"


def _voted(make: Callable[[], Ballot]) -> object:
    try:
        made = make()
    except KeffError:
        return "refused"
    votes = made.votes
    parts = (votes.answers, votes.correct, votes.tokens, votes.slots, votes.clusters)
    listed = tuple(None if part is None else np.nan_to_num(part, nan=-1.0).tolist() for part in parts)
    return tuple(made.keys), listed


def _held(question: Question) -> Held:
    return question.answers, question.correct, question.gold


def within(part: Held, whole: Held) -> bool:
    """Return whether the paths read are some of the original's, in its order, and nothing else changed."""
    if part[2] != whole[2] and part[2] is not None:
        return False
    rest: Iterator[tuple[str | None, int | None]] = iter(_pairs(whole))
    return all(any(_same(pair, other) for other in rest) for pair in _pairs(part))


def _pairs(held: Held) -> list[tuple[str | None, int | None]]:
    return list(zip(held[0], held[1] or [None] * len(held[0]), strict=True))


def _same(read_pair: tuple[str | None, int | None], original: tuple[str | None, int | None]) -> bool:
    # An answer may be missing, never another; correctness that is gone is recomputed.
    return read_pair[0] in (None, original[0]) and read_pair[1] in (None, original[1])


def fuzz(base: Base, inputs: int, seed: int, *, first: int = 0, seconds: float = 0) -> Tally:
    """Read mutated copies of one log, from input ``first`` on, for so many seconds at most (0: no limit)."""
    log: Log = plugins.load("log", base.reader)
    truth, tally = read(base.path, log), Tally()
    originals = [(file, file.read_bytes(), MUTATIONS[kind]) for file, kind in base.kinds]
    copy = base.path.parent / "mutated" / base.path.name
    begun = time.monotonic()
    for number in range(first, first + inputs):
        if seconds and time.monotonic() - begun > seconds:
            break
        rng = np.random.default_rng([seed, number])
        file, data, mutations = originals[number % len(originals)]
        mutation = mutations[number // len(originals) % len(mutations)]
        _place(base, copy, file, mutation(data, rng))
        # Another value is another answer, which no reader can know: only how it ends is judged.
        whole = None if mutation is retype else truth
        _judge(tally, f"{number} {file.name} {mutation.__name__}", copy, log, base.path, whole)
    return tally


def _place(base: Base, copy: Path, file: Path, data: bytes) -> None:
    """Put a copy of the log with one file mutated where the reader looks for it."""
    if base.path.is_dir():
        shutil.rmtree(copy, ignore_errors=True)
        for other, _ in base.kinds:
            place = copy / other.relative_to(base.path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data if other == file else other.read_bytes())
        return
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(data)


def _judge(
    tally: Tally, what: str, copy: Path, log: Log, original: Path, truth: dict[str, Held] | None
) -> None:
    tally.inputs += 1
    notes: list[Note] = []
    try:
        rows = read(copy, log, notes)
    except KeffError as error:
        tally.refused += 1
        if "\n" in str(error):
            tally.wrong.append(f"{what}: an error of several lines")
        _same_by_columns(tally, what, copy, log, original)
        return
    except Exception as error:  # anything else is what this looks for
        tally.wrong.append(f"{what}: {type(error).__name__}: {str(error)[:120]}")
        return
    if not _same_by_columns(tally, what, copy, log, original):
        return
    if truth is None:
        tally.true += 1
        return
    bad = [key for key, held in rows.items() if key not in truth or not within(held, truth[key])]
    if bad and not SAID & {note.code for note in notes}:
        tally.wrong.append(f"{what}: {bad[0]!r} is {rows[bad[0]]!r:.120}")
    else:
        tally.true += 1


def _same_by_columns(tally: Tally, what: str, copy: Path, log: Log, original: Path) -> bool:
    try:
        differs = by_columns(copy, log, original)
    except KeffError:
        return True
    except Exception as error:
        differs = f"{type(error).__name__}: {str(error)[:120]}"
    if differs:
        tally.wrong.append(f"{what}: {differs}")
    return not differs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", choices=[*FORMATS, []])
    parser.add_argument("--inputs", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    kinds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for name in asked.formats or FORMATS:
            folder = Path(scratch) / name
            folder.mkdir()
            try:
                base = FORMATS[name](folder, draws())
            except ImportError:
                assert name in NEEDS_ARROW
                print(f"skipped: {name}: pyarrow is not installed")
                continue
            begun = time.monotonic()
            tally = fuzz(base, asked.inputs, asked.seed, first=asked.first, seconds=asked.seconds)
            kinds["inputs"] += tally.inputs
            kinds["wrong"] += len(tally.wrong)
            print(
                f"{name}: {tally.inputs} inputs from {asked.first} on, {tally.refused} refused, {tally.true} "
                f"read as they were, {len(tally.wrong)} wrong, {time.monotonic() - begun:.0f} s, "
                f"seed {asked.seed}",
                flush=True,
            )
            for line in tally.wrong[:10]:
                print(f"  {line}")
    print(f"claim: mutated logs misread or crashed on | {kinds['wrong']} of {kinds['inputs']} | 0")


if __name__ == "__main__":
    main()
