# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false, reportUnknownParameterType=false
# pyright: reportUnknownLambdaType=false, reportAttributeAccessIssue=false
"""Parquet reading and writing in batches; imported only when used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.fs
import pyarrow.parquet
from numpy.typing import NDArray

from keff.errors import LogError
from keff.log import LISTED, NAMED, Question, Tell, address, shown
from keff.logs.parquet import matching, reason_of
from keff.logs.parts.bulk import CODED, NAMES, NUMBERS, TEXTS, Bulk, ColumnOptions, Reread, RowColumns
from keff.logs.parts.coding import NotPlainError
from keff.logs.parts.tabled import KNOWN, by_model, question_of, unpacked
from keff.records import frozen

# Rows whose columns are read at once: this bounds the memory of a batch, some megabytes for 8 answers a row.
COLUMN_BATCH = 16_384
# Columns that no vote needs.
LONG = frozenset({"all_texts", "all_truncated", "question"})


@frozen
class _ParquetFile:
    """One Parquet file of a record, local or in an object store, with its time of change.

    ``name`` is shown: its address, where ``path`` is only the way on its ``disk``.
    """

    name: str
    path: str
    size: int
    changed: int
    disk: pyarrow.fs.FileSystem = field(compare=False)

    def open(self) -> pyarrow.parquet.ParquetFile:
        """Open the file, with page checksums verified where present.

        One on a local disk is read 64 KiB at a time: whole columns are worth their memory only far away.
        """
        local = isinstance(self.disk, pyarrow.fs.LocalFileSystem)
        return pyarrow.parquet.ParquetFile(
            self.disk.open_input_file(self.path),
            pre_buffer=not local,
            buffer_size=2**16 * local,
            page_checksum_verification=True,
        )


def _files(path: Path) -> list[_ParquetFile]:
    """Return the files of a record in order of name; raises LogError where none can be read."""
    url, disk, names = address(path), pyarrow.fs.LocalFileSystem(), [str(each) for each in matching(path)]
    store = ""
    try:
        if url is not None:
            store = url[: url.index("/") + 2]
            disk, name = pyarrow.fs.FileSystem.from_uri(url)
            names = [name]
            if disk.get_file_info(name).type is pyarrow.fs.FileType.Directory:
                names = pyarrow.fs.FileSelector(name, recursive=True)
        found = [each for each in disk.get_file_info(names) if each.is_file]
    except FAILURES as error:
        raise LogError(f"{shown(path)} cannot be read: {reason_of(error)}") from None
    found = found if len(found) == 1 else [each for each in found if each.path.endswith(".parquet")]
    if not found:
        raise LogError(
            f"{shown(path)}: there is no Parquet file (patterns in quotes and addresses are for these)"
        )
    files = (
        _ParquetFile(store + each.path, each.path, each.size, each.mtime_ns or 0, disk) for each in found
    )
    return sorted(files, key=lambda each: each.name)


def parts(path: Path, how: ColumnOptions, share: tuple[int, int]) -> Iterator[Bulk]:
    """Yield a record's columns in parts; raises NotPlainError where it must be read by rows.

    Of ``share`` (i, m) the row groups of the i-th of m parts in a row, from 0. Arrow tells strings apart, so
    each distinct one of a batch becomes an object once; texts are read from few rows at a time.
    """
    groups, (own, of) = row_groups(path), share
    ends = np.cumsum([size for _, _, size in groups])

    def question(row: int) -> Question:
        at = int(np.searchsorted(ends, row, side="right"))
        each, group, size = groups[at]
        return _question(each, group, row - int(ends[at]) + size, how.read is not None)

    columns = ArrowColumns(how.read)
    mine = groups[len(groups) * own // of : len(groups) * (own + 1) // of]
    for each, members in groupby(mine, key=itemgetter(0)):
        with each.open() as file:
            there = list(file.schema_arrow.names)
            by_rows = how.read is not None and "all_texts" in there
            without = set() if by_rows else LONG if how.read is None else LONG | {"all_keys", "all_rules"}
            known = {*KNOWN, "meta"} - without
            names = [name for name in there if name in known or name.startswith((NAMED, LISTED))]
            size = BATCH if by_rows else COLUMN_BATCH
            for batch in _batches(each, file, size, names, [group for _, group, _ in members]):
                if columns.enough(how.most):
                    yield columns.part(question)
                if by_rows:
                    columns.add([unpacked(row) for row in batch.to_pylist()])
                else:
                    columns.add_batch({name: batch.column(name) for name in names})
    yield columns.part(question, last=True)


def _batches(
    each: _ParquetFile,
    file: pyarrow.parquet.ParquetFile,
    size: int,
    names: list[str],
    groups: list[int] | None = None,
) -> Iterator[pyarrow.RecordBatch]:
    """Yield a file's batches; raises LogError that names a damaged file."""
    try:
        yield from file.iter_batches(size, groups, names)
    except OSError as error:
        raise LogError(f"{each.name} is damaged ({reason_of(error)}): write the file again") from None


class ArrowColumns(RowColumns):
    """Builds columns from batches of Arrow arrays."""

    def add_batch(self, batch: Mapping[str, pyarrow.Array]) -> None:
        """Append a batch; raises NotPlainError for columns of unexpected type."""
        given = {name: column for name, column in batch.items() if column.null_count < len(column)}
        _refuse_packed(given.pop("meta", None))
        lists = self.lists_of(given)
        self.add_names({name: given[name].to_pylist() for name in NAMES if name in given}, len(batch["id"]))
        self.add_sizes(*(_sizes(given[name]) for name in lists))
        for name in lists:
            self._add_flat(name, given[name].flatten())

    def _add_flat(self, column: str, values: pyarrow.Array) -> None:
        if column in self.texts and pyarrow.types.is_string(values.type):
            coded, texts = values.dictionary_encode("encode"), self.texts[column]
            known = [-1 if text is None else texts.numbers[text] for text in coded.dictionary.to_pylist()]
            texts.parts.append(np.array(known, np.int32)[_integers(coded.indices)])
        else:
            self.add_lists(column, [values.to_pylist()])


def _integers(values: pyarrow.Array) -> NDArray[np.int64]:
    """Return integers without nulls; Arrow's own way imports pandas where it is installed, for a second."""
    return np.from_dlpack(values).astype(np.int64)


def _sizes(column: pyarrow.Array) -> NDArray[np.int64]:
    """Return the lengths of lists; raises NotPlainError for a column of another type."""
    if not pyarrow.types.is_list(column.type) or column.null_count:
        raise NotPlainError
    return _integers(pyarrow.compute.list_value_length(column))


def _refuse_packed(meta: pyarrow.Array | None) -> None:
    """Raise NotPlainError where packed metadata holds a field that should be a column."""
    if meta is None:
        return
    if not pyarrow.types.is_string(meta.type):
        raise NotPlainError
    known = f'"(({"|".join(sorted(KNOWN))})"|{NAMED}|{LISTED})'
    found = pyarrow.compute.match_substring_regex(meta, known)
    if pyarrow.compute.any(found).as_py():
        raise NotPlainError


@lru_cache(maxsize=1)
def _row_group(each: _ParquetFile, group: int, texts: bool) -> Reread[pyarrow.RecordBatch]:
    """Return the batches of one row group of a file, of few rows where ``texts`` are among them."""

    def batches(_: Tell) -> Iterator[pyarrow.RecordBatch]:
        with each.open() as file:
            names = [name for name in file.schema_arrow.names if texts or name != "all_texts"]
            yield from _batches(each, file, BATCH if texts else COLUMN_BATCH, names, [group])

    return Reread(batches)


def _question(each: _ParquetFile, group: int, row: int, texts: bool) -> Question:
    """Return one question, read from its batch."""
    number, place = divmod(row, BATCH if texts else COLUMN_BATCH)
    (only,) = _row_group(each, group, texts).question(number).slice(place, 1).to_pylist()
    where = f"{each.name}: row group {group + 1}"
    return by_model(question_of(where, unpacked(only), texts=texts), only)


FAILURES = (pyarrow.ArrowException, OSError, UnicodeDecodeError)
# Rows that are read whole, texts included: few, for one text may be long.
BATCH = 32

_TEXT = pyarrow.string()
_COLUMNS = {
    **dict.fromkeys(("id", "question", "gold_answer", "cluster", "task", "answer_space", "model"), _TEXT),
    **dict.fromkeys((*TEXTS.values(), "all_texts", "branches"), pyarrow.list_(_TEXT)),
    **dict.fromkeys((*CODED.values(), "all_truncated"), pyarrow.list_(pyarrow.int64())),
    **dict.fromkeys((*NUMBERS.values(), "all_scores"), pyarrow.list_(pyarrow.float64())),
    "meta": _TEXT,
}
_VOTES = {
    **dict.fromkeys(("id", "answer", "key", "gold_answer"), _TEXT),
    **dict.fromkeys(("votes", "paths"), pyarrow.int64()),
    **dict.fromkeys(("share", "correct"), pyarrow.float64()),
    "tied": pyarrow.bool_(),
}

# A part that unpacks to more times its size is taken for a decompression bomb.
MOST_RATIO = 200
# A row group that claims more unpacked bytes than these (times the size of the file) is a bomb.
SMALL = 64 * 2**20


def row_groups(path: Path) -> list[tuple[_ParquetFile, int, int]]:
    """Return a record's non-empty row groups: file, number within it, and rows.

    Raises LogError for a file whose row groups claim to unpack to far more than its size.
    """
    found: list[tuple[_ParquetFile, int, int]] = []
    # Only of row groups: pyarrow ends the whole process where the statistics of a column are damaged.
    for each in _files(path):
        with each.open() as file:
            groups = [file.metadata.row_group(group) for group in range(file.num_row_groups)]
            if any(group.total_byte_size > max(SMALL, MOST_RATIO * each.size) for group in groups):
                raise LogError(f"{each.name}: it claims to unpack to far more than its size: not read")
            found += [(each, number, group.num_rows) for number, group in enumerate(groups) if group.num_rows]
    return found


def columns(path: Path) -> list[str]:
    """Return the column names; of several files, the first's."""
    with _files(path)[0].open() as file:
        return list(file.schema_arrow.names)


def stream(path: Path, names: list[str]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield (place, row) with the named columns, in bounded memory."""
    for each in _files(path):
        with each.open() as file:
            rows = chain.from_iterable(batch.to_pylist() for batch in _batches(each, file, BATCH, names))
            yield from ((f"{each.name}: row {number}", row) for number, row in enumerate(rows, 1))


def write(path: Path, rows: Iterable[dict[str, object]], *, votes: bool = False) -> None:
    """Write rows of the JSONL form, or votes; non-text gold answers become null."""
    columns = _VOTES if votes else _COLUMNS
    schema = pyarrow.schema(list(columns.items()))
    pending = iter(rows)
    # A checksum per page: without it a changed byte is another answer.
    with pyarrow.parquet.ParquetWriter(path, schema, write_page_checksum=True) as writer:
        while batch := list(islice(pending, BATCH)):
            table = [{name: row.get(name) for name in columns} for row in batch]
            writer.write_table(pyarrow.Table.from_pylist(table, schema))
