"""Amounts and expressions have one key exactly where they have one value: tables and random pairs."""

from __future__ import annotations

import random
import time
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.answers import read, space

NUMERIC, MATH, TEXT, QUANTITY = space("numeric"), space("math"), space("text"), space("quantity")
SCALES = st.integers(0, 4)
RANDOM = st.randoms(use_true_random=False)

APART: dict[str, list[list[str]]] = {
    "text": [
        ["≥12", "≤12", "12", "<12"],
        ["F#", "F", "F++", "F*"],
        ["7,2", "72", "7.2", "7:2", "7-2", "7/2"],
        ["£30", "€30", "30", "¥30"],
        ["n^3", "n3", "n*3", "n/3", "n=3", "n+3"],
        ["m/s", "ms", "m*s"],
        ["6.5%", "65", "65.5"],
        ["-8km", "8km"],
        ["user_id", "userid"],
        ["(p+q)/r", "p+q/r"],
        ["v3.1", "v31"],
    ],
    "numeric": [
        ["8k", "8B", "8M", "8"],
        ["0x2F", "0", "2"],
        ["7 x 10^4", "7 x 10^5", "7"],
        ["4 dozen", "4", "4 hundred thousand", "4 hundred"],
    ],
    "math": [
        ["31_4", "31", "31_5"],
        ["9 euros", "9 cents", "9 yen", "9"],
        ["4 minutes", "4 seconds", "4 days"],
        [r"7\text{ ft}", r"7\text{ inches}", r"7\text{ m}"],
        ["3 pm", "3 am"],
        ["6 thousand", "6 billion", "6"],
        ["4 miles east", "4 miles west"],
        ["3xy", "3", "3xz"],
        ["7:30", "14:60"],
    ],
    "quantity": [["3 Cal", "3 cal"], ["2 mW", "2 MW"], ["4 Pa s", "4 Pa"]],
}
TOGETHER: dict[str, list[list[str]]] = {
    "text": [["$45", "45", "45.0"], ["€ 7", "7€", "€7.00"], [">= 3", "≥3"], ["1,250kg", "1250kg"]],
    "numeric": [["0x1f", "31"], ["2.5k", "2500", "2.5 thousand"], ["$3 M", "3 million"], ["0b110", "6"]],
    "math": [
        [r"i^3", "-i"],
        [r"0.\overline{27}", r"\frac{3}{11}", r"0.2\overline{72}"],
        [r"\varnothing", r"\{ \}", "∅"],
        ["yx", "xy", r"y \cdot x"],
        [r"\frac{4b+3}{7}", r"\frac{3+4b}{7}"],
        ["8 pennies", r"8\text{ cents}"],
        ["6 square feet", r"6\text{ ft}^2"],
    ],
    "quantity": [
        ["3 kW h", "3 kWh"],
        ["2 m s⁻²", "2 m/s^2", "2 m s^{-2}"],
        ["4 N m", "4 N*m"],
        ["6 KM", "6 km"],
    ],
}


def cases(tables: dict[str, list[list[str]]]) -> list[tuple[str, list[str]]]:
    return [(spec, forms) for spec, table in tables.items() for forms in table]


@pytest.mark.parametrize(("spec", "forms"), cases(APART))
def test_what_says_something_else_has_another_key(spec: str, forms: list[str]) -> None:
    each = space(spec)
    for one, other in combinations(forms, 2):
        assert each.key(one) != each.key(other), (one, other)


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "forms"), cases(TOGETHER))
def test_what_says_the_same_has_one_key(spec: str, forms: list[str]) -> None:
    if spec == "math":
        pytest.importorskip("math_verify")
    each = space(spec)
    keys = {form: each.key(form) for form in forms}
    assert len(set(keys.values())) == 1, keys
    key = next(iter(keys.values()))
    assert key is not None
    assert each.key(key) == key


@pytest.mark.parametrize("answer", ["<7", "≥ 7", "7π", "7 or more", "7+", "10^{-7x}", "7 and a half", "0xQ"])
def test_a_bound_or_a_part_of_a_number_is_no_number(answer: str) -> None:
    assert NUMERIC.key(answer) is None
    assert read(NUMERIC, f"Final answer: {answer}").key is None


def test_a_missing_unit_or_base_is_no_error_and_another_one_is() -> None:
    assert MATH.correct("9 cents", "9")
    assert MATH.correct("31", "31_4")
    assert not MATH.correct("9 cents", "9 euros")
    assert not MATH.correct("31_5", "31_4")


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        r"7^{7^{7^{7}}}",
        r"(2+y+z)^{70000}",
        r"\binom{90000}{30000}",
        r"250000!",
        r"\gcd(11^{60000},13^{60000})",
        r"\prod_{k=1}^{70000} k",
        r"\frac{1}{(1+\sqrt{2}+\sqrt{3})^{9000}}",
        ", ".join(rf"\int \frac{{1}}{{x^{{{n}}}+2x+1}} dx" for n in range(7, 14)),
    ],
)
def test_what_is_too_large_votes_as_it_is_written_before_it_is_computed(answer: str) -> None:
    pytest.importorskip("math_verify")
    MATH.key(r"\sqrt{2}+1")
    began = time.monotonic()
    key = MATH.key(answer)
    assert key is not None
    assert MATH.key(key) == key
    assert time.monotonic() - began < 60, "a guard against a hang, not a measurement"


def polynomial(rng: random.Random, depth: int) -> tuple[str, dict[tuple[int, int], Fraction]]:
    """Return LaTeX of a polynomial in x and y, and its coefficients."""
    if depth == 0:
        name = rng.choice("xy1")
        number = rng.randint(1, 4)
        if name == "1":
            return str(number), {(0, 0): Fraction(number)}
        return name, {(name == "x", name == "y"): Fraction(1)}
    one, first = polynomial(rng, depth - 1)
    other, second = polynomial(rng, depth - 1)
    if rng.random() < 0.2:
        bottom = rng.randint(2, 5)
        return rf"\frac{{{one}}}{{{bottom}}}", {at: value / bottom for at, value in first.items()}
    if rng.random() < 0.5:
        sign = rng.choice((1, -1))
        total = {at: first.get(at, 0) + sign * second.get(at, Fraction(0)) for at in {*first, *second}}
        sum_ = {at: Fraction(each) for at, each in total.items() if each}
        return f"{one}{'+' if sign > 0 else '-'}({other})", sum_
    product: dict[tuple[int, int], Fraction] = {}
    for (a, b), left in first.items():
        for (c, d), right in second.items():
            product[a + c, b + d] = product.get((a + c, b + d), Fraction(0)) + left * right
    return f"({one})({other})", {at: each for at, each in product.items() if each}


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None)
@given(rng=RANDOM)
def test_polynomials_have_one_key_exactly_where_they_are_equal(rng: random.Random) -> None:
    pytest.importorskip("math_verify")
    one, first = polynomial(rng, 2)
    other, second = polynomial(rng, 2)
    assert (MATH.key(one) == MATH.key(other)) == (first == second), (one, other)
    assert MATH.key(f"{other}+({one})-({other})") == MATH.key(one)


UNITS = {"mm": Fraction(1, 1000), "cm": Fraction(1, 100), "m": Fraction(1), "inches": Fraction(127, 5000)}


@settings(max_examples=examples(60), deadline=None)
@given(rng=RANDOM)
def test_amounts_have_one_key_exactly_where_they_are_equal(rng: random.Random) -> None:
    names = list(UNITS)
    amounts = [(Fraction(rng.randint(1, 40), rng.choice([1, 2, 10])), rng.choice(names)) for _ in range(6)]
    amounts.append((amounts[0][0] * UNITS[amounts[0][1]] / UNITS["cm"], "cm"))
    for (one, first), (other, second) in combinations(amounts, 2):
        key, another = (
            QUANTITY.key(f"{each.numerator}/{each.denominator} {unit}")
            for each, unit in ((one, first), (other, second))
        )
        assert (key == another) == (one * UNITS[first] == other * UNITS[second])


@settings(max_examples=examples(100), deadline=None)
@given(number=st.integers(1, 999), scale=SCALES, other=st.integers(1, 999), power=SCALES)
def test_scaled_numbers_are_equal_by_value(number: int, scale: int, other: int, power: int) -> None:
    words = ("", " thousand", " million", " billion", " trillion")
    letters = ("", "k", "M", "B", " x 10^12")
    value = number * 1000**scale
    forms = (f"{number}{words[scale]}", f"{number}{letters[scale]}", hex(value), f"{number}e{3 * scale}")
    assert {NUMERIC.key(form) for form in forms} == {str(value)}
    assert (NUMERIC.key(f"{other}{letters[power]}") == str(value)) == (other * 1000**power == value)
