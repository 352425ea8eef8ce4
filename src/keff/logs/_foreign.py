"""Rows of other tools' logs under the words of a table, and whether their answers are whole completions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from keff.errors import LogError
from keff.log import Question
from keff.logs._columns import Layout
from keff.logs._tabled import tabled
from keff.logs._values import optional_text

LOOKED_AT = 256
MOST_WORDS = 8

Canonical = Mapping[str, object]
"""A row per path: id, answer, text, correct, gold_answer, model, path, tokens, ... as the tool says."""


def questions_of(rows: Callable[[], Iterable[tuple[str, Canonical]]], *, texts: bool) -> Iterator[Question]:
    """Turn canonical rows, one per path, into Questions.

    Answers that are the model's whole completion are read from the texts instead, and where there are no
    answers at all, texts or correctness alone are kept.
    """
    head = [row for _, row in islice(rows(), LOOKED_AT)]
    words = {word for row in head for word, value in row.items() if optional_text(value) is not None}
    words |= {"id"}
    if "answer" in words and _whole(head):
        words.discard("answer")
    if not words & {"answer", "text", "correct"}:
        raise LogError("its rows hold neither answers nor texts nor correctness")
    layout = Layout({word: word for word in words}, {})
    return tabled(rows, layout, texts=texts)


def _whole(rows: Iterable[Canonical]) -> bool:
    """Return whether the answers are the texts, and longer than an answer is."""
    pairs = [
        (optional_text(row.get("answer")), optional_text(row.get("text")))
        for row in rows
        if optional_text(row.get("answer")) is not None
    ]
    same = all(answer == text for answer, text in pairs)
    return same and any(len((answer or "").split()) > MOST_WORDS for answer, _ in pairs)
