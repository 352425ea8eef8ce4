"""Data frames in long form, one row per path: pandas, polars and others, through narwhals."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np

from keff.errors import UsageError
from keff.log import LISTED, NAMED, LogInfo, Question
from keff.logs.parts.columns import OBVIOUS, lay_out
from keff.logs.parts.tabled import tabled
from keff.records import Note


def frame_questions(
    native: object, columns: Mapping[str, str]
) -> tuple[list[Question], LogInfo, tuple[Note, ...]]:
    """Return a frame's questions, the model it names, and notes on recognised columns.

    ``columns`` maps words to its column names; other words are found as in a log's table, and mean the same.
    Rows of one question need not stand together, and its paths keep their order; a frame with lists or with
    numbered columns (answer_1, answer_2, ...) has one row per question. Of correctness alone a missing value
    is a path that was not drawn. Raises UsageError for a column that is not there and for several models,
    LogError for values that do not fit.
    """
    frame = _frame(native)
    names = [str(name) for name in frame.columns]
    layout = lay_out(names, columns, say="")
    if isinstance(layout, str):
        raise UsageError(f"the frame: {layout}")
    cells = {
        name: _column_values(frame.get_column(name))
        for name in names
        if name in layout.used
        or name.startswith((NAMED, LISTED))
        or name.strip().lower() in OBVIOUS["question"]
    }
    single = dict(layout.single)
    info = LogInfo(model=_only_model(cells.get(single.pop("model", ""), ())))
    held = (dict(zip(cells, values, strict=True)) for values in zip(*cells.values(), strict=True))
    rows = [(f"the frame: row {number}", row) for number, row in enumerate(held, 1)]
    right = single.get("correct")
    if right is not None and not {"answer", "text"} & {*single, *layout.numbered}:
        rows = [pair for pair in rows if pair[1][right] is not None]
    order: dict[str, int] = {}
    rows.sort(key=lambda pair: order.setdefault(str(pair[1][single["id"]]), len(order)))
    heard: list[Note] = []
    questions = list(tabled(lambda: rows, replace(layout, single=single), texts=True, tell=heard.append))
    return questions, info, (*layout.notes, *heard)


def _frame(native: object) -> nw.DataFrame[Any]:
    frame = nw.from_native(native, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        raise UsageError(f"a {type(native).__name__} is not a data frame that narwhals knows")
    return frame


def _column_values(column: nw.Series[Any]) -> list[object]:
    values, missing = column.to_list(), column.is_null().to_list()
    # pandas reads lists of a Parquet file as arrays.
    plain = (value.tolist() if isinstance(value, np.ndarray) else value for value in values)
    return [None if void else value for value, void in zip(plain, missing, strict=True)]


def _only_model(values: Sequence[object]) -> str | None:
    names = sorted({str(value) for value in values if value is not None})
    if len(names) > 1:
        raise UsageError(
            f"the frame holds several models ({', '.join(names)}): give the rows of one at a time"
        )
    return names[0] if names else None
