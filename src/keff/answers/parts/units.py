"""Units behind the number of a mathematical answer: which are dropped, and which say another amount.

In one question "5" and "5 cm" are one answer, so one unit of each kind is dropped: that which questions ask
for most. The others stay, for 5 cents are not 5 dollars and 5 minutes are not 5 hours; so does what turns an
amount around (5 pm, 5 miles north, 5 more). Things that are counted (5 apples) are dropped.
"""

from __future__ import annotations

import re
from fractions import Fraction

from keff.answers.parts import numbers

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
_DROPPED = {kind[0][0] for kind in _UNITS} | {"miles per hours"}
_TURNS = frozenset(
    (
        *("am", "pm", "bc", "bce", "ad", "ce", "north", "south", "east", "west", "up", "down"),
        *("left", "right", "above", "below", "ahead", "behind", "clockwise", "counterclockwise"),
        *("more", "less", "fewer"),
    )
)
_AREAS = {"square": "^2", "sq": "^2", "cubic": "^3", "cu": "^3"}
_SIGNS = {"€": "euros", "£": "pounds", "¥": "yen", "₹": "rupees"}
_EXPONENT = re.compile(r"\s*\^\s*\{?([23])\}?$")
_PER = re.compile(r"\s*/\s*|\s+(?:per|an?)\s+")
_NUMBER = re.compile(r"-?(?:\d{1,300}|\d{1,3}(?:,\d{3})+)(?:\.\d{1,300})?", re.ASCII)
_TRAILING = re.compile(
    r"(?<=[\d})])(?P<gap>\s*)(?!(?:pi|sqrt|or|and|mod|choose)\b)(?!(?:sin|cos|tan|log|ln|exp|cot|csc)[a-z]?\b)"
    r"(?P<words>[a-zA-Z]{2,20}\.?(?:(?:\s+|\s*/\s*)[a-zA-Z.]{1,20}){0,4})(?P<power>\s*\^\s*\{?\d\}?)?\s*$"
)
_WRAPPED = re.compile(
    r"(?P<before>[^\s]?)\s*\\(?:text|textrm|mathrm|mbox|rm)\s*\{\s*(?P<words>[a-zA-Z][^{}]{0,60})\}"
    r"(?P<power>\s*\^\s*\{?\d\}?)?\s*$"
)
_CLOCK = re.compile(r"\b([ap])\.\s?m\b\.?", re.IGNORECASE)
_WORD = re.compile(r"(?=[a-z]*[aeiou])(?![abcdxyz]+$)[a-z]{4,12}", re.IGNORECASE)
_LETTERS = re.compile(r"[a-zA-Z]{2,3}")
_UNIT = "|".join(sorted({*_NAMES.values(), *_TURNS}, key=len, reverse=True))
# A number with the unit that was kept, as ``without_unit`` writes it.
MEASURED = re.compile(rf"(.+?) ((?:(?:{_UNIT})(?:\^[23])?(?: per (?:{_UNIT}))?(?: |$))+)")


def without_unit(text: str) -> tuple[str, str]:
    """Return an answer without the unit at its end, and the unit where it says another amount."""
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
        if product and _first(words) not in {*_NAMES, *_TURNS, *numbers.SCALES}:
            return text, ""
    factor, unit = meaning(words + (power or ""))
    if factor != 1:
        plain = before.strip()
        value = Fraction(plain.replace(",", "")) * factor if _NUMBER.fullmatch(plain) else None
        before = f"{plain}\\cdot{factor}" if value is None else numbers.written(value)
    return before, unit


def meaning(words: str) -> tuple[int, str]:
    """Return by how much words multiply a number (million), and the unit that is kept; empty for none."""
    exponent = _EXPONENT.search(words)
    tokens = _EXPONENT.sub("", words).lower().replace(".", "")
    above, *below = _PER.split(tokens, maxsplit=1)
    names, factor = above.split(), 1
    while names and names[0] in numbers.SCALES:
        factor *= numbers.SCALES[names.pop(0)]
    power = f"^{exponent[1]}" if exponent else ""
    while names and names[0] in _AREAS:
        power = _AREAS[names.pop(0)]
    unit = _NAMES.get(names[0], "") if names else ""
    over = _NAMES.get(below[0].split()[0], "") if below and below[0].split() else ""
    unit = f"{unit}{power} per {over}" if unit and over else unit + power if unit else ""
    dropped = unit in _DROPPED or unit.partition("^")[0] in _DROPPED
    return factor, " ".join(
        [*([] if dropped or not unit else [unit]), *(each for each in names if each in _TURNS)]
    )


def _first(words: str) -> str:
    return re.split(r"[\s/^]", words.strip().lower().replace(".", ""), maxsplit=1)[0]
