r"""Canonical forms of mathematical answers, part by part."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from keff.answers.parts import numbers, symbolic
from keff.answers.parts.base import settled
from keff.answers.parts.latex import is_words, normalise
from keff.answers.parts.units import MEASURED
from keff.answers.parts.visible import fold

DEEPEST = 4

_DECIMAL = re.compile(r"-?(?:\d{1,300}|\d{1,3}(?:,\d{3})+)(?:\.\d{1,300})?", re.ASCII)
_FRACTION = re.compile(r"(-?)(\d{0,18})\\frac\{(-?)(\d{1,40})\}\{(\d{1,40})\}", re.ASCII)
_POWER_OF_TEN = re.compile(r"(-?\d+(?:\.\d+)?)\\cdot ?10\^\{?(-?\d{1,3})\}?", re.ASCII)
_REPEATING = re.compile(
    r"(-?)(\d{0,18})\.(\d{0,18})(?:\\(?:overline|bar|dot)\{(\d{1,18})\}|\((\d{1,18})\))", re.ASCII
)
_BASE = re.compile(r"0*([0-9A-F]+)_\{?(\d{1,2})\}?", re.ASCII)
_NAMED = re.compile(
    r"^(?:[a-zA-Z]|\\[a-z]+|[a-zA-Z]\([a-zA-Z]\))(?:_\{\w\})?(?:=|\\in "
    "?)(?!=)(?=[^=<>]+$)|^[^a-zA-Z=<>]+=(?=[^=<>]+$)"
)
# Letters that stand for a product: any two, and three without the vowels of a word.
_PRODUCT = re.compile(r"[a-zA-Z]{2}|[a-dA-D]{3}|[b-df-hj-np-tv-zB-DF-HJ-NP-TV-Z]{3}")
_WORDS = frozenset(
    (
        "no",
        "No",
        "NO",
        "Yes",
        "yes",
        "on",
        "or",
        "in",
        "is",
        "if",
        "so",
        "of",
        "to",
        "at",
        "an",
        "as",
        "be",
        "by",
        "do",
        "go",
        "he",
        "it",
        "me",
        "my",
        "us",
        "we",
        "up",
        "pi",
    )
)
_FUNCTION = re.compile(r"\\(?:sum|prod|int|lim|log|ln|sin|cos|tan|begin)(?![a-z])|[=<>|;:]")
_BARE = re.compile(rf"([0-9A-F]+)_\{{\d{{1,2}}\}}|{MEASURED.pattern}")
_LABEL = re.compile(r"\(?([A-Z])\)?")
_MATRIX = re.compile(r"\\begin\{([pbvB]?)matrix\}(.{1,800})\\end\{\1matrix\}")
_GROUP = re.compile(r"([({])([^(){}]*)([)}])")
_PAIRS = {"(": ")", "[": "]"}
PROSE = re.compile(r"(?<![\\a-zA-Z])(?!(?:sqrt|sinh|cosh|tanh|frac|[pbvB]?matrix|cases|array)\b)[a-zA-Z]{4,}")


def canonical_form(answer: str) -> str | None:
    """Return the canonical form of an answer; None if nothing is left of it.

    Of an answer that takes too long, the form that needs no worker; so too where the time is limited
    (``symbolic.limited``) and over, but then it is not remembered.
    """
    try:
        return _remembered(answer)
    except symbolic.NoTimeError:
        with symbolic.without_workers():
            return _sought(answer)


@lru_cache(maxsize=2**17)
def _remembered(answer: str) -> str | None:
    try:
        with symbolic.one_answer():
            return _sought(answer)
    except symbolic.TooLongError:
        with symbolic.without_workers():
            return _sought(answer)


def _sought(answer: str) -> str | None:
    return settled(lambda text: _form(normalise(fold(text)), 0), answer) or None


def _form(text: str, depth: int) -> str:
    """Return the canonical form of a normalised string, part by part."""
    text = _NAMED.sub("", text).strip()
    if measured := MEASURED.fullmatch(text):
        return f"{_form(measured[1], depth)} {measured[2]}"
    number = _number(text)
    if number is not None:
        return numbers.written(number)
    if label := _LABEL.fullmatch(text):
        return label[1]
    if base := _BASE.fullmatch(text):
        # Base ten is said by no base; whether a letter is a digit of a base or a name nobody knows.
        return text if not base[1].isdigit() else base[1] if base[2] == "10" else f"{base[1]}_{{{base[2]}}}"
    if _PRODUCT.fullmatch(text) and text not in _WORDS:
        return "".join(sorted(text))
    if is_words(text):
        return text.lower()
    if depth < DEEPEST and (parts := _parts(text, depth + 1)):
        return parts
    # 2:30 is a ratio or a time of day.
    if PROSE.search(text) or any(sign in text for sign in (":", "<", ">", "\\le ", "\\ge ", "\\ne ")):
        return text
    return symbolic.canonical(text) or (text if symbolic.available() else sorted_sums(text))


def bare(form: str) -> str:
    """Return a canonical form without the unit or the base that it names."""
    match = _BARE.fullmatch(form)
    return form if match is None else match[1] or match[2]


def sorted_sums(text: str) -> str:
    """Return an expression with the terms of its sums in one order: 9a+11 and 11+9a.

    Without the parser this is all that is done. Sums behind functions are left alone: who knows what they
    enclose.
    """
    if _FUNCTION.search(text) or text.count("(") != text.count(")") or text.count("{") != text.count("}"):
        return text
    inner = _GROUP.sub(lambda match: f"{match[1]}{_sorted_terms(match[2])}{match[3]}", text)
    return _sorted_terms(inner)


def _sorted_terms(text: str) -> str:
    terms, depth, start = list[str](), 0, 0
    for place, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0 and sign in "+-" and place > start and text[place - 1] not in "^_*(+-":
            terms.append(text[start:place])
            start = place
    terms.append(text[start:])
    if len(terms) == 1 or not all(term.strip("+-") for term in terms):
        return text
    signed = sorted(term if term[0] in "+-" else f"+{term}" for term in terms)
    return "".join(signed).removeprefix("+")


def _number(text: str) -> Fraction | None:
    if _DECIMAL.fullmatch(text):
        return Fraction(text.replace(",", ""))
    if match := _FRACTION.fullmatch(text):
        bottom = int(match[5])
        if bottom == 0:
            return None
        size = int(match[2] or 0) + Fraction(int(match[4]), bottom)
        return -size if (match[1] == "-") != (match[3] == "-") else size
    if match := _REPEATING.fullmatch(text):
        before, repeated = match[3], match[4] or match[5]
        size = Fraction(f"{match[2] or 0}.{before or 0}")
        size += Fraction(int(repeated), (10 ** len(repeated) - 1) * 10 ** len(before))
        return -size if match[1] else size
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
