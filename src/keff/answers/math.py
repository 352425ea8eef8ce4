"""Mathematical expressions, most often in LaTeX."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from keff.answers.parts import notation, workers
from keff.answers.parts.base import (
    BRACKETS,
    TAIL,
    Extracted,
    closing,
    depths,
    fold,
    golds,
    last_match,
    settled,
    visible,
)
from keff.answers.parts.notation import MEASURED, is_words, normalise
from keff.answers.parts.number_words import JOIN
from keff.answers.parts.statements import Statement, plain, stated, unemphasized
from keff.records import frozen

# Parts of parts that are taken apart, such as tuples in a set: a hostile text can nest more.
DEEPEST = 4

# Digits are bounded by 300: exact fractions of longer numbers take quadratic time.
_DECIMAL = re.compile(r"-?(?:\d{1,300}|\d{1,3}(?:,\d{3})+)(?:\.\d{1,300})?", re.ASCII)
# A mixed number has its whole part in front, as in 3\frac{1}{2}, so it may be missing.
_FRACTION = re.compile(r"(-?)(\d{0,18})\\frac\{(-?)(\d{1,40})\}\{(\d{1,40})\}", re.ASCII)
_POWER_OF_TEN = re.compile(r"(-?\d+(?:\.\d+)?)\\cdot ?10\^\{?(-?\d{1,3})\}?", re.ASCII)
# Decimals with a period, by a bar, a dot or brackets: 0.\overline{3} is exactly 1/3.
_REPEATING = re.compile(
    r"(-?)(\d{0,18})\.(\d{0,18})(?:\\(?:overline|bar|dot)\{(\d{1,18})\}|\((\d{1,18})\))", re.ASCII
)
# Letters are digits in bases above ten, and only capitals: lower-case ones are names.
_BASE = re.compile(r"0*([0-9A-F]+)_\{?(\d{1,2})\}?", re.ASCII)
# x=5, f(x)=5 and x \in [0,1] name what was asked for, and 3+4=7 says how it was found. Of a chain of
# relations nothing is cut: which of its members would be meant is not known.
_NAMED = re.compile(
    r"^(?:[a-zA-Z]|\\[a-z]+|[a-zA-Z]\([a-zA-Z]\))(?:_\{\w\})?(?:=|\\in "
    "?)(?!=)(?=[^=<>]+$)|^[^a-zA-Z=<>]+=(?=[^=<>]+$)"
)
# Letters that stand for a product: any two, and three without the vowels of a word.
_PRODUCT = re.compile(r"[a-zA-Z]{2}|[a-dA-D]{3}|[b-df-hj-np-tv-zB-DF-HJ-NP-TV-Z]{3}")
# Two letters that are a word: these keep their order.
_WORDS = "no No NO Yes yes on or in is if so of to at an as be by do go he it me my us we up pi"
# Functions without brackets of their own, and relations: only the parser knows how far they reach.
_FUNCTION = re.compile(r"\\(?:sum|prod|int|lim|log|ln|sin|cos|tan|begin)(?![a-z])|[=<>|;:]")
_BARE = re.compile(rf"([0-9A-F]+)_\{{\d{{1,2}}\}}|{MEASURED.pattern}")
_LABEL = re.compile(r"\(?([A-Z])\)?")
_MATRIX = re.compile(r"\\begin\{([pbvB]?)matrix\}(.{1,800})\\end\{\1matrix\}")
# Innermost brackets: sums between these and the outermost one keep their order.
_GROUP = re.compile(r"([({])([^(){}]*)([)}])")
_SIGN = re.compile(rf"[-+]|{BRACKETS.pattern}")
_PAIRS = {"(": ")", "[": "]"}
# Four letters in a row that are no function: products of variables are seldom so long.
PROSE = re.compile(r"(?<![\\a-zA-Z])(?!(?:sqrt|sinh|cosh|tanh|frac|[pbvB]?matrix|cases|array)\b)[a-zA-Z]{4,}")


@lru_cache(maxsize=2**17)
def canonical_form(answer: str) -> str | None:
    """Return an answer's canonical form; None where nothing is left of it.

    Of an answer that takes too long, the form that needs no worker. Raises ``workers.UnreadError`` where a
    worker was ended for another reason: that form would be another answer than the same one read in peace.
    """
    try:
        with workers.one_answer():
            return _sought(answer)
    except workers.TooLongError:
        with workers.one_answer(0):
            return _sought(answer)


def _sought(answer: str) -> str | None:
    return settled(lambda text: _form(normalise(fold(text)), 0), unemphasized(answer)) or None


def _form(text: str, depth: int) -> str:
    """Return the canonical form of a normalised string, part by part."""
    text = _NAMED.sub("", text).strip()
    if measured := MEASURED.fullmatch(text):
        return f"{_form(measured[1], depth)} {measured[2]}"
    number = _number(text)
    if number is not None:
        return notation.written(number)
    if label := _LABEL.fullmatch(text):
        return label[1]
    if base := _BASE.fullmatch(text):
        # Base ten is said by no base; whether a letter is a digit of a base or a name nobody knows.
        return text if not base[1].isdigit() else base[1] if base[2] == "10" else f"{base[1]}_{{{base[2]}}}"
    if _PRODUCT.fullmatch(text) and text not in _WORDS.split():
        return "".join(sorted(text))
    if is_words(text):
        return text.lower()
    if depth < DEEPEST and (parts := _parts(text, depth + 1)):
        return parts
    # 2:30 is a ratio or a time of day.
    if PROSE.search(text) or any(sign in text for sign in (":", "<", ">", "\\le ", "\\ge ", "\\ne ")):
        return text
    return workers.canonical(text) or (text if workers.available() else sorted_sums(text))


def bare(form: str) -> str:
    """Return a canonical form without unit or base."""
    match = _BARE.fullmatch(form)
    return form if match is None else match[1] or match[2]


def sorted_sums(text: str) -> str:
    """Return an expression with the terms of each sum sorted, so 9a+11 equals 11+9a.

    Without the parser this is all that is done. Sums behind functions are left alone: who knows what they
    enclose.
    """
    if _FUNCTION.search(text) or text.count("(") != text.count(")") or text.count("{") != text.count("}"):
        return text
    inner = _GROUP.sub(lambda match: f"{match[1]}{_sorted_terms(match[2])}{match[3]}", text)
    return _sorted_terms(inner)


def _sorted_terms(text: str) -> str:
    signs = (end - 1 for depth, end in depths(text, 0, _SIGN) if depth == 0 and text[end - 1] in "+-")
    cuts = (place for place in signs if place and text[place - 1] not in "^_*(+-")
    terms = [text[start:end] for start, end in pairwise((0, *cuts, len(text)))]
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
    opening, end = text[:1], text[-1:]
    if opening in _PAIRS and end in (")", "]") and closing(text) == len(text):
        inner = split(text[1:-1], ",")
        if len(inner) > 1:
            return f"{opening}{', '.join(_form(part.strip(), depth) for part in inner)}{end}"
        return _form(text[1:-1], depth) if opening == "(" and end == ")" else None
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
    parts, start = list[str](), 0
    for depth, end in depths(text, 0, re.compile(f"{re.escape(separator)}|{BRACKETS.pattern}")):
        if depth == 0 and text.endswith(separator, start, end):
            parts.append(text[start : end - len(separator)])
            start = end
    return [*parts, text[start:]]


# Longer ones are not parsed: this bounds the time that a hostile answer can take.
MOST_CHARACTERS = 1000
# Formulas between delimiters; 400 characters bound the search for a closing one that is missing.
_SEGMENT = re.compile(r"\$\$?([^$\n]{1,400})\$\$?|\\\((.{1,400}?)\\\)|\\\[\s*(.{1,400}?)\s*\\\]", re.DOTALL)
_LEAD = re.compile(
    r"(?:[\s:*_]+|(?:just|simply|therefore|thus|that|approximately|about|equal to|given by)\b)*", re.I
)
# Not after a point: three of them are an ellipsis, which goes on.
_SENTENCE_END = re.compile(r"(?<=[^\s.])[.?](?:\s|$)")
# One line with at least one sign of mathematics: a lone word or number is read elsewhere.
_FORMULA = re.compile(r"(?=[^\n]*(?:[\\^_()\[\]{}=+*/,|-]|\d[a-zA-Z](?![a-zA-Z])))[^\n]{1,300}")
# Two letters in a row that are no function, a letter that formulas do not have (theirs are Latin, Greek, ℝ or
# raised), or the end of a sentence: then the line is prose.
_PLAIN_WORD = re.compile(
    r"(?<![\\a-zA-Z{])(?!(?:sin|cos|tan|log|ln|exp|sqrt|pi|mod|or|and)\b)[a-zA-Z]{2,}|[.?!;:]\s"
    r"|[^\W\d_a-zA-ZªºͰ-Ͽ\u1d2c-\u1d6a\u2070-\u209c\u2100-\u214f\U0001d400-\U0001d7ff]"
)
# What joins the roots of an equation, written as formulas of their own: they are one answer.
_JOINED = re.compile(rf"[\s,]*(?:{JOIN}|或者)?\s*", re.I)


@frozen
class MathSpace:
    r"""Answer space of mathematics: expressions with the same canonical form are equal.

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

    name = "math"
    closed = False
    contract = r'End with a line "Final answer: \boxed{<expression>}".'

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the last statement's expression; else, on whole text, the last formula or number."""
        text = visible(text)
        found = stated(text, _expression, truncated=truncated)
        return found if found or truncated else _guess(text[-TAIL:])

    def key(self, answer: str) -> str | None:
        """Return the canonical form; None if nothing is left of the answer."""
        if len(answer) > MOST_CHARACTERS:
            return None
        return canonical_form(answer)

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether an answer equals an acceptable one, where units or bases may be left out."""
        key = self.key(answer)
        return key is not None and any(_agrees(key, self.key(each) or "") for each in golds(gold))


def _agrees(key: str, gold: str) -> bool:
    """Return whether two forms are equal, apart from a unit or base that only one of them has."""
    return key == gold or (bare(key) == bare(gold) and (key == bare(key)) != (gold == bare(gold)))


def _expression(statement: Statement) -> str | None:
    payload = statement.payload[:MOST_CHARACTERS]
    if statement.rule in ("boxed", "tag"):
        return payload.strip().strip("$").strip() or None
    lead = _LEAD.match(payload)
    sentence = _SENTENCE_END.split(payload[lead.end() if lead else 0 :], maxsplit=1)[0]
    if formulas := _formulas(sentence):
        return formulas
    # Short and nearly without words, it is notation; longer, it is prose with a number in it.
    if len(PROSE.findall(sentence)) <= 1 and (statement.strong or len(sentence.split()) <= 6):
        return sentence.strip("*_ \t") or None
    text = plain(sentence)
    match = notation.leading(text) or (notation.last(text) if statement.strong else None)
    return match[0].strip() if match else None


def _formulas(sentence: str) -> str | None:
    """Return a sentence's leading formulas, else its last ones."""
    runs = _runs(sentence)
    if not runs:
        return None
    first = _SEGMENT.match(sentence) is not None
    return ", ".join(runs[0 if first else -1]) or None


def _runs(text: str) -> list[list[str]]:
    """Return the formulas of a text; in one list those between which stands only "or" or the like."""
    runs: list[list[str]] = []
    end = 0
    for segment in _SEGMENT.finditer(text):
        if not runs or not _JOINED.fullmatch(text, end, segment.start()):
            runs.append([])
        runs[-1].append(_inside(segment))
        end = segment.end()
    return runs


def _inside(segment: re.Match[str]) -> str:
    return next((group for group in segment.groups() if group), "").strip().rstrip(".,")


def _guess(tail: str) -> Extracted | None:
    whole = unemphasized(tail).strip().strip("$").strip()
    if _FORMULA.fullmatch(whole) and not _PLAIN_WORD.search(whole):
        return Extracted(whole, "whole text")
    last = last_match(_SEGMENT, tail)
    number = notation.last(tail[last.end() :] if last else plain(tail))
    if number:
        return Extracted(number[0].strip(), "last number")
    *others, content = _runs(tail)[-1] if last else [""]
    answer = ", ".join([*others, content]) if others else content.rpartition("=")[2].strip() or content
    return Extracted(answer, "last formula") if answer else None


space = MathSpace
