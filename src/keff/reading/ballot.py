"""Recorded questions to Votes: codes of canonical keys, correctness, and what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from keff.answers import golds
from keff.errors import LogError
from keff.log import NAMED, Question
from keff.logs.parts.bulk import ReadText, text_hash
from keff.logs.parts.coding import Coded
from keff.logs.parts.values import converted, rating
from keff.narrow import is_array
from keff.policy.weighting import checked_name
from keff.reading.unanswered import words_noted
from keff.records import Note, frozen
from keff.stats.resampling import numbers_of
from keff.stats.votes import BoolArray, FloatArray, IntArray, Votes


class RaggedError(LogError):
    """Raised where path numbers differ so much that trimming would drop too many."""


Key = Callable[[str], str | None]

Correct = Callable[[str, object], bool]

# Ragged records are trimmed unasked while that drops less than this share of the paths.
TRIM_SHARE = 0.2


def is_given(gold: object) -> bool:
    """Return whether a gold answer is given."""
    return gold is not None


@frozen
class Reading:
    """How a record's answers are compared: an answer space and its functions.

    ``key`` maps an answer to its canonical vote key, ``correct`` judges an answer against the gold one
    (used where the record gives no correctness), ``closed`` says that the answer set is closed, ``space``
    names it, with its options. ``read`` reads a whole completion (None: the reading cannot). ``again`` says
    that the user asked for this reading: the answers and keys that a record holds were read otherwise, and
    are read again from its texts, where it has them. ``rescore`` says that its correctness is found again
    too, where there is a gold answer. ``by_key`` says that an answer is right when it has the key of an
    acceptable one. ``golds`` are the acceptable answers in a cell of gold answers, ``states`` says whether it
    holds any: not where it is missing or a word for "no answer".
    """

    key: Key
    correct: Correct
    closed: bool = False
    space: str = "exact"
    read: ReadText | None = None
    again: bool = False
    rescore: bool = False
    by_key: bool = False
    golds: Callable[[object], list[str]] = golds
    states: Callable[[object], bool] = is_given

    @property
    def reread(self) -> ReadText | None:
        """How a recorded completion is read again; None where what is recorded stands."""
        return self.read if self.again else None


@frozen
class HeldColumns:
    """Columns kept from a record read by columns, instead of its questions.

    ``keys`` [n, K], ``golds`` [n] (None where there is none), and names of ``clusters`` [n] ("" for none;
    None: no question has one).
    """

    keys: Coded
    golds: Sequence[object]
    clusters: Sequence[str] | None

    def of_paths(self, places: Sequence[int] | IntArray) -> HeldColumns:
        """Return the columns of some paths only."""
        return replace(self, keys=Coded(self.keys.codes[:, places], self.keys.names))


@frozen
class Ballot:
    """Votes of a record, with its questions, keys and notes.

    ``keys`` [n][K] canonical keys (None abstains); ``questions`` the records themselves, in the order of
    the rows of ``votes``, read again from the log when asked for where it is large; ``notes`` say what was
    trimmed, dropped or unlabelled. ``rules`` [n, K] how each answer was found (-1: not said; None: nowhere).
    ``asked`` [n] are hashes of the questions' texts, 0 where there is none.
    ``ids`` [n] are those of the questions where they are known without reading these again; ``held`` is what
    else is.
    """

    votes: Votes
    keys: Sequence[tuple[str | None, ...]]
    questions: Sequence[Question]
    reading: Reading
    notes: tuple[Note, ...]
    rules: Coded | None = None
    asked: IntArray | None = None
    ids: Sequence[str] | None = None
    held: HeldColumns | None = None

    @property
    def golds(self) -> Sequence[object]:
        """The gold answers [n], None where missing."""
        return [question.gold for question in self.questions] if self.held is None else self.held.golds

    @property
    def cluster_names(self) -> Sequence[str]:
        """The names of the questions' clusters [n], "" where missing."""
        if self.held is None:
            return [question.cluster or "" for question in self.questions]
        return self.held.clusters or [""] * len(self.keys)

    @property
    def names(self) -> Sequence[str]:
        """The questions' ids, in row order."""
        return [question.id for question in self.questions] if self.ids is None else self.ids


def ballot(
    questions: Iterable[Question], reading: Reading, *, trim: int | None = None, format: str = ""
) -> Ballot:
    """Return the Votes of recorded questions.

    Questions must have equally many paths: the longer ones are trimmed to the first ``trim`` paths (default:
    the smallest K, while that drops under a fifth of all paths), and questions with fewer are left out.
    Correctness is the record's own where it gives it, else ``reading.correct``; questions without either
    make ``votes.correct`` None unless all others have it, then they are left out with a note. Raises LogError
    for graded scores, which are no votes, and says how the log's ``format`` makes verdicts of them.
    """
    rows = [with_answers(question, reading) for question in questions]
    sizes = np.array([len(row.answers) for row in rows], np.int64)
    labelled = np.array([row.correct is not None or reading.states(row.gold) for row in rows], bool)
    k, places, notes = admitted(sizes, labelled, trim)
    kept = [rows[int(place)] for place in places]
    keys = tuple(keys_of(row, k, reading.key) for row in kept)
    codes = None if any(row.form == "scores" for row in kept) else codes_of(keys, shared=reading.closed)
    correct = (
        np.array([correct_of(row, k, reading) for row in kept]) if bool(labelled[places].any()) else None
    )
    graded = [x for row in kept if row.form == "scores" and row.correct is None for x in row.scores or ()]
    if graded:
        low, high = min(graded), max(graded)
        advice = f"; say from which one on a path is right, such as --format {format}:threshold="
        raise LogError(
            f"it holds graded scores, {low:g} to {high:g}: keff noise and keff compare read these"
            + (f"{advice}{(low + high) / 2:g}" if format else "")
        )
    votes = Votes(
        answers=codes,
        correct=scored(codes, correct, notes),
        slots=one_order(np.array([row.slots[:k] if row.slots else (0,) * k for row in kept])),
        clusters=numbers_of(row.cluster or row.id for row in kept),
        tokens=_column(kept, k, "tokens"),
        confidences=_column(kept, k, "confidences"),
        named=_named(kept, k),
        prompt_tokens=_column(kept, k, "prompt_tokens"),
        cached_tokens=_column(kept, k, "cached_tokens"),
        seconds=_column(kept, k, "seconds"),
        closed=reading.closed,
    )
    unread = Counter(
        answer
        for row, found in zip(kept, keys, strict=True)
        for answer, key in zip(row.answers[:k], found, strict=True)
        if key is None and answer
    )
    notes += words_noted(unread, (row.gold for row in rows), reading.states, reading.space)
    asked = np.array([text_hash(row.question) for row in kept], np.int64)
    return Ballot(votes, keys, tuple(kept), reading, tuple(notes), _rules(kept, k), asked)


def admitted(sizes: IntArray, labelled: BoolArray, trim: int | None) -> tuple[int, IntArray, list[Note]]:
    """Return K, the indices of usable questions, and notes on those left out."""
    if not sizes.size:
        raise LogError("there are no questions in it")
    k, notes = _common_k(Counter(sizes.tolist()), trim)
    places = np.flatnonzero(sizes >= k)
    if places.size < sizes.size:
        short = sizes.size - places.size
        message = f"{short} of {sizes.size} questions have fewer than {k} paths and were left out"
        notes.append(Note("short_questions", message))
    known = int(labelled[places].sum())
    if 0 < known < places.size:
        message = f"{places.size - known} of {places.size} questions have no gold answer and were left out"
        notes.append(Note("unlabelled", message))
        places = places[labelled[places]]
    return k, places.astype(np.int64), notes


def scored(codes: IntArray | None, correct: IntArray | None, notes: list[Note]) -> IntArray | None:
    """Return correctness [n, K] with abstentions wrong, and a note where the record differs."""
    lost = 0 if correct is None or codes is None else int(np.count_nonzero(correct[codes < 0]))
    if correct is not None and codes is not None and lost:
        notes.append(abstained_correct(lost))
        correct[codes < 0] = 0
    return correct


def abstained_correct(paths: int) -> Note:
    """Return the note on paths marked right without an answer."""
    text = f"{paths} paths without an answer that the record calls correct count as wrong"
    return Note("abstained_correct", text)


def with_answers(row: Question, reading: Reading) -> Question:
    """Return a question of whole completions with their answers extracted."""
    if row.form != "completions":
        return row
    if reading.read is None:
        raise LogError(
            "it holds whole completions: say how to read them with --answer-space, such as numeric or choice"
        )
    return _read(row, row.answers, reading.read)


def read_again(row: Question, reading: Reading, *, texts: bool = False) -> Question:
    """Return a question read in the requested space, from its texts, else its answers.

    Its ``texts`` are kept only where they are wanted for more than that.
    """
    if reading.rescore and row.gold is not None and row.form != "scores":
        row = replace(row, correct=None)
    if (read := reading.reread) is not None and row.form == "answers":
        row = replace(row, keys=None, rules=None) if row.texts is None else _read(row, row.texts, read)
    return row if texts else replace(row, texts=None)


def _read(row: Question, texts: Sequence[str | None], read: ReadText) -> Question:
    cut = row.truncated or (0,) * len(texts)
    said = [read(text or "", bool(truncated)) for text, truncated in zip(texts, cut, strict=True)]
    return replace(
        row,
        answers=tuple(each.answer for each in said),
        keys=tuple(each.key for each in said),
        rules=tuple(each.rule for each in said),
        form="answers",
    )


def fullest(lengths: Counter[int]) -> int:
    """Return the number of first paths that keeps the most paths in all."""
    return max(lengths, key=lambda size: size * sum(c for length, c in lengths.items() if length >= size))


def _common_k(lengths: Counter[int], trim: int | None) -> tuple[int, list[Note]]:
    if trim is not None:
        if trim < 1 or trim > max(lengths):
            raise LogError(f"--trim {trim}: the questions have {min(lengths)} to {max(lengths)} paths")
        return trim, [Note("trimmed", f"the first {trim} paths of each question are used")]
    if not max(lengths):
        raise LogError("its questions have no paths")
    k = min(lengths)
    total = sum(length * count for length, count in lengths.items())
    if k == max(lengths):
        return k, []
    dropped = 1 - k * lengths.total() / total
    if k == 0 or dropped >= TRIM_SHARE:
        raise RaggedError(
            f"questions have {k} to {max(lengths)} paths; using the first {k} of each would drop "
            f"{dropped:.0%} of the paths: say how many with --trim {fullest(lengths)}"
        )
    return k, [Note("trimmed", f"questions have {k} to {max(lengths)} paths: the first {k} of each are used")]


def keys_of(row: Question, k: int, key: Key) -> tuple[str | None, ...]:
    """Return the canonical keys of the first k answers, as recorded or by ``key``."""
    if row.keys is not None:
        return row.keys[:k]
    known = {answer: key(answer) for answer in set(row.answers[:k]) if answer}
    return tuple(known[answer] if answer else None for answer in row.answers[:k])


def codes_of(keys: Sequence[Sequence[str | None]], *, shared: bool) -> IntArray:
    """Return keys as integers: numbered by question, or over all where the answer set is closed."""
    table: dict[str, int] = {}
    codes = np.empty((len(keys), len(keys[0])), dtype=np.int64)
    for row, answers in enumerate(keys):
        if not shared:
            table = {}
        codes[row] = [-1 if key is None else table.setdefault(key, len(table)) for key in answers]
    return codes


def agreement(keys: Sequence[str | None]) -> float | None:
    """Return how often two answers of a question have the same key; None without pairs."""
    counts = Counter(key for key in keys if key is not None)
    if (cast := counts.total()) < 2:
        return None
    return sum(votes * (votes - 1) for votes in counts.values()) / (cast * (cast - 1))


def correct_of(row: Question, k: int, reading: Reading) -> list[int]:
    """Return 0/1 of the first k answers, as recorded or by comparison with the gold answer."""
    if row.correct is not None:
        return [int(value) for value in row.correct[:k]]
    known: dict[str, int] = {}
    for answer in row.answers[:k]:
        if answer and answer not in known:
            known[answer] = int(reading.correct(answer, row.gold))
    return [known[answer] if answer else 0 for answer in row.answers[:k]]


def _rules(rows: Sequence[Question], k: int) -> Coded | None:
    if not any(row.rules for row in rows):
        return None
    numbers: dict[str, int] = {}
    codes = np.full((len(rows), k), -1, np.int32)
    for place, row in enumerate(rows):
        if row.rules:
            codes[place] = [numbers.setdefault(rule, len(numbers)) for rule in row.rules[:k]]
    return Coded(codes, list(numbers))


def one_order(slots: NDArray[np.integer]) -> IntArray | None:
    """Return the slots of the paths [K], the same for all questions [n, K]; None for a single slot."""
    if bool(np.any(slots != slots[0])):
        raise LogError(
            "questions list their slots in different orders: sort the paths of each question by slot"
        )
    return slots[0].astype(np.int64) if np.ptp(slots[0]) else None


def _named(rows: Sequence[Question], k: int) -> dict[str, FloatArray]:
    """Return further confidences by name, NaN where missing; raises LogError."""
    fields = sorted({field for row in rows for field in row.meta if field.startswith(NAMED)})
    # No rule could read another name.
    named = {checked_name(field.removeprefix(NAMED)): np.full((len(rows), k), np.nan) for field in fields}
    for place, row in enumerate(rows):
        for field in fields:
            given, where = row.meta.get(field), f"question {row.id!r}"
            if given is None:
                continue
            if not is_array(given) or len(given) < k:
                raise LogError(f"{where}: {field} must be a list with a number for each path")
            named[field.removeprefix(NAMED)][place] = converted(where, field, given[:k], rating)
    return named


def _column(rows: Sequence[Question], k: int, name: str) -> FloatArray | None:
    values = [getattr(row, name) for row in rows]
    if name == "confidences" and any(values):
        # A question without any keeps nobody from those of the others: its paths are ordinary votes.
        values = [value or (np.nan,) * k for value in values]
    if any(value is None or len(value) < k for value in values):
        return None
    return np.array([value[:k] for value in values], dtype=np.float64)
