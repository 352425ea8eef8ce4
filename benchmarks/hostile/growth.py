"""Work that grows with an input: the exponent of processor time over size, of everything that is parsed.

    python -m benchmarks.hostile.growth [--most 8] [NAME ...]

Each input is made at two sizes: ``--most`` times the usual one, and an eighth of that. Time is that of the
processor in this process, the shortest of five turns. The exponent is the slope of its logarithm between the
two: 1 is linear, and what a start costs lowers it. What no longer fits into the processor's caches raises it,
for every program: json.loads on an object of as many members is measured beside it, and the aim is at most
0.1 above that.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import keff
from keff.answers import names, space
from keff.gateway.vote.extraction import tool_key
from keff.protocol.assembler import Assembler
from keff.protocol.reply import choices_of, completions, counts_of
from keff.protocol.responses import choice_of
from keff.protocol.values import Events

GROWTH, TURNS = 8, 5
# What is on the page of benchmarks; of the others their number is.
ROWS = ("members of a row", "answers of a question")
ABOVE = 0.1

Make = Callable[[int, Path], Callable[[], object]]
"""Of a size and a folder for files: the work on an input of that size."""


def _log(folder: Path, lines: list[str], name: str) -> Callable[[], object]:
    file = folder / name
    file.write_text("\n".join(lines) + "\n", "utf-8")

    def read() -> None:
        with contextlib.suppress(keff.KeffError):  # what is refused takes its time too
            keff.open_record(file)

    return read


def parsed(size: int, _: Path) -> Callable[[], object]:
    """Return the parsing of an object of so many members by Python's own json."""
    raw = json.dumps({f"m{n}": n for n in range(size)})
    return lambda: json.loads(raw)


def members(size: int, folder: Path) -> Callable[[], object]:
    """Return a log of four questions, each a row of so many members."""
    more = ",".join(f'"m{n}":{n}' for n in range(size))
    row = '{{"id":"q{}","gold_answer":"4","all_answers":["4","5","4"],{}}}'
    return _log(folder, [row.format(q, more) for q in range(4)], "members.jsonl")


def answers(size: int, folder: Path) -> Callable[[], object]:
    """Return a log of one question with so many answers."""
    said = json.dumps([str(n % 7) for n in range(size)])
    return _log(folder, [f'{{"id":"q","gold_answer":"4","all_answers":{said}}}'], "answers.jsonl")


def rows(size: int, folder: Path) -> Callable[[], object]:
    """Return a log of so many rows, four of a question."""
    lines = [f'{{"id":"q{n // 4}","gold":"4","answer":"{n % 7}"}}' for n in range(size)]
    return _log(folder, lines, "rows.jsonl")


def columns(size: int, folder: Path) -> Callable[[], object]:
    """Return a table of so many columns."""
    head = ["id,gold,answer," + ",".join(f"c{n}" for n in range(size))]
    return _log(folder, head + [f"q{n // 4},4,{n % 7}" + ",1" * size for n in range(8)], "columns.csv")


def _chunk(delta: dict[str, object]) -> bytes:
    return b"data: " + json.dumps({"id": "c", "choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


def _stream(chunk: bytes, size: int, part: int = 4096) -> Callable[[], object]:
    raw = chunk * size + b"data: [DONE]\n\n"

    def put_together() -> None:
        parts = Assembler()
        for start in range(0, len(raw), part):
            parts.feed(raw[start : start + part])
        completions(whole := parts.response(), choices_of(whole), 0.0)

    return put_together


def events(size: int, _: Path) -> Callable[[], object]:
    """Return a stream of so many pieces of text."""
    return _stream(_chunk({"content": "word "}), size)


def single_bytes(size: int, _: Path) -> Callable[[], object]:
    """Return a stream that comes byte by byte, all of it one event."""
    raw = b"data: " + b"x" * size

    def feed() -> None:
        events = Events()
        for place in range(len(raw)):
            events.feed(raw[place : place + 1])

    return feed


def parts(size: int, _: Path) -> Callable[[], object]:
    """Return a stream whose content comes as lists of parts."""
    return _stream(_chunk({"content": [{"type": "text", "text": "word "}]}), size)


def indexed(size: int, _: Path) -> Callable[[], object]:
    """Return a stream of details that name an index each."""
    details = b"".join(_chunk({"reasoning_details": [{"index": n, "text": "a"}]}) for n in range(size))
    return _stream(details, 1)


def pieces_of_a_call(size: int, _: Path) -> Callable[[], object]:
    """Return a stream of one tool call in so many pieces, each with a name and an opened object."""
    piece = {"index": 0, "function": {"name": "f", "arguments": "{ "}}
    return _stream(_chunk({"tool_calls": [piece]}), size)


def choices(size: int, _: Path) -> Callable[[], object]:
    """Return a reply of so many choices."""
    message = {"role": "assistant", "content": "It is 7."}
    reply = {"choices": [{"index": n, "message": message, "finish_reason": "stop"} for n in range(size)]}
    return lambda: completions(reply, choices_of(reply), 0.0)


def calls(size: int, _: Path) -> Callable[[], object]:
    """Return a message of so many tool calls."""
    made = [{"function": {"name": "f", "arguments": f'{{"n": {n}}}'}} for n in range(size)]
    return lambda: tool_key(made)


def messages(size: int, _: Path) -> Callable[[], object]:
    """Return a response of so many messages."""
    item = {"type": "message", "content": [{"type": "output_text", "text": "It is 7. "}]}
    return lambda: choice_of({"status": "completed", "output": [item] * size})


def usage(size: int, _: Path) -> Callable[[], object]:
    """Return a usage of so many members."""
    stated = {f"m{n}": n for n in range(size)}
    return lambda: counts_of(stated)


def texts(name: str, text: str, size: int, _: Path) -> Callable[[], object]:
    """Return the reading of one long text in an answer space."""
    reader, said = space(name), text * size

    def read() -> None:
        found = reader.extract(said)
        reader.key(found.answer if found is not None else said)

    return read


TEXTS = ("The answer is 7. ", "(", '{"a": [', "【推理】 ")
SUITES: dict[str, tuple[int, Make]] = {
    "members of a row": (8_000, members),
    "answers of a question": (4_000, answers),
    "rows of a log": (4_000, rows),
    "columns of a table": (8_000, columns),
    "pieces of a stream": (4_000, events),
    "bytes of a stream": (60_000, single_bytes),
    "parts of a content": (4_000, parts),
    "details by index": (4_000, indexed),
    "pieces of a tool call": (4_000, pieces_of_a_call),
    "choices of a reply": (4_000, choices),
    "tool calls of a message": (2_000, calls),
    "messages of a response": (8_000, messages),
    "members of a usage": (8_000, usage),
} | {
    f"{name}: {text!r} repeated": (2_000, partial(texts, name, text))
    for name in names()
    if name not in ("code", "key", "label")  # they need options
    for text in TEXTS
}


def exponents(makes: tuple[Make, ...], largest: int, folder: Path) -> list[float]:
    """Return the slope of the logarithm of time over that of the size, of works that take turns."""
    sizes = (max(1, largest // GROWTH), largest)
    shortest = {(size, make): math.inf for size in sizes for make in makes}
    for _, (size, make) in itertools.product(range(TURNS), list(shortest)):
        work = make(size, folder)
        begun = time.process_time()
        work()
        shortest[size, make] = min(shortest[size, make], max(time.process_time() - begun, 1e-6))
    grown = math.log(sizes[1] / sizes[0])
    return [math.log(shortest[sizes[1], make] / shortest[sizes[0], make]) / grown for make in makes]


def main() -> None:
    """Print the exponent of each suite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--most", type=int, default=8)
    asked = parser.parse_args()
    tried = above = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (size, make) in SUITES.items():
            if asked.names and not any(part in name for part in asked.names):
                continue
            slope, own = exponents((make, parsed), asked.most * size, Path(folder))
            most = max(1.0, own) + ABOVE
            tried, above = tried + 1, above + (slope > most)
            told = "claim: " if name in ROWS else ""
            grown = f"{size * asked.most // GROWTH:,} to {size * asked.most:,} {name}"
            print(f"{told}exponent of time, {grown} | {slope:.2f} | at most {most:.2f}", flush=True)
    print(f"claim: inputs whose time grows faster than theirs in json.loads | {above} of {tried} | 0")
    sys.exit(above > 0)


if __name__ == "__main__":
    main()
