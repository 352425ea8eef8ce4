"""JSON anywhere in the text, fenced or bare: names in any order, numbers by value, fields that matter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from keff.answers.parts import json_text
from keff.answers.parts.base import ByForm, Extracted, words
from keff.answers.parts.json_text import MISSING, NotRead, find, look_up, steps, without
from keff.answers.parts.thinking import strip_thinking
from keff.records import frozen


@frozen
class JsonSpace(ByForm):
    """Answer space of JSON: equal values are equal answers, whatever their layout and order of names.

    Numbers are compared by value (1, 1.0 and 1e0), strings character by character, arrays in order. With
    ``fields`` only these members vote (names, or paths such as ``result.total`` and ``items[0].name``,
    ``items[*].name``); an answer that lacks one abstains. Members named in ``ignore`` are left out at any
    depth. What is not JSON abstains, and so do duplicate names, NaN and nesting beyond 100.
    """

    fields: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    name = "json"
    contract = "End with the answer as one JSON value in a ```json block."

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the whole text, else the last fenced block, else the last object or array."""
        if truncated:
            return None
        try:
            return Extracted(*find(strip_thinking(text)))
        except NotRead:
            return None

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether the answer is the gold value, or one of a list of acceptable ones.

        ``gold`` is a JSON text or the value itself; of a list, the list as a whole is acceptable too.
        """
        key = self.key(answer)
        given = cast("Sequence[object]", gold) if isinstance(gold, list | tuple) else ()
        texts = (
            each if isinstance(each, str) else json.dumps(each, default=str)
            for each in (cast("object", gold), *given)
        )
        return key is not None and key in map(self.key, texts)

    def form(self, answer: str) -> str:
        """Return the canonical JSON of the fields that vote; raises NotRead."""
        value = json_text.value_of(find(strip_thinking(answer))[0])
        if self.ignore:
            value = without(value, frozenset(self.ignore))
        if not self.fields:
            return json_text.canonical(value)
        parts = {field: look_up(value, field) for field in self.fields}
        missing = [field for field, part in parts.items() if part is MISSING]
        if missing:
            raise NotRead(f"no field {missing[0]!r}")
        return json_text.canonical(parts)


def space(fields: str | Sequence[str] = (), ignore: str | Sequence[str] = ()) -> JsonSpace:
    """Make the space; see ``JsonSpace`` for the options."""
    for field in words(fields):
        steps(field)  # a malformed path is said now, not with the first answer
    return JsonSpace(words(fields), words(ignore))
