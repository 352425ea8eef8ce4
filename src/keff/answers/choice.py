"""Answers that are the label of one of several options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from keff.answers._base import Extracted, same_key, words
from keff.answers._labels import Labels, reader
from keff.answers._plain import plain
from keff.answers._statements import statements
from keff.answers._visible import fold, visible
from keff.errors import TaskError

_TAIL = 20_000
_SPACES = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class ChoiceSpace:
    """One of the ``labels``, in any case: "(B)", "b.", "B) Paris" are B.

    ``options`` are the option texts in the order of the labels, where known: an answer that repeats an
    option's text instead of its label is that option. Raises TaskError if their numbers differ.
    """

    labels: tuple[str, ...] = ("A", "B", "C", "D")
    options: tuple[str, ...] = ()
    _texts: dict[str, str] = field(init=False, repr=False, compare=False, default_factory=dict[str, str])
    name: ClassVar[str] = "choice"
    closed: ClassVar[bool] = True
    by_key: ClassVar[bool] = True
    contract: ClassVar[str] = 'End with a line "Final answer: <letter>".'

    def __post_init__(self) -> None:
        if self.options and len(self.options) != len(self.labels):
            raise TaskError(
                f"{len(self.options)} options do not fit the {len(self.labels)} labels {self.labels}"
            )
        texts = [_squeeze(text) for text in self.options]
        pairs = zip(texts, self.labels, strict=False)
        self._texts.update((text, label) for text, label in pairs if text and texts.count(text) == 1)

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Read the last explicit statement or verdict.

        Else, on whole text, a last line, label or option text.

        Read as a label are "(B)", "B)", "**B**", "B." and a bare "B"; not the article "A", the pronoun
        "I", nor a label that the text rejects ("not B", "B is wrong").
        """
        text = visible(text)
        read = reader(self.labels)
        start = max(0, len(text) - _TAIL)
        at, verdict = read.verdict(text[start:]) or (-1 - start, None)
        for statement in statements(text):
            if verdict and statement.at < start + at:
                break
            payload = plain(statement.payload)
            label = read.whole(payload) or self._option(payload) or read.stated(payload)
            if label := label or self._mentioned(payload):
                return Extracted(label, statement.rule)
        if verdict:
            return Extracted(verdict, "verdict")
        return None if truncated else self._guess(plain(text[start:]).rstrip(), read)

    def _guess(self, tail: str, read: Labels) -> Extracted | None:
        before, last_line = ["", "", *(line for line in tail.split("\n") if line.strip())][-2:]
        if label := read.whole(last_line) or self._option(last_line):
            listing = read.whole(before) not in (None, label)
            return None if listing else Extracted(label, "last line")
        if label := read.last(tail):
            return Extracted(label, "last label")
        label = self._mentioned(last_line)
        return Extracted(label, "option text") if label else None

    def _option(self, text: str) -> str | None:
        """Return the label of the option whose text this is."""
        return self._texts.get(_squeeze(text)) if self._texts else None

    def _mentioned(self, text: str) -> str | None:
        """Return the label of the one option whose text this text holds."""
        said = f" {_squeeze(text)} "
        held = [text for text in self._texts if f" {text} " in said]
        held = [text for text in held if not any(text != other and text in other for other in held)]
        return self._texts[held[0]] if len(held) == 1 else None

    def key(self, answer: str) -> str | None:
        """Return the label as ``labels`` writes it; None if the answer is neither a label nor an option."""
        if answer in self.labels:
            return answer
        payload = plain(fold(answer[:2000])).strip()
        return reader(self.labels).whole(payload) or self._option(payload)

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether the answer is the gold label."""
        return same_key(self, answer, gold)


def _squeeze(text: str) -> str:
    return _SPACES.sub(" ", text.lower()).strip()


def space(labels: str | Sequence[str] = ("A", "B", "C", "D"), options: Sequence[str] = ()) -> ChoiceSpace:
    """Make the space; see ``ChoiceSpace`` for the options."""
    return ChoiceSpace(words(labels), tuple(options))
