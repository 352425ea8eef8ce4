"""Recorded questions to Votes: codes of canonical keys, correctness, and what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from keff.answers import Read, golds, says_none
from keff.errors import LogError
from keff.log import NAMED, Question
from keff.policy.weighting import checked_name
from keff.reading.questions import NO_LIST, NO_TEXT, Coded, Codes, RecordedQuestions
from keff.reading.unanswered import gold_words, words_noted
from keff.records import Note, frozen
from keff.stats.resampling import numbers_of
from keff.stats.votes import BoolArray, FloatArray, IntArray, Votes
from keff.stats.voting.alike import dense_codes


class RaggedError(LogError):
    """Raised where path numbers differ so much that trimming would drop too many."""


Key = Callable[[str], str | None]

Correct = Callable[[str, object], bool]

# Text of a completion, and whether it was cut -> what it says.
ReadText = Callable[[str, bool], Read]

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
    holds any: not where it is missing or a word for "no answer". ``keeping`` makes the reading in which some
    such words are answers (None: there is none), ``kept`` are those that are.
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
    keeping: Callable[[Collection[str]], Reading] | None = None
    kept: tuple[str, ...] = ()

    @property
    def reread(self) -> ReadText | None:
        """How a recorded completion is read again; None where what is recorded stands."""
        return self.read if self.again else None


@frozen
class Ballot:
    """Votes of a record, with its questions, keys and notes.

    ``keys`` [n][K] canonical keys (None abstains); ``questions`` [n] what was recorded, in the order of the
    rows of ``votes``; ``notes`` say what was trimmed, dropped or unlabelled. ``rules`` [n, K] how each answer
    was found (None: nowhere said).
    """

    votes: Votes
    keys: Coded
    questions: RecordedQuestions
    reading: Reading
    notes: tuple[Note, ...]
    rules: Coded | None = None

    @property
    def golds(self) -> Sequence[object]:
        """The gold answers [n], None where missing."""
        return self.questions.gold_answers

    @property
    def names(self) -> Sequence[str]:
        """The questions' ids, in row order."""
        return self.questions.names

    def take(self, rows: IntArray) -> Ballot:
        """Return the ballot of some questions."""
        if rows.size == len(self.keys) and bool(np.all(rows == np.arange(rows.size))):
            return self  # a copy of a large record is hundreds of megabytes
        return replace(
            self,
            votes=self.votes.take(rows),
            keys=Coded(self.keys.codes[rows], self.keys.names),
            questions=self.questions.take(rows),
            rules=self.rules and Coded(self.rules.codes[rows], self.rules.names),
        )

    def of_columns(self, columns: Sequence[int] | IntArray) -> Ballot:
        """Return the ballot of some paths of every question."""
        chosen = np.asarray(columns, np.int64)
        return replace(
            self,
            votes=self.votes.paths(chosen),
            keys=Coded(self.keys.codes[:, chosen], self.keys.names),
            questions=self.questions.of_columns(chosen),
            rules=self.rules and Coded(self.rules.codes[:, chosen], self.rules.names),
        )


# Answers of more paths are held as bytes, where their codes fit.
MANY_PATHS = 2**21
MOST_OF_A_BYTE = 127
# A word for "no answer" is an answer where the record marks this share of it right: judges err on a few.
RIGHT_SHARE = 0.1


def ballot(
    questions: Iterable[Question] | RecordedQuestions,
    reading: Reading,
    *,
    trim: int | None = None,
    format: str = "",
) -> Ballot:
    """Return the Votes of recorded questions.

    Questions must have equally many paths: the longer ones are trimmed to the first ``trim`` paths (default:
    the smallest K, while that drops under a fifth of all paths), and questions with fewer are left out.
    Correctness is the record's own where it gives it, else ``reading.correct``; questions without either
    make ``votes.correct`` None unless all others have it, then they are left out with a note. Scores of 0
    and 1 alone are verdicts. A word for "no answer" votes where the record's verdicts or gold answers show
    that it is one. Each distinct answer is keyed once, each distinct pair of an answer and a gold answer
    judged once. Raises LogError for graded scores, which are no votes, and says how the log's ``format``
    makes verdicts of them.
    """
    if not isinstance(questions, RecordedQuestions):
        questions = RecordedQuestions((with_answers(row, reading) for row in questions), whole=True)
    questions = questions.with_verdicts()
    if questions.flat("keys") is not None:
        reading = replace(reading, keeping=None)  # the keys that the record holds stand
    given = questions.numberings["answers"].names
    reading = keeping_words(reading, gold_words(questions.gold_values, given, reading.states))
    states_gold = np.array([*map(reading.states, questions.gold_values), False], bool)
    labelled = states_gold[np.array(questions.golds, np.int32)] | questions.has("correct")
    k, rows, notes = admitted(questions.sizes, labelled, trim)
    table = questions.take(rows)
    paths = _Matrices(table, k)
    _refuse_graded(table, format)
    answers = cast("Codes", paths.of("answers"))
    keys, right = _keys(answers, paths.of("keys"), table, reading), paths.of("correct")
    unread = _unread_answers(answers, keys, table)
    if right is not None:
        marked = _unread_answers(np.where(right > 0, answers, NO_TEXT), keys, table)
        words = [word for word, times in marked.items() if times >= RIGHT_SHARE * unread[word]]
        kept = keeping_words(reading, filter(says_none, words))
        if kept is not reading:
            reading, keys = kept, _keys(answers, None, table, kept)
            unread = _unread_answers(answers, keys, table)
    correct = _correct(answers, right, table, reading) if labelled[rows].any() else None
    numbers: dict[str, FloatArray | None] = {
        name: paths.given(name) for name in ("tokens", "prompt_tokens", "cached_tokens", "seconds")
    }
    votes = Votes(
        answers=(codes := None if any(table.only_scores) else _codes(keys.codes, closed=reading.closed)),
        correct=correctness(codes, correct, notes),
        slots=None if (slots := paths.of("slots")) is None else _one_order(np.maximum(slots, 0)),
        clusters=_clusters(table),
        confidences=paths.of("confidences"),
        named={
            checked_name(name.removeprefix(NAMED)): cast("FloatArray", paths.of(name))
            for name in sorted(table.numbers)
            if name.startswith(NAMED)
        },
        closed=reading.closed,
        tries=table.tries,
        **cast("dict[str, Any]", numbers),
    )
    notes += words_noted(unread, questions.gold_answers, reading.states, reading.space, reading.kept)
    rules = paths.of("rules")
    coded = None if rules is None else Coded(rules, table.numberings["rules"].names)
    return Ballot(votes, keys, table, reading, tuple(notes), coded)


def keeping_words(reading: Reading, words: Iterable[str]) -> Reading:
    """Return a reading in which those of the words vote that it can keep as answers."""
    more = sorted({*words})
    if reading.keeping is None or not more:
        return reading
    made = reading.keeping([*reading.kept, *more])
    if not (kept := [word for word in more if made.key(word) is not None]):
        return reading
    kept = (*reading.kept, *kept)
    return replace(
        reading, key=made.key, correct=made.correct, golds=made.golds, states=made.states, kept=kept
    )


def _unread_answers(answers: Codes, keys: Coded, table: RecordedQuestions) -> dict[str, int]:
    """Return the answers [n, k] that have no key, with their numbers."""
    codes, counts = np.unique(answers[(keys.codes < 0) & (answers >= 0)], return_counts=True)
    names = table.numberings["answers"].names
    unread = zip(codes.tolist(), counts.tolist(), strict=True)
    return {names[code]: count for code, count in unread if names[code]}


class _Matrices:
    """The first k paths of all questions of a table, field by field, as [n, k]."""

    def __init__(self, table: RecordedQuestions, k: int) -> None:
        self.table, sizes = table, table.sizes
        starts = np.array(table.ends, np.int64) - sizes
        self.shape = (len(table), k)
        self.places = None if bool(np.all(sizes == k)) else starts[:, None] + np.arange(k)

    def of(self, name: str) -> NDArray[Any] | None:
        """Return a field; None where no question has it."""
        values = self.table.flat(name)
        if values is None:
            return None
        return values.reshape(self.shape) if self.places is None else values[self.places]

    def given(self, name: str) -> NDArray[Any] | None:
        """Return a field that every question has; None where one has not."""
        return self.of(name) if bool(self.table.has(name).all()) else None


def _refuse_graded(table: RecordedQuestions, format: str) -> None:
    scores, unjudged = table.flat("scores"), np.array(table.only_scores, bool) & ~table.has("correct")
    if scores is None or not unjudged.any():
        return
    graded = scores[np.repeat(unjudged & table.has("scores"), table.sizes)]
    if graded.size:
        low, high = np.min(graded), np.max(graded)
        advice = f"; say from which one on a path is right, such as --format {format}:threshold="
        raise LogError(
            f"it holds graded scores, {low:g} to {high:g}: keff noise and keff compare read these"
            + (f"{advice}{(low + high) / 2:g}" if format else "")
        )


def _keys(answers: Codes, given: Codes | None, table: RecordedQuestions, reading: Reading) -> Coded:
    """Return the keys of answers [n, k]: as recorded, else by the reading."""
    texts, own = table.numberings["answers"].names, table.numberings["keys"].names
    used = np.zeros(len(texts) + 1, bool)  # the last for no answer
    if given is not None:
        unread = given == NO_LIST
        used[answers[unread]] = True
        code, names = _key_codes(texts, used, reading, own)
        return Coded(np.where(unread, code[answers], given) if unread.any() else given, names)
    used[answers] = True
    code, names = _key_codes(texts, used, reading)
    if np.array_equal(code[:-1], np.arange(len(texts))):
        return Coded(answers, names)  # every text has a key of its own: the codes are not held twice
    return Coded(code[answers], names)


def _key_codes(
    texts: Sequence[str], used: BoolArray, reading: Reading, known: Sequence[str] = ()
) -> tuple[Codes, list[str]]:
    """Return the key code of each text that is used, -1 last for no answer, and the key names."""
    numbers = {name: place for place, name in enumerate(known)}
    code = np.full(len(texts) + 1, NO_TEXT, np.int32)
    for place in np.flatnonzero(used[:-1]).tolist():
        key = reading.key(texts[place])
        code[place] = NO_TEXT if key is None else numbers.setdefault(key, len(numbers))
    return code, list(numbers)


def _correct(answers: Codes, given: IntArray | None, table: RecordedQuestions, reading: Reading) -> IntArray:
    """Return correctness [n, k] as recorded, else by comparison with the gold answers."""
    unjudged = ~table.has("correct")
    right = np.zeros(answers.shape, np.int8) if given is None else given.astype(np.int8)
    if unjudged.any():
        gold = np.array(table.golds, np.int32)[unjudged]
        right[unjudged] = _correctness_of(answers[unjudged], gold, table, reading)
    return cast("IntArray", right if right.size > MANY_PATHS else right.astype(np.int64))


# Up to so many pairs of an answer and a gold answer, those that occur are marked in a table.
TABLE_CELLS = 2**22


def _correctness_of(answers: Codes, gold: Codes, table: RecordedQuestions, reading: Reading) -> BoolArray:
    """Return the correctness of answers [n, k] to questions with gold answers [n]."""
    texts, known = table.numberings["answers"].names, table.gold_values
    if reading.by_key and not any(isinstance(each, list | tuple | set | frozenset) for each in known):
        stated = list(map(reading.golds, known))
        if all(len(each) == 1 for each in stated):
            return _correctness_by_key(answers, gold, texts, [each for (each,) in stated], reading)
    width, out = len(known), np.zeros(answers.shape, bool)
    step = max(1, TABLE_CELLS // (8 * answers.shape[1]))
    for start in range(0, len(gold), step):
        block, own = answers[start : start + step], gold[start : start + step]
        pair = block.astype(np.int64) * width + own[:, None]
        pairs, back = _distinct(np.where((block >= 0) & (own >= 0)[:, None], pair, -1), len(texts) * width)
        numbers: list[int] = pairs.tolist()
        right = [p >= 0 and reading.correct(texts[p // width], known[p % width]) for p in numbers]
        out[start : start + step] = np.array(right, bool)[back]
    return out


def _distinct(pairs: IntArray, most: int) -> tuple[IntArray, IntArray]:
    """Return the distinct numbers, from -1 to below ``most``, and each one's index."""
    if most >= TABLE_CELLS:
        values, back = np.unique(pairs, return_inverse=True)
        return values, back.reshape(pairs.shape).astype(np.int64)
    seen = np.zeros(most + 1, bool)
    seen[pairs] = True
    values = np.flatnonzero(seen)
    places = np.zeros(most + 1, np.int32)
    places[values] = np.arange(values.size)
    # -1 is the last cell.
    return np.where(values == most, -1, values), places[pairs].astype(np.int64)


def _correctness_by_key(
    answers: Codes, gold: Codes, texts: Sequence[str], stated: Sequence[str], reading: Reading
) -> BoolArray:
    """Return the correctness of answers [n, k] by comparing their keys with those of the gold answers."""
    used = np.ones(len(texts) + len(stated) + 1, bool)
    used[: len(texts)] = False
    used[answers[answers >= 0]] = True
    code, _ = _key_codes([*texts, *stated], used, reading)
    own = np.append(code[len(texts) : -1], np.int32(NO_LIST))[gold]  # the last for no gold answer
    mine = np.append(code[: len(texts)], np.int32(NO_TEXT))[answers]
    return (mine == own[:, None]) & (mine >= 0)


def _codes(keys: Codes, *, closed: bool) -> IntArray:
    """Return keys [n, k] as codes: numbered by question, or over all where the answer set is closed."""
    codes = _by_first_use(keys) if closed else dense_codes(np.maximum(keys, NO_TEXT))
    if codes.size > MANY_PATHS and int(codes.max(initial=0)) <= MOST_OF_A_BYTE:
        return cast("IntArray", codes.astype(np.int8))
    return codes.astype(np.int64)


def _by_first_use(codes: Codes) -> Codes:
    """Return codes [n, k] renumbered by first use; -1 stays."""
    flat = codes.ravel()
    most = int(flat.max(initial=-1)) + 1
    first = np.full(most + 1, flat.size, np.int64)
    first[flat[::-1]] = np.arange(flat.size)[::-1]  # of writes to one cell the last stays: its first use
    rank = np.empty(most + 1, np.int32)
    rank[np.argsort(first[:-1], kind="stable")] = np.arange(most)
    rank[-1] = NO_TEXT
    return rank[codes]


def _clusters(table: RecordedQuestions) -> IntArray:
    if not bool(np.any(np.array(table.clusters) >= 0)) and not table.repeats_ids:
        return np.arange(len(table), dtype=np.int64)
    return numbers_of(name or own for name, own in zip(table.cluster_names, table.names, strict=True))


def admitted(sizes: IntArray, labelled: BoolArray, trim: int | None) -> tuple[int, IntArray, list[Note]]:
    """Return K, the indices of usable questions, and notes on those left out."""
    if not sizes.size:
        raise LogError("there are no questions in it")
    k, notes = _common_k(Counter(sizes.tolist()), trim)
    places = np.flatnonzero(sizes >= k)
    if places.size < sizes.size:
        short = sizes.size - places.size
        message = f"{short} of {sizes.size} questions have fewer than {k} paths, so keff leaves them out"
        notes.append(Note("short_questions", message))
    known = int(labelled[places].sum())
    if 0 < known < places.size:
        message = (
            f"{places.size - known} of {places.size} questions have no gold answer, so keff leaves them out"
        )
        notes.append(Note("unlabelled", message))
        places = places[labelled[places]]
    return k, places.astype(np.int64), notes


def correctness(codes: IntArray | None, correct: IntArray | None, notes: list[Note]) -> IntArray | None:
    """Return correctness [n, K] with abstentions wrong, and a note where the record differs."""
    lost = 0 if correct is None or codes is None else int(np.count_nonzero(correct[codes < 0]))
    if correct is not None and codes is not None and lost:
        notes.append(abstained_correct(lost))
        correct[codes < 0] = 0
    return correct


def abstained_correct(paths: int) -> Note:
    """Return the note on paths marked right without an answer."""
    text = f"{paths} paths are marked correct but hold no answer, so keff counts them as wrong"
    return Note("abstained_correct", text)


COMPLETIONS = (
    "it holds whole completions: say how to read them with --answer-space, such as numeric or choice"
)


def with_answers(row: Question, reading: Reading) -> Question:
    """Return a question of whole completions with their answers extracted."""
    if row.form != "completions":
        return row
    if reading.read is None:
        raise LogError(COMPLETIONS)
    return _read(row, row.answers, reading.read)


def read_again(row: Question, reading: Reading, *, texts: bool = False) -> Question:
    """Return a question read in the requested space, from its texts, else its answers.

    Its ``texts`` are kept only where they are wanted for more than that.
    """
    if reading.rescore and row.gold is not None and row.form != "scores":
        row = replace(row, correct=None)
    if (read := reading.reread) is not None and row.form == "answers":
        row = replace(row, keys=None, rules=None) if row.texts is None else _read(row, row.texts, read)
    return row if texts or row.texts is None else replace(row, texts=None)


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
        return trim, [Note("trimmed", f"keff uses the first {trim} paths of each question")]
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
    return k, [
        Note("trimmed", f"questions have {k} to {max(lengths)} paths, so keff uses the first {k} of each")
    ]


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


def _one_order(slots: NDArray[np.integer]) -> IntArray | None:
    """Return the slots of the paths [K], the same for all questions [n, K]; None for a single slot."""
    if bool(np.any(slots != slots[0])):
        raise LogError(
            "questions list their slots in different orders: sort the paths of each question by slot"
        )
    return slots[0].astype(np.int64) if np.ptp(slots[0]) else None
