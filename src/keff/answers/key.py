"""Keys by your own function, str -> str or None (--answer-key FILE.py:function)."""

from __future__ import annotations

from keff.answers.parts import workers
from keff.answers.parts.base import ByKey, Explains, Extracted, Space, strip_thinking
from keff.answers.parts.spec import cached
from keff.answers.parts.workers import FunctionCaller
from keff.records import frozen
from keff.usercode import Stamp


@frozen
class KeySpace(ByKey):
    """Answers are one when your function returns the same text for them; None abstains.

    It gets what the space ``inner`` finds in a completion, else the whole visible text, and runs in a
    process of its own with a time limit. An answer for which it raises, takes too long or returns something
    else abstains with that reason.
    """

    caller: FunctionCaller
    inner: Space | None = None
    name = "key"

    @property
    def contract(self) -> str:
        """The final-answer instruction of the inner space; empty without one."""
        return "" if self.inner is None else self.inner.contract

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Read as the inner space does; without one, the whole visible text, which must not be cut."""
        if self.inner is not None:
            return self.inner.extract(text, truncated=truncated)
        visible = strip_thinking(text).strip()
        return Extracted(visible, "answer key") if visible and not truncated else None

    def key(self, answer: str) -> str | None:
        """Return what the function says; raises RunError when it hangs again and again."""
        return self.caller.ask(answer)[0] or None

    def why(self, text: str) -> str | None:
        """Return why an answer abstains: what the inner space says, or what the function did."""
        if self.inner is not None and self.inner.extract(text) is None:
            return self.inner.why(text) if isinstance(self.inner, Explains) else None
        extracted = self.extract(text)
        answer = text if extracted is None else extracted.answer
        return self.caller.ask(answer)[1] or "the answer key returns None"


def space(code: str = "", sha256: str = "", inner: str = "") -> KeySpace:
    """Make the space from the stamp of a function; raises TaskError unless this process trusts it."""
    return KeySpace(workers.caller(Stamp(code, sha256)), cached(inner) if inner else None)
