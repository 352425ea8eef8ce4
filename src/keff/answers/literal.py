"""Python literals; nothing is ever executed."""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections import deque
from typing import Literal, overload

from keff.answers.parts.base import TAIL, ByKey, Extracted, closing, last_match, nesting
from keff.answers.parts.statements import Statement, statements
from keff.answers.parts.thinking import strip_thinking
from keff.records import frozen

# CPython before 3.12.1 counts the depth of a tree for all threads at once: where two build trees, one fails
# with SystemError (gh-106905). Paths are read in threads.
_ALONE = threading.RLock()


@overload
def parse(source: str) -> ast.Module: ...
@overload
def parse(source: str, mode: Literal["eval"]) -> ast.Expression: ...
def parse(source: str, mode: Literal["exec", "eval"] = "exec") -> ast.AST:
    """Return the tree of a program or expression; raises what ``ast.parse`` raises."""
    with _ALONE:
        return ast.parse(source, mode=mode)


# Longer ones are not parsed: this bounds the time that a hostile answer can take.
MOST_CHARACTERS = 10_000
# Deeper nesting is refused before the parser's own stack is at risk.
DEEPEST = 60
# Signs in a row nest too.
_SIGNS = re.compile(r"[-+~][-+~ ]*")
# The possessive repeat cannot go back, so the time stays linear.
_STRING = r"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\""
# Brackets within strings do not count, and one that never closes runs to the end.
_BRACKETS = re.compile(rf"[()\[\]{{}}]|{_STRING}|['\"].*", re.DOTALL)
# A literal where no bracket opens it: a string, a number, a constant, the empty set.
_PREFIX = re.compile(
    rf"[bBuUrR]{{0,2}}(?:{_STRING})|set\(\)|[-+]{{0,2}}[\d.][\w.]*(?:[+-][\d.]+j)?|True|False|None|\.\.\.",
    re.DOTALL,
)
# The form in which CRUXEval asks. Both windows are bounded, so the time stays linear.
_ASSERT = re.compile(r"assert\s+\w{1,40}\([^\n]{0,400}?\)\s*==\s*")
# "The function returns" and its like, with at most two words of link before the value.
_RETURNS = re.compile(
    r"\b(?:outputs?|returns?|returned|result|evaluates to)\b(?:\s?(?:is|are|will be|would be|:|=)){0,2}", re.I
)
# Short blocks only: a long one is the program in question, not its output.
_FENCE = re.compile(r"```[a-zA-Z]{0,10}\n([^`]{1,2000})```")


@frozen
class LiteralSpace(ByKey):
    """Answer space of Python literals: equal by Python's ==, so 1, 1.0 and True are one.

    Sets and dicts in any order.

    Literals are read with ast.literal_eval. What it cannot read abstains, and so do literals of more than
    10,000 characters or 60 nested brackets. A tuple is not a list.
    """

    name = "literal"
    contract = 'End with a line "Final answer: <Python literal>".'

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the literal of the last explicit statement or assert.

        Else, on whole text, the last code span, result or line.
        """
        text = strip_thinking(text).replace("\0", "")
        tail = text[-TAIL:]
        for statement in statements(text):
            if value := _complete_literal(statement, truncated):
                return Extracted(value, statement.rule)
        asserted = last_match(_ASSERT, tail)
        if asserted and (value := _literal_at(_rest(tail, asserted))):
            return Extracted(value, "assert")
        return None if truncated else _guess(tail)

    def key(self, answer: str) -> str | None:
        """Return the value's canonical text; None where the answer is no literal."""
        try:
            return _canonical_text(_value(answer))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, OverflowError):
            return None


def _value(text: str) -> object:
    text = text.strip()
    signs = max((len(run.replace(" ", "")) for run in _SIGNS.findall(text)), default=0)
    if len(text) > MOST_CHARACTERS or max(nesting(text), signs) > DEEPEST:
        raise ValueError("too long or too deep")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.literal_eval(parse(text, "eval"))


def _canonical_text(value: object) -> str:
    if isinstance(value, bool | int | float | complex):
        return _number(value)
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_canonical_text, value))  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, set | frozenset):
        members = sorted(map(_canonical_text, value))  # pyright: ignore[reportUnknownArgumentType]
        return f"{{{', '.join(members)}}}" if members else "set()"
    if isinstance(value, dict):
        pairs = sorted((_canonical_text(key), _canonical_text(each)) for key, each in value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return f"{{{', '.join(f'{key}: {each}' for key, each in pairs)}}}"
    return repr(value)


def _number(value: complex) -> str:
    if isinstance(value, complex):
        if value.imag != 0:
            return f"{_number(value.real)}{'+' if value.imag > 0 else '-'}{_number(abs(value.imag))}j"
        value = value.real
    if value in (float("inf"), float("-inf")):
        return "1e999" if value > 0 else "-1e999"
    return repr(int(value) if value == int(value) else value)


def _complete_literal(statement: Statement, truncated: bool) -> str | None:
    value = _literal_at(statement.payload)
    unsure = truncated and statement.open and value is not None and statement.payload.endswith(value)
    return None if unsure and value and value[-1] not in ")]}'\"" else value


def _literal_at(text: str) -> str | None:
    """Return the literal at the start of a statement, after formatting marks."""
    text = text.lstrip(" \t\r\n:=*`$>").rstrip()[:MOST_CHARACTERS]
    if text[:1] in ("(", "[", "{"):
        return text[: closing(text, 0, _BRACKETS)] or None
    match = _PREFIX.match(text)
    return match[0].rstrip(".") or None if match else None


def _rest(text: str, match: re.Match[str]) -> str:
    """Return the rest of the line after a match."""
    # A cut before the search: on a line of megabytes each match would walk through all of it.
    return text[match.end() : match.end() + 2000].partition("\n")[0]


def _guess(tail: str) -> Extracted | None:
    space = LiteralSpace()
    last_line = tail.rstrip().rpartition("\n")[2]
    fences = _FENCE.findall(tail)
    spans = re.findall(r"(?<!`)`([^`\n]{1,400})`(?!`)", last_line)
    results = [_literal_at(_rest(tail, match)) for match in deque(_RETURNS.finditer(tail), maxlen=10)]
    for rule, texts in (
        ("last line", [last_line.strip(" `*")]),
        ("last fence", fences[-1:]),
        ("last code span", spans[-1:]),
        ("result", [each for each in results if each][-1:]),
    ):
        if texts and space.key(texts[0]) is not None:
            return Extracted(texts[0].strip(), rule)
    return None


space = LiteralSpace
