"""Keys from your own function, str -> str or None (--answer-key FILE.py:function)."""

from __future__ import annotations

from keff.answers.parts import workers
from keff.answers.parts.base import ByKey, Explains, Extracted, Space
from keff.answers.parts.spec import cached
from keff.answers.parts.thinking import strip_thinking
from keff.answers.parts.workers import FunctionCaller
from keff.records import frozen
from keff.usercode import Stamp


@frozen
class KeySpace(ByKey):
    """Answer space by your function: texts with the same return value are equal; None abstains.

    It gets what the space ``inner`` finds in a completion, else the whole visible text, and runs in a
    process of its own with a time limit. An answer for which it raises, takes too long or returns something
    else abstains with that reason.
    """

    caller: FunctionCaller
    inner: Space | None = None
    name = "key"

    @property
    def contract(self) -> str:
        """The inner space's final-answer instruction; empty without an inner space."""
        return "" if self.inner is None else self.inner.contract

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the answer found by the inner space; without one, the whole visible text."""
        if self.inner is not None:
            return self.inner.extract(text, truncated=truncated)
        visible = strip_thinking(text).strip()
        return Extracted(visible, "answer key") if visible and not truncated else None

    def key(self, answer: str) -> str | None:
        """Return the function's value; raises RunError when it hangs repeatedly."""
        return self.caller.ask(answer)[0] or None

    def why(self, text: str) -> str | None:
        """Return why an answer abstains, by the inner space or the function."""
        if self.inner is not None and self.inner.extract(text) is None:
            return self.inner.why(text) if isinstance(self.inner, Explains) else None
        extracted = self.extract(text)
        answer = text if extracted is None else extracted.answer
        return self.caller.ask(answer)[1] or "the answer key returns None"


def space(code: str = "", sha256: str = "", inner: str = "") -> KeySpace:
    """Return the space of a function's stamp; TaskError unless this process trusts it."""
    return KeySpace(workers.caller(Stamp(code, sha256)), cached(inner) if inner else None)
