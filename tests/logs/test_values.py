"""Lists are converted each distinct value once, and come out as value by value."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.errors import LogError
from keff.logs.parts.values import MOST_COUNT, converted, count, optional_text, short, truth

VALUES = st.lists(
    st.none()
    | st.booleans()
    | st.integers(-2, MOST_COUNT + 2)
    | st.floats()
    | st.text(max_size=3)
    | st.lists(st.integers(), max_size=2),
    max_size=4,
)
USUAL = (
    st.lists(st.text(max_size=3) | st.none(), max_size=5)
    | st.lists(st.integers(), max_size=5)
    | st.lists(st.booleans(), max_size=5)
)


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(USUAL | VALUES, st.sampled_from([optional_text, count, truth]))
@example([MOST_COUNT, MOST_COUNT + 1], count)
@example([10**400], count)
@example([True, 1], optional_text)
@example([2**54, 2.0**54, True], optional_text)
@example(["a", "", None], optional_text)
def test_at_once_is_as_value_by_value(values: list[object], convert: Callable[[object], object]) -> None:
    expected: list[object] = []
    for value in values:
        try:
            expected.append(convert(value))
        except (TypeError, ValueError, OverflowError):
            with pytest.raises(LogError, match=f"file:1: all_answers must .*, not {re.escape(short(value))}"):
                converted("file:1", "all_answers", values, convert)
            return
    found = converted("file:1", "all_answers", values, convert)
    # Of 0.0 and -0.0, which are equal, the first stands for both.
    assert repr(found).replace("-0.0", "0.0") == repr(tuple(expected)).replace("-0.0", "0.0")


def test_a_repeated_value_is_converted_once() -> None:
    seen: list[object] = []

    def watched(value: object) -> str:
        seen.append(value)
        return str(value)

    assert converted("file:1", "all_answers", ["4", "5", "4", None, "4"], watched) == (
        "4",
        "5",
        "4",
        "None",
        "4",
    )
    assert len(seen) == 3
