"""Write the extract of recorded generations that tests and fits read: ``tests/data``.

    python scripts/write_extract.py FOLDER

FOLDER holds ``recorded`` and ``benchmarks`` as ``tests/data/SOURCES.md`` describes them. Of a recording only
facts are taken: ids, answers, verdicts, tokens, temperatures and scores, and no text of a question. No row is
taken of benchmarks under a share-alike or an unclear licence: the script makes rows in their columns.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"
Row = dict[str, Any]

FACTS = ("id", "gold_answer", "all_answers", "all_correct", "all_tokens", "all_temperatures")
SCORES = ("rm_score",)
"""Members of ``meta`` that are numbers of each path."""

TAKEN = ("gsm8k", "math500", "mmlu", "mbpp", "mbpp_prompt", "cruxeval", "hellaswag", "winogrande")
"""Benchmarks under MIT and CC BY: their rows as they are."""


def facts(row: Row) -> Row:
    """Return what a recorded row says, without any text of its question."""
    scores = {name: row["meta"][name] for name in SCORES if name in row.get("meta", {})}
    return {name: row[name] for name in FACTS if name in row} | ({"meta": scores} if scores else {})


# Rows of our own, in the columns of the benchmarks that are not taken. Places and people are invented.

NAMES = ("Ada", "Bela", "Cora", "Dov", "Edda", "Finn", "Gita", "Hugo", "Ines", "Jaro", "Kaia", "Leo")
TOWNS = ("Arnsel", "Bramford", "Calden", "Dornach", "Elstow", "Farholm", "Grenna", "Hovik", "Ilmen", "Jurby")
TRADES = ("baker", "carpenter", "doctor", "gardener", "mason", "painter", "sailor", "tailor", "weaver")
THINGS = ("copper", "glass", "ice", "iron", "paper", "rubber", "salt", "sand", "silk", "wood", "wool", "clay")


def person(rng: random.Random) -> tuple[str, str, str, int]:
    """Return a full name, a town, a trade and a year of birth."""
    name = f"{rng.choice(NAMES)} {rng.choice(TOWNS)[:4].lower().capitalize()}son"
    return name, rng.choice(TOWNS), rng.choice(TRADES), rng.randrange(1700, 1990)


def arc(rng: random.Random, n: int) -> Iterator[Row]:
    """Yield questions of density; some have three or five choices, some numbers for letters."""
    for i in range(n):
        kinds = rng.sample(THINGS, 5 if i % 50 == 7 else 3 if i % 50 == 13 else 4)
        grams = rng.sample(range(20, 900), len(kinds))
        labels = [str(j + 1) if i % 20 == 19 else "ABCDE"[j] for j in range(len(kinds))]
        told = ", ".join(f"{kind} {gram} g" for kind, gram in zip(kinds, grams, strict=True))
        yield {
            "id": f"keff_{i}",
            "question": f"Samples of equal volume weigh: {told}. Which material is the densest?",
            "choices": {"text": kinds, "label": labels},
            "answerKey": labels[grams.index(max(grams))],
        }


def boolq(rng: random.Random, n: int) -> Iterator[Row]:
    """Yield two or three questions about each passage, in lower case and without a question mark."""
    while n > 0:
        name, town, trade, year = person(rng)
        other = rng.choice([each for each in TRADES if each != trade])
        passage = (
            f"{town} is a town on a river. {name}, born there in {year}, worked as a {trade} for most of "
            f"a long life and left the town only once, in {year + rng.randrange(20, 40)}."
        )
        asked = [
            (f"was {name} a {trade}".lower(), True),
            (f"did {name} work as a {other}".lower(), False),
            (f"was {name} born in {town}".lower(), True),
        ]
        for question, answer in asked[: min(n, rng.choice((2, 3)))]:
            n -= 1
            yield {"question": question, "answer": answer, "passage": passage}


def drop(rng: random.Random, n: int) -> Iterator[Row]:
    """Yield questions of numbers, dates and spans about each passage."""
    section = 0
    while n > 0:
        section += 1
        one, two = rng.sample(TOWNS, 2)
        a, b = rng.sample(range(10, 99), 2)
        day, month = rng.randrange(1, 28), rng.choice(("March", "June", "October"))
        passage = (
            f"On {day} {month} 1874 the teams of {one} and {two} met for the first time. {one} scored {a} "
            f"points and {two} scored {b} points. The second match, in {two}, was seen by {a * b} people."
        )
        more = one if a > b else two
        asked = [
            ("How many points were scored in all?", [str(a + b)], "number"),
            ("Which team scored more points?", [more, f"the team of {more}"], "span"),
            ("When did the teams meet for the first time?", [f"{day} {month} 1874"], "date"),
            ("How many people saw the second match?", [str(a * b)], "number"),
        ]
        for i, (question, spans, kind) in enumerate(asked[:n]):
            n -= 1
            yield {
                "section_id": f"keff_{section}",
                "query_id": f"keff_{section}_{i}",
                "passage": passage,
                "question": question,
                "answers_spans": {"spans": spans, "types": [kind] * len(spans)},
            }


def hotpotqa(rng: random.Random, n: int) -> Iterator[Row]:
    """Yield questions over two of ten paragraphs: a bridge with a span, or a comparison with yes or no."""
    for i in range(n):
        people = {each[0]: each for each in (person(rng) for _ in range(40))}
        ten = list(people.values())[:10]
        titles = [name for name, *_ in ten]
        sentences = [
            [f"{name} was a {trade}.", f" {name} was born in {year} in {town}.", " Little else is known."]
            for name, town, trade, year in ten
        ]
        first, second = ten[rng.randrange(5)], ten[rng.randrange(5, 10)]
        bridge = i % 4 != 3
        question, answer = (
            (
                f"In which town was {first[0]} born, who was a {first[2]} as {second[0]} was a {second[2]}?",
                first[1],
            )
            if bridge
            else (
                f"Were {first[0]} and {second[0]} born in the same town?",
                "yes" if first[1] == second[1] else "no",
            )
        )
        yield {
            "id": f"keff_{i}",
            "question": question,
            "answer": answer,
            "type": "bridge" if bridge else "comparison",
            "level": ("easy", "medium", "hard")[i % 3],
            "supporting_facts": {"title": [first[0], second[0]], "sent_id": [1, 1]},
            "context": {"title": titles, "sentences": sentences},
        }


def triviaqa(rng: random.Random, n: int, *, with_context: bool = False) -> Iterator[Row]:
    """Yield questions with one value and its aliases, contexts empty but where they are asked for."""
    for i in range(n):
        name, town, trade, year = person(rng)
        aliases = [town, f"The {town}", f"{town} town"]
        page = f"{name} ({year}) was a {trade}.\n\nThe birthplace was {town}." + 20 * f" {town} is a town."
        found = [page] if with_context else []
        yield {
            "question": f"In which town was the {trade} {name} born in {year}?",
            "question_id": f"keff_{'rc' if with_context else 'nc'}_{i}",
            "question_source": "",
            "entity_pages": {
                "doc_source": ["TagMe"] * len(found),
                "filename": [f"{name}.txt"] * len(found),
                "title": [name] * len(found),
                "wiki_context": found,
            },
            "search_results": {
                "description": ["A page on births."] * len(found),
                "filename": [f"{i}.txt"] * len(found),
                "rank": [0] * len(found),
                "title": [f"Births of {year}"] * len(found),
                "url": [f"http://example.org/{i}"] * len(found),
                "search_context": [f"{town} lists {name} among its births of {year}."] * len(found),
            },
            "answer": {
                "aliases": aliases,
                "normalized_aliases": sorted({town.lower(), f"{town.lower()} town"}),
                "matched_wiki_entity_name": "",
                "normalized_matched_wiki_entity_name": "",
                "normalized_value": town.lower(),
                "type": "",
                "value": town,
            },
        }


MADE: dict[str, Callable[[random.Random], Iterator[Row]]] = {
    "arc_challenge": lambda rng: arc(rng, 200),
    "arc_challenge_validation": lambda rng: arc(rng, 150),
    "boolq": lambda rng: boolq(rng, 200),
    "drop": lambda rng: drop(rng, 200),
    "hotpotqa": lambda rng: hotpotqa(rng, 100),
    "triviaqa": lambda rng: triviaqa(rng, 200),
    "triviaqa_rc_with_context": lambda rng: triviaqa(rng, 9, with_context=True),
}


def read(path: Path) -> Iterator[Row]:
    """Yield the rows of a file of JSON lines."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as packed JSON lines, the same bytes each time."""
    text = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def checksums() -> str:
    """Return a line for each file of the extract: its SHA-256 and its name."""
    files = sorted(DATA.glob("*/*.gz"))
    return "".join(f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.relative_to(DATA)}\n" for f in files)


def write_all(folder: Path) -> None:
    """Write every file of the extract, and the list of their checksums."""
    recordings = sorted((folder / "recorded").glob("*.jsonl"))
    if not recordings:
        raise SystemExit(
            f"{folder}: no recorded/*.jsonl here (tests/data/SOURCES.md says where they come from)"
        )
    for file in recordings:
        write(DATA / "recorded" / f"{file.name}.gz", map(facts, read(file)))
    for file in (folder / "recorded").glob("*.voters.json"):
        (DATA / "recorded" / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))
    for name in TAKEN:
        write(DATA / "benchmarks" / f"{name}.jsonl.gz", read(folder / "benchmarks" / f"{name}.jsonl"))
    for name, made in MADE.items():
        write(DATA / "benchmarks" / f"{name}.jsonl.gz", made(random.Random(name)))
    (DATA / "SHA256SUMS").write_text(checksums(), "utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    write_all(Path(sys.argv[1]))
