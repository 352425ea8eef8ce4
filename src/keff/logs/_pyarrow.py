# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false
"""Rows of a Parquet file, in and out, in batches; loaded only when one is read or written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

FAILURES = (pyarrow.ArrowException, OSError)
BATCH = 32

_TEXTS = pyarrow.list_(pyarrow.string())
_NUMBERS = pyarrow.list_(pyarrow.float64())
_WHOLE = pyarrow.list_(pyarrow.int64())
_COLUMNS = {
    "id": pyarrow.string(),
    "question": pyarrow.string(),
    "gold_answer": pyarrow.string(),
    "cluster": pyarrow.string(),
    "all_answers": _TEXTS,
    "all_keys": _TEXTS,
    "all_correct": _WHOLE,
    "all_tokens": _NUMBERS,
    "all_confidences": _NUMBERS,
    "all_rules": _TEXTS,
    "all_texts": _TEXTS,
    "all_truncated": _WHOLE,
    "slots": _WHOLE,
    "task": pyarrow.string(),
    "answer_space": pyarrow.string(),
    "model": pyarrow.string(),
    "meta": pyarrow.string(),
}


def columns(path: Path) -> list[str]:
    """Return the names of the columns."""
    with pyarrow.parquet.ParquetFile(path) as file:
        return list(file.schema_arrow.names)


def stream(path: Path, names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield rows with the named columns, so that memory does not grow with the file."""
    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH, columns=names):
            yield from batch.to_pylist()


def write(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows of the JSONL form; returns how many. Text that is no gold answer stays null."""
    schema = pyarrow.schema(list(_COLUMNS.items()))
    pending, total = iter(rows), 0
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        while batch := list(islice(pending, BATCH)):
            table = [{name: row.get(name) for name in _COLUMNS} for row in batch]
            writer.write_table(pyarrow.Table.from_pylist(table, schema))
            total += len(batch)
    return total
