"""Yes or no; true and false count as these."""

from __future__ import annotations

import re

from keff.answers.parts.base import TAIL, ByKey, Extracted, fold, visible
from keff.answers.parts.statements import SENTENCE, plain, statements
from keff.records import frozen

_MEANING = {"yes": "yes", "no": "no", "true": "yes", "false": "no"}
# The question quoted back ("yes or no?", "<yes/no>"): it offers both words and chooses neither.
_ASKED = re.compile(
    r"[<(\"']{0,2}\b(?:yes|no|true|false)\b['\"]?\s?(?:/|or|nor|and|\|)\s?['\"]?(?:yes|no|true|false)\b[>)\"']{0,2}",
    re.I,
)
# Not within a compound (no-one), after an apostrophe, or right after "not", which turns it around.
_WORD = r"(?<![\w-])(?<!\w')(?<!not )(yes|no|true|false)(?![\w-]|'\w)"
# A sentence that begins with the verdict; at most three words of padding, for a fourth begins prose.
_FIRST = re.compile(
    rf"\W*(?:(?:that|it|simply|clearly|definitely|therefore|thus|is|a)\W+){{0,3}}{_WORD}", re.I
)
# A word that stands alone, ended by a sign or a line: in "no doubt" and "no more" the word is no verdict.
_SAID = re.compile(rf"{_WORD}(?=[^\w\s]|\s*$|\s*\n|\s(?:-|–|—|--)\s)", re.I)
# A verdict about the statement itself; any other "is true" may be about a step on the way.
_CLAIM = re.compile(
    r"\b(?:statement|claim|answer|assertion|it) is (?:therefore |thus |clearly )?(true|false)\b", re.I
)


@frozen
class BinarySpace(ByKey):
    """The keys are "yes" and "no". ``gold`` may be a bool, "yes"/"no" or "true"/"false" in any case."""

    name = "binary"
    closed = True
    by_key = True
    contract = 'End with a line "Final answer: <yes or no>".'

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the last explicit statement's answer; else, on whole text, that of its end or start.

        "no" before a noun ("no evidence") and the question's own "yes or no" are not answers.
        """
        text = visible(text)
        for statement in statements(text):
            # A verdict stands at the beginning; the rest may be of any length, and hostile.
            payload = _ASKED.sub(" ", plain(statement.payload[:300]))
            match = _FIRST.match(payload) or _SAID.search(payload)
            if match:
                return Extracted(match[1].lower(), statement.rule)
        return None if truncated else _guess(text)

    def key(self, answer: str) -> str | None:
        """Return "yes" or "no"; None if the answer is neither."""
        word = plain(fold(answer[:200])).strip(" \t\n.,;:!?\"'()[]{}<>").lower()
        return _MEANING.get(word)


def _guess(text: str) -> Extracted | None:
    first = _FIRST.match(_ASKED.sub(" ", plain(text[:300])))
    tail = _ASKED.sub(" ", plain(text[-TAIL:]).rstrip())
    sentences = [each for each in SENTENCE.split(tail) if each.strip()]
    concluding = _conclusion(sentences[-1]) if sentences else None
    if concluding:
        return Extracted(concluding, "last sentence")
    if first and _SAID.match(first.string, first.start(1)):
        return Extracted(first[1].lower(), "first word")
    return None


def _conclusion(sentence: str) -> str | None:
    """Return the answer of a sentence that gives exactly one."""
    words = [match[1].lower() for pattern in (_CLAIM, _SAID) for match in pattern.finditer(sentence)]
    return words[-1] if len({_MEANING[word] for word in words}) == 1 else None


space = BinarySpace
