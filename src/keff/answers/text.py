"""Open text: short spans such as names, places and dates."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from functools import lru_cache
from typing import Literal

from keff.answers.parts import json_text, notation
from keff.answers.parts.base import Extracted, fold, golds, settled, visible
from keff.answers.parts.statements import Statement, plain, stated
from keff.answers.parts.thinking import strip_thinking
from keff.records import frozen

# Longer ones are not parsed: this bounds the time that a hostile answer can take.
MOST_CHARACTERS = 2000
# Token F1 from which a span counts as right, as in the paper.
F1_NEEDED = 0.5

_ARTICLES = frozenset(("a", "an", "the"))
# As in the scoring of HotpotQA (Yang et al. 2018): for these words a token F1 says nothing.
_EXACT_WORDS = frozenset(("yes", "no", "noanswer"))
_PUNCTUATION = frozenset(string.punctuation)
_CURRENCY = "$€£¥₹₩"
# A token that is a number, with what changes its meaning: bound, sign and currency.
_AMOUNT = re.compile(
    rf"(?P<bound>[<>≤≥]?)(?P<sign>[-+]?)(?P<currency>[{_CURRENCY}]?)(?P<inner>[-+]?)"
    rf"(?P<number>\d[\d,]*(?:\.\d+)?|\.\d+)(?P<behind>[{_CURRENCY}]?)%?",
    re.ASCII,
)
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])", re.ASCII)
_BOUNDS = (("<=", "≤"), (">=", "≥"))
# A space between a currency or a bound and its number says nothing.
_APART = re.compile(rf"(?<=[<>≤≥{_CURRENCY}]) (?=[-+]?[{_CURRENCY}]?\.?\d)")
_TIMES = re.compile(r"(?<=[\w)\]}])\*(?=[\w(\[{])")
_STAR = re.compile(r"(?<=\w)\*(?!\w)")
_KEPT_STAR = "\u22c6"
_OPERATORS = frozenset("+<>=^")
_INNER = frozenset("/\\|&_@*~")
_FORMULA, _BRACKETS = frozenset("+<>=^*/"), frozenset("()[]{}")
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_BETWEEN_DIGITS = frozenset(".,:'-")
# Emphasis at the beginning of a statement marks the span that is the answer.
_BOLD = re.compile(r"[\s:\"']{0,4}\*\*([^*\n]{1,200})\*\*")
# A point behind a title or an initial ends no sentence: one look-behind each, of fixed width.
_ABBREVIATED = "".join(
    rf"(?<!\b{word})"
    for word in ["Col", "Gen", "Rev", "Hon", "Mrs", "Sgt", "Inc", "Ltd", "[A-Za-z]", "[A-Z][a-z]"]
)
_SENTENCE_END = re.compile(rf"{_ABBREVIATED}[.!?][\"')*]{{0,2}}\s+(?=[A-Z\"(*])")
_LEAD = re.compile(
    r"(?:[\s:=\-–>]+|that\s|simply\s|therefore\s|probably\s|likely\s|is\s|was\s)*", re.IGNORECASE
)
_MARKS = ("*_", "_")
_QUOTES = "\"'`“”‘’ \t"
# The prompt quoted back, such as <answer>: it states nothing.
_ECHO = re.compile(r"<[a-z ]{1,30}>\W*$")
# Words of a last line that is an answer; a longer one is a sentence.
_LONGEST_LINE = 12


@frozen
class TextSpace:
    """Answer space of short text: equal by SQuAD-normalised form.

    Normalising lowers the case, takes off punctuation and the articles a, an, the, and collapses whitespace
    (Rajpurkar et al. 2016); tokens that are numbers keep their value instead (12.5 is not 125; Dua et al.
    2019), without a dollar or percent sign. Signs that say something stay: C++ is not C#, <5 not >5, €5 not
    $5, 3,5 not 35, x^2 not x2, a/b not ab. ``match`` "f1" scores a span as right at the same key or a token
    F1 of 0.5 or more against any gold answer, as the paper does for HotpotQA; a gold answer that is a number,
    yes or no must be met exactly. ``match`` "exact" asks for the same key as any gold answer (aliases of
    TriviaQA, spans of DROP).

    A text that is nothing but a JSON object or array, fenced or bare, is that JSON value, whatever its form.
    """

    match: Literal["f1", "exact"] = "f1"
    name = "text"
    closed = False
    contract = 'End with a line "Final answer: <short answer>".'

    def __post_init__(self) -> None:
        if self.match not in ("f1", "exact"):
            raise ValueError(f"match is f1 or exact, not {self.match!r}")

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the last statement's answer; else, on whole text, a last line of at most 12 words."""
        if json_text.is_document(shown := strip_thinking(text)):
            # No line of incomplete JSON is the answer.
            document = None if truncated else _document(shown)
            return Extracted(document, "JSON") if document else None
        text = visible(text)
        found = stated(text, _span, truncated=truncated)
        if found or truncated:
            return found
        line = text.rstrip()[-MOST_CHARACTERS:].rpartition("\n")[2]
        span = _trim(plain(line))
        if _ECHO.search(line):
            return None
        return Extracted(span, "last line") if span and len(span.split()) <= _LONGEST_LINE else None

    def key(self, answer: str) -> str | None:
        """Return the normalised span, or canonical JSON; None if nothing is left but whitespace."""
        document = _document(answer)
        return json_text.canonical(json_text.value_of(document)) if document else normalised(answer) or None

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether the answer agrees with any of the gold answers."""
        key = self.key(answer)
        return bool(key) and any(self._agrees(key, self.key(each) or "") for each in golds(gold))

    def _agrees(self, key: str, gold: str) -> bool:
        if key == gold:
            return True
        number = _sole_number(gold)
        if number is not None:
            return _sole_number(key) == number
        if self.match == "exact" or gold in _EXACT_WORDS or key in _EXACT_WORDS:
            return False
        return token_f1(key, gold) >= F1_NEEDED


def _document(text: str) -> str | None:
    """Return the JSON object or array that makes up the whole text; None for other text."""
    try:
        return json_text.unfenced(text) if json_text.is_document(text) else None
    except json_text.NotRead:
        return None


@lru_cache(maxsize=2**16)
def normalised(answer: str) -> str:
    """Return a span's canonical form.

    Of one that is all punctuation or articles, the lower-cased span.
    """
    return settled(_normal, answer[:MOST_CHARACTERS])


def _normal(answer: str) -> str:
    text = unicodedata.normalize("NFKC", _without_markdown(fold(answer))).lower()
    for written, sign in _BOUNDS:
        text = text.replace(written, sign)
    tokens = [_token(token) for token in _APART.sub("", " ".join(text.split())).split()]
    kept = [token for token in tokens if token and token not in _ARTICLES]
    return " ".join(" ".join(kept).split()) or " ".join(text.split())


def _without_markdown(text: str) -> str:
    """Return text without Markdown; a star between terms, or a single one (A*), stays."""
    if "*" not in text:
        return plain(text)
    text = _STAR.sub(_KEPT_STAR, text) if text.count("*") == 1 else text
    return plain(_TIMES.sub(_KEPT_STAR, text)).replace(_KEPT_STAR, "*")


def _token(token: str) -> str:
    if token.isalpha():
        return token
    bare = token.strip("()[]{}\"';:!?").rstrip(".,")
    if (amount := _AMOUNT.fullmatch(bare)) is not None:
        match = notation.NUMBER.fullmatch(amount["number"])
        number = notation.value(match) if match else None
        if number is not None:
            negative = (amount["sign"] == "-") != (amount["inner"] == "-")
            currency = (amount["currency"] or amount["behind"]).replace("$", "")
            return f"{amount['bound']}{currency}{notation.written(-number if negative else number)}"
    bare = _THOUSANDS.sub(lambda run: run[0].replace(",", ""), bare)
    said = [sign not in _PUNCTUATION or _says(bare, place) for place, sign in enumerate(bare)]
    # In a formula brackets group.
    formula = any(keep and sign in _FORMULA for keep, sign in zip(said, bare, strict=True))
    signs = zip(said, bare, strict=True)
    return "".join(sign for keep, sign in signs if keep or (formula and sign in _BRACKETS))


def _says(token: str, place: int) -> bool:
    """Return whether a punctuation mark changes a token's meaning, by its neighbours."""
    sign, before, behind = token[place], token[:place][-1:], token[place + 1 :][:1]
    if sign in _OPERATORS:
        return True
    if sign in _BETWEEN_DIGITS and behind.isdigit():
        return before.isdigit() or before == "%" or (sign == "-" and not before)
    if sign in "#*" and before.isalnum():
        return sign == "#" or not behind or behind.isalnum()
    return (
        sign in _INNER
        and (before.isalnum() or before in _CLOSING)
        and (behind.isalnum() or behind in _OPENING)
    )


def _sole_number(key: str) -> str | None:
    """Return a key's number where it is one number with at most units.

    "5", "5 yards", but not "5 may 1990".
    """
    first, *units = key.split() or [""]
    digits = any(any(character.isdigit() for character in unit) for unit in units)
    return first if notation.NUMBER.fullmatch(first) and len(units) <= 1 and not digits else None


def token_f1(answer: str, gold: str) -> float:
    """Return the token F1 of two normalised spans: harmonic mean of precision and recall."""
    ours, theirs = answer.split(), gold.split()
    shared = (Counter(ours) & Counter(theirs)).total()
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0


def _span(statement: Statement) -> str:
    payload = statement.payload[:MOST_CHARACTERS]
    bold = _BOLD.match(payload)
    if bold:
        return _trim(plain(bold[1]))
    payload = _without_markdown(payload).strip()
    if statement.rule == "marker":
        payload = _SENTENCE_END.split(payload, maxsplit=1)[0]
    return _trim(payload)


def _trim(span: str) -> str:
    lead = _LEAD.match(span)
    span = span[lead.end() :] if lead else span
    span = span.lstrip(_QUOTES + "*_#").rstrip(_QUOTES + _MARKS[span.count("*") == 1])
    if span.endswith((".", ",", ";", ":")) and not re.search(
        r"(?:\b[A-Za-z]|\b(?:Jr|Sr|Inc|Co|Ltd|St|etc))\.$", span
    ):
        span = span[:-1]
    return span.lstrip(_QUOTES + "*_").rstrip(_QUOTES + _MARKS[span.count("*") == 1])


space = TextSpace
