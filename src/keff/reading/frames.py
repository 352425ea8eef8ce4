"""Data frames in long form, one row per path: pandas, polars and others, through narwhals."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw

from keff.errors import UsageError
from keff.log import LogInfo, Question
from keff.reading.arrays import PER_PATH, PER_QUESTION, questions_of

Cells = Sequence[object]
WORDS = ("answer", "model", *PER_QUESTION, *PER_PATH)
FORMS = ("answer", "correct", "text")
"""What a path may be known by: its answer, else its correctness, else the text to read it from."""


def frame_questions(native: object, columns: Mapping[str, str]) -> tuple[list[Question], LogInfo]:
    """Return the questions of a frame, and the model that it names.

    ``columns`` maps words to its column names; for other words a column of the word's own name is taken.
    Rows of one question need not stand together, and its paths keep their order. Raises UsageError for a
    column that is not there, for values that differ within a question, and for several models.
    """
    cells = _cells(native, columns)
    places: dict[str, list[int]] = {}
    for row, name in enumerate(cells["id"]):
        places.setdefault(str(name), []).append(row)
    model = _only_model(cells.pop("model", ()))
    data: dict[str, object] = {}
    for word, values in cells.items():
        if word in PER_QUESTION:
            data[word] = [_same(word, [values[row] for row in rows]) for rows in places.values()]
        else:
            data[word] = [[values[row] for row in rows] for rows in places.values()]
    return _questions(data), LogInfo(model=model)


def _cells(native: object, columns: Mapping[str, str]) -> dict[str, Cells]:
    """Return the columns of a frame by word; what it marks as missing is None."""
    frame = nw.from_native(native, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        raise UsageError(f"a {type(native).__name__} is no data frame that narwhals knows")
    has = ", ".join(map(str, frame.columns))
    for word, name in columns.items():
        if name not in frame.columns:
            raise UsageError(f"the frame has no column {name!r} for {word}: it has {has}")
    named = {word: columns.get(word, word) for word in WORDS}
    present = {word: name for word, name in named.items() if name in frame.columns}
    if "id" not in present or not any(word in present for word in FORMS):
        lacking = "id" if "id" not in present else "answer"
        raise UsageError(
            f"the frame has no column {lacking!r}, and none is named for it ({lacking}=...): it has {has}"
        )
    return {word: _known(frame.get_column(name)) for word, name in present.items()}


def _known(column: nw.Series[Any]) -> Cells:
    values, missing = column.to_list(), column.is_null().to_list()
    return [None if void else value for value, void in zip(values, missing, strict=True)]


def _only_model(values: Cells) -> str | None:
    names = sorted({str(value) for value in values if value is not None})
    if len(names) > 1:
        raise UsageError(
            f"the frame holds several models ({', '.join(names)}): give the rows of one at a time"
        )
    return names[0] if names else None


def _same(word: str, values: Cells) -> object:
    if any(value != values[0] for value in values):
        raise UsageError(f"{word} differs between rows of one question: {values[0]!r} and others")
    return values[0]


def _questions(data: dict[str, object]) -> list[Question]:
    """Return questions of answers, else of correctness alone, else of whole texts."""
    if "answer" in data:
        return questions_of(data.pop("answer"), {"gold_answer": None, **data})
    if "correct" in data:
        return questions_of(
            data.pop("correct"), {word: values for word, values in data.items() if word != "gold_answer"}
        )
    questions = questions_of(data["text"], {"gold_answer": None, **data})
    return [replace(question, form="completions") for question in questions]
