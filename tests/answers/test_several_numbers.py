"""Several numbers are no answer, a number is read whole, and computers' notation is a number."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction

import pytest

import keff
from keff import answers

NUMERIC, MATH, QUANTITY = (answers.space(name) for name in ("numeric", "math", "quantity"))
JOINTS = [" and ", " or ", "; ", ", ", " & ", ", and ", " und ", " oder ", " et ", " y ", " и ", "和", " ou "]
FRAMES = [
    "The answers are {}.",
    "Answer: {}",
    "Final answer: either {}",
    r"So \boxed{{{}}}",
    "**Answer:** {}",
]
PAIRS = [("3", "5"), ("12", "7.5"), ("-2", "2"), ("$5", "$7"), ("5 km", "7 km"), ("**3**", "**5**")]


@pytest.mark.parametrize("joint", JOINTS)
def test_several_numbers_abstain(joint: str) -> None:
    for one, two in PAIRS:
        said = f"{one}{joint}{two}"
        assert NUMERIC.key(said) is None, said
        for frame in FRAMES:
            assert answers.read(NUMERIC, frame.format(said)).key is None, (frame, said)


@pytest.mark.parametrize("said", ["between 5 and 7", "from 5 to 7", "x = 3 or x = 5", "5 h and 30 min"])
def test_ranges_and_several_names_abstain(said: str) -> None:
    for text in (said, f"The answer is {said}.", f"Answer: {said}"):
        assert answers.read(NUMERIC, text).key is None


@pytest.mark.parametrize(
    "text",
    [
        "The answer is 18, since 3 and 2 make 5.",
        "The answer is 18 (16 + 2).",
        "So x = 9 * 2 = 18.",
        "The answer is 18. In 2010 and 2012 it was less.",
        "Answer: 18 dollars and that is all",
    ],
)
def test_a_number_with_its_reason_is_read(text: str) -> None:
    assert answers.read(NUMERIC, text).key == "18"


def test_amounts_of_one_unit_are_several_and_of_smaller_units_one() -> None:
    for one, two in (("5 km", "7 km"), ("5 m", "2 km"), ("30 min", "2 h")):
        for joint in (" and ", ", ", " "):
            assert QUANTITY.key(f"{one}{joint}{two}") is None
    assert QUANTITY.key("5 ft 3 in") == QUANTITY.key("63 in")
    assert answers.read(QUANTITY, "The answer is 5 km or 7 km.").key is None


@pytest.mark.parametrize(
    ("word", "size"), [("हजार", 10**3), ("लाख", 10**5), ("करोड़", 10**7), ("тысяч", 10**3)]
)
def test_a_number_before_a_number_word_is_whole_or_not_read(word: str, size: int) -> None:
    assert NUMERIC.key(f"5 {word}") == str(5 * size)
    for between in ("दस", "सौ", "десять", "zehn"):
        assert NUMERIC.key(f"5 {between} {word}") in (None, str(500 * size) if between == "सौ" else None)


def test_computers_notation_is_no_euler_number() -> None:
    for digits, power in itertools.product(("3", "8", "2.5", "-1", "6.02"), (-7, -1, 0, 3, 8, 22)):
        value = Fraction(digits) * Fraction(10) ** power
        key = MATH.key(str(value))
        for sign in ("e", "E", "e+" if power >= 0 else "e"):
            assert MATH.key(f"{digits}{sign}{power}") == key, (digits, sign, power)
    assert MATH.key("3e8") != MATH.key("8e3")
    assert MATH.key(json.dumps(1e22)) == str(10**22)
    assert MATH.key("(1e3, 2)") == MATH.key("(1000, 2)")
    assert MATH.key("3e^2") != MATH.key("300")
    assert keff.vote(["3e8", "8e3", "8000", "300000000", "3 \\cdot 10^8"], space="math").answer == "300000000"
