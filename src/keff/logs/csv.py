"""CSV with named columns: one row per path (id, answer, ...), or question (id, answer_1, answer_2, ...)."""

from __future__ import annotations

import ast
import csv
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from keff.errors import LogError
from keff.files import held_while_unchanged, is_utf16, open_bytes
from keff.log import UTF_16, NoColumns, NoteSink
from keff.logs.parts.columns import Layout, lay_out, may_list
from keff.logs.parts.lines import MOST_BLANK, NOT_UTF8, TOO_BLANK, loads
from keff.logs.parts.tabled import Row, TableLog
from keff.narrow import HALF
from keff.records import Note

# The csv module's own limit, 128 KiB, is shorter than a chain of thought.
LONGEST_FIELD = 2**27

# A header is read up to so many characters.
MOST_HEADER = 2**24

# How pandas may write what is missing, and reads it.
MISSING = {"NaN", "nan", "<NA>"}

# Texts or numbers without commas between them: Python would read texts as one. The numbers' space is looked
# for ahead, in one pass: two runs that both take spaces would try all pairs of places in a long cell.
NUMPY = re.compile(r"""(?s)\[(?:\s*(?:'[^']*'|"[^"]*")\s+['"].*|(?=[^\]]*\d\s+[-\d])[-\d.e\s]*)\]""")

CUT = "if the file was cut off there, its last value is incomplete"


@held_while_unchanged
def _read_header(path: Path) -> tuple[list[str], str, int, bytes] | str:
    """Return column names, delimiter, number of lines above and the last byte, or why it is no table."""
    if not path.is_file():
        return "not a file"
    if is_utf16(path):
        return UTF_16
    above, said = 0, ""
    with open_bytes(path) as file:
        file.seek(max(file.seek(0, io.SEEK_END) - 1, 0))
        last = file.read(1)
        file.seek(0)
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace")
        # In parts: one blank line may be larger than memory.
        while line := text.readline(65536):
            # By this line Excel knows what separates the fields.
            if found := re.fullmatch(r'"?sep=(.)"?\n', line):
                said = found[1]
            elif line.strip():
                break
            above += line.endswith("\n")
            if above > MOST_BLANK:
                return TOO_BLANK
        line += "" if line.endswith("\n") else text.readline(MOST_HEADER)
    head = line.strip()
    if not head:
        return "the file is empty"
    if any(mark == "\ufffd" or (mark < " " and mark != "\t") for mark in head):
        return NOT_UTF8
    if head[0] in "{[":
        return "the first line is JSON, not the header of a table"
    delimiter = said or max(",;\t|", key=head.count)
    names = [name.strip() for name in next(csv.reader([head], delimiter=delimiter))]
    return names, delimiter, above, last


class CsvLog(TableLog):
    """Reader of comma-, semicolon- or tab-separated tables.

    Columns are numbered in the form with one row per question. Blank lines are skipped. A last line with too
    few fields and no newline was torn and is left out.
    """

    name = "csv"

    def layout(self, path: Path) -> Layout | str:
        """Return the columns by meaning, or why the file is no table of answers."""
        header = _read_header(path)
        if isinstance(header, str):
            return header
        if not any(name.strip("-+.0123456789") for name in header[0]):
            return NoColumns(
                "no column names in the first line: write a header, such as id,answer,gold_answer"
            )
        return lay_out(header[0], self.columns)

    def doubts(self, path: Path) -> list[Note]:
        """Return a note where the last value may have been cut off."""
        if _read_header(path)[-1] in (b"\n", b"\r", b'"'):
            return []  # it ended
        return [Note("no_final_newline", f"{path}: the last line has no newline at its end: {CUT}")]

    def rows(self, path: Path, layout: Layout, tell: NoteSink, *, texts: bool) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of every row."""
        del layout, texts
        header = _read_header(path)
        if isinstance(header, str):
            raise LogError(f"{path}: {header}")
        names, delimiter, above, last = header
        torn = last != b"\n"
        csv.field_size_limit(LONGEST_FIELD)
        # Bytes that are no UTF-8 become halves of surrogate pairs, which no text in UTF-8 holds.
        with io.TextIOWrapper(open_bytes(path), "utf-8-sig", "surrogateescape", newline="") as file:
            start = above + 1
            try:
                for _ in range(above):
                    next(file)
                reader = csv.reader(file, delimiter=delimiter, strict=True)
                next(reader)
                start = above + reader.line_num + 1
                for fields in reader:
                    if fields and len(fields) != len(names):
                        raise csv.Error(f"{len(fields)} fields for {len(names)} columns")
                    _check_row(f"{path}:{start}", fields, names)
                    if fields:
                        yield f"{path}:{start}", dict(zip(names, map(_cell, names, fields), strict=True))
                    start = above + reader.line_num + 1
            except csv.Error as error:
                where = f"{path}:{start}"
                if not (torn and next(file, None) is None):
                    raise LogError(f"{where}: {error}") from None
                tell(Note("torn_line", f"{where}: the last line is incomplete; skipped (1 row)"))


def _cell(name: str, field: str) -> object:
    """Return a cell: NaN for a missing one, a list where its column may hold lists and it is written as one.

    JSON and Python's own writing are read, as ``DataFrame.to_csv`` leaves them.
    """
    if field in MISSING:
        return float("nan")
    if field[:1] != "[" or not may_list(name):
        return field
    if NUMPY.fullmatch(field):
        raise LogError(f"{name} holds arrays as numpy prints them: write them as JSON lists")
    for read in (loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return read(field)
    return field


def _check_row(where: str, fields: list[str], names: list[str]) -> None:
    """Raise LogError for a row with control characters, or that repeats the header."""
    text = "".join(fields)
    if "\0" in text:
        raise LogError(f"{where}: a cell holds a null character: not a text file")
    if not text.isascii() and HALF.search(text):
        raise LogError(f"{where}: {NOT_UTF8}")
    if fields == names:
        raise LogError(f"{where}: the header occurs again: remove this line")


log = CsvLog
