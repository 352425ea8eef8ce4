r"""Canonical forms of mathematical answers, part by part."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from keff.answers import _numbers, _symbolic
from keff.answers._base import settled
from keff.answers._latex import is_words, normalise
from keff.answers._visible import fold

DEEPEST = 4

_DECIMAL = re.compile(r"-?(?:\d{1,300}|\d{1,3}(?:,\d{3})+)(?:\.\d{1,300})?", re.ASCII)
_FRACTION = re.compile(r"(-?)(\d{0,18})\\frac\{(-?)(\d{1,40})\}\{(\d{1,40})\}", re.ASCII)
_POWER_OF_TEN = re.compile(r"(-?\d+(?:\.\d+)?)\\cdot ?10\^\{?(-?\d{1,3})\}?", re.ASCII)
_BASE = re.compile(r"0*([0-9A-F]+)_\{?\d{1,2}\}?", re.ASCII)
_NAMED = re.compile(
    r"^(?:[a-zA-Z]|\\[a-z]+|[a-zA-Z]\([a-zA-Z]\))(?:_\{\w\})?(?:=|\\in "
    "?)(?!=)(?=[^=<>]+$)|^[^a-zA-Z=<>]+=(?=[^=<>]+$)"
)
_LABEL = re.compile(r"\(?([A-Z])\)?")
_MATRIX = re.compile(r"\\begin\{([pbvB]?)matrix\}(.{1,800})\\end\{\1matrix\}")
_PAIRS = {"(": ")", "[": "]"}
PROSE = re.compile(r"(?<![\\a-zA-Z])(?!(?:sqrt|sinh|cosh|tanh|frac|[pbvB]?matrix|cases|array)\b)[a-zA-Z]{4,}")


def canonical_form(answer: str) -> str | None:
    """Return the canonical form of an answer; None if nothing is left of it.

    Where the time is limited (``_symbolic.limited``) and over, the form that needs no worker; it is not
    remembered.
    """
    try:
        return _remembered(answer)
    except _symbolic.NoTimeError:
        with _symbolic.without_workers():
            return _sought(answer)


@lru_cache(maxsize=2**17)
def _remembered(answer: str) -> str | None:
    return _sought(answer)


def _sought(answer: str) -> str | None:
    return settled(lambda text: _form(normalise(fold(text)), 0), answer) or None


def _form(text: str, depth: int) -> str:
    """Return the canonical form of a normalised string, part by part."""
    text = _NAMED.sub("", text).strip()
    number = _number(text)
    if number is not None:
        return _numbers.written(number)
    if label := _LABEL.fullmatch(text):
        return label[1]
    if base := _BASE.fullmatch(text):
        return base[1] if base[1].isdigit() else text
    if is_words(text):
        return text.lower()
    if depth < DEEPEST and (parts := _parts(text, depth + 1)):
        return parts
    if PROSE.search(text) or any(sign in text for sign in ("<", ">", "\\le ", "\\ge ", "\\ne ")):
        return text
    return _symbolic.canonical(text) or text


def _number(text: str) -> Fraction | None:
    if _DECIMAL.fullmatch(text):
        return Fraction(text.replace(",", ""))
    if match := _FRACTION.fullmatch(text):
        bottom = int(match[5])
        if bottom == 0:
            return None
        size = int(match[2] or 0) + Fraction(int(match[4]), bottom)
        return -size if (match[1] == "-") != (match[3] == "-") else size
    if match := _POWER_OF_TEN.fullmatch(text):
        return Fraction(match[1]) * Fraction(10) ** int(match[2])
    return None


def _parts(text: str, depth: int) -> str | None:
    """Return the canonical form of a union, tuple, interval, set, list or matrix.

    None if it is none of these.
    """
    if matrix := _MATRIX.fullmatch(text):
        rows = [
            [_form(cell.strip(), depth) for cell in row.split("&")] for row in matrix[2].split("\\\\") if row
        ]
        inner = "\\\\".join("&".join(row) for row in rows)
        return f"\\begin{{pmatrix}}{inner}\\end{{pmatrix}}"
    united = split(text, "\\cup")
    if len(united) > 1:
        return " \\cup ".join(sorted(_form(part.strip(), depth) for part in united))
    if text.startswith("\\{") and text.endswith("\\}") and "|" not in text and ":" not in text:
        return _set(split(text[2:-2], ","), depth)
    opening, closing = text[:1], text[-1:]
    if opening in _PAIRS and closing in (")", "]") and _encloses(text):
        inner = split(text[1:-1], ",")
        if len(inner) > 1:
            return f"{opening}{', '.join(_form(part.strip(), depth) for part in inner)}{closing}"
        return _form(text[1:-1], depth) if opening == "(" and closing == ")" else None
    listed = split(text, ",")
    if len(listed) > 1:
        return _set(listed, depth)
    if text.count("\\pm") == 1:
        return _set([text.replace("\\pm", sign).removeprefix("+") for sign in "+-"], depth)
    return None


def _set(parts: list[str], depth: int) -> str:
    return ", ".join(sorted({_form(part.strip(), depth) for part in parts if part.strip()}))


def split(text: str, separator: str) -> list[str]:
    """Split at separators that stand outside all brackets."""
    parts, depth, start, i = list[str](), 0, 0, 0
    while i < len(text):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
        elif depth == 0 and text.startswith(separator, i):
            parts.append(text[start:i])
            start = i = i + len(separator)
            continue
        i += 1
    return [*parts, text[start:]]


def _encloses(text: str) -> bool:
    """Return whether the first bracket closes with the last character."""
    depth = 0
    for i, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return i == len(text) - 1
    return False
