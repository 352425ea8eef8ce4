"""The whole text."""

from __future__ import annotations

from keff.answers.parts.base import ByKey, Extracted
from keff.answers.parts.thinking import strip_thinking
from keff.records import frozen


@frozen
class ExactSpace(ByKey):
    """Texts are one answer when they are equal after whitespace at both ends is stripped."""

    name = "exact"
    by_key = True
    contract = "Reply with the answer only."

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the whole text without thinking; None if it is blank or truncated."""
        answer = strip_thinking(text).strip()
        return Extracted(answer, "whole text") if answer and not truncated else None

    def key(self, answer: str) -> str | None:
        """Return the stripped text; None if it is blank."""
        return answer.strip() or None


space = ExactSpace
