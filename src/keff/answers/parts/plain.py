r"""Markdown and simple LaTeX taken off, so that what is left reads like plain text."""

from __future__ import annotations

import re

_FRACTION = re.compile(
    r"\\[dtc]?frac\s*(?:\{\s*([^{}]{1,60}?)\s*\}|(\d))\s*(?:\{\s*([^{}]{1,60}?)\s*\}|(\d))"
)
_WRAPPED = re.compile(
    r"\\(?:text|textbf|textit|textrm|texttt|mathrm|mathbf|mathit|mathsf|mathbb|mbox|boxed|fbox|underline|operatorname)"
    r"\s*\{([^{}]{0,500})\}"
)
_MIXED = re.compile(r"(?<=\d)\s*(?=\\[dtc]?frac)")
_SPACING = re.compile(r"\\(?:left|right|displaystyle|quad|qquad|[bB]igg?[lr]?)(?![a-zA-Z])|\\[,;: ]|~|\\\n")
_DELIMITER = re.compile(r"\\[()\[\]]")
_NAMES = {
    r"\times": " * ",
    r"\cdot": " * ",
    r"\approx": " ≈ ",
    r"\%": "%",
    r"\$": "$",
    r"\#": "#",
    r"\&": "&",
    r"\_": "_",
    r"\{": "{",
    r"\}": "}",
    r"\!": "",
    "{,}": ",",
}
_NAME = re.compile(
    "|".join(
        # Spaces around a sign of multiplication, so that no star is left that looks like emphasis.
        rf" *{re.escape(name)}(?![a-zA-Z]) *" if name[-1].isalpha() else re.escape(name)
        for name in _NAMES
    )
)
_MONEY_OR_MATH = re.compile(r"(?=\$)(?:\$+(?!\s?[-+]?\.?\d)|(?<=[\d}])\$+)")
_MARKDOWN = re.compile(r"(?=[*_`])(?:[*_]{2,3}|`+|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w))")


def unlatex(text: str) -> str:
    r"""Return text with \frac{1}{2} as 1/2, 3\frac{1}{2} as 3 1/2, \text{x} as x, and no delimiters."""
    if "\\" not in text and "{,}" not in text:
        return text
    text = _NAME.sub(lambda match: _NAMES[match[0].strip()], text)
    text = _SPACING.sub(" ", text)
    text = _MIXED.sub(" ", text)
    for _ in range(3):
        text, count = _WRAPPED.subn(r"\1", text)
        if not count:
            break
    text = _FRACTION.sub(lambda match: f"{match[1] or match[2]}/{match[3] or match[4]}", text)
    return _DELIMITER.sub(" ", text)


def plain(text: str) -> str:
    """Return text without LaTeX, math delimiters and markdown emphasis; a dollar sign of an amount stays."""
    text = unlatex(text)
    if "$" in text:
        text = _MONEY_OR_MATH.sub("", text)
    if "*" in text or "_" in text or "`" in text:
        text = _MARKDOWN.sub("", text)
    return text
