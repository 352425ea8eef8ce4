"""Closed fenced blocks of a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
