"""JSON in free text: the object, array or fence that a text gives as its answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from keff.answers.parts.strict_json import BRACKET, MOST_CHARACTERS, NotRead, canonical, decoded, value_of
from keff.answers.parts.visible import MARK, fences
from keff.errors import TaskError
from keff.narrow import is_array, is_object

# What stands for a part that the value does not have (null is a value).
MISSING: Final = object()

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d{1,6}|\*)\]")


@lru_cache(maxsize=256)
def steps(path: str) -> tuple[str | int, ...]:
    """Return the steps of a path: names, places, ``*``; raises TaskError when it is malformed."""
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
    """Return the part at a path, or MISSING; a member whose name is the whole path comes first."""
    if is_object(value) and path in value:
        return value[path]
    return _walk(value, steps(path))


def _walk(value: object, left: tuple[str | int, ...]) -> object:
    if not left:
        return value
    step, *rest = left
    if step == "*":
        if not is_array(value):
            return MISSING
        parts = [_walk(each, tuple(rest)) for each in value]
        return MISSING if any(part is MISSING for part in parts) else parts
    if isinstance(step, int):
        return _walk(value[step], tuple(rest)) if is_array(value) and step < len(value) else MISSING
    if is_object(value) and step in value:
        return _walk(value[step], tuple(rest))
    return MISSING


def without(value: object, names: frozenset[str]) -> object:
    """Return a value without the members of these names, at any depth."""
    if is_object(value):
        return {name: without(inner, names) for name, inner in value.items() if name not in names}
    return [without(each, names) for each in value] if is_array(value) else value


# Every opening bracket may begin a value: so many are tried.
MOST_OPENINGS = 10_000

_OPENING = re.compile(r"[{\[]")
_JSON_LIKE = re.compile(r"""[{\[]\s*(?:["'{\[\]}]|-?\d|true\b|false\b|null\b|$)|\{\s*\w+\s*:""")
_CITATION = re.compile(r"\[\s*\d{1,4}(?:\s*,\s*\d{1,4})*\s*\]")
_LANGUAGES = ("", "json", "jsonc", "json5")


@dataclass(frozen=True, slots=True)
class JsonSpan:
    """JSON that stands in a text; ``broken`` when it looks like JSON and is not."""

    start: int
    end: int
    broken: str = ""


def find(text: str) -> tuple[str, str]:
    """Return the JSON that a text gives as its answer, and the rule; raises NotRead with the reason.

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
    """Return the one JSON object that a text holds, bare or in one fence, and where it ends; else None.

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
    """Return the last object or array from ``start`` on; an empty span when there is none."""
    spans = list(_spans(text, start))
    chosen = [span for span in spans if span.broken or not _CITATION.fullmatch(text, span.start, span.end)]
    return (chosen or spans or [JsonSpan(0, 0)])[-1]


def _spans(text: str, start: int) -> Iterator[JsonSpan]:
    """Yield the outermost objects and arrays, and what looks like one.

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
            end = _partner(text, begin)
            # After an incomplete document, a fence begins anew.
            at = end or _fence_after(text, begin)
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


def _fence_after(text: str, at: int) -> int:
    fence = text.find("```json", at)
    return len(text) if fence < 0 else fence


def _partner(text: str, begin: int) -> int:
    """Return the end of the bracket that opens at ``begin``; 0 when it does not close."""
    depth = 0
    for token in BRACKET.finditer(text, begin):
        first = token[0][0]
        if first == '"':
            continue
        depth += 1 if first in "{[" else -1
        if depth == 0:
            return token.end()
    return 0
