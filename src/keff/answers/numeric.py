"""Single numbers."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from keff.answers.parts import notation
from keff.answers.parts.base import TAIL, Extracted, fold, golds, visible
from keff.answers.parts.magnitudes import ambiguous
from keff.answers.parts.number_words import BOUND, JOIN, REASON
from keff.answers.parts.statements import Statement, items, plain, statements
from keff.records import frozen

# Most answers are short integers in their one form already: they need no parser.
_INTEGER = re.compile(r"(?:0|-?[1-9]\d{0,17})", re.ASCII)
# "Not 5" and "more than 5" name a number that is not the answer.
_NEGATED = re.compile(rf"[\s*_]*(?:(?:not|nicht|pas|не)\b|不是|{BOUND})", re.IGNORECASE)
# An inequality states no value; a tag such as <b> begins with the same sign.
_BOUND = re.compile(r"[\s*_]*(?:[a-zA-Z]\s*)?(?:[>≤≥]|<(?![^<>\n]{1,80}>))")
# Characters at the end that are read first: most answers stand there, and long texts take long.
_GLANCE, _MARGIN = 80, 24
_BOLD = re.compile(r"\*\*([^*\n]{1,60})\*\*")
_SEVERAL_BOLD = re.compile(
    rf"\d[^*\n]{{0,30}}\*\*\s{{0,2}}(?:,|,?\s?{JOIN}|\bto\b)\s{{0,2}}\*\*[^*\n]{{0,30}}\d"
)
_UNIT = re.compile(r"[\s%°]*(?:(?:[a-zA-Z²³^/.'’-]{1,20})[\s.,!]*){0,6}[\s.!)}\]\"'$]*")
_LIST_ITEM = re.compile(r"[.):]\s|[):]")


@frozen
class NumericSpace:
    """Answer space of numbers: equal rational values are equal answers: 0.5, 1/2, .50 and 50/100.

    The key is exact, so it is an equivalence. A percent sign, a currency and a unit are dropped: 50% is
    50. ``correct`` allows an absolute difference of ``tolerance``, and of ``tolerance`` times the gold
    answer where that is below 1 in size. The tolerance of 0.001 is that of the paper's gsm8k_numeric.
    """

    tolerance: float = 1e-3
    name = "numeric"
    closed = False
    contract = 'End with a line "Final answer: <number>".'

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the last explicit statement's number; else, on whole text, the last number.

        A number with a word that means another one in the text's language abstains: "5 mil" in English. So
        does a statement of several numbers: "3 and 5", "between 5 and 7".
        """
        text = visible(text)
        found = _found(text, truncated)
        return None if found and ambiguous(found.answer, text[-TAIL:]) else found

    def key(self, answer: str) -> str | None:
        """Return the number in canonical form: 18, -0.5, 1/3; None where no single number is found."""
        if _INTEGER.fullmatch(answer):
            return answer
        number = number_of(answer)
        return None if number is None else notation.written(number)

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether the number is within the tolerance of any acceptable one."""
        return any(_near(answer, each, self.tolerance) for each in golds(gold))


@lru_cache(maxsize=2**16)
def number_of(answer: str) -> Fraction | None:
    """Return the number at the start of an answer, after signs and words such as "about"."""
    if _INTEGER.fullmatch(answer):
        return Fraction(int(answer))
    # The number comes first: what follows it may be of any length.
    text = notation.signed(plain(fold(answer[:2000])).strip())
    match = notation.leading(text)
    return None if match is None or ambiguous(match[0], text) else notation.value(match)


_exact = lru_cache(Fraction)


@lru_cache(maxsize=2**12)
def _near(answer: str, gold: str, tolerance: float) -> bool:
    number, target = number_of(answer), number_of(gold)
    if number is None or target is None:
        return False
    apart, most = abs(number - target), _exact(str(tolerance))
    return apart <= most and apart <= most * (abs(target) or 1)


def _found(text: str, truncated: bool) -> Extracted | None:
    vague: Extracted | None = None
    for statement in statements(text):
        payload, below = items(text, statement)
        if statement.rule == "marker" and below and _differ(_whole(payload), _whole(below)):
            return None
        number, exact = _stated(statement._replace(payload=payload), truncated)
        if number is None:
            if exact:
                return None
            continue
        if exact or statement.strong:
            return Extracted(number, statement.rule)
        vague = vague or Extracted(number, statement.rule)
    return vague or (None if truncated else _guess(text))


def _whole(line: str) -> Fraction | None:
    """Return the number that a line consists of, units aside."""
    match = None if "=" in line else notation.leading(plain(line))
    return notation.value(match) if match and _UNIT.fullmatch(match.string, match.end()) else None


def _differ(one: Fraction | None, other: Fraction | None) -> bool:
    return one is not None and other is not None and one != other


def _stated(statement: Statement, truncated: bool) -> tuple[str | None, bool]:
    """Return a statement's number, and whether the statement begins with a number."""
    payload = notation.signed(plain(statement.payload))
    if _BOUND.match(payload):
        return None, True
    if _NEGATED.match(payload):
        return None, False
    match = notation.leading(payload)
    if statement.rule == "####":
        rest = payload[match.end() :] if match else ""
        if match is None or _LIST_ITEM.match(rest.rstrip()) or not _UNIT.fullmatch(rest):
            return None, False
    exact = match is not None or notation.begins(payload)
    if not exact:
        match = _within(statement.payload, payload)
    if match and truncated and statement.open and match.end() == len(match.string):
        return None, False
    return match and match[0].strip(), exact


def _within(raw: str, payload: str) -> re.Match[str] | None:
    """Return the number that a sentence states.

    The last bold one, the only amount of money, or the last.
    """
    if _SEVERAL_BOLD.search(raw):
        return None
    if match := _bold(raw):
        return match
    sentence = notation.first_sentence(payload)
    amounts = [each for each in notation.NUMBER.finditer(sentence) if each["currency"]]
    return amounts[0] if len(amounts) == 1 and notation.value(amounts[0]) else notation.last(sentence)


def _bold(line: str) -> re.Match[str] | None:
    """Return the last number that makes up a whole bold span, units aside."""
    for bold in reversed(_BOLD.findall(line)):
        content = plain(bold)
        match = notation.leading(content)
        if match and _UNIT.fullmatch(content, match.end()):
            return match
    return None


def _guess(text: str) -> Extracted | None:
    text = text[-TAIL:].rstrip()
    line = plain(text.strip()) if len(text) < _GLANCE else ""
    if notation.begins(line) and notation.first_sentence(line) == line.rstrip(".!? "):
        match = notation.leading(line)
        # Whoever gives a reason may count on the way to the answer: 3 boys and 5 girls are 8 children.
        if match or not REASON.search(line):
            return match and Extracted(match[0].strip(), "last number")
    tail = text[-_GLANCE:]
    found = _last_number(tail)
    # A number near the cut may have lost its beginning, and the bold one before it.
    if len(tail) < len(text) and (found is None or found[0].start() < _MARGIN):
        found = _last_number(text)
    return None if found is None else Extracted(found[0][0].strip(), found[1])


def _last_number(tail: str) -> tuple[re.Match[str], str] | None:
    """Return the last number of a text, and whether it was set in bold in the last line."""
    last_line = tail[tail.rfind("\n") + 1 :]
    if _SEVERAL_BOLD.search(last_line):
        return None
    if match := _bold(last_line):
        return match, "last bold number"
    match = notation.last(plain(tail))
    return None if match is None else (match, "last number")


def space(tolerance: float = 1e-3) -> NumericSpace:
    """Make the space; see ``NumericSpace`` for the options."""
    return NumericSpace(float(tolerance))
