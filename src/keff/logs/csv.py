"""CSV with named columns.

One row per path (id, answer, ...), or one row per question (id, answer_1, answer_2, ...).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keff.errors import LogError
from keff.log import UTF_16, LogInfo, Question, Tell, is_utf16, unheard
from keff.logs._rows import COLUMNS, grouped, once_each, optional_text, question_of
from keff.records import Note

LONGEST_FIELD = 2**27
NUMBERED = re.compile(rf"({'|'.join(COLUMNS)})_(\d+)")


@dataclass(frozen=True, slots=True)
class _Header:
    """Column names, the delimiter, and the number of blank lines above."""

    names: list[str]
    delimiter: str
    blank: int


def _header(path: Path) -> _Header | str:
    """Return the header, or why the file is no table of answers."""
    if not path.is_file():
        return "not a file"
    if is_utf16(path):
        return UTF_16
    blank = 0
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        while (line := file.readline(65536)) and not line.strip():
            blank += line.endswith("\n")
    head = line.strip()
    if not head:
        return "the file is empty"
    delimiter = max(",;\t", key=head.count)
    names = [name.strip() for name in next(csv.reader([head], delimiter=delimiter))]
    if "id" not in names:
        return "the first line names no column id"
    if "answer" not in names and not any(NUMBERED.fullmatch(name) for name in names):
        return "the first line names no column answer, and none called answer_1"
    return _Header(names, delimiter, blank)


class CsvLog:
    """Reader of comma-, semicolon- or tab-separated tables.

    Other columns: gold_answer, correct, tokens, confidence, slot, cluster, question, text; numbered in the
    form with one row per question. Blank lines are skipped. A last line with too few fields and no newline
    was torn and is left out.
    """

    name = "csv"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        found = _header(path)
        return found if isinstance(found, str) else None

    def info(self, path: Path) -> LogInfo:
        """Return what the log says about itself."""
        empty: tuple[str, dict[str, Any]] = ("", {})
        row = next(self._rows(path, unheard), empty)[1]
        return LogInfo(task=optional_text(row.get("task")), model=optional_text(row.get("model")))

    def questions(self, path: Path, *, texts: bool = False, tell: Tell = unheard) -> Iterator[Question]:
        """Read question by question; see ``Log.questions``."""
        rows = self._rows(path, tell)
        found = _header(path)
        if not isinstance(found, str) and "answer" in found.names:
            return grouped(rows, texts=texts)
        return once_each((where, question_of(where, _wide(row), texts=texts)) for where, row in rows)

    def _rows(self, path: Path, tell: Tell) -> Iterator[tuple[str, dict[str, Any]]]:
        found = _header(path)
        if isinstance(found, str):
            raise LogError(f"{path}: {found}")
        names, first = found.names, found.blank + 1
        twice = sorted({name for name in names if name and names.count(name) > 1})
        if twice:
            raise LogError(f"{path}:{first}: the column {twice[0]!r} occurs twice")
        torn = not _ends_with_newline(path)
        csv.field_size_limit(LONGEST_FIELD)
        with path.open(encoding="utf-8-sig", newline="") as file:
            start = first
            try:
                for _ in range(found.blank):
                    next(file)
                reader = csv.reader(file, delimiter=found.delimiter, strict=True)
                next(reader)
                start = found.blank + reader.line_num + 1
                for fields in reader:
                    if fields and len(fields) != len(names):
                        raise csv.Error(f"{len(fields)} fields for {len(names)} columns")
                    if fields:
                        yield f"{path}:{start}", dict(zip(names, fields, strict=True))
                    start = found.blank + reader.line_num + 1
            except UnicodeDecodeError:
                raise LogError(f"{path}:{_undecodable(path)}: not UTF-8 text") from None
            except csv.Error as error:
                where = f"{path}:{start}"
                if not (torn and next(file, None) is None):
                    raise LogError(f"{where}: {error}") from None
                tell(Note("torn_line", f"{where}: the last line is incomplete; skipped (1 row)"))


def _undecodable(path: Path) -> int:
    """Return the number of the first line that is not UTF-8; a reader that decodes ahead does not know it."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 0


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 1, 0))
        return file.read(1) == b"\n"


def _wide(row: dict[str, Any]) -> dict[str, Any]:
    """Gather answer_1, answer_2, ... into lists, in the order of their numbers."""
    lists: dict[str, dict[int, Any]] = {}
    rest: dict[str, Any] = {}
    for name, value in row.items():
        found = NUMBERED.fullmatch(name)
        if found:
            lists.setdefault(COLUMNS[found[1]], {})[int(found[2])] = value
        else:
            rest[name] = value
    gathered = {name: [values[place] for place in sorted(values)] for name, values in lists.items()}
    return rest | gathered | {"gold_answer": optional_text(rest.get("gold_answer"))}


def log() -> CsvLog:
    """Make the reader."""
    return CsvLog()
