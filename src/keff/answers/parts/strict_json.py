"""JSON parsed strictly and written in one way.

Strictly: a duplicate name, NaN, a number that Python could not hold, nesting beyond 100 and whatever else is
not JSON have no canonical form, with a reason; a reader that guessed would make unequal answers equal.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import NoReturn, cast

from keff.answers.parts.visible import MARK, fences
from keff.narrow import fields, is_array, is_object

# Deeper nesting is refused before the parser's own stack is at risk.
DEEPEST = 100
# Longer ones are not parsed: this bounds the time that a hostile answer can take.
MOST_CHARACTERS = 1_000_000
# Longer numbers would take quadratic time to convert.
MOST_DIGITS = 400

# Members of a JSON reply that hold the answer.
ANSWER_MEMBERS = ("answer", "final_answer", "final answer")

BRACKET = re.compile(r'[\[\]{}]|"(?:[^"\\]|\\.)*+"?', re.DOTALL)


_DOCUMENT = re.compile(
    r"\s*(?:```[ \t]*(?:json[c5]?)?[ \t]*\n\s*)?(?:\{\s*[\"}]|\[\s*[{\"\[\]])", re.IGNORECASE
)
_CONSTANTS = {True: "true", False: "false", None: "null"}
_TOO_DEEP = f"nested more than {DEEPEST} deep"


class NotRead(ValueError):
    """Why a text has no canonical form, in a few words."""


class Number(str):
    """A JSON number by its exact value, written in one way: 1, 1.0 and 1e0 are ``1``."""

    __slots__ = ()


# Finding an answer and taking its key each need its value: it is parsed once.
@lru_cache(maxsize=8)
def value_of(text: str) -> object:
    """Return a JSON text as dict, list, str, Number, bool or None (not to be changed); raises NotRead."""
    text = text.strip()
    value, end = decoded(text, 0)
    if end < len(text):
        raise NotRead("not valid JSON")
    return value


def decoded(text: str, start: int) -> tuple[object, int]:
    """Return the JSON value that begins at ``start``, and its end; raises NotRead."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated")
        raise NotRead("incomplete JSON" if cut else "not valid JSON") from None
    except RecursionError:
        raise NotRead(_TOO_DEEP) from None
    # Python's own limit depends on who calls: this one does not.
    if _depth(text[start:end]) > DEEPEST:
        raise NotRead(_TOO_DEEP)
    return value, end


def canonical(value: object) -> str:
    """Return a value of ``value_of`` with sorted names, no whitespace and every number in one form."""
    if isinstance(value, str):
        return value if isinstance(value, Number) else _string(value)
    if is_object(value):
        return "{" + ",".join([f"{_string(name)}:{canonical(value[name])}" for name in sorted(value)]) + "}"
    if is_array(value):
        return "[" + ",".join(map(canonical, value)) + "]"
    return _CONSTANTS[cast("bool | None", value)]


def canonical_json(text: str) -> str | None:
    """Return the one form of a text that is JSON as a whole, fenced or bare; None for any other text."""
    try:
        return canonical(value_of(_without_fence(text)))
    except NotRead:
        return None


def members_of(text: str) -> dict[str, str]:
    """Return the members of a JSON object, strings as they are and others as JSON; none of other text."""
    try:
        members = fields(value_of(text))
    except NotRead:
        return {}
    return {name: each if isinstance(each, str) else canonical(each) for name, each in members.items()}


def is_document(text: str) -> bool:
    """Return whether a text begins as a JSON object or array does, fenced or bare.

    Where it then is no JSON (incomplete, a duplicate name), nothing else is to be read from it.
    """
    return _DOCUMENT.match(text) is not None


def unfenced(text: str) -> str:
    """Return the JSON object or array that a text is, without its fence; raises NotRead for other text."""
    text = _without_fence(text)
    if text[:1] not in ("{", "["):
        raise NotRead("not a JSON object or array")
    value_of(text)
    return text


def begins_whole(text: str) -> bool:
    """Return whether a text begins with a whole JSON object or array, fenced or bare, whatever follows."""
    start = text.find("\n") if text.lstrip().startswith(MARK) else 0
    try:
        decoded(text, len(text) - len(text[start:].lstrip()))
    except NotRead:
        return False
    return True


def _without_fence(text: str) -> str:
    if len(text) > MOST_CHARACTERS:
        raise NotRead(f"longer than {MOST_CHARACTERS:,} characters")
    text = text.strip()
    if text.startswith(MARK) and text.endswith(MARK):
        block = next(fences(text), None)
        return block.content.strip() if block is not None and block.end == len(text) else text
    return text


def _depth(text: str) -> int:
    """Return how deep brackets nest; an upper bound where they are few."""
    depth = text.count("[") + text.count("{")
    if depth <= DEEPEST:
        return depth
    depth = deepest = 0
    for token in BRACKET.finditer(text):
        first = token[0][0]
        if first != '"':
            depth += 1 if first in "{[" else -1
            deepest = max(deepest, depth)
    return deepest


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotRead(f"duplicate name {twice[:40]!r}")
    return members


def _constant(name: str) -> NoReturn:
    raise NotRead(f"{name} is not JSON")


def _number(text: str) -> Number:
    if len(text) > MOST_DIGITS:
        raise NotRead(f"a number of more than {MOST_DIGITS} characters")
    if "e" in text or "E" in text:
        text = _without_exponent(text)
    elif "." in text:
        text = text.rstrip("0").removesuffix(".")
    return Number("0" if text == "-0" else text)


def _without_exponent(text: str) -> str:
    try:
        sign, digits, exponent = Decimal(text).as_tuple()
    except InvalidOperation:
        raise NotRead("a number that is out of range") from None
    written = "".join(map(str, digits)).lstrip("0")
    if not written or not isinstance(exponent, int):
        return "0"
    stripped = written.rstrip("0")
    return ("-" if sign else "") + _scaled(stripped, exponent + len(written) - len(stripped))


def _scaled(digits: str, exponent: int) -> str:
    """Write digits * 10^exponent: plainly while that is short, else as 12e400."""
    if exponent >= 0 and len(digits) + exponent < 300:
        return digits + "0" * exponent
    if exponent < 0 and -exponent < 300:
        whole, rest = digits[:exponent] or "0", digits[exponent:].rjust(-exponent, "0")
        return f"{whole}.{rest}"
    return f"{digits}e{exponent}"


def _string(text: str) -> str:
    escaped = json.encoder.encode_basestring(text)
    # A lone surrogate cannot be stored as UTF-8.
    return escaped if escaped.isascii() or escaped.isprintable() else _without_surrogates(escaped)


def _without_surrogates(text: str) -> str:
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_constant=_constant, parse_int=_number, parse_float=_number
)
