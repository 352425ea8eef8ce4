"""Items of a record for the page: vote splits, and raw paths within a size limit."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NotRequired, TypeAlias, TypedDict

import numpy as np

from keff.log import Question
from keff.reading.open import Record
from keff.records import frozen, stable_hash
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.alike import dense_codes

# Characters shown: a page of a thousand questions must stay one that a browser opens.
LONGEST_ANSWER, LONGEST_QUESTION, LONGEST_TEXT = 160, 1200, 4000

# Bytes of raw texts in a whole page.
TEXTS_LIMIT = 160_000

# Bytes that a row takes at least: of more rows than fit at that size it is known that not all do.
LEAST = 32

# Questions that are looked at at once.
BLOCK = 16_384


@frozen
class ByteLimits:
    """Limits in bytes on a record's vote splits and raw texts."""

    votes: int = 300_000
    texts: int = 150_000


def embed(value: object) -> str:
    """Return JSON that is safe within a script element.

    ``<``, ``>``, ``&`` and line separators are written as escapes. A lone surrogate, which is no text,
    becomes a question mark.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode("utf-8")


# Text, answer, the rule that found it, tokens.
ShownPath: TypeAlias = tuple[str, str | None, str, int | None]


class Row(TypedDict):
    """One question, under short field names, since the page repeats them.

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
    p: NotRequired[list[ShownPath]]


class QuestionTable(TypedDict):
    """The table of questions: number in all, rows shown, and rows with raw paths."""

    total: int
    rows: list[Row]
    texts: int
    has_texts: bool


def items_payload(record: Record, limits: ByteLimits) -> QuestionTable:
    """Return the items table's rows; of too many, the most contested and a random sample.

    ``total`` items are in the record, ``texts`` of those shown carry their raw paths, ``has_texts`` says
    whether any of those shown has them.
    """
    rows = _choose_rows(record, limits.votes)
    carried, has_texts = _add_texts(record, rows, limits.texts)
    return {
        "total": record.ballot.votes.n,
        "rows": sorted(rows, key=lambda row: row["n"]),
        "texts": carried,
        "has_texts": has_texts,
    }


def rows_of(record: Record, ids: Sequence[str], limit: int) -> dict[str, Row]:
    """Return the rows of the questions that a record has of some, with raw paths in ``limit`` bytes."""
    places = {name: place for place, name in enumerate(record.ballot.names)}
    rows = {name: _row(record, places[name]) for name in ids if name in places}
    _add_texts(record, rows.values(), limit)
    return rows


def _choose_rows(record: Record, limit: int) -> list[Row]:
    """Return all rows if they fit; else half the bytes for the most contested, half for a sample."""
    n, rows = record.ballot.votes.n, dict[int, Row]()
    if n <= limit // LEAST:
        rows = {index: _row(record, index) for index in range(n)}
        if sum(len(embed(row)) for row in rows.values()) <= limit:
            return list(rows.values())
    most = limit // LEAST
    order = np.random.default_rng(0).permutation(n)
    contested = order[np.argsort(_leads(record.ballot.votes)[order], kind="stable")][:most]
    chosen = dict(_while_they_fit(record, contested.tolist(), limit // 2, rows))
    others = [index for index in order[: most + len(chosen)].tolist() if index not in chosen]
    return [*chosen.values(), *dict(_while_they_fit(record, others, limit - limit // 2, rows)).values()]


# So many rows are read first; how many more are read at once is told by their size.
FIRST_READ = 50


def _while_they_fit(
    record: Record, indices: Sequence[int], limit: int, rows: Mapping[int, Row]
) -> Iterator[tuple[int, Row]]:
    """Yield (index, row) while bytes remain; ``rows`` caches rows made already.

    They are made in the order of the record: a row of Parquet is read again with all of its row group.
    """
    left, done, size = limit, 0, FIRST_READ
    while block := indices[done : done + size]:
        made = {index: rows.get(index) or _row(record, index) for index in sorted(block)}
        for index in block:
            left -= len(embed(made[index]))
            if left < 0:
                return
            yield index, made[index]
        done += len(block)
        size = 1 + left * done // (limit - left)


def _leads(votes: Votes) -> FloatArray:
    """Return the leader's margin over the runner-up, as a share of each question's votes [n].

    2 where nobody voted, so that such questions come last, as on the page.
    """
    if votes.answers is None:
        assert votes.correct is not None
        return np.abs(2 * votes.correct.mean(axis=1) - 1)
    leads = np.empty(votes.n)
    for start in range(0, votes.n, BLOCK):
        codes = np.sort(dense_codes(votes.answers[start : start + BLOCK]), axis=1)
        # In order, the places from an answer's first path to each of its paths count it.
        held = np.arange(votes.k) - np.maximum.accumulate(
            np.where(np.diff(codes, axis=1, prepend=-2) != 0, np.arange(votes.k), 0), axis=1
        )
        ends = np.diff(codes, axis=1, append=np.iinfo(codes.dtype).max) != 0
        counts = np.sort(np.where(ends & (codes >= 0), held + 1, 0), axis=1)
        voted, second = counts.sum(axis=1), counts[:, -2] if votes.k > 1 else 0
        leads[start : start + BLOCK] = np.where(voted > 0, (counts[:, -1] - second) / np.maximum(voted, 1), 2)
    return leads


def _row(record: Record, index: int) -> Row:
    question, votes = record.ballot.questions[index], record.ballot.votes
    right = None if votes.correct is None else votes.correct[index].tolist()
    if votes.answers is None and right is not None:
        keys = answers = tuple("right" if good else "wrong" for good in right)
    else:
        keys, answers = record.ballot.keys[index], question.answers
    splits, places = _votes(keys, answers, right)
    row: Row = {"n": index, "id": shorten(question.id, LONGEST_ANSWER), "a": splits, "v": places}
    if right is not None:
        row["r"] = sum(right)
    if question.gold is not None:
        gold = question.gold if isinstance(question.gold, str) else json.dumps(question.gold)
        row["g"] = shorten(gold, LONGEST_ANSWER)
    if question.texts:
        row["p"] = []  # to be filled as far as there is room
    if question.question:
        row["q"] = shorten(question.question, LONGEST_QUESTION)
    return row


def _votes(
    keys: Sequence[str | None], answers: Sequence[str | None], right: Sequence[int] | None
) -> tuple[list[tuple[str, int, int]], list[int]]:
    """Return a row's distinct answers with votes and right votes, and each path's answer."""
    counts = Counter(keys)
    order = [key for key, _ in counts.most_common() if key is not None]
    rights = Counter[str | None]()
    for key, good in zip(keys, right or [0] * len(keys), strict=True):
        rights[key] += good
    texts = {key: shorten(answers[keys.index(key)] or key, LONGEST_ANSWER) for key in order}
    places = [-1 if key is None else order.index(key) for key in keys]
    return [(texts[key], counts[key], rights[key]) for key in order], places


def shorten(text: str, most: int) -> str:
    """Return a text, shortened with a note of how much is omitted."""
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most:,} more characters)"


def _add_texts(record: Record, rows: Iterable[Row], limit: int) -> tuple[int, bool]:
    """Add raw paths to items, whole items in a stable random order.

    Returns how many got them, and whether any item has some.
    """
    carried, has_texts = 0, False
    for row in sorted(rows, key=lambda row: stable_hash("texts", row["n"])):
        if "p" not in row:
            continue
        question, has_texts = record.ballot.questions[row["n"]], True
        texts = (question.texts or ())[: len(row["v"])]
        paths = [_path(question, place, text) for place, text in enumerate(texts)]
        size = len(embed(paths))
        if size <= limit:
            limit -= size
            row["p"] = paths
            carried += 1
        else:
            del row["p"]
    return carried, has_texts


def _path(question: Question, place: int, text: str) -> ShownPath:
    answer = question.answers[place]
    rule = question.rules[place] if question.rules else ""
    tokens = question.tokens[place] if question.tokens else None
    count = None if tokens is None or math.isnan(tokens) else int(tokens)
    return shorten(text, LONGEST_TEXT), answer and shorten(answer, LONGEST_ANSWER), rule, count
