r"""Numbers as people and models write them, as exact fractions.

Read are 1,234.50, 1 234 (any space), 1'234, 1_234, 1.234.567, 1,00,000, .5, 3/4, 3 1/2, 1.5e3, 1.5 * 10^3,
$-5, 18%, 2.5 million, 2 hundred thousand, 5k, $5 M, 0x1F, and the LaTeX forms of these. A percent sign is a
unit: 50% reads as 50, because questions that ask for a percentage have 50 as their answer. Not read, because
one cannot know what is meant: 3,5 (a list or a decimal comma), 7:30, 5-7, 12/25/2020, 1 000 00, 1,234,56, <5,
5 or more, 5π. Parts of these are never read.
"""

from __future__ import annotations

import re
from fractions import Fraction

# Only so much of the end is searched: final answers stand there, and the time stays bounded.
TAIL = 20_000
# Exact fractions of longer numbers take time with the square of their digits.
MOST_DIGITS = 400
# 1e400 written out is the longest number that is taken.
MOST_EXPONENT = 400

SCALES: dict[str, int] = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "quadrillion": 10**15,
    "lakh": 10**5,
    "crore": 10**7,
}
_SUFFIXES = {"k": 10**3, "m": 10**6, "mn": 10**6, "b": 10**9, "bn": 10**9, "t": 10**12}
_CURRENCY = r"(?:US\$|A\$|C\$|[$£€¥₹₩]|Rs\.?|USD|EUR|GBP|INR)"
_SCALE = "|".join(SCALES)


def _pattern(suffix: str) -> re.Pattern[str]:
    return re.compile(
        rf"""(?=[-+$£€¥₹₩UACREGI.\d])(?<![\w.:/^\\])(?<!\d')
        (?P<sign>[-+])?(?:(?P<currency>{_CURRENCY})[ ]?(?P<inner>[-+])?)?
        (?P<run>(?>0[xX][0-9a-fA-F]{{1,40}}(?!\w)|0[bB][01]{{1,80}}(?!\w)|0[oO][0-7]{{1,40}}(?!\w)
            |\.?\d(?:[\d.,]*\d)?
            (?:(?:[ ]\d{{3}}(?![\d/]|[ ]?/[ ]?\d)|'\d{{3,}}|_(?!(?:[2-9]|1[0-6])(?!\d))\d+)
                (?:[.,]\d+)*(?:[ ]\d+(?![\d/]))*)*))
        (?P<exponent>[eE][-+]?\d{{1,9}}(?!\w)|[ ]?[x*][ ]?10[ ]?(?:\^|\*\*)[ ]?\{{?[ ]?[-+]?\d{{1,4}}\}}?)?
        (?P<over>[ ]?/[ ]?\d{{1,40}}(?![\d/])|[ ]\d{{1,6}}/\d{{1,6}}(?![\d/]))?
        (?P<scale>(?:[ -](?:{_SCALE})s?\b)+|{suffix})?
        (?!:\d|/\d|'\d|[eE][-+]?\d|(?<=0)[xX]\w|[xX]\d|[ ]?(?:[π√]|\\(?:pi|sqrt)\b))""",
        re.VERBOSE,
    )


NUMBER = _pattern(r"(?:[kKMB]|[mb]n|(?(currency)[ ]?(?:[kKMBT]|[mb]n)|[ ]bn))(?![\w²³°^/*])")
# A number before a unit: 5 K and 5 M are kelvins and moles there.
UNSCALED = _pattern("(?!)")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,2}(?:,\d\d)+,\d{3}(?:\.\d+)?")
_GROUPED = re.compile(r"\d{1,3}(?:([ '_])\d{3})(?:\1\d{3})*(?:\.\d+|,(?!\d{3}(?!\d))\d+)?")
_DOTTED = re.compile(r"\d{1,3}(?:\.\d{3}){2,}|\d{1,3}(?:\.\d{3})+,\d+")
_PLAIN = re.compile(r"\d+(?:\.\d+)?|\.\d+")
_LEAD = re.compile(
    r"""(?:[\s:=~≈\[({"'|]+|<(?=[^<>\n]{1,80}>)|(?:approximately|approx\.?|about|roughly|around|nearly|exactly|only|just|simply|clearly
    |therefore|thus|hence|indeed|probably|likely|equal[ ]to|equals|is|be|that|a[ ]total[ ]of|the[ ]number
    |[a-zA-Z][ ]?=)(?![a-zA-Z]))*""",
    re.VERBOSE | re.IGNORECASE,
)
_OPERATOR = re.compile(
    r"[ ]?(?:[+*^/]|-(?![a-zA-Z\s])|[ ]-[ ])[ ]?[\d($.]|[ ](?:to|or)[ ][$]?\d|[ ]\d"
    r"|[ ]?\^|\+(?!\w)|i(?!\w)|[ ]?(?:sqrt|pi)(?![a-zA-Z])"
    r"|[ ]and[ ](?:an?|one|two|three)[ -](?:half|thirds?|quarters?)"
    r"|[ ](?:or|and)[ ](?:more|fewer|less|greater|above|below|over|under|up)\b"
)
_AFTER_DIGIT = re.compile(r"\d[ -](?=[\d.])")
_SPACED = re.compile("[ '_]")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")
_EQUALS = re.compile(r"[=≈]")
_DIGITS = re.compile(rf"[-+]?{_CURRENCY}?[ ]?[-+]?\.?\d")


def grouped(run: str) -> str | None:
    """Return a run of digits, points and commas in Python's form, or None if it is ambiguous."""
    if run[:1] == "0" and run[1:2].isalpha():
        return str(int(run, 0))
    if _PLAIN.fullmatch(run):
        return run
    if _THOUSANDS.fullmatch(run):
        return run.replace(",", "")
    if _GROUPED.fullmatch(run):
        return re.sub("[ '_]", "", run).replace(",", ".")
    if _DOTTED.fullmatch(run):
        return run.replace(".", "").replace(",", ".")
    return None


def value(match: re.Match[str]) -> Fraction | None:
    """Return the value of a match of NUMBER, or None if it is ambiguous, too long or divides by zero."""
    plain = grouped(match["run"])
    if plain is None or len(match[0]) > MOST_DIGITS:
        return None
    number = Fraction(int(plain)) if plain.isdigit() else Fraction(plain)
    if match["exponent"]:
        power = int(re.split(r"[eE^]|\*\*", match["exponent"])[-1].strip(" {}"))
        if abs(power) > MOST_EXPONENT:
            return None
        number *= Fraction(10) ** power
    if match["over"]:
        top, _, bottom = match["over"].rpartition("/")
        if int(bottom) == 0 or (top.strip() and number.denominator != 1):
            return None
        number = number + Fraction(int(top), int(bottom)) if top.strip() else number / int(bottom)
    if match["scale"]:
        words = re.split(r"[ -]", match["scale"].strip(" -"))
        for word in words:
            number *= SCALES.get(word.removesuffix("s")) or _SUFFIXES[word.lower()]
    return -number if (match["sign"] == "-") != (match["inner"] == "-") else number


def leading(text: str) -> re.Match[str] | None:
    """Return the number that a statement begins with: "about $18 per day", "x = 18", "9 * 2 = 18".

    Of a chain of equalities in the first sentence, the last is read. None if the statement does not begin
    with a number, or if an expression or a range follows that is not worked out.
    """
    start = lead_in(text)
    end = _SENTENCE_END.search(text, start)
    stop = end.start() if end else len(text)
    for sign in _EQUALS.finditer(text, start, stop):
        start = sign.end()
    match = NUMBER.match(text, lead_in(text, start))
    if match is None or value(match) is None or _OPERATOR.match(text, match.end()):
        return None
    return match


def begins(text: str) -> bool:
    """Return whether a statement begins with digits, readable or not."""
    return _DIGITS.match(text, lead_in(text)) is not None


def lead_in(text: str, at: int = 0) -> int:
    """Return where a statement's first weighty word stands: after "about", "exactly", "x =" and signs."""
    lead = _LEAD.match(text, at)
    return lead.end() if lead else at


def last(text: str) -> re.Match[str] | None:
    """Return the last readable number of the text's tail; None where the last digits are a run that is not.

    Such a run is ``1 000 00``, ``12 34`` or ``5-7``: nobody knows which of its parts would be meant.
    """
    matches = list(NUMBER.finditer(text, max(0, len(text) - TAIL)))
    for match in reversed(matches):
        if value(match) is not None:
            start = match.start() - 2
            return None if start >= 0 and _AFTER_DIGIT.match(text, start) else match
        if _SPACED.search(match["run"]):
            return None
    return None


def written(number: Fraction) -> str:
    """Return the one way to write a number: 18, -0.5, 1/3."""
    if number.denominator == 1:
        return str(number.numerator)
    rest, places = number.denominator, 0
    for prime in (2, 5):
        count = 0
        while rest % prime == 0:
            rest //= prime
            count += 1
        places = max(places, count)
    if rest != 1 or places > 60:
        return f"{number.numerator}/{number.denominator}"
    digits = str(abs(number.numerator) * 10**places // number.denominator).rjust(places + 1, "0")
    return f"{'-' if number < 0 else ''}{digits[:-places]}.{digits[-places:]}"


def first_sentence(text: str) -> str:
    """Return the text up to the end of its first sentence."""
    end = _SENTENCE_END.search(text, lead_in(text))
    return text[: end.start()] if end else text
