# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false, reportUnknownParameterType=false
# pyright: reportUnknownLambdaType=false, reportAttributeAccessIssue=false
"""A whole Parquet file of questions with lists by columns; loaded only when one is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet
from numpy.typing import NDArray

from keff.log import Question
from keff.logs._bulk import LISTS, OTHERS, TEXTS, Bulk, RowColumns
from keff.logs._coding import NotPlainError, Texts
from keff.logs._rows import KNOWN, by_model, question_of, unpacked

BATCH = 16_384
NAMES = ("id", "gold_answer", "cluster", "model")
# Columns that no vote needs.
LONG = frozenset({"all_texts", "all_truncated", "question"})


def bulk(path: Path) -> Bulk:
    """Return the columns of a file; raises NotPlainError where it must be read row by row.

    Arrow tells strings apart, so each distinct one of a batch becomes an object once.
    """
    columns = ArrowColumns()
    with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
        there = list(file.schema_arrow.names)
        columns.has_texts = "all_texts" in there
        names = [name for name in there if (name in KNOWN or name == "meta") and name not in LONG]
        for batch in file.iter_batches(BATCH, columns=names):
            columns.add_batch({name: batch.column(name) for name in names})
        about = file.metadata
        ends = np.cumsum([about.row_group(group).num_rows for group in range(about.num_row_groups)])
    return columns.done(lambda row: _question(path, row, ends))


class ArrowColumns(RowColumns):
    """Gathers the columns of batches of Arrow arrays."""

    def add_batch(self, batch: Mapping[str, pyarrow.Array]) -> None:
        """Append a batch; raises NotPlainError where a column is of another type than an export writes."""
        given = {name: column for name, column in batch.items() if column.null_count < len(column)}
        _refuse_packed(given.pop("meta", None))
        lists = frozenset(name for name in LISTS if name in given)
        if self.lists is None:
            self.lists = lists
        if lists != self.lists or OTHERS & given.keys() or "all_answers" not in lists:
            raise NotPlainError
        rows = [given[name].to_pylist() if name in given else [None] * len(batch["id"]) for name in NAMES]
        self.add_names(
            [dict(zip(NAMES, row, strict=True)) for row in zip(*rows, strict=True)], given.keys() & NAMES
        )
        sizes = {name: _sizes(given[name]) for name in lists}
        if any(not np.array_equal(own, sizes["all_answers"]) for own in sizes.values()):
            raise NotPlainError
        self.sizes.append(sizes["all_answers"])
        for name in lists:
            self._add_flat(name, given[name].flatten())

    def _add_flat(self, column: str, values: pyarrow.Array) -> None:
        texts = {known: self.texts[name] for name, known in TEXTS.items()}
        if column in texts and pyarrow.types.is_string(values.type):
            _add_coded(texts[column], values.dictionary_encode())
        else:
            self.add_lists(column, [values.to_pylist()])


def _add_coded(texts: Texts, coded: pyarrow.DictionaryArray) -> None:
    known = [texts.numbers[text] for text in coded.dictionary.to_pylist()]
    places = coded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
    texts.parts.append(np.array([*known, -1], np.int32)[places])


def _sizes(column: pyarrow.Array) -> NDArray[np.int64]:
    """Return the lengths of lists; raises NotPlainError for a column of anything else."""
    if not pyarrow.types.is_list(column.type) or column.null_count:
        raise NotPlainError
    return pyarrow.compute.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)


def _refuse_packed(meta: pyarrow.Array | None) -> None:
    """Raise NotPlainError where what an export packed may stand for a column."""
    if meta is None:
        return
    if not pyarrow.types.is_string(meta.type):
        raise NotPlainError
    known = pyarrow.compute.match_substring_regex(meta, f'"({"|".join(sorted(KNOWN))})"')
    if pyarrow.compute.any(known).as_py():
        raise NotPlainError


def _question(path: Path, row: int, ends: NDArray[np.int64]) -> Question:
    """Return one question, read again with its row group."""
    group = int(np.searchsorted(ends, row, side="right"))
    start = int(ends[group - 1]) if group else 0
    with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
        names = [name for name in file.schema_arrow.names if name != "all_texts"]
        (only,) = file.read_row_group(group, columns=names).slice(row - start, 1).to_pylist()
    return by_model(question_of(f"{path}: row {row + 1}", unpacked(only)), only)
