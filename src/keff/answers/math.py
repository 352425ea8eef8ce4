r"""Answers that are a mathematical expression, most often in LaTeX."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from keff.answers.parts import numbers
from keff.answers.parts.base import Extracted, golds, last_match
from keff.answers.parts.forms import PROSE, bare, canonical_form
from keff.answers.parts.numbers import TAIL
from keff.answers.parts.plain import plain
from keff.answers.parts.statements import Statement, statements
from keff.answers.parts.visible import visible

# Longer ones are not parsed: this bounds the time that a hostile answer can take.
MOST_CHARACTERS = 1000
_SEGMENT = re.compile(r"\$\$?([^$\n]{1,400})\$\$?|\\\((.{1,400}?)\\\)|\\\[\s*(.{1,400}?)\s*\\\]", re.DOTALL)
_LEAD = re.compile(
    r"(?:[\s:*_]+|(?:just|simply|therefore|thus|that|approximately|about|equal to|given by)\b)*", re.I
)
_SENTENCE_END = re.compile(r"(?<=[^\s.])[.?](?:\s|$)")
_FORMULA = re.compile(r"(?=[^\n]*[\\^_()\[\]{}=+*/,|-])[^\n]{1,300}")
_PLAIN_WORD = re.compile(
    r"(?<![\\a-zA-Z{])(?!(?:sin|cos|tan|log|ln|exp|sqrt|pi|mod|or|and)\b)[a-zA-Z]{2,}|[.?!;:]\s"
)
_JOINED = re.compile(r"[\s,]*(?:or|and)?\s*")


@dataclass(frozen=True, slots=True)
class MathSpace:
    r"""Expressions are one answer when they have the same canonical form.

    The form is found in steps: (1) a string normaliser; (2) numbers as exact fractions, so that 0.5, 1/2 and
    \frac12 are one; tuples, intervals, unions and matrices by their parts; lists and sets in any order; x=5
    as 5; (3) with the extra ``math``, what is left is parsed by math-verify's LaTeX parser and rewritten by
    sympy (expanded, cancelled, denominators rational) in a worker process with a time limit. Without the
    extra, or when a string cannot be parsed in time, the string of step 1 is the key. A percent sign is a
    unit: 50% is 50. Of units one of each kind is dropped (dollars, hours, cm, degrees; 5 cm is 5) and the
    others stay: 5 cents, 5 minutes and 12_8 are not 5 and 12. ``correct`` asks for the key of the gold
    answer, and lets a unit or base be missing in one of the two. What would take seconds to work out
    (9^{9^9}) is compared as it is written.
    """

    name: ClassVar[str] = "math"
    closed: ClassVar[bool] = False
    contract: ClassVar[str] = r'End with a line "Final answer: \boxed{<expression>}".'

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Read the last explicit statement; else, on whole text, the last formula or number."""
        text = visible(text)
        for statement in statements(text):
            if truncated and statement.open:
                continue
            if expression := _expression(statement):
                return Extracted(expression, statement.rule)
        return None if truncated else _guess(text[-TAIL:])

    def key(self, answer: str) -> str | None:
        """Return the canonical form; None if nothing is left of the answer."""
        if len(answer) > MOST_CHARACTERS:
            return None
        return canonical_form(answer)

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether the answer has the canonical form of an acceptable answer, units and bases apart."""
        key = self.key(answer)
        return key is not None and any(_agrees(key, self.key(each) or "") for each in golds(gold))


def _agrees(key: str, gold: str) -> bool:
    """Return whether forms are equal, or would be if one of them did not name its unit or base."""
    return key == gold or (bare(key) == bare(gold) and (key == bare(key)) != (gold == bare(gold)))


def _expression(statement: Statement) -> str | None:
    payload = statement.payload[:MOST_CHARACTERS]
    if statement.rule in ("boxed", "tag"):
        return payload.strip().strip("$").strip() or None
    lead = _LEAD.match(payload)
    sentence = _SENTENCE_END.split(payload[lead.end() if lead else 0 :], maxsplit=1)[0]
    if formulas := _formulas(sentence):
        return formulas
    if len(PROSE.findall(sentence)) <= 1 and (statement.strong or len(sentence.split()) <= 6):
        return sentence.strip("*_ \t") or None
    text = plain(sentence)
    match = numbers.leading(text) or (numbers.last(text) if statement.strong else None)
    return match[0].strip() if match else None


def _formulas(sentence: str) -> str | None:
    """Return the formulas that a sentence begins with, else its last ones.

    Those between which stands only "or".
    """
    runs: list[list[str]] = []
    end = 0
    for segment in _SEGMENT.finditer(sentence):
        if not runs or not _JOINED.fullmatch(sentence, end, segment.start()):
            runs.append([])
        runs[-1].append(_inside(segment))
        end = segment.end()
    if not runs:
        return None
    first = _SEGMENT.match(sentence) is not None
    return ", ".join(runs[0 if first else -1]) or None


def _inside(segment: re.Match[str]) -> str:
    return next((group for group in segment.groups() if group), "").strip().rstrip(".,")


def _guess(tail: str) -> Extracted | None:
    if _FORMULA.fullmatch(whole := tail.strip().strip("$").strip()) and not _PLAIN_WORD.search(whole):
        return Extracted(whole, "whole text")
    last = last_match(_SEGMENT, tail)
    number = numbers.last(tail[last.end() :] if last else plain(tail))
    if number:
        return Extracted(number[0].strip(), "last number")
    content = _inside(last) if last else ""
    answer = content.rpartition("=")[2].strip() or content
    return Extracted(answer, "last formula") if answer else None


def space() -> MathSpace:
    """Make the space; see ``MathSpace`` for the options."""
    return MathSpace()
