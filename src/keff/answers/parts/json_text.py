"""Strict JSON in free text, and its canonical form.

Strictly: a duplicate name, NaN, a number that Python could not hold, nesting beyond 100 and whatever else is
not JSON have no canonical form, with a reason; a reader that guessed would make unequal answers equal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, DecimalException
from functools import lru_cache
from typing import Final, NoReturn, cast

from keff.answers.parts.base import MARK, NotRead, closing, fences, nesting
from keff.errors import TaskError
from keff.narrow import is_array, is_object, unique
from keff.records import frozen

# Deeper nesting is refused before the parser's own stack is at risk.
DEEPEST = 100
# Longer ones are not parsed: this bounds the time that a hostile answer can take.
MOST_CHARACTERS = 1_000_000
# Longer numbers would take quadratic time to convert.
MOST_DIGITS = 400
# Numbers are written out about as far as a float reaches, others as 12e400: 1e999999 would fill the memory.
MOST_PLACES = 300
# Decimals without rounding.
_EXACT = Context(MOST_DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX)

# Members of a JSON reply that hold the answer.
ANSWER_MEMBERS = ("answer", "final_answer", "final answer")

# Brackets within strings do not count. A string that never closes runs to the end; the possessive repeat
# cannot go back, so the time stays linear.
BRACKET = re.compile(r'[\[\]{}]|"(?:[^"\\]|\\.)*+"?', re.DOTALL)


# Begins like JSON and nothing else: a bracket alone also begins an interval or a citation.
_DOCUMENT = re.compile(
    r"\s*(?:```[ \t]*(?:json[c5]?)?[ \t]*\n\s*)?(?:\{\s*[\"}]|\[\s*[{\"\[\]])", re.IGNORECASE
)
_CONSTANTS = {True: "true", False: "false", None: "null"}
_TOO_DEEP = f"nested more than {DEEPEST} deep"


class Number(str):
    """A JSON number by exact value: 1, 1.0 and 1e0 are all ``1``."""

    __slots__ = ()


# Finding an answer and taking its key each need its value: it is parsed once.
@lru_cache(maxsize=8)
def value_of(text: str) -> object:
    """Return a JSON text's value (treat as read-only); raises NotRead."""
    text = text.strip()
    value, end = decoded(text, 0)
    if end < len(text):
        raise NotRead("not valid JSON")
    return value


def decoded(text: str, start: int) -> tuple[object, int]:
    """Return the JSON value at ``start``, and its end; raises NotRead."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated")
        raise NotRead("incomplete JSON" if cut else "not valid JSON") from None
    except RecursionError:
        raise NotRead(_TOO_DEEP) from None
    except ValueError as error:  # a duplicate name, or a number that is none
        raise NotRead(str(error)) from None
    # Python's own limit depends on who calls: this one does not. Few brackets cannot nest deep.
    part = text[start:end]
    if part.count("[") + part.count("{") > DEEPEST and nesting(part, BRACKET) > DEEPEST:
        raise NotRead(_TOO_DEEP)
    return value, end


def canonical(value: object) -> str:
    """Return canonical JSON: names sorted, no whitespace, canonical numbers."""
    if isinstance(value, str):
        return value if isinstance(value, Number) else _string(value)
    if is_object(value):
        return "{" + ",".join([f"{_string(name)}:{canonical(value[name])}" for name in sorted(value)]) + "}"
    if is_array(value):
        return "[" + ",".join(map(canonical, value)) + "]"
    return _CONSTANTS[cast("bool | None", value)]


def canonical_json(text: str) -> str | None:
    """Return the canonical form of a text that is JSON, fenced or bare; None for other text."""
    try:
        return canonical(value_of(_without_fence(text)))
    except NotRead:
        return None


def is_document(text: str) -> bool:
    """Return whether a text begins as a JSON object or array does, fenced or bare.

    Where it then is no JSON (incomplete, a duplicate name), nothing else is to be read from it.
    """
    return _DOCUMENT.match(text) is not None


def unfenced(text: str) -> str:
    """Return the JSON object or array that makes up a text, without its fence; raises NotRead."""
    text = _without_fence(text)
    if text[:1] not in ("{", "["):
        raise NotRead("not a JSON object or array")
    value_of(text)
    return text


def begins_whole(text: str) -> bool:
    """Return whether a text begins with a complete JSON object or array, fenced or bare."""
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


def _constant(name: str) -> NoReturn:
    raise NotRead(f"{name} is not JSON")


def _number(text: str) -> Number:
    if len(text) > MOST_DIGITS:
        raise NotRead(f"a number of more than {MOST_DIGITS} characters")
    if text.isdigit() and len(text) < MOST_PLACES:
        return Number(text)
    try:
        number = _EXACT.create_decimal(text).normalize(_EXACT) or Decimal(0)
    except DecimalException:
        raise NotRead("a number that is out of range") from None
    exponent = int(number.as_tuple().exponent)
    if exponent == 0 or max(number.adjusted() + 1, -exponent) < MOST_PLACES:
        return Number(f"{number:f}")
    return Number(f"{number.scaleb(-exponent, _EXACT):f}e{exponent}")


def _string(text: str) -> str:
    escaped = json.encoder.encode_basestring(text)
    if escaped.isascii() or escaped.isprintable():
        return escaped
    # A lone surrogate cannot be stored as UTF-8.
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in escaped)


_DECODER = json.JSONDecoder(
    object_pairs_hook=unique, parse_constant=_constant, parse_int=_number, parse_float=_number
)


# What stands for a part that the value does not have (null is a value).
MISSING: Final = object()

# Places of up to six digits: no list in an answer is longer.
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d{1,6}|\*)\]")


@lru_cache(maxsize=256)
def steps(path: str) -> tuple[str | int, ...]:
    """Return a path's steps (names, indices, ``*``); raises TaskError when malformed."""
    text = path.removeprefix("$").removeprefix(".")
    parsed, at = list[str | int](), 0
    for step in _STEP.finditer(text):
        if step.start() != at:
            break
        parsed.append(int(step[2]) if step[2] and step[2] != "*" else step[2] or step[1])
        at = step.end()
    if at != len(text) or not parsed:
        raise TaskError(f"answer space json: {path!r} is not a path such as result.total or items[0].name")
    return tuple(parsed)


def look_up(value: object, path: str) -> object:
    """Return the part at a path, or MISSING; a member named like the whole path comes first."""
    if is_object(value) and path in value:
        return value[path]
    return _walk(value, steps(path))


def _walk(value: object, left: tuple[str | int, ...]) -> object:
    if not left:
        return value
    step, rest = left[0], left[1:]
    if step == "*":
        parts = [_walk(each, rest) for each in value] if is_array(value) else [MISSING]
        return MISSING if any(part is MISSING for part in parts) else parts
    if isinstance(step, int):
        return _walk(value[step], rest) if is_array(value) and step < len(value) else MISSING
    return _walk(value[step], rest) if is_object(value) and step in value else MISSING


def without(value: object, names: frozenset[str]) -> object:
    """Return a value without members of these names, at any depth."""
    if is_object(value):
        return {name: without(inner, names) for name, inner in value.items() if name not in names}
    return [without(each, names) for each in value] if is_array(value) else value


# Every opening bracket may begin a value: so many are tried.
MOST_OPENINGS = 10_000

_OPENING = re.compile(r"[{\[]")
# What promises JSON that may be broken: then the text abstains, and no inner part stands for it.
_JSON_LIKE = re.compile(r"""[{\[]\s*(?:["'{\[\]}]|-?\d|true\b|false\b|null\b|$)|\{\s*\w+\s*:""")
# [1] and [2, 3] point to sources far more often than they are an answer.
_CITATION = re.compile(r"\[\s*\d{1,4}(?:\s*,\s*\d{1,4})*\s*\]")
# Marks of a block that may hold JSON; a block of another language is an example in that language.
_LANGUAGES = ("", "json", "jsonc", "json5")


@frozen
class JsonSpan:
    """A span of JSON in a text; ``broken`` where it looks like JSON but is invalid."""

    start: int
    end: int
    broken: str = ""


def find(text: str) -> tuple[str, str]:
    """Return the JSON that is a text's answer, and the rule; raises NotRead with the reason.

    The whole text, else the last fenced block that is JSON, else the last object or array that stands in the
    text (marks such as ``[1]`` only where nothing else does). JSON that is incomplete or not valid is never
    passed over for an earlier or an inner part of it.
    """
    if len(text) > MOST_CHARACTERS:
        raise NotRead(f"longer than {MOST_CHARACTERS:,} characters")
    whole = text.strip()
    if not whole:
        raise NotRead("no answer")
    if whole[0] in "{[" and whole[-1] in "}]" and _is_json(whole):
        return whole, "whole text"
    blocks = [each for each in fences(text) if each.language in _LANGUAGES] if MARK in text else []
    fence = next((each for each in reversed(blocks) if _is_json(each.content)), None)
    if fence is not None and not _last(text, fence.end).end:
        return fence.content.strip(), "fence"
    last = _last(text, 0)
    if not last.end:
        if _is_json(whole):
            return whole, "whole text"
        raise NotRead("no JSON in the text")
    if last.broken:
        raise NotRead(last.broken)
    return text[last.start : last.end], "last JSON"


def only_object(text: str) -> tuple[str, int] | None:
    """Return the text's single JSON object, bare or in one fence, and its end; else None.

    The object is in canonical form. Of a text with fences only what stands in one of JSON counts.
    """
    if "{" not in text or len(text) > MOST_CHARACTERS:
        return None
    try:
        blocks = list(fences(text)) if MARK in text else []
        spans = [(each.content, each.end) for each in blocks if each.language in _LANGUAGES]
        if not blocks:
            spans = [(text[span.start : span.end], span.end) for span in _spans(text, 0)]
        objects = [span for span in spans if span[0].lstrip()[:1] == "{"]
        value = value_of(objects[0][0]) if len(objects) == 1 else None
    except NotRead:
        return None
    return (canonical(value), objects[0][1]) if is_object(value) and value else None


def _is_json(text: str) -> bool:
    try:
        value_of(text)
    except NotRead:
        return False
    return True


def _last(text: str, start: int) -> JsonSpan:
    """Return the last object or array from ``start`` on; an empty span without one."""
    spans = list(_spans(text, start))
    chosen = [span for span in spans if span.broken or not _CITATION.fullmatch(text, span.start, span.end)]
    return (chosen or spans or [JsonSpan(0, 0)])[-1]


def _spans(text: str, start: int) -> Iterator[JsonSpan]:
    """Yield the outermost objects and arrays, and spans that look like one.

    Raises NotRead where brackets are so many that looking for their partners would take quadratic time.
    """
    at, budget = start, 4 * len(text) + MOST_OPENINGS
    for _ in range(MOST_OPENINGS):
        opening = _OPENING.search(text, at)
        if opening is None or budget < 0:
            break
        begin = opening.start()
        like = _JSON_LIKE.match(text, begin) is not None
        try:
            at = decoded(text, begin)[1] if like else begin
        except NotRead as error:
            end = closing(text, begin, BRACKET)
            # After an incomplete document, a fence begins anew.
            fence = text.find("```json", begin)
            at = end or (len(text) if fence < 0 else fence)
            budget -= at - begin
            yield JsonSpan(begin, at, str(error) if end else "incomplete JSON")
        else:
            if like:
                yield JsonSpan(begin, at)
            at += not like
    else:
        raise NotRead(f"more than {MOST_OPENINGS:,} brackets")
    if budget < 0:
        raise NotRead("too many open brackets")
