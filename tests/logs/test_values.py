"""Lists of the usual kind are converted at once, and come out as value by value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.errors import LogError
from keff.logs.parts import values as _values
from keff.logs.parts.values import AT_ONCE, MOST_COUNT, converted, count, optional_text, truth

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


def outcome(convert: Callable[[object], object], values: Sequence[object]) -> str:
    try:
        return repr(converted("file:1", "all_answers", values, convert))
    except LogError as error:
        return str(error)


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(USUAL | VALUES, st.sampled_from([optional_text, count, truth]))
@example([MOST_COUNT, MOST_COUNT + 1], count)
@example([10**400], count)
@example([True, 1], truth)
@example(["a", "", None], optional_text)
def test_at_once_is_as_value_by_value(values: list[object], convert: Callable[[object], object]) -> None:
    at_once = outcome(convert, values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_values, "AT_ONCE", {})
        assert outcome(convert, values) == at_once


def test_usual_lists_are_converted_at_once() -> None:
    assert AT_ONCE[optional_text](["4", "", None]) == ("4", None, None)
    assert AT_ONCE[count]([3, 0]) == (3.0, 0.0)
    assert AT_ONCE[truth]([True, False]) == (1, 0)
