"""The part of a completion that may hold an answer, in plain characters.

Thinking segments are cut, and look-alike characters (digits of other scripts, full-width letters, Unicode
minus, thin spaces, direction marks) are folded to the ASCII ones that the extractors know.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from keff.answers.parts.base import last_match

MARK = "```"


@dataclass(frozen=True, slots=True)
class Fence:
    """One block: the language that its mark names (lower case), its content, where it begins and ends."""

    language: str
    content: str
    start: int
    end: int


def fences(text: str) -> Iterator[Fence]:
    """Yield the closed blocks in their order; a mark must begin its line, after whitespace at most."""
    opened: tuple[int, int, str] | None = None
    at = text.find(MARK)
    while at >= 0:
        line_start, line_end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        tag = text[at + len(MARK) : line_end].strip()
        if not text[line_start:at].strip():
            if opened is None:
                opened = (line_start, line_end + 1, tag.lower())
            else:
                start, content, language = opened
                yield Fence(language, text[content:line_start].strip("\n"), start, at + len(MARK))
                # A mark with a language opens the next block: the one before was never closed.
                opened = (line_start, line_end + 1, tag.lower()) if tag.isalnum() else None
        at = text.find(MARK, line_end)


# Up to here replacing one character after the other is faster than a table for all.
MOST_REPLACEMENTS = 50

_ASCII = frozenset(map(chr, range(128)))

_TAG = re.compile(
    r"(?P<open><(?:think|thinking|reasoning|thought|seed:think)>|\[THINK\]|◁think▷|<\|begin_of_thought\|>)"
    r"|</(?:think|thinking|reasoning|thought|seed:think)>|\[/THINK\]|◁/think▷|<\|end_of_thought\|>"
)
_FINAL = re.compile(r"<\|channel\|>\s*final\b[^<\n]{0,80}<\|message\|>")
_SPECIAL = re.compile(r"<\|[a-z_]{1,20}\|>")
_GROUP_SPACE = re.compile(r"(?<=\d)[\u00a0\u2007\u2009\u202f](?=\d{3}(?!\d))")
_FOLDS = {
    **dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d", "-"),
    **dict.fromkeys("\u2018\u2019\u201b\u2032\u00b4", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u2033\u00ab\u00bb", '"'),
    **dict.fromkeys("\u00d7\u22c5\u00b7\u2217", "*"),
    **dict.fromkeys("\u2044\u2215\u00f7", "/"),
    **dict.fromkeys("\u2028\u2029\u0085", "\n"),
    **{chr(code): f"^{i}" for i, code in enumerate((0x2070, 0xB9, 0xB2, 0xB3, *range(0x2074, 0x207A)))},
}
_RAISED = {sign: plain[1:] for sign, plain in _FOLDS.items() if plain[0] == "^"} | {"\u207b": "-"}
_RAISED_RUN = re.compile(f"[{''.join(_RAISED)}]{{2,}}")


def strip_thinking(text: str) -> str:
    """Return the text without its thinking.

    Cut are ``<think>...</think>`` and its cousins, a thinking segment that never closes, everything before
    a stray closing tag (the opening one stood in the prompt), and all harmony channels but the final one.
    """
    if "<|channel|>" in text:
        return _final_channel(text)
    if text.startswith("analysis") and (text[8:9].isupper() or "assistantfinal" in text):
        return text.partition("assistantfinal")[2]
    if not _may_think(text):
        return text
    kept: list[str] = []
    start, thinking = 0, False
    for tag in _TAG.finditer(text):
        if tag["open"] and not thinking:
            kept.append(text[start : tag.start()])
            thinking = True
        elif not tag["open"]:
            if not thinking:
                kept.clear()
            start, thinking = tag.end(), False
    if not thinking:
        kept.append(text[start:])
    return "".join(kept)


def _may_think(text: str) -> bool:
    return "think" in text or "thought" in text or "reasoning>" in text or "THINK]" in text


def _final_channel(text: str) -> str:
    last = last_match(_FINAL, text)
    return _SPECIAL.split(text[last.end() :], maxsplit=1)[0] if last else ""


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    if character in _FOLDS:
        return _FOLDS[character]
    category = unicodedata.category(character)
    if category in ("Cf", "Cc"):
        return ""
    if category == "Cs":
        return "\ufffd"
    if category == "Zs":
        return " "
    if category == "Nd":
        return str(unicodedata.decimal(character))
    plain = unicodedata.normalize("NFKC", character)
    if category == "No" and "\u2044" in plain:
        return " " + plain.replace("\u2044", "/")
    return plain if plain.isascii() and "\uff01" <= character <= "\uff5e" else character


def fold(text: str) -> str:
    """Return the text with look-alike characters as ASCII, and without NULs and invisible marks."""
    if text.isascii():
        return text.replace("\0", "") if "\0" in text else text
    text = _GROUP_SPACE.sub("", text)
    text = _RAISED_RUN.sub(lambda run: f"^{{{''.join(_RAISED[sign] for sign in run[0])}}}", text)
    folded = {c: _fold_character(c) for c in set(text) - _ASCII}
    changes = {c: plain for c, plain in folded.items() if c != plain}
    if len(changes) > MOST_REPLACEMENTS:
        return text.translate(str.maketrans(changes)).replace("\0", "")
    for character, plain in changes.items():
        text = text.replace(character, plain)
    return text.replace("\0", "")


def visible(text: str) -> str:
    """Return what extractors read: the text without thinking, folded."""
    return fold(strip_thinking(text))
