"""Data frames in long form, one row per path: pandas, polars and others, through narwhals."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw

from keff.errors import UsageError
from keff.log import LogInfo, Question
from keff.logs.parts.columns import lay_out
from keff.reading.arrays import PER_PATH, PER_QUESTION, questions_of
from keff.records import Note

Cells = Sequence[object]
WORDS = ("answer", "model", *PER_QUESTION, *PER_PATH)


def frame_questions(
    native: object, columns: Mapping[str, str]
) -> tuple[list[Question], LogInfo, tuple[Note, ...]]:
    """Return the questions of a frame, the model that it names, and what was taken by obvious names.

    ``columns`` maps words to its column names; other words are found as in a log's table. Rows of one
    question need not stand together, and its paths keep their order; a frame with numbered columns
    (answer_1, answer_2, ...) has one row per question. Raises UsageError for a column that is not there, for
    values that differ within a question, and for several models.
    """
    frame = _frame(native)
    layout = lay_out([str(name) for name in frame.columns], columns, say="")
    if isinstance(layout, str):
        raise UsageError(f"the frame: {layout}")
    cells = {word: _known(frame.get_column(name)) for word, name in layout.single.items() if word in WORDS}
    wide = {
        word: list(zip(*(_known(frame.get_column(name)) for name in names), strict=True))
        for word, names in layout.numbered.items()
        if word in WORDS
    }
    info = LogInfo(model=_only_model(cells.pop("model", ())))
    if wide:
        single = {word: values for word, values in cells.items() if word in PER_QUESTION}
        return _questions({**single, **wide}), info, layout.notes
    return _questions(_gathered(cells)), info, layout.notes


def _gathered(cells: dict[str, Cells]) -> dict[str, object]:
    """Gather rows of one path each by their question."""
    places: dict[str, list[int]] = {}
    for row, name in enumerate(cells["id"]):
        places.setdefault(str(name), []).append(row)
    data: dict[str, object] = {}
    for word, values in cells.items():
        if word in PER_QUESTION:
            data[word] = [_same(word, [values[row] for row in rows]) for rows in places.values()]
        else:
            data[word] = [[values[row] for row in rows] for rows in places.values()]
    return data


def _frame(native: object) -> nw.DataFrame[Any]:
    frame = nw.from_native(native, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        raise UsageError(f"a {type(native).__name__} is no data frame that narwhals knows")
    return frame


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
