"""A number is read whole or not at all: in every script, beside letters, with words of magnitude."""

from __future__ import annotations

import itertools
import unicodedata
from decimal import Decimal

import pytest
from babel.numbers import format_compact_decimal

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


# Languages whose words of magnitude CLDR writes behind the number, with a word for minus.
MINUS = {
    "de": "minus", "fr": "moins", "es": "menos", "pt": "menos", "it": "meno", "pl": "minus",
    "cs": "minus", "sk": "mínus",
    "ru": "минус", "uk": "мінус", "tr": "eksi", "fi": "miinus", "hu": "mínusz", "da": "minus",
    "sv": "minus", "nb": "minus",
    "is": "mínus", "lv": "mīnus", "lt": "minus", "el": "μείον", "he": "מינוס", "ko": "마이너스",
    "vi": "âm", "id": "minus",
    "hi": "ऋण", "fa": "منفی", "ar": "سالب", "zh": "负", "ja": "マイナス", "th": "ติดลบ", "ca": "menys",
    "en": "negative",
    "hr": "minus", "bg": "минус", "sr": "минус", "kk": "минус", "ro": "minus", "nl": "minus", "mr": "ऋण",
    "bn": "ঋণাত্মক",
}  # fmt: skip


@pytest.mark.parametrize("locale", MINUS)
def test_the_words_of_magnitude_of_a_language_count(locale: str) -> None:
    for value in (3000, 250_000, 7_000_000, 2_500_000, 4_000_000_000):
        written = format_compact_decimal(value, format_type="long", locale=locale, fraction_digits=1)
        assert SPACE.key(written) == str(value), written
        glued = written.replace("\u00a0", "")
        assert {SPACE.key(glued), _read(f"Final answer: {written}"), _read(written)} <= {str(value), None}, (
            written
        )


@pytest.mark.parametrize("minus", sorted(set(MINUS.values())))
def test_a_word_for_minus_is_a_sign_or_the_number_is_not_read(minus: str) -> None:
    for said in (f"{minus} 5", f"Final answer: {minus} 5", f"x = 3. So {minus} 5"):
        assert _read(said) in ("-5", None), said


def test_a_bound_is_no_number() -> None:
    for before in (
        "至少",
        "more than ",
        "au moins ",
        "mindestens ",
        "al menos ",
        "не менее ",
        "en az ",
        "최소 ",
    ):
        assert _read(f"Final answer: {before}5") is _read(f"So {before}5") is SPACE.key(f"{before}5") is None


BETWEEN = [
    "小时", "時間", "시간 ", " часов ", " h ", " Stunden ", " heures ", " horas ", " ft ", "元",
    " dollars ", "°", " hay ",
    " hoch ", " vagy ", " nebo ", " और ", " অথবা ", " หรือ ", "至", "から", " до ", " bis ", " ~ ", "…",
    " | ", "/7/", " : ",
    " lakh ", " Tausend 3 Millionen ", " million ", " to the power of ", " в степени ", " out of ",
    " mod ", "^2^",
]  # fmt: skip


@pytest.mark.parametrize("between", BETWEEN)
def test_one_of_two_numbers_is_never_read(between: str) -> None:
    for one, two in itertools.product((5, 12), (7, 30)):
        said = f"{one}{between}{two}"
        for text in (
            said,
            f"Final answer: {said}",
            rf"\boxed{{{said}}}",
            f"The answer is {said}.",
            f"答案是{said}。",
        ):
            assert _read(text) not in {str(one), str(two)}, text
        assert SPACE.key(said) not in {str(one), str(two)}, said


HALVES = [
    " and a half", " einhalb", " et demi", " y medio", " e meio", " e mezzo", " с половиной", " i pół",
    " buçuk", " rưỡi",
    " setengah", " و نیم", "个半", "時間半", "시간 반", "ครึ่ง", " och en halv", " tenths", " squared",
    " or more", "以上",
    " 이상", " oder mehr", " или более", "+", "-", "x", "^(n)", "の6乗", "的6次方", "°20'", "成",
]  # fmt: skip


@pytest.mark.parametrize("after", HALVES)
def test_a_number_that_goes_on_is_not_read_without_the_rest(after: str) -> None:
    for text in (f"5{after}", f"Final answer: 5{after}", rf"\boxed{{5{after}}}", f"答案是5{after}。"):
        assert _read(text) != "5", text
    assert SPACE.key(f"5{after}") != "5"


@pytest.mark.parametrize(
    "before", ["√", "sqrt(", "2*", "x + ", "log ", "3-", "> ", "-(", "साढ़े ", "elfu ", "not "]
)
def test_a_number_within_an_expression_is_not_read(before: str) -> None:
    assert _read(f"{before}5") != "5"
    assert _read(f"Final answer: {before}5") != "5"


@pytest.mark.parametrize("parts", [(3, 2), (12, 50), (1, 999)])
def test_the_parts_of_one_amount_are_added(parts: tuple[int, int]) -> None:
    one, two = parts
    for big, small, words in (
        (10**5, 10**3, "{} lakh {} thousand"), (10**6, 10**3, "{} Millionen {} Tausend"), (10**4, 1,
        "{}만 {}"),
        (10**8, 10**4, "{}億 {}万"), (10**6, 10**3, "{} млн {} тыс."), (10**9, 10**6, "{} tỷ {} triệu"),
        (10**6, 10**3, "{} ملیون و {} هزار"), (10**6, 10**3, "{}ล้าน{}พัน"), (10**7, 10**5,
        "{} करोड़ {} लाख"),
    ):  # fmt: skip
        said = words.format(one, two)
        if two * small < big:
            assert {SPACE.key(said), _read(f"答案是{said}")} <= {str(one * big + two * small), None}, said


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


@pytest.mark.parametrize("verb", ["is", "are", "equals", "makes", "ist", "sind", "est", "son", "это"])
@pytest.mark.parametrize("money", ["", "$", "€"])
@pytest.mark.parametrize("start", ["{} hours", "{}{} per hour for 7 hours", "{} boys and 11 girls"])
def test_what_a_first_number_comes_to_is_the_answer(verb: str, money: str, start: str) -> None:
    first = start.replace("{}{}", money + "{}").format(3)
    found = SPACE.extract(f"{first} {verb} {money}15.")
    assert found is not None and SPACE.key(found.answer) == "15"
    # A reason says nothing of what the number before it comes to.
    for text in (f"3 hours, because that {verb} 15", f"3 where x {verb} 15"):
        found = SPACE.extract(text)
        assert found is not None and SPACE.key(found.answer) == "3"


@pytest.mark.parametrize("constant", ["π", r"\pi", "√2", r"\sqrt{2}"])
@pytest.mark.parametrize("name", ["numeric", "math"])
def test_a_number_before_a_multiple_of_a_constant_is_not_the_answer(constant: str, name: str) -> None:
    found = answers.space(name).extract(f"The radius is 5 and the area is 25{constant}.")
    assert found is None or found.answer != "5"


MARKERS = (
    "Antwort",
    "Die richtige Antwort",
    "Réponse finale ",
    "Respuesta",
    "La respuesta correcta es",
    "Risposta",
    "Resposta final",
    "Ответ",
    "Правильный ответ",
    "Odpowiedź",
    "Odpověď",
    "Svar",
    "Válasz",
    "Cevap",
    "Đáp án",
    "Jawaban",
    "Jibu",
    "الجواب",
    "الإجابة",
    "תשובה",
    "उत्तर",
    "উত্তর",
    "คำตอบ",
    "答案",
    "正确答案是",
    "答え",
    "정답",
    "최종 답",
)


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("frame", ["{}: {}\n{}", "**{}:** {}\n\n{}", "**{}**: {}. {}", "3 4 A\n{}：{}\n{}"])
def test_an_answer_that_is_named_so_comes_before_its_reasons(marker: str, frame: str) -> None:
    reasons = "(3 x 4; A, C, D)"
    for name, answer in (("numeric", "12"), ("choice", "B"), ("math", "12"), ("label:labels=B", "B")):
        found = answers.space(name).extract(frame.format(marker, answer, reasons))
        assert found is not None and (found.answer, found.rule) == (answer, "marker")


@pytest.mark.parametrize("heading", ["답변", "答えの導出", "回答", "Antwortmöglichkeiten", "Ответы"])
def test_a_heading_that_only_begins_like_it_states_nothing(heading: str) -> None:
    found = answers.space("numeric").extract(f"{heading}: 3 x 4\n= 12")
    assert found is not None and (found.answer, found.rule) == ("12", "last number")


@pytest.mark.parametrize("marker", MARKERS)
def test_an_option_that_is_called_an_answer_states_nothing(marker: str) -> None:
    found = answers.space("choice").extract(f"{marker} A: nein\n{marker} B: ja\nC")
    assert found is not None and found.answer == "C"
