"""One of a given list of labels, by name or by synonym."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import cast

from keff.answers.parts.base import TAIL, ByKey, Extracted, fold, visible, words
from keff.answers.parts.statements import REJECTING, SENTENCE, plain, statements
from keff.narrow import only
from keff.records import frozen

# Longer ones are not parsed: this bounds the time that a hostile answer can take.
_LONGEST_ANSWER = 2000
# Labels are written with spaces, hyphens and underscores alike: past_due is "past due".
_GAP = re.compile(r"[\W_]+")
# Up to two words between "not" and the label ("not a billing"); behind "but" the choice follows.
_REJECTED = re.compile(
    rf"\b{REJECTING}\s+[\"'(]?"
    r"(?:(?!but\b)[\w-]+\s+[\"'(]?){0,2}$",
    re.IGNORECASE,
)


@frozen
class LabelSpace(ByKey):
    """Answer space of labels: an answer is the label it names, or whose synonym it names, in any case.

    ``labels`` are names, or a table: label -> synonyms. A name that is rejected ("not billing") does not
    count. An answer that names two labels abstains, and so does one that names none.
    """

    labels: Mapping[str, tuple[str, ...]]
    _known: dict[str, str] = field(init=False, repr=False, compare=False, default_factory=dict[str, str])
    _pattern: re.Pattern[str] = field(init=False, repr=False, compare=False, default=re.compile("(?!)"))
    name = "label"
    closed = True

    def __post_init__(self) -> None:
        for label, synonyms in self.labels.items():
            for text in (label, *synonyms):
                form = _form(text)
                if not form:
                    raise ValueError(f"the label {text!r} has no letter or digit")
                if self._known.setdefault(form, label) != label:
                    raise ValueError(f"{text!r} stands for two labels, {self._known[form]!r} and {label!r}")
        if not self._known:
            raise ValueError("name the labels: labels=billing,refund, or table=FILE.json")
        forms = sorted(self._known, key=len, reverse=True)
        named = "|".join(re.escape(form).replace(r"\ ", r"[\W_]+") for form in forms)
        object.__setattr__(self, "_pattern", re.compile(rf"(?<!\w)(?:{named})(?!\w)", re.IGNORECASE))

    @property
    def contract(self) -> str:
        """The final-answer instruction, which lists the labels."""
        return f'End with a line "Final answer: <one of: {", ".join(self.labels)}>".'

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the last explicit statement's label; else that of the last sentence with one."""
        text = visible(text)
        for statement in statements(text):
            named = self._labels_in(plain(statement.payload))
            if named and not (truncated and statement.open):
                return Extracted(named.pop(), statement.rule) if len(named) == 1 else None
        if truncated:
            return None
        # A verdict comes last; labels that are weighed before it are not one.
        for sentence in reversed(SENTENCE.split(plain(text[-TAIL:]))[-20:]):
            if named := self._labels_in(sentence):
                return Extracted(named.pop(), "last sentence") if len(named) == 1 else None
        return None

    def key(self, answer: str) -> str | None:
        """Return the label; None when the answer names none, or several."""
        if known := self._known.get(_form(answer[:_LONGEST_ANSWER])):
            return known
        return only(self._labels_in(plain(fold(answer[:_LONGEST_ANSWER]))))

    def why(self, text: str) -> str | None:
        """Return why a text or an answer abstains."""
        several = len(self._labels_in(plain(visible(text)[-TAIL:]))) > 1
        return "names several labels" if several else "names no label"

    def _labels_in(self, text: str) -> set[str]:
        return {
            self._known[_form(match[0])]
            for match in self._pattern.finditer(text)
            # "not" this far before a label still speaks of it.
            if not _REJECTED.search(text, max(0, match.start() - 60), match.start())
        }


def _form(text: str) -> str:
    return _GAP.sub(" ", fold(text).lower()).strip()


def space(labels: str | Sequence[str] | Mapping[str, Sequence[str]] = ()) -> LabelSpace:
    """Make the space; ``labels`` are names (``billing,refund``), or a table of synonyms."""
    if isinstance(labels, Mapping):
        table = cast("Mapping[str, str | Sequence[str]]", labels)
        return LabelSpace({str(label): words(synonyms) for label, synonyms in table.items()})
    return LabelSpace(dict.fromkeys(words(labels), ()))
