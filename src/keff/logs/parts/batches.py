"""Questions by columns, a batch at a time: what plain rows hold, without an object for each path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keff.log import LISTED, NAMED, NoteSink, Question
from keff.logs.parts.tabled import PER_PATH, Row, model_of
from keff.logs.parts.values import MOST_COUNT, gold_of, is_missing, name_of, optional_text
from keff.records import frozen

# Lists that are read by columns, with the field of a question that each is; rows with others come singly.
SINGLY = {"all_scores", "branches"}
FIELDS = {"all_answers": "answers"} | {
    name: field for field, (name, _) in PER_PATH.items() if name not in {*SINGLY, "all_texts"}
}
TEXTS = ("all_answers", "all_keys", "all_rules")
# Lists that are found again where answers are read again.
READINGS = ("all_keys", "all_rules")
# The fields whose values are integers from 0, and the largest value of each.
WHOLE = {"correct": 1, "truncated": 1, "slots": MOST_COUNT}


@frozen
class ColumnBatch:
    """Questions [n] by columns.

    What has a value for each path is one flat array over all questions, by field of a question: ``numbers``,
    and ``texts`` as (codes, names), where code -1 is no text. ``clusters`` and ``models`` are "" for none.
    """

    ids: Sequence[str]
    sizes: NDArray[np.int64]
    golds: Sequence[object]
    clusters: Sequence[str]
    models: Sequence[str]
    wordings: Sequence[str | None]
    texts: Mapping[str, tuple[NDArray[Any], Sequence[str]]]
    numbers: Mapping[str, NDArray[Any]]


@frozen
class Batching:
    """How batches are read: the ``most`` paths of a question in one, longer ones come singly.

    Where answers are read ``again``, keys and rules are left out, and questions with texts come singly; so do
    those with verdicts where these are found again (``rescore``). ``share`` (i, m) is the i-th of m parts of
    what can be read apart, from 0.
    """

    most: int
    again: bool = False
    rescore: bool = False
    share: tuple[int, int] = (0, 1)

    @property
    def singly(self) -> set[str]:
        """The lists whose rows are read one by one."""
        return {*SINGLY, *(["all_texts"] if self.again else []), *(["all_correct"] if self.rescore else [])}


@runtime_checkable
class BatchedLog(Protocol):
    """A reader that yields questions by columns where they hold plain values, else one by one."""

    def batches(self, path: Path, how: Batching, tell: NoteSink) -> Iterator[ColumnBatch | Question]:
        """Yield the questions, without texts; see ``Log.questions``."""
        ...


def batch_of_rows(rows: Sequence[Row], how: Batching) -> ColumnBatch | None:
    """Return rows with lists by columns; None where a value needs a closer look.

    That is so for what is no list of plain values (or of another length than the answers), for a list that
    only some rows have, and for what is missing or no number where one is needed.
    """
    names = set[str]().union(*rows)
    given = {name for name in names if any(row.get(name) is not None for row in rows)}
    named = any(name.startswith((NAMED, LISTED)) for name in given)
    if named or how.singly & given or not {"id", "all_answers"} <= given:
        return None
    left_out = READINGS if how.again else ()
    lists: dict[str, list[Any]] = {
        name: [row.get(name) for row in rows] for name in FIELDS if name in given and name not in left_out
    }
    if any({*map(type, column)} != {list} for column in lists.values()):
        return None
    sizes = [np.fromiter(map(len, column), np.int64, len(rows)) for column in lists.values()]
    flat = {name: list(chain.from_iterable(column)) for name, column in lists.items()}
    fields = {FIELDS[name]: values for name, values in flat.items() if name not in TEXTS}
    once = {name: [row.get(name) for row in rows] for name in ("id", "gold_answer", "cluster", "question")}
    return batch_of(
        sizes,
        {FIELDS[name]: coded(values) for name, values in flat.items() if name in TEXTS},
        {field: numbers_of(field, values) for field, values in fields.items()},
        once | {"model": list(map(model_of, rows))},
        how.most,
    )


def batch_of(
    sizes: Sequence[NDArray[np.int64]],
    texts: Mapping[str, tuple[NDArray[Any], Sequence[str]] | None],
    numbers: Mapping[str, NDArray[Any] | None],
    once: Mapping[str, Sequence[object]],
    most: int,
) -> ColumnBatch | None:
    """Return a batch; None where a column is, where lists differ in length, and for what is no id or name.

    ``once`` are the columns with a value for each question.
    """
    if any(not np.array_equal(sizes[0], other) for other in sizes) or int(sizes[0].max(initial=0)) > most:
        return None
    ids, clusters = _names(once["id"]), _names(once["cluster"])
    unclear = any(each is None for each in (*texts.values(), *numbers.values()))
    if ids is None or clusters is None or unclear or not all(ids):
        return None
    return ColumnBatch(
        ids=ids,
        sizes=sizes[0],
        golds=list(map(gold_of, once["gold_answer"])),
        clusters=clusters,
        models=[optional_text(model) or "" for model in once["model"]],
        wordings=list(map(optional_text, once["question"])),
        texts={name: column for name, column in texts.items() if column is not None},
        numbers={name: column for name, column in numbers.items() if column is not None},
    )


def coded(values: Sequence[Any]) -> tuple[NDArray[Any], Sequence[str]] | None:
    """Return texts or integers as codes and names; None for other values."""
    if not {*map(type, values)} <= {str, int, NoneType}:
        return None
    names = {value: place for place, value in enumerate(dict.fromkeys(values))}
    codes = np.fromiter(map(names.__getitem__, values), np.int64, len(values))
    return codes, [optional_text(value) or "" for value in names]


def numbers_of(field: str, values: Sequence[Any]) -> NDArray[Any] | None:
    """Return numbers, NaN where missing; None for what has to be converted, or refused with its place."""
    kinds = {*map(type, values)}
    if field in WHOLE:
        whole = np.array(values, np.int64) if kinds <= {int, bool} else None
        return whole if whole is not None and in_range(field, whole) else None
    if not kinds <= {int, float, NoneType}:
        return None
    column = np.array(values, np.float64)  # None becomes NaN
    return column if in_range(field, column) else None


def in_range(field: str, values: NDArray[Any]) -> bool:
    """Return whether all numbers of a field may be so."""
    known = values[~np.isnan(values)]
    if not known.size or field == "confidences":
        return not bool(np.any(np.isinf(known)))
    return known.min() >= 0 and known.max() <= WHOLE.get(field, MOST_COUNT)


def _names(values: Sequence[object]) -> list[str] | None:
    """Return ids or names as text, "" for none; None where one is no name."""
    try:
        return ["" if is_missing(value) else name_of(value) for value in values]
    except ValueError:
        return None
