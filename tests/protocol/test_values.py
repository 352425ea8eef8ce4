"""JSON of others is read and written as Python's own reader and writer do."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn import INFINITE, jsons
from keff.protocol.values import decoded, encoded, sendable

VALUES = jsons(INFINITE)


@given(value=VALUES | st.sampled_from(["NaN", "\u2028 Infinity", "\ud83d", 10**400, 2**70]))
def test_what_is_written_is_what_is_read(value: Any) -> None:
    finite = not any(map(math.isinf, _floats(value)))
    raw = encoded(value) if finite else sendable(value)
    assert raw.isascii()
    if finite:
        assert decoded(raw) == value == json.loads(raw)
        assert decoded(json.dumps(value, ensure_ascii=True).encode()) == value


def _floats(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [found for each in value.values() for found in _floats(each)]
    if isinstance(value, list):
        return [found for each in value for found in _floats(each)]
    return [value] if isinstance(value, float) else []


def test_what_json_cannot_hold_is_refused_or_null() -> None:
    for value in (math.nan, [math.inf], {"a": -math.inf}):
        with pytest.raises(ValueError, match="JSON"):
            encoded(value)
        assert b"null" in sendable(value)
    assert decoded(b'{"a": NaN, "b": [Infinity]}') == {"a": None, "b": [None]}
    for broken in (b"{", b'{"a": 1} x', b"\xff", b"", b"[" * 100_000):
        with pytest.raises(ValueError):
            decoded(broken)
