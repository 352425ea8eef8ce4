r"""Answers that are a mathematical expression, most often in LaTeX."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from keff.answers import _numbers
from keff.answers._base import Extracted, last_match, same_key
from keff.answers._forms import PROSE, canonical_form
from keff.answers._numbers import TAIL
from keff.answers._plain import plain
from keff.answers._statements import Statement, statements
from keff.answers._visible import visible
from keff.records import AnswerSpace

MOST_CHARACTERS = 1000
_SEGMENT = re.compile(r"\$\$?([^$\n]{1,400})\$\$?|\\\((.{1,400}?)\\\)|\\\[\s*(.{1,400}?)\s*\\\]", re.DOTALL)
_LEAD = re.compile(
    r"(?:[\s:*_]+|(?:just|simply|therefore|thus|that|approximately|about|equal to|given by)\b)*", re.I
)
_SENTENCE_END = re.compile(r"(?<=[^\s.])[.!?](?:\s|$)")


@dataclass(frozen=True, slots=True)
class MathSpace:
    r"""Expressions are one answer when they have the same canonical form.

    The form is found in steps: (1) a string normaliser; (2) numbers as exact fractions, so that 0.5, 1/2 and
    \frac12 are one; tuples, intervals, unions and matrices by their parts; lists and sets in any order; x=5
    as 5; (3) with the extra ``math``, what is left is parsed by math-verify's LaTeX parser and rewritten by
    sympy (expanded, cancelled, denominators rational) in a worker process with a time limit. Without the
    extra, or when a string cannot be parsed in time, the string of step 1 is the key. A percent sign is a
    unit: 50% is 50. ``correct`` asks for the key of the gold answer, so it never contradicts the vote.
    """

    name: ClassVar[AnswerSpace] = "math"
    closed: ClassVar[bool] = False
    contract: ClassVar[str] = r'End with a line "Final answer: \boxed{<expression>}".'

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Read the last explicit statement; else, on whole text, the last formula or number."""
        text = visible(text)
        for statement in statements(text):
            if truncated and statement.open:
                continue
            if found := _expression(statement):
                return Extracted(found, statement.rule)
        return None if truncated else _guess(text[-TAIL:])

    def key(self, answer: str) -> str | None:
        """Return the canonical form; None if nothing is left of the answer."""
        if len(answer) > MOST_CHARACTERS:
            return None
        return canonical_form(answer)

    def correct(self, answer: str, gold: Any) -> bool:
        """Say whether the answer has the canonical form of an acceptable answer."""
        return same_key(self, answer, gold)


def _expression(statement: Statement) -> str | None:
    payload = statement.payload[:MOST_CHARACTERS]
    if statement.rule in ("boxed", "tag"):
        return payload.strip().strip("$").strip() or None
    lead = _LEAD.match(payload)
    start = lead.end() if lead else 0
    segment = _SEGMENT.match(payload, start)
    if segment is None and re.match(r"\$\s?\d", payload[start:]) is None:
        sentence = _SENTENCE_END.split(payload[start:], maxsplit=1)[0]
        segment = next(reversed(list(_SEGMENT.finditer(sentence))), None)
    if segment:
        return _inside(segment)
    text = plain(_SENTENCE_END.split(payload[start:], maxsplit=1)[0]).strip(" .*_")
    if statement.rule == "####" or statement.strong:
        return payload[start:].strip().strip("*_ ").removesuffix(".") or None
    if text and len(text.split()) <= 6 and len(PROSE.findall(text)) <= 1:
        return payload[start : start + len(payload)].strip().strip("*_ ").removesuffix(".")
    found = _numbers.leading(plain(payload))
    return found[0].strip() if found else None


def _inside(segment: re.Match[str]) -> str | None:
    content = next((group for group in segment.groups() if group), "").strip().rstrip(".,")
    return content or None


def _guess(tail: str) -> Extracted | None:
    last = last_match(_SEGMENT, tail)
    number = _numbers.last(tail[last.end() :] if last else plain(tail))
    if number:
        return Extracted(number[0].strip(), "last number")
    if last is None or (content := _inside(last)) is None:
        return None
    right = content.rpartition("=")[2].strip()
    return Extracted(right or content, "last formula")
