r"""Mathematical answers in one string form: \dfrac12, \frac {1}{2} and 1/2 are \frac{1}{2}.

The rules cover the same ground as the normalisers of Hendrycks et al. (2021, MATH) and Lewkowycz et al.
(2022, Minerva): degrees, percent, dollar signs and most units go, fractions and roots get their braces.
"""

from __future__ import annotations

import re

from keff.answers.parts.units import without_unit

_DROPPED = re.compile(
    r"\\left(?![a-zA-Z])|\\right(?![a-zA-Z])|\\[bB]igg?[lr]?(?![a-zA-Z])|\\displaystyle"
    r"|\\limits|(?<!\\)\\[!,;: ]|~"
    r"|\\q?quad(?![a-zA-Z])|\\\$|\$|\\%|%|\^\s*\{?\s*\\circ\s*\}?|\\degree(?:s)?|°|\\[()\[\]]"
)
_ORDINAL = re.compile(r"(?<=\d)\s*\^?\s*\{?\s*\\?(?:text|mathrm)?\s*\{?\s*(?:st|nd|rd|th)\s*\}{1,2}")
_TEXT = re.compile(
    r"\\(?:text|textbf|textit|textrm|texttt|mathrm|mathbf|mathit|mathsf|mbox|boxed|fbox)\s*\{([^{}]{0,200})\}"
)
_SAME = (
    (re.compile(r"\\[dtc]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\\leq?(?:slant)?(?![a-zA-Z])|≤|<="), r"\\le "),
    (re.compile(r"\\geq?(?:slant)?(?![a-zA-Z])|≥|>="), r"\\ge "),
    (re.compile(r"\\neq?(?![a-zA-Z])|≠|!="), r"\\ne "),
    (re.compile(r"\\times(?![a-zA-Z])|\\ast(?![a-zA-Z])|×"), r"\\cdot "),
    (re.compile(r"\\(?:lbrace|\{)"), r"\\{"),
    (re.compile(r"\\(?:rbrace|\})"), r"\\}"),
    (re.compile(r"\\(?:lvert|rvert|mid|vert)(?![a-zA-Z])"), "|"),
    (re.compile(r"π"), r"\\pi "),
    (re.compile(r"∞|\\inf(?![a-zA-Z])"), r"\\infty "),
    (re.compile(r"√\s*(\d+|\([^()]{1,40}\))|(?<![\\a-zA-Z])sqrt\s*(\d+|\([^()]{1,40}\))"), r"\\sqrt{\1\2}"),
    (re.compile(r"∪"), r"\\cup "),
    (re.compile(r"\\varnothing(?![a-zA-Z])|∅|\\\{\s*\\\}"), r"\\emptyset "),
    (re.compile(r"(?<![\\a-zA-Z])pi(?![a-zA-Z])"), r"\\pi "),
    (re.compile(r"±|\+/-"), r"\\pm "),
    (re.compile(r"\*\*"), "^"),
)
_ROOT = re.compile(r"\\sqrt\s*(\[[^\]{}]{1,10}\])?\s*([a-zA-Z\d])(?![a-zA-Z]{2})")
_HALF = re.compile(r"\\frac\s*(\d|[a-zA-Z])\s*(\d|[a-zA-Z])")
_TOP = re.compile(r"\\frac\s*(\d|[a-zA-Z])\s*(?=\{)")
_BOTTOM = re.compile(r"(\\frac\s*\{[^{}]{1,80}\})\s*(\d|[a-zA-Z])")
_POWER = re.compile(r"\^\s*\{\s*([a-zA-Z\d])\s*\}")
_INDEX = re.compile(r"_\s*([a-zA-Z\d])")
_COMMAND_SPACE = re.compile(r"(\\[a-zA-Z]+)[ ]+(?=[a-zA-Z])")
_LEADING_POINT = re.compile(r"(?<![\d.])\.(?=\d)")
_THIN_GROUP = re.compile(r"(?<=\d)(?:\{,\}|,\s*\\!|\\!\s*,|\\,)\s*(?=\d{3}(?!\d))")
_SLASH = re.compile(r"(?<![\w.^/)}])(-?\d{1,18})\s*/\s*(\d{1,18})(?![\w.^/(])")
_AND = re.compile(r",?\s(?:or|and)\s")
_KEEP = "\0"


def normalise(answer: str) -> str:
    r"""Return a mathematical answer in one form: no spaces, units, sizes or styles.

    \frac and \sqrt braced.
    """
    text = _THIN_GROUP.sub("", answer.strip())
    text = text.strip("`").removesuffix(".").strip()
    for pattern, form in _SAME:
        text = pattern.sub(form, text)
    text, unit = without_unit(_ORDINAL.sub("", _DROPPED.sub("", text)))
    for _ in range(3):
        text, count = _TEXT.subn(r"\1", text)
        if not count:
            break
    if not unit:
        text, unit = without_unit(text)
    text = _HALF.sub(r"\\frac{\1}{\2}", text)
    text = _TOP.sub(r"\\frac{\1}", text)
    text = _BOTTOM.sub(r"\1{\2}", text)
    text = _SLASH.sub(r"\\frac{\1}{\2}", text)
    text = _INDEX.sub(r"_{\1}", text)
    text = _ROOT.sub(r"\\sqrt\1{\2}", text)
    text = _LEADING_POINT.sub("0.", text)
    return f"{_squeeze(text).strip('.,;: ')} {unit}".strip()


def is_words(text: str) -> bool:
    """Return whether this is prose, not mathematics: letters and spaces, at least two letters in a row."""
    return re.fullmatch(r"[^\W\d_]{2,}(?:[ '-]{1,2}[^\W\d_]+){0,20}", text) is not None


def _squeeze(text: str) -> str:
    text = " ".join(text.split())
    if is_words(text):
        return text
    text = _AND.sub(", ", text)
    text = _COMMAND_SPACE.sub(rf"\1{_KEEP}", text)
    text = re.sub(r",\s+", "," + _KEEP, text).replace(" ", "").replace(_KEEP, " ")
    return _POWER.sub(r"^\1", text)
