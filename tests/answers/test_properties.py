"""Dress never changes a key and a changed value always does: spaces that test_equal_forms leaves out."""

from __future__ import annotations

import pprint
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.answers import read, space

NUMERIC, LITERAL, MATH = space("numeric"), space("literal"), space("math")
SETS, LISTS = space("set:inner=numeric"), space("list:inner=numeric")
DRESSES = (
    "{}",
    "Final answer: {}",
    "The answer is {}.",
    "**Answer:** {}",
    "I weigh this and that.\nFinal answer: **{}**",
    "<think>maybe another</think>\nFinal answer: {}",
    "<answer>{}</answer>",
    r"\boxed{{{}}}",
)
FRACTIONS = st.fractions(max_denominator=400).filter(lambda value: abs(value) < 10**9)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text("ab'\"\\ \n", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers(0, 9) | st.text("ab", max_size=2), inner, max_size=3)
        | st.sets(st.integers(0, 9), max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=examples(60), deadline=None)
@given(value=FRACTIONS, other=FRACTIONS, times=st.integers(1, 30), dress=st.sampled_from(DRESSES))
def test_a_fraction_has_one_key_however_it_is_written(
    value: Fraction, other: Fraction, times: int, dress: str
) -> None:
    text = f"{value.numerator * times}/{value.denominator * times}"
    key = NUMERIC.key(f"{value.numerator}/{value.denominator}")
    assert read(NUMERIC, dress.format(text)).key == key
    latex = rf"\frac{{{abs(value.numerator) * times}}}{{{value.denominator * times}}}"
    assert MATH.key(("-" if value < 0 else "") + latex) == key
    assert (NUMERIC.key(f"{other.numerator}/{other.denominator}") == key) == (value == other)


@settings(max_examples=examples(60), deadline=None)
@given(value=VALUES, other=VALUES, width=st.integers(1, 40), rng=st.randoms(use_true_random=False))
def test_literals_are_equal_as_python_says(value: Any, other: Any, width: int, rng: Any) -> None:
    key = LITERAL.key(repr(value))
    assert key is not None
    assert LITERAL.key(pprint.pformat(_shuffled(value, rng), width=width)) == key
    assert (LITERAL.key(repr(other)) == key) == (other == value)


def _shuffled(value: Any, rng: Any) -> Any:
    if isinstance(value, dict):
        names = list(value)
        rng.shuffle(names)
        return {name: _shuffled(value[name], rng) for name in names}
    return [_shuffled(each, rng) for each in value] if isinstance(value, list) else value


@settings(max_examples=examples(60), deadline=None)
@given(items=st.lists(st.integers(-999, 9999), min_size=2, max_size=6), rng=st.randoms(use_true_random=False))
def test_order_and_repeats_count_in_lists_and_not_in_sets(items: list[int], rng: Any) -> None:
    moved = [*items, rng.choice(items)]
    rng.shuffle(moved)
    forms = (str(moved), "\n".join(f"- {item}" for item in moved), f"Final answer: {moved}")
    assert {read(SETS, form).key for form in forms} == {SETS.key(str(items))}
    assert SETS.key(str([*items, 12345])) != SETS.key(str(items))
    assert {read(LISTS, form).key for form in forms} == {LISTS.key(str(moved))}
    assert (LISTS.key(str(items[::-1])) == LISTS.key(str(items))) == (items == items[::-1])
    assert LISTS.key(str(moved)) != LISTS.key(str(items))


CLOSED = {
    "choice": {label: (label, f"({label})", label.lower(), f"**{label}**") for label in "ABCD"},
    "binary": {"yes": ("yes", "Yes", "YES", "true", "True"), "no": ("no", "No", "NO", "false", "False")},
    "label:labels=refund,billing,other": {
        label: (label, label.upper(), f'"{label}"') for label in ("refund", "billing", "other")
    },
}


@pytest.mark.parametrize("spec", CLOSED)
@pytest.mark.parametrize("dress", DRESSES)
def test_dress_never_changes_an_answer_of_a_closed_set(spec: str, dress: str) -> None:
    each = space(spec)
    for key, forms in CLOSED[spec].items():
        assert {read(each, dress.format(form)).key for form in forms} == {key}
