"""The quick reader of JSON lines gives what Python's own gives, and refuses what it refuses."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import INFINITE, objects
from how_many import examples
from keff.errors import LogError
from keff.logs.parts.lines import parse, quick_parse

ODD = [
    b'{"id": 1, "id": 2}',
    b'{"a": {"b": 1, "b": 2}}',
    b'{"text": "\\ud83d"}',
    b'{"text": "\xff"}',
    b'{"text": "\x01"}',
    b"\xef\xbb\xbf{}",
    b'{"a": NaN, "b": -Infinity, "c": 1e400, "d": -0, "e": -0.0, "f": 1.0}',
    b'{"a": 123456789012345678901234567890}',
    b'{"a": 01}',
    b'{"a": 1} {"b": 2}',
    b'{"a": 1,}',
    b"[1]",
    b"null",
    b"",
    b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}",
    b' {"a": [1, "x", null]} \r\n',
]


def said(reader: object, line: bytes, *, first: bool) -> str:
    """Return what a reader makes of a line: the object with the types of its values, or its refusal."""
    assert callable(reader)
    try:
        return repr(reader("file:1", line, first=first))
    except LogError as error:
        return f"refused: {error}"


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("line", ODD)
def test_odd_lines_are_read_alike(line: bytes, first: bool) -> None:
    assert said(quick_parse, line, first=first) == said(parse, line, first=first)


@settings(max_examples=examples(200), deadline=None)
@given(objects(INFINITE), st.booleans(), st.integers(0, 40))
def test_any_line_is_read_alike(row: dict[str, object], ascii_only: bool, cut: int) -> None:
    line = json.dumps(row, ensure_ascii=ascii_only).encode("utf-8", "replace")
    for text in (line, line[: max(len(line) - cut, 0)]):
        assert said(quick_parse, text, first=False) == said(parse, text, first=False)
