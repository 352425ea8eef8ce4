# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false
"""Rows of a Parquet file, in and out, in batches; loaded only when one is read or written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import pyarrow
import pyarrow.parquet

from keff.errors import LogError

FAILURES = (pyarrow.ArrowException, OSError, UnicodeDecodeError)
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
    "all_prompt_tokens": _NUMBERS,
    "all_cached_tokens": _NUMBERS,
    "all_seconds": _NUMBERS,
    "all_confidences": _NUMBERS,
    "all_rules": _TEXTS,
    "all_texts": _TEXTS,
    "all_truncated": _WHOLE,
    "slots": _WHOLE,
    "branches": _TEXTS,
    "task": pyarrow.string(),
    "answer_space": pyarrow.string(),
    "model": pyarrow.string(),
    "meta": pyarrow.string(),
}


_VOTES = {
    "id": pyarrow.string(),
    "answer": pyarrow.string(),
    "key": pyarrow.string(),
    "votes": pyarrow.int64(),
    "paths": pyarrow.int64(),
    "share": pyarrow.float64(),
    "tied": pyarrow.bool_(),
    "gold_answer": pyarrow.string(),
    "correct": pyarrow.float64(),
}

MOST_RATIO = 200
# A row group that claims more unpacked bytes than these (times the size of the file) is a bomb.
SMALL = 64 * 2**20


def check(path: Path) -> None:
    """Raise LogError for a file whose row groups claim to unpack to far more than its size."""
    # Only of row groups: pyarrow ends the whole process where the statistics of a column are damaged.
    most = max(SMALL, MOST_RATIO * path.stat().st_size)
    with pyarrow.parquet.ParquetFile(path) as file:
        about = file.metadata
        sizes = [about.row_group(group).total_byte_size for group in range(about.num_row_groups)]
    if any(size > most for size in sizes):
        raise LogError(f"{path}: it claims to unpack to far more than its size: not read")


def columns(path: Path) -> list[str]:
    """Return the names of the columns."""
    with pyarrow.parquet.ParquetFile(path) as file:
        return list(file.schema_arrow.names)


def stream(path: Path, names: list[str]) -> Iterator[dict[str, object]]:
    """Yield rows with the named columns, so that memory does not grow with the file."""
    with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
        for batch in file.iter_batches(BATCH, columns=names):
            yield from batch.to_pylist()


def write(path: Path, rows: Iterable[dict[str, object]], *, votes: bool = False) -> int:
    """Write rows of the JSONL form, or of votes; returns how many. A gold answer that is no text is null."""
    columns = _VOTES if votes else _COLUMNS
    schema = pyarrow.schema(list(columns.items()))
    pending, total = iter(rows), 0
    # A checksum per page: without it a changed byte is another answer.
    with pyarrow.parquet.ParquetWriter(path, schema, write_page_checksum=True) as writer:
        while batch := list(islice(pending, BATCH)):
            table = [{name: row.get(name) for name in columns} for row in batch]
            writer.write_table(pyarrow.Table.from_pylist(table, schema))
            total += len(batch)
    return total
