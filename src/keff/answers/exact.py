"""Answers that are the whole text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from keff.answers.parts.base import Extracted, same_key, strip_thinking


@dataclass(frozen=True, slots=True)
class ExactSpace:
    """Texts are one answer when they are equal after whitespace at both ends is stripped."""

    name: ClassVar[str] = "exact"
    closed: ClassVar[bool] = False
    by_key: ClassVar[bool] = True
    contract: ClassVar[str] = "Reply with the answer only."

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the whole text without thinking; None if it is blank or truncated."""
        answer = strip_thinking(text).strip()
        return Extracted(answer, "whole text") if answer and not truncated else None

    def key(self, answer: str) -> str | None:
        """Return the stripped text; None if it is blank."""
        return answer.strip() or None

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether the stripped texts are equal."""
        return same_key(self, answer, gold)


def space() -> ExactSpace:
    """Make the space; see ``ExactSpace`` for the options."""
    return ExactSpace()
