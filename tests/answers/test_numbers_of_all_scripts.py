"""A number is read whole or not at all: in every script, beside letters, with words of magnitude."""

from __future__ import annotations

import itertools
import unicodedata
from decimal import Decimal

import pytest

from keff import answers

SPACE = answers.space("numeric")
DIGITS = [chr(code) for code in range(0x10000) if unicodedata.decimal(chr(code), None) == 0]
BEFORE = [
    "答案是",
    "答えは",
    "정답은",
    "คำตอบคือ",
    "उत्तर है ",
    "الجواب ",
    "RM",
    "Result:",
    "合计：",
    "Rp",
    "HK$",
    "CHF",
    "₺",
]
AFTER = ["", "。", "个", "円", "입니다", " 元", "!"]
NUMBERS = {
    "18": 18,
    "1,234": 1234,
    "-5": -5,
    "1,234,567": 1234567,
    "-0.5": Decimal("-0.5"),
    "2^10": 1024,
    "10**6": 10**6,
    "10^{-3}": Decimal("0.001"),
}
SIZES = {
    "3万": 30_000, "3億": 3 * 10**8, "3 Millionen": 3 * 10**6, "5 тысяч": 5000, "2,5 миллиона": 2_500_000,
    "3万5千": 35_000, "1億2千万": 120_000_000, "5 mil": 5000, "3 tỷ": 3 * 10**9, "4 juta": 4 * 10**6,
    "2 लाख": 200_000, "3แสนล้าน": 3 * 10**11, "7 مليون": 7 * 10**6, "5만": 50_000, "6 Million": 6 * 10**6,
    "5千克": 5, "5千米": 5,
}  # fmt: skip


def _read(text: str) -> str | None:
    read = SPACE.extract(text)
    return None if read is None else SPACE.key(read.answer)


@pytest.mark.parametrize("before", BEFORE)
def test_a_number_beside_letters_is_read_whole(before: str) -> None:
    for after, (number, value) in itertools.product(AFTER, NUMBERS.items()):
        assert _read(before + number + after) == str(value), (before, number, after)


@pytest.mark.parametrize("zero", DIGITS)
def test_digits_of_every_script_are_read_in_texts_and_answers(zero: str) -> None:
    for value in (7, 1234, 90):
        written = "".join(chr(ord(zero) + int(digit)) for digit in str(value))
        assert SPACE.key(written) == _read(f"答案是{written}") == str(value)


@pytest.mark.parametrize("written", SIZES)
def test_a_word_of_magnitude_counts_in_texts_and_answers(written: str) -> None:
    assert SPACE.key(written) == _read(f"答案是{written}") == str(SIZES[written])
    assert SPACE.correct(written, str(SIZES[written]))


@pytest.mark.parametrize("text", ["x5", "H2O", "7:30", "5千3万", "1,23,4"])
def test_a_part_of_a_number_or_name_is_never_read(text: str) -> None:
    assert _read(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "The answer is 5 mil.",
        "The total is about 3 bin",
        "Die Antwort ist 2 Billion",
        "La réponse est 4 billion.",
    ],
)
def test_a_word_of_magnitude_of_two_languages_abstains(text: str) -> None:
    assert _read(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("La respuesta final: 5 mil", 5000),
        ("A resposta final é: 12 mil", 12_000),
        ("Cevap: 3 bin", 3000),
        ("The answer is 2 billion.", 2 * 10**9),
        ("Die Antwort ist 2 Billionen", 2 * 10**12),
        ("Die Antwort ist 2 Milliarden", 2 * 10**9),
    ],
)
def test_a_word_of_magnitude_is_read_in_its_own_language(text: str, value: int) -> None:
    assert _read(text) == str(value)
