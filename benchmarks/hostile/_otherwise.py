"""Logs written otherwise with the same meaning: what is read must not change.

Members of objects in another order and further ones, white space, escapes, a mark at the head of the file,
ends of lines, quotes, columns in another order, members of an archive in another order and packing.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.hostile._tally import Tally
from benchmarks.logs.log_bases import FORMATS, draws
from keff.errors import KeffError
from keff.log import find_log

BY_NAME = {"value", "scores", "vars", "code", "assertions", "feedback_stats", "metrics"}
"""Objects whose members are data by their names, of which a further one is more data."""
BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"
Rng = random.Random


def _turned(value: object, rng: Rng, name: str = "", *, further: bool = True) -> object:
    """Return a JSON value with the members of objects in another order, and further ones.

    All that an input holds is the question: another member there makes another question.
    """
    if isinstance(value, dict):
        members = [
            (key, _turned(part, rng, key, further=further and key != "input")) for key, part in value.items()
        ]
        if further and name not in BY_NAME and rng.random() < 0.5:
            members.append(("a further member", rng.choice((None, 7, "x", ["x"], {"a": {}}))))
        rng.shuffle(members)
        return dict(members)
    return [_turned(part, rng, further=further) for part in value] if isinstance(value, list) else value


def _escaped(text: str, rng: Rng) -> str:
    """Return JSON with letters of its strings as escapes."""
    return "".join(
        f"\\u{ord(letter):04x}" if letter.isalpha() and rng.random() < 0.3 else letter for letter in text
    )


def _json_text(value: object, rng: Rng, *, line: bool) -> str:
    """Return a value as JSON: its white space, its escapes."""
    space = rng.choice(("", " ", "  ", "\t") if line else ("", " ", "\n", "\r\n "))
    comma, colon = rng.choice((",", f"{space},{space}")), rng.choice((":", f"{space}:{space}"))
    written = json.dumps(value, separators=(comma, colon))
    if rng.random() < 0.4:  # within strings only: a name of a constant has no escapes
        parts = json.dumps(value, separators=(comma, colon)).split('"')
        written = '"'.join(
            _escaped(part, rng) if place % 2 and "\\" not in part else part
            for place, part in enumerate(parts)
        )
    return f"{space}{written}{space}"


def _json(text: str, rng: Rng) -> str:
    """Write a JSON log or JSON lines otherwise."""
    head = BOM if rng.random() < 0.3 else ""
    try:
        return head + _json_text(_turned(json.loads(text), rng), rng, line=False)
    except ValueError:
        pass
    end = rng.choice(("\n", "\r\n", "\n\n", "\n \n"))
    lines = [_json_text(_turned(json.loads(line), rng), rng, line=True) for line in text.splitlines()]
    return head + end.join(lines) + rng.choice(("", end))


def _table(text: str, rng: Rng) -> str:
    """Write a table otherwise: order of columns, a further one, quotes, ends of lines."""
    rows = list(csv.reader(io.StringIO(text)))
    if rng.random() < 0.5:
        rows = [[*row, "note" if not place else f"n{place}"] for place, row in enumerate(rows)]
    order = list(range(len(rows[0])))
    rng.shuffle(order)
    out = io.StringIO()
    quoting = rng.choice((csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC))
    table = csv.writer(
        out, quoting=quoting, lineterminator=rng.choice(("\n", "\r\n")), delimiter=rng.choice(",;\t")
    )
    table.writerows([[row[place] for place in order] for row in rows])
    return (BOM if rng.random() < 0.3 else "") + out.getvalue()


def _archive(file: Path, rng: Rng) -> None:
    """Write a zip archive otherwise: order and packing of members, and each as JSON."""
    with zipfile.ZipFile(file) as archive:
        members = [(name, archive.read(name).decode()) for name in archive.namelist()]
    rng.shuffle(members)
    with zipfile.ZipFile(file, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, text in members:
            archive.writestr(name, _json(text, rng))


def _parquet(file: Path, rng: Rng) -> None:
    """Write Parquet otherwise: order of columns, a further one, row groups, packing, dictionaries."""
    arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    table = parquet.read_table(file)
    names = list(table.column_names)
    if rng.random() < 0.5:
        table = table.append_column("note", arrow.array([f"n{row}" for row in range(table.num_rows)]))
        names.append("note")
    rng.shuffle(names)
    parquet.write_table(
        table.select(names),
        file,
        row_group_size=rng.choice((1, 3, 1000)),
        compression=rng.choice(("none", "snappy", "zstd")),
        use_dictionary=rng.random() < 0.5,
    )


def _plain(change: Callable[[str, Rng], str]) -> Callable[[Path, Rng], None]:
    def write(file: Path, rng: Rng) -> None:
        file.write_bytes(change(file.read_text("utf-8"), rng).encode())

    return write


WAYS = {
    ".jsonl": _plain(_json),
    ".json": _plain(_json),
    ".csv": _plain(_table),
    ".eval": _archive,
    ".parquet": _parquet,
}


def said(path: Path) -> tuple[str, list[tuple[object, ...]]]:
    """Return the format that a log is taken for, and its questions by id."""
    log = find_log(path)
    read = [(q.id, q.answers, q.gold, q.correct, q.tokens, q.part) for q in log.questions(path)]
    return log.name, sorted(read, key=lambda question: str(question[0]))


def written_otherwise(scratch: Path, inputs: int, seed: int) -> Tally:
    """Read every format as it is written, and otherwise."""
    tally = Tally("the same meaning written otherwise")
    names = [name for name in FORMATS if name != "run"]
    for place, name in enumerate(names):
        folder = scratch / "otherwise" / name
        folder.mkdir(parents=True)
        try:
            base = FORMATS[name](folder, draws())
        except ImportError:
            tally.outcomes[f"skipped: {name}: pyarrow is not installed"] = 1
            continue
        before = said(base.path)
        copy = folder / "otherwise" / base.path.name
        for number in range(place, inputs, len(names)):
            for original, _ in base.kinds:
                file = copy / original.relative_to(base.path)
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(original, file)
                WAYS[original.suffix](file, random.Random(f"{seed}|otherwise|{number}"))
            tally.inputs += 1
            try:
                now = said(copy)
            except KeffError as error:
                tally.fail(f"seed {seed}, {name} {number}: refused: {error}")
                continue
            tally.outcomes["read as it was"] += now == before
            if now != before:
                name_now, read = now
                lost = [question for question in before[1] if question not in read]
                tally.fail(f"seed {seed}, {name} {number}: by {name_now}, not {lost[:1]!r:.300}")
    return tally
