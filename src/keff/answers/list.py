"""Lists, item by item in their order; each item is compared by an inner space."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from keff.answers.parts import json_text
from keff.answers.parts.base import ByForm, Extracted, NotRead, Space, golds
from keff.answers.parts.json_text import find
from keff.answers.parts.spec import cached
from keff.answers.parts.statements import statements
from keff.answers.parts.thinking import strip_thinking
from keff.narrow import is_array
from keff.records import frozen

# Longer ones are not parsed: this bounds the time that a hostile answer can take.
MOST_CHARACTERS = 200_000
# A list of more is no answer, and sorting it would take a request's time.
MOST_ITEMS = 10_000

# A space must follow the sign or the number: "3.5 kg" and "-2" begin no item.
_BULLET = re.compile(r"^[ \t]*(?:[-*•–+]|\(?\d{1,4}[.)])[ \t]+(?=\S)")
# What joins the last two items of a list in a sentence, with a comma before it or without.
_AND = re.compile(r",? (?:and|&) ")
_LEAD_AND = re.compile(r"(?:and|or|&) ")
_ENCLOSED = {"[": "]", "(": ")", "{": "}"}
# Typographic quotes and emphasis too: models dress items in them.
_QUOTES = "\"'`“”‘’*_ \t"
# Words; a longer last line is prose.
_LONGEST_LINE = 60

# Keys of the items in the order of the answer -> those that make the key.
Combine = Callable[[list[str]], list[str]]


@frozen
class ListSpace(ByForm):
    """Answer space of lists: the same items in the same order; with ``order`` "free", in any order.

    The key is the JSON array of the items' keys by ``inner``. An answer with an item that ``inner`` cannot
    read abstains. A list is a JSON array, bullets, lines, or parts between semicolons, commas and "and".
    """

    inner: Space
    combine: Combine
    name = "list"
    contract = 'End with a line "Final answer: [<item>, <item>]", a JSON array.'

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return a JSON array, else the last statement's list, else the last bullets or line."""
        text = strip_thinking(text)
        if truncated or len(text) > MOST_CHARACTERS:
            return None
        if (array := _array(text)) is not None:
            return array
        for statement in statements(text):
            # A heading names the list that follows it, in the lines below.
            below = _bullets(text[text.find(statement.payload, statement.at) :])
            answer = below or statement.payload.strip()
            if answer:
                return Extracted(answer, statement.rule)
        lines = text.rstrip().split("\n")
        last = len(lines)
        while last and _BULLET.match(lines[last - 1]):
            last -= 1
        if last < len(lines):
            return Extracted("\n".join(lines[last:]), "bullets")
        line = lines[-1].strip()
        return Extracted(line, "last line") if line and len(line.split()) <= _LONGEST_LINE else None

    def form(self, answer: str) -> str:
        """Return the JSON array of the items' keys; raises NotRead."""
        if len(answer) > MOST_CHARACTERS:
            raise NotRead(f"longer than {MOST_CHARACTERS:,} characters")
        items = split(answer)
        if len(items) > MOST_ITEMS:
            raise NotRead(f"more than {MOST_ITEMS:,} items")
        keys: list[str] = []
        for place, item in enumerate(items, 1):
            key = self.inner.key(item)
            if key is None:
                raise NotRead(f"item {place} is not read as {self.inner.name}")
            keys.append(key)
        return json.dumps(self.combine(keys), ensure_ascii=False, separators=(",", ":"))

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether the answer lists the gold items: ``gold`` is one list, or a text that lists them.

        Of a list whose members list several items each, any one is acceptable.
        """
        key = self.key(answer)
        if key is None:
            return False
        keys = {self.key(each) for each in golds(gold)}
        if isinstance(gold, list | tuple):
            keys.add(self.key(json.dumps(gold, default=str)))
        return key in keys


def _array(text: str) -> Extracted | None:
    try:
        answer, rule = find(text)
    except NotRead:
        return None
    # Within prose ``[1]`` is a mark and no answer.
    mark = answer.strip() != text.strip() and re.fullmatch(r"\[\s*\d{1,4}\s*\]", answer)
    return Extracted(answer, rule) if answer.startswith("[") and not mark else None


def _bullets(text: str) -> str:
    """Return a text's leading bulleted lines."""
    lines: list[str] = []
    for line in text.split("\n"):
        if not _BULLET.match(line):
            if lines and line.strip():
                break
            if line.strip():
                return ""
            continue
        lines.append(line)
    return "\n".join(lines)


def split(answer: str) -> list[str]:
    """Return an answer's items: of a JSON array, lines, or between semicolons or commas.

    Raises NotRead for a bracket that never closes.

    The word "and" separates the last two parts. ``a, b`` splits at a comma with a space, so that 1,000 stays
    whole; where no comma has one, at every comma.
    """
    text = answer.strip()
    try:
        value = json_text.value_of(json_text.unfenced(text))
    except NotRead:
        value = None
    if value is None and text[:1] in ("[", "{") and text.count(text[0]) > text.count(_ENCLOSED[text[0]]):
        raise NotRead("an incomplete list")
    if is_array(value):
        return [each if isinstance(each, str) else json_text.canonical(each) for each in value]
    if text[:1] in _ENCLOSED and text.endswith(_ENCLOSED[text[0]]) and not _BULLET.match(text):
        text = text[1:-1]
    elif text.endswith("."):
        text = text[:-1]
    return [item for part in _parts(text) if (item := part.strip(_QUOTES))]


def _parts(text: str) -> list[str]:
    lines = [_BULLET.sub("", line, count=1) for line in text.split("\n") if line.strip()]
    if len(lines) > 1 or _BULLET.match(text):
        return [line.strip().rstrip(",;") for line in lines]
    text = " ".join(text.split())
    if ";" in text:
        return text.split(";")
    parts = text.split(", ") if ", " in text else text.split(",")
    *before, final = parts
    final = _LEAD_AND.sub("", final, count=1) if before and _LEAD_AND.match(final) else final
    return [*before, *_AND.split(final)]


def space(inner: str | Space = "text", order: str = "kept") -> ListSpace:
    """Make the space: ``inner`` names the space of the items, ``order`` is "kept" or "free"."""
    if order not in ("kept", "free"):
        raise ValueError(f"order is kept or free, not {order!r}")
    each = cached(inner) if isinstance(inner, str) else inner
    return ListSpace(each, sorted if order == "free" else list)
