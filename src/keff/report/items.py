"""The items of a record for the page: vote splits, and raw paths as far as a size limit goes."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NotRequired, TypeAlias, TypedDict

from keff.log import Question
from keff.reading.open import Record
from keff.records import stable_hash

LONGEST_ANSWER, LONGEST_QUESTION, LONGEST_TEXT = 160, 1200, 4000


@dataclass(frozen=True, slots=True)
class ByteLimits:
    """How many bytes vote splits and raw texts of one record may take."""

    votes: int = 300_000
    texts: int = 150_000


def embed(value: object) -> str:
    """Return JSON that cannot end or open anything in the page that holds it.

    ``<``, ``>``, ``&`` and line separators are written as escapes. A lone surrogate, which is no text,
    becomes a question mark.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode("utf-8")


Path: TypeAlias = tuple[str, str | None, str, int | None]
"""Text, answer, the rule that found it, tokens."""


class Row(TypedDict):
    """One question, under short names, for the page repeats them.

    Its place ``n``, ``id``, gold answer ``g``, question ``q``, raw paths ``p``; answers ``a``,
    most frequent first, as [text, votes, right votes], each path's place ``v`` among them (-1
    abstains), and the number of right paths ``r``.
    """

    n: int
    id: str
    a: list[tuple[str, int, int]]
    v: list[int]
    r: NotRequired[int]
    g: NotRequired[str]
    q: NotRequired[str]
    p: NotRequired[list[Path]]


class Items(TypedDict):
    """The table of questions: how many there are, those that are shown, and how many carry raw paths."""

    total: int
    rows: list[Row]
    texts: int
    has_texts: bool


def items_payload(record: Record, limits: ByteLimits) -> Items:
    """Return the rows of the items table; a stable sample where all of them would not fit.

    ``total`` items are in the record, ``texts`` of those shown carry their raw paths, ``has_texts`` says
    whether the record has any.
    """
    rows = _within([_row(record, index) for index in range(record.ballot.votes.n)], limits.votes)
    carried = _add_texts(record, rows, limits.texts)
    return {
        "total": record.ballot.votes.n,
        "rows": sorted(rows, key=lambda row: row["n"]),
        "texts": carried,
        "has_texts": any(question.texts for question in record.ballot.questions),
    }


def _row(record: Record, index: int) -> Row:
    question, votes = record.ballot.questions[index], record.ballot.votes
    right = None if votes.correct is None else votes.correct[index].tolist()
    if votes.answers is None and right is not None:
        keys = answers = tuple("right" if good else "wrong" for good in right)
    else:
        keys, answers = record.ballot.keys[index], question.answers
    row: Row = {"n": index, "id": cut(question.id, LONGEST_ANSWER), **_votes(keys, answers, right)}
    if right is not None:
        row["r"] = sum(right)
    if question.gold is not None:
        gold = question.gold if isinstance(question.gold, str) else json.dumps(question.gold)
        row["g"] = cut(gold, LONGEST_ANSWER)
    if question.question:
        row["q"] = cut(question.question, LONGEST_QUESTION)
    return row


class _Split(TypedDict):
    a: list[tuple[str, int, int]]
    v: list[int]


def _votes(keys: Sequence[str | None], answers: Sequence[str | None], right: Sequence[int] | None) -> _Split:
    counts = Counter(keys)
    order = [key for key, _ in counts.most_common() if key is not None]
    rights = Counter[str | None]()
    for key, good in zip(keys, right or [0] * len(keys), strict=True):
        rights[key] += good
    texts = {key: cut(answers[keys.index(key)] or key, LONGEST_ANSWER) for key in order}
    return {
        "a": [(texts[key], counts[key], rights[key]) for key in order],
        "v": [-1 if key is None else order.index(key) for key in keys],
    }


def cut(text: str, most: int) -> str:
    """Return a text, or its beginning with a note of how much is left out."""
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most:,} more characters)"


def _within(rows: list[Row], limit: int) -> list[Row]:
    sizes = [len(embed(row)) for row in rows]
    if sum(sizes) <= limit:
        return rows
    kept: list[Row] = []
    for row, size in sorted(
        zip(rows, sizes, strict=True), key=lambda pair: stable_hash("items", pair[0]["n"])
    ):
        limit -= size
        if limit < 0:
            break
        kept.append(row)
    return kept


def _add_texts(record: Record, rows: Iterable[Row], limit: int) -> int:
    """Give items their raw paths, whole items in a stable random order, and return how many got them."""
    carried = 0
    for row in sorted(rows, key=lambda row: stable_hash("texts", row["n"])):
        question = record.ballot.questions[row["n"]]
        if not question.texts:
            continue
        paths = [_path(question, place, text) for place, text in enumerate(question.texts[: len(row["v"])])]
        size = len(embed(paths))
        if size <= limit:
            limit -= size
            row["p"] = paths
            carried += 1
    return carried


def _path(question: Question, place: int, text: str) -> Path:
    answer = question.answers[place]
    rule = question.rules[place] if question.rules else ""
    tokens = question.tokens[place] if question.tokens else None
    count = None if tokens is None or math.isnan(tokens) else int(tokens)
    return cut(text, LONGEST_TEXT), answer and cut(answer, LONGEST_ANSWER), rule, count
