"""Recorded questions held by columns: their answers as numbers, without an object for each path."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from keff.errors import LogError
from keff.log import NAMED, Question
from keff.logs.parts.batches import ColumnBatch
from keff.logs.parts.values import converted, rating
from keff.narrow import Fields, is_array
from keff.records import frozen
from keff.stats.votes import BoolArray, IntArray

Codes = NDArray[np.int32]

# No text (an abstention, no cluster), and a list that a question does not have.
NO_TEXT, NO_LIST = -1, -2

# Fields of a question with texts for each path, held as numbers of the distinct ones.
TEXTS = ("answers", "keys", "rules", "branches")
# Fields with a number for each path: how they are held, and what stands for a list that a question lacks.
# Counts are not negative, grades are finite, and a confidence that is missing is NaN anyhow.
NUMBERS: Mapping[str, tuple[str, float]] = {
    "correct": ("b", -1),
    "truncated": ("b", -1),
    "slots": ("q", -1),
    **dict.fromkeys(("tokens", "prompt_tokens", "cached_tokens", "seconds"), ("d", -1.0)),
    "confidences": ("d", float("nan")),
    "scores": ("d", float("inf")),
}

# Records with more different answers than this are refused: their names alone would take gigabytes.
MOST_DISTINCT = 2**23


@frozen
class Coded(Sequence["tuple[str | None, ...]"]):
    """Texts of n questions' paths as numbers: ``codes`` [n, K] index ``names``, below 0 for none."""

    codes: NDArray[Any]
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, index: int) -> tuple[str | None, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[str | None, ...]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return Coded(self.codes[index], self.names)
        return tuple(None if code < 0 else self.names[code] for code in self.codes[index].tolist())


class Numbering(dict[object, int]):
    """Numbers texts 0, 1, 2, ... by first use; None and "" are no text.

    Raises LogError from ``MOST_DISTINCT`` different ones on.
    """

    def __init__(self) -> None:
        super().__init__({None: NO_TEXT, "": NO_TEXT})
        self.names: list[Any] = []

    def __missing__(self, text: object) -> int:
        number = len(self.names)
        if number >= MOST_DISTINCT:
            raise LogError(
                f"it has more than {MOST_DISTINCT:,} different answers, too many to hold: choose how keff "
                "reads them (keff read shows it), or analyse fewer questions at a time"
            )
        self[text] = number
        self.names.append(text)
        return number


class Names:
    """Texts packed into one block of bytes, a fifth of the size of str objects."""

    def __init__(self) -> None:
        self.text, self.ends = bytearray(), array("q")

    def add(self, text: str) -> None:
        """Append a text."""
        self.text += text.encode("utf-8", "surrogatepass")
        self.ends.append(len(self.text))

    def extend(self, texts: Iterable[str]) -> None:
        """Append texts."""
        units = [text.encode("utf-8", "surrogatepass") for text in texts]
        ends = np.cumsum([len(unit) for unit in units], dtype=np.int64) + len(self.text)
        self.text += b"".join(units)
        self.ends.frombytes(ends.tobytes())

    def __getitem__(self, place: int) -> str:
        start = self.ends[place - 1] if place else 0
        return self.text[start : self.ends[place]].decode("utf-8", "surrogatepass")


class RecordedQuestions(Sequence[Question]):
    """The questions of a record, in the order of the log, each made again when it is asked for.

    What has a value for each path is one flat array over all questions. Texts of completions and further
    fields are held where ``whole`` is true, and else left out.
    """

    def __init__(self, questions: Iterable[Question] = (), *, whole: bool = False) -> None:
        self.whole = whole
        self.ids, self.id_hashes = Names(), array("q")
        # Where each question's paths end.
        self.ends = array("q")
        self.clusters, self.parts = array("i"), array("i")
        self.golds, self.gold_values = array("i"), list[object]()
        self.only_scores, self.only_completions = array("b"), array("b")
        self.numberings = {name: Numbering() for name in (*TEXTS, "clusters", "parts", "golds")}
        self.codes: dict[str, array[int]] = {"answers": array("i")}
        self.numbers: dict[str, array[Any]] = {}
        # Of the questions that have any, by their place.
        self.wordings: dict[int, str] = {}
        self.texts: dict[int, tuple[str, ...]] = {}
        self.meta: dict[int, Fields] = {}
        for question in questions:
            self.add(question)

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def paths(self) -> int:
        """The number of paths of all questions."""
        return self.ends[-1] if self.ends else 0

    @property
    def sizes(self) -> IntArray:
        """The number of paths of each question [n]."""
        return np.diff(np.array(self.ends, np.int64), prepend=0)

    def add(self, question: Question) -> None:
        """Append a question."""
        place, paths, size = len(self.ends), self.paths, len(question.answers)
        for name in TEXTS:
            values, codes = getattr(question, name), self.codes.get(name)
            if values is not None:
                codes = self.codes[name] = array("i", [NO_LIST]) * paths if codes is None else codes
                codes.extend(map(self.numberings[name].__getitem__, values))
            elif codes is not None:
                codes.extend([NO_LIST] * size)
        for name, (kind, missing) in NUMBERS.items():
            self._extend(name, kind, missing, getattr(question, name), paths, size)
        named = {name for name in question.meta if name.startswith(NAMED)} if question.meta else set[str]()
        for name in named.union(name for name in self.numbers if name not in NUMBERS):
            self._extend(name, "d", float("nan"), _confidences_of(question, name), paths, size)
        self.ids.add(question.id)
        self.id_hashes.append(hash(question.id))
        self.ends.append(paths + size)
        self.clusters.append(self.numberings["clusters"][question.cluster])
        self.parts.append(self.numberings["parts"][question.part])
        self.golds.append(self._gold(question.gold))
        self.only_scores.append(question.form == "scores")
        self.only_completions.append(question.form == "completions")
        if question.question:
            self.wordings[place] = question.question
        if self.whole and question.texts is not None:
            self.texts[place] = question.texts
        if self.whole and len(question.meta) > len(named):
            self.meta[place] = {name: value for name, value in question.meta.items() if name not in named}

    def _extend(
        self, name: str, kind: str, missing: float, values: Sequence[float] | None, paths: int, size: int
    ) -> None:
        column = self.numbers.get(name)
        if values is not None:
            if column is None:
                column = self.numbers[name] = array(kind, [cast("Any", missing)]) * paths
            column.extend(cast("Any", values))
        elif column is not None:
            column.extend([cast("Any", missing)] * size)

    def _gold(self, value: object) -> int:
        """Return the number of a gold answer; a list or number is another than the text that looks alike."""
        if value is None:
            return NO_TEXT
        numbering = self.numberings["golds"]
        number = numbering[value if isinstance(value, str) and value else (json.dumps(value, default=str),)]
        if number == len(self.gold_values):
            self.gold_values.append(value)
        return number

    def add_batch(self, batch: ColumnBatch) -> None:
        """Append the questions of a batch of columns."""
        place, paths = len(self.ends), self.paths
        size = int(batch.sizes.sum())
        for name in {*self.codes, *batch.texts}:
            codes = self.codes.setdefault(name, array("i", [NO_LIST]) * paths)
            if name in batch.texts:
                own, names = batch.texts[name]
                numbers = [*map(self.numberings[name].__getitem__, names), NO_LIST, NO_TEXT]
                codes.frombytes(np.array(numbers, np.int32)[own].tobytes())
            else:
                codes.frombytes(np.full(size, NO_LIST, np.int32).tobytes())
        for name in {*self.numbers, *batch.numbers}:
            kind, missing = NUMBERS.get(name, ("d", float("nan")))
            column = self.numbers.setdefault(name, array(kind, [cast("Any", missing)]) * paths)
            values = batch.numbers[name] if name in batch.numbers else np.full(size, missing)
            column.frombytes(values.astype(kind).tobytes())
        self.ids.extend(batch.ids)
        self.id_hashes.extend(map(hash, batch.ids))
        self.ends.frombytes((paths + np.cumsum(batch.sizes, dtype=np.int64)).tobytes())
        self.clusters.extend(map(self.numberings["clusters"].__getitem__, batch.clusters))
        self.parts.extend(map(self.numberings["parts"].__getitem__, batch.models))
        self.golds.extend(map(self._gold, batch.golds))
        for forms in (self.only_scores, self.only_completions):
            forms.frombytes(bytes(len(batch.ids)))
        self.wordings.update((row, text) for row, text in enumerate(batch.wordings, place) if text)

    def as_batch(self) -> ColumnBatch:
        """Return the table as one batch: without texts, further fields, and questions of scores alone."""
        return ColumnBatch(
            ids=self.names,
            sizes=self.sizes,
            golds=self.gold_answers,
            clusters=self.cluster_names,
            models=self.part_names,
            wordings=[self.wordings.get(row) for row in range(len(self))],
            texts={
                name: (np.frombuffer(codes, np.int32), self.numberings[name].names)
                for name, codes in self.codes.items()
            },
            numbers={name: np.frombuffer(held, held.typecode) for name, held in self.numbers.items()},
        )

    @property
    def names(self) -> list[str]:
        """The ids of the questions [n]."""
        return [self.ids[place] for place in range(len(self))]

    @property
    def repeats_ids(self) -> bool:
        """Whether two questions may have one id, by their hashes."""
        hashes = np.sort(np.array(self.id_hashes, np.int64))
        return bool(np.any(hashes[1:] == hashes[:-1]))

    @property
    def gold_answers(self) -> list[object]:
        """The gold answers [n], None where there is none."""
        return [None if code < 0 else self.gold_values[code] for code in self.golds]

    @property
    def cluster_names(self) -> list[str]:
        """The names of the questions' clusters [n], "" where there is none."""
        names = [*self.numberings["clusters"].names, ""]
        return [names[code] for code in self.clusters]

    @property
    def part_names(self) -> list[str]:
        """The names of the records that questions belong to [n], "" where the log holds one."""
        names = [*self.numberings["parts"].names, ""]
        return [names[code] for code in self.parts]

    @property
    def branch_names(self) -> tuple[str, ...]:
        """The names of the models or prompts that drew paths, in the order of their first use."""
        codes = self.flat("branches")
        if codes is None:
            return ()
        used, first = np.unique(codes, return_index=True)
        order = used[np.argsort(first)]
        return tuple(self.numberings["branches"].names[code] for code in order[order >= 0].tolist())

    @property
    def asked(self) -> IntArray | None:
        """Hashes of the questions' texts [n], 0 where there is none; None where no text is known."""
        if not self.wordings:
            return None
        hashes = (hash(self.wordings[row]) if row in self.wordings else 0 for row in range(len(self)))
        return np.fromiter(hashes, np.int64, len(self))

    def flat(self, name: str) -> NDArray[Any] | None:
        """Return the values of all paths of a field, as they are held; None where no question has it."""
        held = self.codes.get(name) if name in TEXTS else self.numbers.get(name)
        return None if held is None else np.frombuffer(held, held.typecode)

    @property
    def tries(self) -> IntArray | None:
        """How many tries were made of each question [n], below 0 where none passed; None for other paths.

        Where questions have unequally many paths, all but the last failed, and that passed where there are
        fewer than the most: tries ended at the first that passed.
        """
        sizes = self.sizes
        if not sizes.size or not 0 < sizes.min() < sizes.max():
            return None
        for name in ("confidences", "correct", "scores"):
            passed = self.flat(name)
            if passed is None or not bool(np.all(np.isin(passed, (0, 1)))):
                continue
            last: BoolArray = passed[np.cumsum(sizes) - 1] == 1
            if int(passed.sum()) == int(last.sum()) and bool(np.all(last[sizes < sizes.max()])):
                return np.where(last, sizes, -sizes)
        return None

    def has(self, name: str) -> BoolArray:
        """Return whether each question has a list of numbers [n]: none of no paths has."""
        values, sizes = self.flat(name), self.sizes
        if values is None or not values.size:
            return np.zeros(len(self), bool)
        first = np.minimum(np.array(self.ends, np.int64) - sizes, values.size - 1)
        return (sizes > 0) & (values[first] != NUMBERS[name][1])

    def take(self, rows: IntArray) -> RecordedQuestions:
        """Return the questions of some rows, in their order."""
        if rows.size == len(self) and bool(np.all(rows == np.arange(rows.size))):
            return self
        sizes = self.sizes
        starts = np.array(self.ends, np.int64) - sizes
        places = np.repeat(starts[rows] - np.cumsum(sizes[rows]) + sizes[rows], sizes[rows])
        return self._paths_at(rows, places + np.arange(places.size), sizes[rows])

    def of_columns(self, columns: Sequence[int] | IntArray) -> RecordedQuestions:
        """Return all questions with the paths of some places only, which belong to one branch."""
        chosen, sizes = np.asarray(columns, np.int64), self.sizes
        starts = np.array(self.ends, np.int64) - sizes
        rows = np.arange(len(self))
        picked = self._paths_at(rows, (starts[:, None] + chosen).ravel(), np.full(len(self), chosen.size))
        return picked.without("slots", "branches")

    def of_branch(self, name: str) -> RecordedQuestions:
        """Return the questions that have paths of a branch, with these only."""
        codes = self.flat("branches")
        if codes is None:
            return RecordedQuestions(whole=self.whole)
        flat = np.flatnonzero(codes == self.numberings["branches"].get(name, NO_TEXT - 2))
        rows, sizes = np.unique(np.searchsorted(np.array(self.ends), flat, side="right"), return_counts=True)
        return self._paths_at(rows.astype(np.int64), flat.astype(np.int64), sizes.astype(np.int64)).without(
            "branches"
        )

    def with_branches_as_slots(self) -> RecordedQuestions:
        """Return the table with the number of each path's branch, by first use, as its slot."""
        found = self.path_sources
        if found is None or self.flat("branches") is None:
            return self
        table = self.without()
        table.numbers["slots"] = array("q", found[0].tobytes())
        return table

    @property
    def path_sources(self) -> tuple[IntArray, tuple[str, ...]] | None:
        """The number of each path's source, and the sources' names: branches, else slots; None for neither.

        A source that is not said is -1.
        """
        codes, names = self.flat("branches"), self.branch_names
        if codes is not None:
            number = np.full(len(self.numberings["branches"].names) + 2, -1, np.int64)
            number[[self.numberings["branches"][name] for name in names]] = np.arange(len(names))
            return number[codes], names
        slots = self.flat("slots")
        if slots is None or not slots.size or slots.max() < 0:
            return None
        used, own = np.unique(slots, return_inverse=True)
        said = used >= 0
        return own - int(np.sum(~said)), tuple(f"slot {slot}" for slot in used[said].tolist())

    @property
    def path_questions(self) -> IntArray:
        """The row of each path's question."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def in_order_of_slots(self) -> tuple[RecordedQuestions, int]:
        """Return the questions that have all slots, these in one order, and how many questions lack some.

        Unchanged where every question lists its slots alike, or there is one: what a question lacks are paths
        then, such as those that a policy did not draw.
        """
        found = self._cells()
        if found is None:
            return self, 0
        places, columns, _ = found
        whole = np.flatnonzero((places < self.paths).all(axis=1))
        sizes = np.full(whole.size, columns.size, np.int64)
        return self._paths_at(whole, places[whole].ravel(), sizes), len(self) - whole.size

    def with_all_slots(self) -> RecordedQuestions:
        """Return all questions with their slots in one order, and no answer in place of a path they lack.

        Of verdicts alone "right" and "wrong" become the answers: a path can be without one.
        """
        found = self._cells()
        if found is None:
            return self
        places, columns, used = found
        padded = self.without()
        padded.texts = {}
        padded.codes = {name: held + array("i", [NO_TEXT]) for name, held in self.codes.items()}
        padded.numbers = {name: held + held[:1] for name, held in self.numbers.items()}
        rows = np.arange(len(self))
        table = padded._paths_at(rows, places.ravel(), np.full(rows.size, columns.size, np.int64))
        for name, held in table.numbers.items():
            kind, none = NUMBERS.get(name, ("d", math.nan))
            # A question without a list keeps none; of another the path has nothing to count.
            lacks = ~self.has(name) if name in NUMBERS else np.zeros(rows.size, bool)
            values = np.frombuffer(held, held.typecode).reshape(places.shape).copy()
            empty = np.where(lacks[:, None], none, math.nan if kind == "d" else 0)
            filled = np.where(places < self.paths, values, empty).astype(values.dtype)
            table.numbers[name] = array(held.typecode, filled.tobytes())
        if all(self.only_scores):
            right = np.frombuffer(table.numbers["correct"], np.int8)
            for name in ("answers", "keys"):
                words = np.array([table.numberings[name][word] for word in ("wrong", "right")], np.int32)
                codes = np.where(places.ravel() < self.paths, words[right], np.int32(NO_TEXT))
                table.codes[name] = array("i", codes.astype(np.int32).tobytes())
            table.only_scores = array("b", bytes(len(self)))
        slots = np.broadcast_to(used[columns], places.shape).astype(np.int64)
        table.numbers["slots"] = array("q", slots.tobytes())
        return table

    def _cells(self) -> tuple[IntArray, IntArray, IntArray] | None:
        """Return the place of each question's path of each column [n, K], the columns' slots, and all slots.

        A place past the last path is a path that the question lacks. None where no order has to be made.
        """
        slots, sizes = self.flat("slots"), self.sizes
        if slots is None or not sizes.size:
            return None
        slots = np.maximum(slots, 0)
        if not np.ptp(slots):
            return None
        if np.ptp(sizes) == 0 and not np.any(slots.reshape(len(self), -1) != slots[: sizes[0]]):
            return None
        rows = self.path_questions
        order = np.lexsort((slots, rows))
        used, own = np.unique(slots, return_inverse=True)
        cells = np.bincount(rows * used.size + own, minlength=len(self) * used.size)
        table, starts = cells.reshape(-1, used.size), (np.cumsum(cells) - cells).reshape(-1, used.size)
        most = table.max(axis=0)
        columns = np.repeat(np.arange(used.size), most)
        rank = np.arange(columns.size) - np.repeat(np.cumsum(most) - most, most)
        places = np.append(order, self.paths)[
            np.where(rank < table[:, columns], starts[:, columns] + rank, self.paths)
        ]
        return places, columns, used

    def as_scores(self) -> RecordedQuestions:
        """Return the table without its answers, of which nothing but the number is known."""
        table = self.without("keys")
        table.codes["answers"] = array("i", [NO_TEXT]) * self.paths
        table.only_scores, table.only_completions = array("b", [1]) * len(self), array("b", [0]) * len(self)
        return table

    def with_verdicts(self) -> RecordedQuestions:
        """Return the table with scores of 0 and 1 as right and wrong, where nothing but scores is known."""
        scores = self.flat("scores")
        if scores is None or "correct" in self.numbers or not all(self.only_scores):
            return self
        if not bool(np.all((scores == 0) | (scores == 1))):
            return self
        table = self.without("scores")
        table.numbers["correct"] = array("b", scores.astype(np.int8).tobytes())
        return table

    def without(self, *fields: str) -> RecordedQuestions:
        """Return a table that shares all columns but some with this one."""
        table = copy(self)
        table.codes = {name: codes for name, codes in self.codes.items() if name not in fields}
        table.numbers = {name: held for name, held in self.numbers.items() if name not in fields}
        return table

    def _paths_at(self, rows: IntArray, flat: IntArray, sizes: IntArray) -> RecordedQuestions:
        """Return some questions with some of their paths, ``flat`` in one row, ``sizes`` [n] of each."""
        table = RecordedQuestions(whole=self.whole)
        table.numberings, table.gold_values = self.numberings, self.gold_values
        ends = np.cumsum(sizes, dtype=np.int64)
        table.ends = array("q", ends.tobytes())
        for name in ("clusters", "parts", "golds", "only_scores", "only_completions", "id_hashes"):
            held = getattr(self, name)
            setattr(table, name, _values_at(held, rows))
        for source, target in ((self.codes, table.codes), (self.numbers, table.numbers)):
            for name, held in source.items():
                target[name] = _values_at(held, flat)
        chosen: list[int] = rows.tolist()
        for place, row in enumerate(chosen):
            table.ids.add(self.ids[row])
            if row in self.wordings:
                table.wordings[place] = self.wordings[row]
            if row in self.meta:
                table.meta[place] = self.meta[row]
            if row in self.texts:
                start = self.ends[row - 1] if row else 0
                own: list[int] = flat[table.ends[place] - int(sizes[place]) : table.ends[place]].tolist()
                table.texts[place] = tuple(self.texts[row][at - start] for at in own)
        return table

    @overload
    def __getitem__(self, index: int) -> Question: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Question]: ...
    def __getitem__(self, index: int | slice) -> Question | Sequence[Question]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(len(self))[index])
        place = range(len(self))[index]
        start, end = self.ends[place - 1] if place else 0, self.ends[place]
        lists: dict[str, Any] = {}
        for name, codes in self.codes.items():
            own = codes[start:end]
            if name == "answers" or (own and own[0] != NO_LIST):
                names = self.numberings[name].names
                lists[name] = tuple(None if code < 0 else names[code] for code in own)
        named: dict[str, object] = {}
        for name, column in self.numbers.items():
            own = column[start:end]
            if name not in NUMBERS:
                named |= {name: own.tolist()} if any(value == value for value in own) else {}
            elif own and own[0] != NUMBERS[name][1] and any(value == value for value in own):
                lists[name] = tuple(own)
        clusters, parts = self.numberings["clusters"].names, self.numberings["parts"].names
        gold = self.golds[place]
        return Question(
            id=self.ids[place],
            gold=None if gold < 0 else self.gold_values[gold],
            cluster="" if self.clusters[place] < 0 else clusters[self.clusters[place]],
            part="" if self.parts[place] < 0 else parts[self.parts[place]],
            question=self.wordings.get(place),
            texts=self.texts.get(place),
            form="scores" if self.only_scores[place] else "answers",
            meta={**self.meta.get(place, {}), **named},
            **lists,
        )


def _values_at(held: array[Any], places: IntArray) -> array[Any]:
    """Return the values at some places."""
    column = held[:0]
    column.frombytes(np.frombuffer(held, held.typecode)[places].tobytes())
    return column


def _confidences_of(question: Question, field: str) -> tuple[float, ...] | None:
    """Return a question's further confidences of one name; None where it has none."""
    given, size = question.meta.get(field), len(question.answers)
    if given is None:
        return None
    where = f"question {question.id!r}"
    if not is_array(given) or len(given) < size:
        raise LogError(f"{where}: {field} must be a list with a number for each path")
    return converted(where, field, given[:size], rating)
