"""Numbers, units and LaTeX as written by people and models, in canonical form.

Read are 1,234.50, 1 234 (any space), 1'234, 1_234, 1.234.567, 1,00,000, .5, 3/4, 3 1/2, 1.5e3, 1.5 * 10^3,
$-5, 18%, 2.5 million, 2 hundred thousand, 5k, $5 M, 0x1F, and the LaTeX forms of these. A percent sign is a
unit: 50% reads as 50, because questions that ask for a percentage have 50 as their answer. Not read, because
one cannot know what is meant: 3,5 (a list or a decimal comma), 7:30, 5-7, 12/25/2020, 1 000 00, 1,234,56, <5,
5 or more, 5π. Parts of these are never read.

In one question "5" and "5 cm" are one answer, so one unit of each kind is dropped: that which questions ask
for most. The others stay, for 5 cents are not 5 dollars and 5 minutes are not 5 hours; so does what turns an
amount around (5 pm, 5 miles north, 5 more). Things that are counted (5 apples) are dropped.

The rules cover the same ground as the normalisers of Hendrycks et al. (2021, MATH) and Lewkowycz et al.
(2022, Minerva): degrees, percent, dollar signs and most units go, fractions and roots get their braces.
"""

from __future__ import annotations

import math
import re
from decimal import Context, Decimal, Inexact
from fractions import Fraction

from keff.answers.parts.base import TAIL
from keff.answers.parts.magnitudes import (
    ALTERED,
    CURRENCY,
    ENGLISH,
    MORE,
    PIECE,
    SCALE,
    SIGN,
    SIGNS,
    UNKNOWN_SCALE,
    WORDS,
)
from keff.answers.parts.number_words import (
    AMOUNTS_TO,
    BOUND,
    BOUNDED,
    CLAUSE,
    HALF,
    JOIN,
    MINUS,
    REASON,
    UNITS,
    UNSPACED,
    either,
)

# Exact fractions of longer numbers take time with the square of their digits.
MOST_DIGITS = 400
# 1e400 written out is the longest number that is taken.
MOST_EXPONENT = 400
MOST_DECIMALS = 60
# Quotients with more digits than any number that is read are fractions.
_EXACT = Context(2 * (MOST_DIGITS + MOST_EXPONENT), traps=[Inexact])

# Suffixes of magnitude; before a unit these letters are units themselves, see ``UNSCALED``.
_SUFFIXES = {
    "k": 10**3,
    "m": 10**6,
    "mn": 10**6,
    "mi": 10**6,
    "b": 10**9,
    "bn": 10**9,
    "bi": 10**9,
    "t": 10**12,
}
_SIZES = {
    **_SUFFIXES,
    **{word.lower(): size for word, size in WORDS.items()},
    **SIGNS,
}
# Letters of scripts with spaces between words: a number behind one is a part of a name (H2O, x5). Other
# scripts have no space there (答案是18).
_LETTERS_BEFORE = r"A-Za-z\u00aa-\u02af\u0370-\u058f\u10a0-\u10ff\u1e00-\u1fff"
# Prefixes of Hebrew and Arabic are joined by a hyphen, which is no minus.
_JOINED_BY_HYPHEN = r"\u0590-\u06ff"


def _pattern(suffix: str) -> re.Pattern[str]:
    return re.compile(
        rf"""(?=[-+.\d]|{CURRENCY})(?<![{_LETTERS_BEFORE}\d_./^\\])(?<!\d[',:])(?<!\d{SIGN})
        (?P<sign>(?<![-{_JOINED_BY_HYPHEN}])[-+])?(?:(?P<currency>{CURRENCY})[ ]?(?P<inner>[-+])?)?
        (?P<run>(?>0[xX][0-9a-fA-F]{{1,40}}(?!\w)|0[bB][01]{{1,80}}(?!\w)|0[oO][0-7]{{1,40}}(?!\w)
            |\.?\d(?:[\d.,]*\d)?
            (?:(?:[ ]\d{{3}}(?![\d/]|[ ]?/[ ]?\d)|'\d{{3,}}|_(?!(?:[2-9]|1[0-6])(?!\d))\d+)
                (?:[.,]\d+)*(?:[ ]\d+(?![\d/]))*)*))
        (?P<power>[ ]?\^[ ]?(?:\{{[ ]?-?\d{{1,3}}[ ]?\}}|\([ ]?[-+]?\d{{1,3}}[ ]?\)|[-+]?\d{{1,3}}(?![\d.]))
            (?![ ]?\^))?
        (?P<exponent>[eE][-+]?\d{{1,9}}(?!\w|\.\d)|[ ]?[x*][ ]?10[ ]?(?:\^|\*\*)[ ]?
            (?:\{{[ ]?[-+]?\d{{1,4}}[ ]?\}}|\([ ]?[-+]?\d{{1,4}}[ ]?\)|[-+]?\d{{1,4}}))?
        (?P<over>[ ]?/[ ]?\d{{1,300}}(?![\d/])|[ ]\d{{1,6}}/\d{{1,6}}(?![\d/]))?
        (?P<scale>{SCALE}|{suffix})?+(?P<more>{MORE})
        (?!{UNKNOWN_SCALE})(?![ ]?:[ ]?\d|/\d|'\d|[ ]?[eE][ ]?[-+]?\d|(?<=0)[xX]\w|[xX]\d
            |[ ]?(?:[π√]|\\(?:pi|sqrt)\b))""",
        re.VERBOSE,
    )


# A capital T is trillions after a currency only: elsewhere it is a tesla, or a name.
NUMBER = _pattern(
    r"(?:[kKMB]|[mb]n|(?(currency)[ ]?(?:[kKMBT]|[mb][in])|[ ](?:bn|[kKMB][ ]?[€£$₹¥])))(?![\w²³°^/*])"
)
# A number before a unit: 5 K and 5 M are kelvins and moles there.
UNSCALED = _pattern("(?!)")
# Groups of three, or the Indian grouping by two: 1,00,000.
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,2}(?:,\d\d)+,\d{3}(?:\.\d+)?")
# The same separator throughout: 1 234'567 is no number that anybody writes.
_GROUPED = re.compile(r"\d{1,3}(?:([ '_])\d{3})(?:\1\d{3})*(?:\.\d+|,(?!\d{3}(?!\d))\d+)?")
# Two groups at least, or a decimal comma behind: one group alone (1.234) is a decimal number.
_DOTTED = re.compile(r"\d{1,3}(?:\.\d{3}){2,}|\d{1,3}(?:\.\d{3})+,\d+")
# A decimal comma: certain before a word of magnitude only (2,5 Millionen).
_COMMA = re.compile(r"\d{1,3},\d{1,2}")
_PART = re.compile(rf"(\d[\d,.]*)({SCALE}|)")
_PLAIN = re.compile(r"\d+(?:\.\d+)?|\.\d+")
_LEAD = re.compile(
    r"""(?:[\s:=~≈\[({"'|]+|<(?=[^<>\n]{1,80}>)|(?:approximately|approx\.?|about|roughly|around|nearly|exactly|only|just|simply|clearly
    |therefore|thus|hence|indeed|probably|likely|equal[ ]to|equals|is|be|that|a[ ]total[ ]of|the[ ]number
    |[a-zA-Z][ ]?=)(?![a-zA-Z]))*""",
    re.VERBOSE | re.IGNORECASE,
)
# What shows that a number is a part of an expression or a range: then it is not the value.
_OPERATOR = re.compile(
    r"[ ]?(?:[+*^/x•|~～—…、]|-(?![a-zA-Z\s])|[ ]-[ ]|\.\.++|->|→)[ ]?[\d($.]|[ ](?:to|or)[ ][$]?\d|[ ]\d"
    r"|\)?[ ]?\^|\)[*/]|[ ]?\||\+(?!\w)|-(?=[.。)\s]*$)|i(?!\w)|[ ]?(?:sqrt|pi)(?![a-zA-Z])"
    rf"|(?:[ ]?[^\W\d_]{{2,15}})?(?:{HALF}|{BOUNDED})"
    r"|[ ](?:raised )?to the (?:power|\d)|[ ]out of \d|[ ](?:\w+ )?below zero\b|[ ](?:squared|cubed)\b"
    r"|[ ]?(?:≤|<=?[ ]?(?=[a-z][ ]?[<≤]))[ ]?[a-z](?!\w)"
    r"|[ ]?°[ ]?\d|[xyzn](?!\w)|[成割折](?!\w)|[ ]?(?:次[方幂冪]|乗|제곱)"
    r"|(?![kcdm]?m[23](?!\d))[^\W\d_]{1,3}\d",
    re.IGNORECASE,
)
# 12 34 and 5-7: the number at the end is a part of something that cannot be read.
_AFTER_DIGIT = re.compile(r"\d[ -](?=[\d.])")
_SPACED = re.compile("[ '_]")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")
_EQUALS = re.compile(r"[=≈]")
_UNITS_BETWEEN = r"[ ]{0,3}(?:[^\W\d_]{1,15}\.?[ ]{0,3}){0,3}?"
_ANOTHER = re.compile(
    rf"(?:[ ]?,|{_UNITS_BETWEEN}(?:,?[ ]{{0,2}}{JOIN}|\((?:or|oder|ou|o|или)\b)"
    r"|[ ]?(?P<unit>[^\W\d_]{1,12}),(?=[ ]?[-+]?[\d.]+[ ]?(?P=unit)\b))"
    rf"\s*(?:{JOIN}\s*)?(?:(?:also|both|either|maybe|perhaps)[ ])?[-+]?{CURRENCY}?[ ]?[-+]?\.?\d"
)
_BEFORE = re.compile(
    rf"\d[ ]?%?(?:[ ]?[^\W\d_]{{1,12}})?(?:(?:[ ]?,[ ]?|,?[ ]{{0,3}}{JOIN}[ ]{{0,3}})"
    r"(?:[a-zA-Z]\w{0,9}[ ]?=[ ]?)?"
    r"|[ ](?:to|bis|through|à|a|до|hay|ile|vs|versus|per|of|in|by|times|plus|mod|choose|divided by)[ ]"
    r"|[ ]?(?:[至到~～—…|、]|から|에서)[ ]?)$"
)
# x = 3 or x = 5: each names a value.
_NAMED_AGAIN = re.compile(
    rf"\d[^\n=]{{0,20}}(?:,|{JOIN})\s*[a-zA-Z]\w{{0,9}}(?:\([a-zA-Z]\))?\s*=\s*[-+]?\.?\d"
)
# Digits at the beginning, readable or not: an unreadable number abstains, and no later one stands for it.
_DIGITS = re.compile(rf"[-+]?{CURRENCY}?[ ]?[-+]?\.?\d")


# A multiple of a constant or of a root, which no number is.
_MULTIPLE = re.compile(r"\d[ ]?(?:π|√|\\(?:pi|sqrt)\b)")


def grouped(run: str) -> str | None:
    """Return a run of digits, points and commas in Python's notation; None where ambiguous."""
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
    """Return the value of a NUMBER match; None where ambiguous, too long or a division by zero."""
    plain = grouped(match["run"])
    if plain is None and match["scale"] and _COMMA.fullmatch(match["run"]):
        plain = match["run"].replace(",", ".")
    if plain is None or len(match[0]) > MOST_DIGITS:
        return None
    number = _raised(match, plain)
    if number is not None and match["over"]:
        number = _divided(number, match["over"])
    if number is not None and match["scale"]:
        number = _scaled(number, match)
    return -number if number is not None and (match["sign"] == "-") != (match["inner"] == "-") else number


def _raised(match: re.Match[str], plain: str) -> Fraction | None:
    """Return digits with their power and exponent; None where the number would be too long."""
    number = Fraction(int(plain)) if plain.isdigit() else Fraction(plain)
    if match["power"]:
        raised = int(match["power"].strip(" ^{}()"))
        if abs(raised) * max(len(plain), 1) > MOST_EXPONENT or (raised < 0 and not number):
            return None
        number **= raised
    if match["exponent"]:
        power = int(re.split(r"[eE^]|\*\*", match["exponent"])[-1].strip(" {}()"))
        if abs(power) > MOST_EXPONENT:
            return None
        number *= Fraction(10) ** power
    return number


def _divided(number: Fraction, over: str) -> Fraction | None:
    """Return a fraction (/4), or a mixed number ( 1/2); None for a division by zero."""
    top, _, bottom = over.rpartition("/")
    if int(bottom) == 0 or (top.strip() and number.denominator != 1):
        return None
    return number + Fraction(int(top), int(bottom)) if top.strip() else number / int(bottom)


def _scaled(number: Fraction, match: re.Match[str]) -> Fraction | None:
    """Return a number times its words and signs of magnitude; None where a later part is larger."""
    size = _size(match["scale"])
    if not size:
        return None
    number *= size
    for digits, signs in _PART.findall(match["more"]):
        part, below = grouped(digits), _size(signs)
        # Each part is smaller than the sign before it: 3万5千, never 3千5万.
        if part is None or Fraction(part) * below >= size:
            return None
        number += Fraction(part) * below
        size = below
    return number


def _size(scale: str) -> int:
    """Return the factor of words or signs of magnitude; 0 where a word has several."""
    words = re.findall(PIECE, scale.replace(" de ", " ").rstrip("€£$₹¥ "))
    return math.prod(_SIZES.get(word.lower(), 0) for word in words)


def leading(text: str) -> re.Match[str] | None:
    """Return the number at the start of a statement: "about $18 per day", "x = 18", "9 * 2 = 18".

    Of a chain of equalities in the first sentence, the last is read. None if the statement does not begin
    with a number, if an expression, a range or another number of the same amount follows, or if the sentence
    goes on to what the number comes to: "3 hours are $15".
    """
    at = start = lead_in(text)
    stop = _SENTENCE_END.search(text, start)
    end = stop.start() if stop else len(text)
    for sign in _EQUALS.finditer(text, start, end):
        at = sign.end()
    if at != start and _NAMED_AGAIN.search(text, start, end):
        return None
    match = NUMBER.match(text, start if at == start else lead_in(text, at))
    if match is None or _goes_on(text, match.end()) or _comes_to(text, match.end(), end):
        return None
    # A few digits and nothing else have a value.
    few = match[0] == match["run"].isdecimal() and len(match[0]) <= MOST_DIGITS
    return match if few or value(match) is not None else None


def _goes_on(text: str, at: int) -> bool:
    """Return whether what follows a number makes it a part of something longer."""
    if _OPERATOR.match(text, at):
        return True
    if _DIGIT_AHEAD.match(text, at) is None:
        return False
    if _ANOTHER.match(text, at) or _UNITS_AGAIN.match(text, at):
        return True
    further = _NEXT.match(text, at)
    return further is not None and not REASON.search(further["between"])


def _comes_to(text: str, at: int, end: int) -> bool:
    """Return whether a sentence says what the number before ``at`` comes to, and ends with that."""
    sign = AMOUNTS_TO.search(text, at, end)
    if sign is None or CLAUSE.search(text, at, sign.start()):
        return False
    found = NUMBER.match(text, sign.end())
    return found is not None and _DIGITS.search(text, found.end(), end) is None


def signed(text: str) -> str:
    """Return a statement with a word for minus at its start as the sign: "negative 5" is -5."""
    minus = _MINUS.match(text, lead_in(text))
    return text if minus is None else f"{text[: minus.start()]}-{text[minus.end() :]}"


def begins(text: str) -> bool:
    """Return whether a statement begins with digits."""
    return _DIGITS.match(text, lead_in(text)) is not None


def lead_in(text: str, at: int = 0) -> int:
    """Return the position of a statement's first content: after "about", "exactly", "x =" and signs."""
    lead = _LEAD.match(text, at)
    return lead.end() if lead else at


def last(text: str) -> re.Match[str] | None:
    """Return the last readable number in a text's tail; None where its last digits are ambiguous.

    Such a run is ``1 000 00``, ``12 34``, ``5-7``, ``3 and 5`` or ``5 hours 30``: nobody knows which part
    would be meant. Neither is one before a multiple of a constant or a root: "radius 5, area 25π".
    """
    matches = list(NUMBER.finditer(text, max(0, len(text) - TAIL)))
    for match in reversed(matches):
        if value(match) is not None:
            part = is_joined(text, match.start()) or _OPERATOR.match(text, match.end())
            return None if part or _MULTIPLE.search(text, match.end()) else match
        if _SPACED.search(match["run"]) or match["scale"]:
            return None
    return None


def is_joined(text: str, at: int) -> bool:
    """Return whether the number at a position is the last of several, or a part of an expression."""
    before = text[max(0, at - 40) : at]
    apart = at >= 2 and _AFTER_DIGIT.match(text, at - 2) is not None
    return apart or _BEFORE.search(before) is not None or _PARTIAL.search(before[-28:]) is not None


def written(number: Fraction) -> str:
    """Return a number's canonical text: 18, -0.5, 1/3."""
    if number.denominator == 1:
        return str(number.numerator)
    try:
        decimal = _EXACT.divide(Decimal(number.numerator), Decimal(number.denominator))
    except Inexact:
        decimal = None
    # Longer decimals would be harder to read than the fraction.
    if decimal is None or -int(decimal.as_tuple().exponent) > MOST_DECIMALS:
        return f"{number.numerator}/{number.denominator}"
    return f"{decimal:f}"


def first_sentence(text: str) -> str:
    """Return the text up to the end of its first sentence."""
    end = _SENTENCE_END.search(text, lead_in(text))
    return text[: end.start()] if end else text


# One kind a line, its units with their spellings; the first unit of a line is the one that is dropped.
_KINDS = """
dollars dollar usd bucks, cents cent pennies penny, euros euro eur, yen, rupees rupee rs inr
degrees degree deg, radians radian rad, gradians gradian
percent percents
hours hour hrs hr h, minutes minute mins min, seconds second secs sec s, days day, weeks week, months month, \
years year yrs yr, decades decade, centuries century, milliseconds ms
cm centimeters centimeter centimetres centimetre, mm millimeters millimeter millimetres millimetre, \
meters m meter metres metre, km kilometers kilometer kilometres kilometre, inches inch, feet foot ft, \
yards yard yd yds, miles mile mi
kg kilograms kilogram kilos kilo, grams g gram, mg milligrams milligram, tons ton tonnes tonne, \
pounds pound lbs lb, ounces ounce oz
liters liter litres litre l, ml milliliters milliliter millilitres millilitre, gallons gallon gal, \
quarts quart qt, pints pint pt, cups cup, tablespoons tablespoon, teaspoons teaspoon
mph, kmh kph
"""

_UNITS = [[unit.split() for unit in kind.split(",")] for kind in _KINDS.strip().split("\n")]
_NAMES = {spelling: unit[0] for kind in _UNITS for unit in kind for spelling in unit}
_DROPPED_UNITS = {kind[0][0] for kind in _UNITS} | {"miles per hours"}
# Up to three words of any language between two numbers: 5 hours 30 minutes, 5 hay 7, 10 hoch 6.
_NEXT = re.compile(
    rf"[ ]?(?P<between>(?:(?:[{UNSPACED}]{{1,4}}|(?![{UNSPACED}])[^\W\d_][^\s\d.,;:()=!?]{{0,14}})"
    rf"\.?[ ]{{0,3}}){{1,3}}?)[-+]?{CURRENCY}?[ ]?\.?\d"
)
_DIGIT_AHEAD = re.compile(r"\D{0,60}\d")
_MINUS = re.compile(rf"{MINUS}(?=[$€£¥₹]?[ ]?\.?\d)", re.IGNORECASE)
# Amounts of two units: 3 weeks, 2 days.
_UNITS_AGAIN = re.compile(rf"[ ]?(?:{either(_NAMES)}),[ ]?\d[\d.]*[ ]?(?:{either(_NAMES)})\b")
# What makes a number behind it a part: an operator, a bound, a word for minus or half more, a unit before it.
_PARTIAL = re.compile(
    r"(?:√|\b(?:sqrt|log|ln|sin|cos|tan|exp)[ ]?[({ ]{0,2}|\d°[ ]?|[\w)\]}][ ]?[*^/+][ ]?[($\{]{0,3}"
    r"|\d[ ]?[x•][ ]?|\d[ ]:[ ]|-[ ]{1,3}|-[ ]?[({]|\||(?<![A-Za-z\d\"'/])[<>]=?[ ]?|[≤≥][ ]?|\d[eE][ ]"
    r"|\bto the (?:power of )?|(?<!百)分[之の]|不是"
    r"|\b(?:hoch|puissance|elevado a|в степени|not|nicht|pas|не)[ ]"
    rf"|{BOUND}|{MINUS}|(?<!\w)(?:{ALTERED})"
    rf"|\d[ ]?(?:{UNITS}|(?-i:{either(_NAMES)})\b|{SCALE})[ ,]{{0,2}}){CURRENCY}?[ ]?$",
    re.IGNORECASE,
)
# These say which way an amount goes, so they stay: 5 pm is not 5, and 5 up is not 5 down.
_TURNS = frozenset(
    (
        *("am", "pm", "bc", "bce", "ad", "ce", "north", "south", "east", "west", "up", "down"),
        *("left", "right", "above", "below", "ahead", "behind", "clockwise", "counterclockwise"),
        *("more", "less", "fewer"),
    )
)
_AREAS = {"square": "^2", "sq": "^2", "cubic": "^3", "cu": "^3"}
_SIGNS = {"€": "euros", "£": "pounds", "¥": "yen", "₹": "rupees"}
# Areas and volumes only: no question asks for a fourth power of a length.
_EXPONENT = re.compile(r"\s*\^\s*\{?([23])\}?$")
_PER = re.compile(r"\s*/\s*|\s+(?:per|an?)\s+")
_NUMBER = re.compile(r"-?(?:\d{1,300}|\d{1,3}(?:,\d{3})+)(?:\.\d{1,300})?", re.ASCII)
# Words at the end, at least two letters, that are no function or connective; at most five of them, so that a
# sentence is no unit.
_TRAILING = re.compile(
    r"(?<=[\d})])(?P<gap>\s*)(?!(?:pi|sqrt|or|and|mod|choose)\b)(?!(?:sin|cos|tan|log|ln|exp|cot|csc)[a-z]?\b)"
    r"(?P<words>[a-zA-Z]{2,20}\.?(?:(?:\s+|\s*/\s*)[a-zA-Z.]{1,20}){0,4})(?P<power>\s*\^\s*\{?\d\}?)?\s*$"
)
# The same within \text{...}: there even one letter may be a unit.
_WRAPPED = re.compile(
    r"(?P<before>[^\s]?)\s*\\(?:text|textrm|mathrm|mbox|rm)\s*\{\s*(?P<words>[a-zA-Z][^{}]{0,60})\}"
    r"(?P<power>\s*\^\s*\{?\d\}?)?\s*$"
)
# "5 p.m." loses its points first, which would end a sentence.
_CLOCK = re.compile(r"\b([ap])\.\s?m\b\.?", re.IGNORECASE)
# Four letters with a vowel that are not all names of variables: a word, not a product.
_WORD = re.compile(r"(?=[a-z]*[aeiou])(?![abcdxyz]+$)[a-z]{4,12}", re.IGNORECASE)
_LETTERS = re.compile(r"[a-zA-Z]{2,3}")
_UNIT = "|".join(sorted({*_NAMES.values(), *_TURNS}, key=len, reverse=True))
# A number with the unit that was kept, as ``without_unit`` writes it.
MEASURED = re.compile(rf"(.+?) ((?:(?:{_UNIT})(?:\^[23])?(?: per (?:{_UNIT}))?(?: |$))+)")


def without_unit(text: str) -> tuple[str, str]:
    """Return an answer without its trailing unit, and the unit where it changes the amount."""
    text = _CLOCK.sub(r"\1m", text)
    if (sign := _SIGNS.get(text.lstrip("- ")[:1])) is not None:
        rest = text.replace(text.lstrip("- ")[0], "", 1)
        return (rest.strip(), sign) if _NUMBER.fullmatch(rest.replace(" ", "")) else (text, "")
    wrapped = _WRAPPED.search(text)
    if wrapped is not None and wrapped["before"]:
        before, words, power = text[: wrapped.end("before")], wrapped["words"], wrapped["power"]
        if not (before[-1] in "})" or before[-1].isdigit()) and _first(words) not in _NAMES:
            return text, ""
    else:
        match = _TRAILING.search(text)
        if match is None:
            return text, ""
        before, words, power = text[: match.start()], match["words"], match["power"]
        # 2ab and 2 xy are products, 2cm is a length, and 2apples has lost its space.
        product = _LETTERS.fullmatch(words) or (not match["gap"] and not _WORD.fullmatch(words))
        if product and _first(words) not in {*_NAMES, *_TURNS, *ENGLISH}:
            return text, ""
    factor, unit = meaning(words + (power or ""))
    if factor != 1:
        plain = before.strip()
        value = Fraction(plain.replace(",", "")) * factor if _NUMBER.fullmatch(plain) else None
        before = f"{plain}\\cdot{factor}" if value is None else written(value)
    return before, unit


def meaning(words: str) -> tuple[int, str]:
    """Return the factor that words mean (million), and the unit to keep; empty for none."""
    exponent = _EXPONENT.search(words)
    tokens = _EXPONENT.sub("", words).lower().replace(".", "")
    above, *below = _PER.split(tokens, maxsplit=1)
    names, factor = above.split(), 1
    while names and names[0] in ENGLISH:
        factor *= ENGLISH[names.pop(0)]
    power = f"^{exponent[1]}" if exponent else ""
    while names and names[0] in _AREAS:
        power = _AREAS[names.pop(0)]
    unit = _NAMES.get(names[0], "") if names else ""
    over = _NAMES.get(below[0].split()[0], "") if below and below[0].split() else ""
    unit = f"{unit}{power} per {over}" if unit and over else unit + power if unit else ""
    dropped = unit in _DROPPED_UNITS or unit.partition("^")[0] in _DROPPED_UNITS
    return factor, " ".join(
        [*([] if dropped or not unit else [unit]), *(each for each in names if each in _TURNS)]
    )


def _first(words: str) -> str:
    return re.split(r"[\s/^]", words.strip().lower().replace(".", ""), maxsplit=1)[0]


# What changes the look, and the signs of units that are dropped: degrees, percent, dollars.
_DROPPED = re.compile(
    r"\\left(?![a-zA-Z])|\\right(?![a-zA-Z])|\\[bB]igg?[lr]?(?![a-zA-Z])|\\displaystyle"
    r"|\\limits|(?<!\\)\\[!,;: ]|~"
    r"|\\q?quad(?![a-zA-Z])|\\\$|\$|\\%|%|\^\s*\{?\s*\\circ\s*\}?|\\degree(?:s)?|°|\\[()\[\]]"
)
# 5^{th} is 5: which one was asked for is said by the question.
_ORDINAL = re.compile(r"(?<=\d)\s*\^?\s*\{?\s*\\?(?:text|mathrm)?\s*\{?\s*(?:st|nd|rd|th)\s*\}{1,2}")
_TEXT = re.compile(
    r"\\(?:text|textbf|textit|textrm|texttt|mathrm|mathbf|mathit|mathsf|mbox|boxed|fbox)\s*\{([^{}]{0,200})\}"
)


def rules(*spellings: tuple[str, str]) -> list[tuple[re.Pattern[str], str]]:
    """Return (pattern, replacement) pairs, applied in order."""
    return [(re.compile(pattern), form) for pattern, form in spellings]


# Spellings of one thing.
_SAME = rules(
    (r"\\[dtc]frac(?![a-zA-Z])", r"\\frac"),
    (r"\\leq?(?:slant)?(?![a-zA-Z])|≤|<=", r"\\le "),
    (r"\\geq?(?:slant)?(?![a-zA-Z])|≥|>=", r"\\ge "),
    (r"\\neq?(?![a-zA-Z])|≠|!=", r"\\ne "),
    (r"\\times(?![a-zA-Z])|\\ast(?![a-zA-Z])|×", r"\\cdot "),
    (r"\\(?:lbrace|\{)", r"\\{"),
    (r"\\(?:rbrace|\})", r"\\}"),
    (r"\\(?:lvert|rvert|mid|vert)(?![a-zA-Z])", "|"),
    (r"π", r"\\pi "),
    (r"∞|\\inf(?![a-zA-Z])", r"\\infty "),
    (r"√\s*(\d+|\([^()]{1,40}\))|(?<![\\a-zA-Z])sqrt\s*(\d+|\([^()]{1,40}\))", r"\\sqrt{\1\2}"),
    (r"∪", r"\\cup "),
    (r"\\varnothing(?![a-zA-Z])|∅|\\\{\s*\\\}", r"\\emptyset "),
    (r"(?<![\\a-zA-Z])pi(?![a-zA-Z])", r"\\pi "),
    (r"±|\+/-", r"\\pm "),
    (r"\*\*", "^"),
)
# LaTeX lets braces be missing around one character; with them every form is the same.
_BRACED = rules(
    (r"\\frac\s*(\d|[a-zA-Z])\s*(\d|[a-zA-Z])", r"\\frac{\1}{\2}"),
    (r"\\frac\s*(\d|[a-zA-Z])\s*(?=\{)", r"\\frac{\1}"),
    (r"(\\frac\s*\{[^{}]{1,80}\})\s*(\d|[a-zA-Z])", r"\1{\2}"),
    # Of two plain integers; 1/2x and a/b are left alone, for it is not known what they divide.
    (r"(?<![\w.^/)}])(-?\d{1,18})\s*/\s*(\d{1,18})(?![\w.^/(])", r"\\frac{\1}{\2}"),
    (r"_\s*([a-zA-Z\d])", r"_{\1}"),
    (r"\\sqrt\s*(\[[^\]{}]{1,10}\])?\s*([a-zA-Z\d])(?![a-zA-Z]{2})", r"\\sqrt\1{\2}"),
    (r"(?<![\d.])\.(?=\d)", "0."),
)
_POWER = re.compile(r"\^\s*\{\s*([a-zA-Z\d])\s*\}")
_COMMAND_SPACE = re.compile(r"(\\[a-zA-Z]+)[ ]+(?=[a-zA-Z])")
# Thin spaces and braced commas group thousands in LaTeX: 1{,}000 and 1\,000.
_THIN_GROUP = re.compile(r"(?<=\d)(?:\{,\}|,\s*\\!|\\!\s*,|\\,)\s*(?=\d{3}(?!\d))")
_AND = re.compile(r",?\s(?:or|and)\s")
# 3e8 as computers write it; Euler's e has no digits right behind it.
_SCIENTIFIC = re.compile(r"(?<![\w.,])(\d{1,40}(?:\.\d{1,60})?|\.\d{1,60})[eE]([-+]?\d{1,4})(?![\w.^_])")
# Stands for a space that must stay while all others go; NULs were taken out before.
_KEEP = "\0"


def normalise(answer: str) -> str:
    r"""Return a mathematical answer without spaces, common units, sizes and styles.

    \frac and \sqrt braced.
    """
    text = _THIN_GROUP.sub("", answer.strip())
    text = _SCIENTIFIC.sub(_scientific, text)
    text = text.strip("`").removesuffix(".").strip()
    for pattern, form in _SAME:
        text = pattern.sub(form, text)
    text, unit = without_unit(_ORDINAL.sub("", _DROPPED.sub("", text)))
    # Wrappers nest two or three deep; a hostile text may nest more, and each pass costs its length.
    for _ in range(3):
        text, count = _TEXT.subn(r"\1", text)
        if not count:
            break
    if not unit:
        text, unit = without_unit(text)
    for pattern, form in _BRACED:
        text = pattern.sub(form, text)
    return f"{_squeeze(text).strip('.,;: ')} {unit}".strip()


def _scientific(match: re.Match[str]) -> str:
    power = int(match[2])
    if abs(power) > MOST_EXPONENT:
        return rf"{match[1]}\cdot10^{{{power}}}"
    return written(Fraction(match[1]) * Fraction(10) ** power)


def is_words(text: str) -> bool:
    """Return whether a text is prose, not mathematics: letters and spaces, two letters in a row."""
    return re.fullmatch(r"[^\W\d_]{2,}(?:[ '-]{1,2}[^\W\d_]+){0,20}", text) is not None


def _squeeze(text: str) -> str:
    text = " ".join(text.split())
    if is_words(text):
        return text
    text = _AND.sub(", ", text)
    text = _COMMAND_SPACE.sub(rf"\1{_KEEP}", text)
    text = re.sub(r",\s+", "," + _KEEP, text).replace(" ", "").replace(_KEEP, " ")
    return _POWER.sub(r"^\1", text)
