"""Numbers with units, compared in base units: 5 km = 5000 m (extra "quantity")."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import pint

from keff.answers.parts import notation
from keff.answers.parts.base import TAIL, ByForm, Extracted, NotRead, fold, visible
from keff.answers.parts.notation import rules
from keff.answers.parts.statements import Statement, plain, stated
from keff.records import frozen

# Longer ones are not parsed: this bounds the time that a hostile answer can take.
MOST_CHARACTERS = 300

# A bare dollar sign is read as the American one, as prices without a country mean it most often.
_CURRENCIES = {
    "$": "USD",
    "US$": "USD",
    "A$": "AUD",
    "C$": "CAD",
    "€": "EUR",
    "£": "GBP",
    "¥": "JPY",
    "₹": "INR",
    "Rs": "INR",
    "₩": "KRW",
}
_CODES = re.compile(
    r"(?:US ?dollars?|dollars?|euros?|USD|EUR|GBP|JPY|INR|KRW|CHF|CAD|AUD|CNY)\b", re.IGNORECASE
)
_NAMED = {"dollar": "USD", "dollars": "USD", "euro": "EUR", "euros": "EUR"}
_BEFORE = r"(?:(?:square|cubic|sq|cu|degrees?|nautical|metric|fluid|light|US)\.?\s+)*"
# One digit: no unit has a higher power.
_EXPONENT = r"(?:\s?(?:\^|\*\*)\s?\{?-?\d\}?(?!\d))?"
_FACTOR = rf"{_BEFORE}[a-zA-Zµμ°Ωå%][\w°µμΩ%]*{_EXPONENT}"
_SYMBOL = r"(?:[kmcMGµμn]?(?:m|s|g|h|N|Pa|J|W|Wh|V|K|mol|Hz|T|F|Ω)|lbf?|ft)"
# N m and kW h are products too; words of a sentence are not, so only symbols follow a space.
_TIMES = rf"(?:\s*[*/·]\s*|\s+per\s+|\s+(?={_SYMBOL}{_EXPONENT}(?:$|[\s).,*/·])))"
_UNIT = re.compile(rf"\s*({_FACTOR}(?:{_TIMES}{_FACTOR}){{0,5}})")
# Words that are units too, and words of a sentence where another word follows.
_PROSE = re.compile(r"(?:in|at|as|a|or|to|an|am|pm|is|us|are|do|per|by|pt)\s+(?!in\b|ft\b)[a-zA-Z(]")

_AND = re.compile(r"\s*(?:,|and)?\s+(?=\d)")
_SPELLED = {
    "°": "degree",
    "degrees c": "degC",
    "degrees f": "degF",
    "degrees fahrenheit": "degF",
    "°c": "degC",
    "° c": "degC",
    "celsius": "degC",
    "degrees celsius": "degC",
    "°f": "degF",
    "fahrenheit": "degF",
    "%": "percent",
    "mph": "mile/hour",
    "kmh": "km/hour",
    "kph": "km/hour",
}
# Units that a capital makes another one.
_CAPITAL: dict[str, str] = dict.fromkeys(
    ("Cal", "Cals", "Calorie", "Calories", "kCal", "KCal", "Kcal"), "kilocalorie"
)
# Symbols that are read in any case; of the others each case is a unit of its own (mW and MW).
_SAFE = frozenset(
    (
        *("km", "kg", "cm", "mm", "ml", "ft", "lb", "lbs", "oz", "hr", "hrs", "min", "sec", "mi"),
        *("yd", "mph", "kph", "kmh", "psi", "rpm"),
    )
)
_SLIPS = ValueError, TypeError, AttributeError, ArithmeticError, LookupError, AssertionError
# A unit in pint's syntax.
_PINT = rules(
    (r"[{}]", ""),
    (r"·", "*"),
    (r"\s+per\s+", "/"),
    (r"\bsq(?:uare)?\.? +(\w+)", r"\1**2"),
    (r"\bcu(?:bic)?\.? +(\w+)", r"\1**3"),
    (r"(?<=[a-zA-Z])([23])\b", r"**\1"),
    (r"\s*(\*\*|\^)\s*", "**"),
    (rf"(?<=\w)\s+(?={_SYMBOL}(?![a-zA-Z]))", "*"),
)
# What pint's parser raises on texts that are no unit: whatever its steps happen to trip over.
_ERRORS = pint.errors.PintError, *_SLIPS


# A word behind a number that is no unit: the answer then abstains, for it may count anything.
_WORD = re.compile(
    r"\s?(?!(?:in|at|as|a|or|to|is|are|per|by|of|for|and|from|with|which|so|because|times|total|altogether)\b)[a-zA-Zµ°]+"
)


# Another amount behind the first: "5 km or 7 km".
_OTHER = re.compile(r"\s*(?:,|;|&|/|\b(?:or|to|and|und|oder|et|ou|y|o|и|или)\b)\s*[-+]?\d")


# Types of pint's quantities are unknown to type checkers.
Quantity: TypeAlias = Any


@frozen
class QuantitySpace(ByForm):
    """Answer space of amounts: 5 km and 5000 m are equal, 90 min and 1.5 h, 212 °F and 100 °C.

    The key is the exact amount in SI base units, by the unit table of pint, such as ``5000 meter``. A number
    without a unit is dimensionless, and 50% is 0.5. Sums such as 5 ft 3 in are added. Money is compared
    within its currency (``5 USD``). An unknown unit abstains. Amounts are compared exactly: 5 miles is not
    8.05 km.
    """

    name = "quantity"
    contract = 'End with a line "Final answer: <number> <unit>".'

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the last explicit statement's amount; else the last amount with a unit."""
        text = visible(text)
        found = stated(text, _of_statement, truncated=truncated)
        if found or truncated:
            return found
        amount = _last(plain(text[-TAIL:]))
        return Extracted(amount, "last amount") if amount else None

    def form(self, answer: str) -> str:
        """Return the amount in base units; raises NotRead."""
        return _read(answer)


def _of_statement(statement: Statement) -> str | None:
    payload = plain(statement.payload)[: 2 * MOST_CHARACTERS]
    start = notation.lead_in(payload)
    amount = _amount(payload, start)
    if amount and _OTHER.match(payload, start + len(amount)):
        return payload.strip()  # the key says that these are several
    return amount or _last(payload)


def _amount(text: str, start: int) -> str | None:
    """Return the amount at ``start``: one or more numbers with units."""
    end = start
    while (number := notation.UNSCALED.match(text, end)) is not None and notation.value(number) is not None:
        unit = _unit_at(text, number.end())
        end = unit[1]
        more = _AND.match(text, end)
        if not unit[0] and (word := _WORD.match(text, end)) is not None:
            return text[start : word.end()].strip()
        if not unit[0] or more is None or not _has_unit(text, more.end()):
            return text[start:end].strip()
        end = more.end()
    return None


def _has_unit(text: str, at: int) -> bool:
    number = notation.UNSCALED.match(text, at)
    return number is not None and bool(_unit_at(text, number.end())[0])


def _unit_at(text: str, at: int) -> tuple[str, int]:
    """Return the longest known unit at a position, and its end; ("", at) without one."""
    if code := _CODES.match(text, at + (text[at : at + 1] == " ")):
        return _NAMED.get(code[0].lower().split()[-1], code[0].upper()), code.end()
    match = _UNIT.match(text, at)
    if match is None or _PROSE.match(text, match.start(1)):
        return "", at
    words = match[1]
    # A sentence may go on behind the unit: the longest beginning that is one.
    for end in sorted((len(words), *(cut.start() for cut in re.finditer(r"[\s*/]", words))), reverse=True):
        if unit := _spelling_for_pint(words[:end]):
            return unit, match.start(1) + end
    return "", at


def _last(text: str) -> str | None:
    """Return the last amount with a unit, else the last number."""
    last, end = None, 0
    for number in notation.UNSCALED.finditer(text):
        if number.start() < end:
            continue
        amount = _amount(text, number.start())
        if amount is not None and notation.is_joined(text, number.start()):
            last, end = None, number.start() + len(amount)
        elif amount is not None and (number["currency"] or _unit_at(text, number.end())[0]):
            last, end = amount, number.start() + len(amount)
    number = None if last else notation.last(text)
    # With the word behind it: an unknown unit abstains, and is no number without a unit.
    return (_amount(text, number.start()) or number[0].strip()) if number else last


@lru_cache(maxsize=2**16)
def _read(answer: str) -> str:
    if len(answer) > MOST_CHARACTERS:
        raise NotRead(f"longer than {MOST_CHARACTERS} characters")
    text = plain(fold(answer)).strip().rstrip(".")
    at = notation.lead_in(text)
    total: Quantity | None = None
    before: str | None = None
    while True:
        number = notation.UNSCALED.match(text, at)
        value = None if number is None else notation.value(number)
        if number is None or value is None:
            raise NotRead("no number" if total is None else "a part is not read")
        unit, at = _unit_at(text, number.end())
        rest = text[at:].strip(" .)")
        sign, named = (number["currency"] or "").strip(". "), _CODES.fullmatch(unit) is not None
        if sign or named:
            if rest or total is not None or (unit and not named):
                raise NotRead("a price, and more")
            return f"{notation.written(value)} {unit or _CURRENCIES.get(sign, sign)}"
        part = _base(value, unit or "dimensionless")
        if before is not None and not _is_smaller(unit, before):
            raise NotRead("several amounts")
        before = unit
        total = part if total is None else _sum(total, part)
        if not rest:
            return _text_of(total)
        more = _AND.match(text, at)
        if not unit or more is None or not _has_unit(text, more.end()):
            raise NotRead(f"unknown unit {rest[:30]!r}")
        at = more.end()


def _text_of(total: Quantity) -> str:
    unit = _name(total)
    amount = notation.written(Fraction(total.magnitude))
    return f"{amount} {unit}" if unit else amount


def _name(quantity: Quantity) -> str:
    """Return a quantity's units in this space's notation: ``meter*second^-2``."""
    powers = dict(quantity.unit_items())
    if any(Fraction(power).denominator != 1 for power in powers.values()):
        raise NotRead("a unit with a root")
    named = ((name, int(power)) for name, power in sorted(powers.items()))
    return "*".join(name if power == 1 else f"{name}^{power}" for name, power in named)


def _base(value: Fraction, unit: str) -> Quantity:
    try:
        return _registry().Quantity(value, _registry().Quantity(1, _pint(unit)).units).to_base_units()
    except _ERRORS as error:
        raise NotRead(f"{unit}: {type(error).__name__}") from None


def _is_smaller(unit: str, than: str) -> bool:
    """Return whether a unit is the smaller one: parts of one amount are 5 ft 3 in, never 5 km 7 km."""
    return bool(_base(Fraction(1), unit).magnitude < _base(Fraction(1), than).magnitude)


def _sum(total: Quantity, part: Quantity) -> Quantity:
    if _name(total) != _name(part) or not part.magnitude >= 0:
        raise NotRead("parts of different kinds")
    return total + (part if total.magnitude >= 0 else -part)


@lru_cache(maxsize=4096)
def _spelling_for_pint(words: str) -> str:
    """Return the spelling of a unit that pint knows; empty where it knows none."""
    spelled = " ".join(words.split()).rstrip(".")
    if (unit := _SPELLED.get(spelled.lower()) or _CAPITAL.get(spelled)) is not None:
        return unit
    names = re.findall(r"[^\W\d_]+", spelled)
    folds = all(name.islower() or len(name) > 3 or name.lower() in _SAFE for name in names)
    for unit in dict.fromkeys((spelled, spelled.lower() if folds and "Cal" not in spelled else spelled)):
        try:
            _registry().Quantity(1, _pint(unit)).unit_items()
        except _ERRORS:
            continue
        return unit
    return ""


def _pint(unit: str) -> str:
    """Return a unit in pint's syntax, with exponents of one digit, since pint evaluates powers."""
    for pattern, form in _PINT:
        unit = pattern.sub(form, unit)
    return unit


@lru_cache(maxsize=1)
def _registry() -> Any:
    # Fractions keep every conversion exact, so that equal amounts have equal keys.
    registry: Any = pint.UnitRegistry
    return registry(non_int_type=Fraction, autoconvert_offset_to_baseunit=True)


space = QuantitySpace
