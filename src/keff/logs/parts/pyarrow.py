# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false, reportUnknownParameterType=false
# pyright: reportUnknownLambdaType=false, reportAttributeAccessIssue=false
"""Parquet reading and writing in batches; imported only when used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.fs
import pyarrow.parquet
from numpy.typing import NDArray

from keff.errors import LogError
from keff.log import LISTED, NAMED, Question, address, path_text
from keff.logs.parquet import matching, reason_of
from keff.logs.parts.batches import (
    FIELDS,
    READINGS,
    SINGLY,
    TEXTS,
    WHOLE,
    Batching,
    ColumnBatch,
    batch_of,
    in_range,
)
from keff.logs.parts.tabled import KNOWN, model_of, question_of, unpacked
from keff.logs.parts.values import optional_text
from keff.records import frozen

# Metadata of a file are read whole, at every opening, and slowly.
MOST_METADATA = 2**24
# Rows whose columns are read at once: this bounds the memory of a batch, some megabytes for 8 answers a row.
COLUMN_BATCH = 16_384
# Questions' texts of at most so many bytes are read with the answers.
MOST_WORDINGS = 2**28
NUMBERS = ("all_tokens", "all_prompt_tokens", "all_cached_tokens", "all_seconds", "all_confidences")
# Columns with a value for each question.
ONCE = ("id", "gold_answer", "cluster", "model", "question")


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
        """Open the file, with page checksums verified where present; raises LogError for huge metadata.

        One on a local disk is read 64 KiB at a time: whole columns are worth their memory only far away.
        """
        local = isinstance(self.disk, pyarrow.fs.LocalFileSystem)
        file = self.disk.open_input_file(self.path)
        file.seek(max(self.size - 8, 0))
        size = int.from_bytes(file.read(4), "little")
        if MOST_METADATA < size < self.size:
            raise LogError(
                f"{self.name}: its metadata has {size / 2**20:.0f} MiB, and at most "
                f"{MOST_METADATA // 2**20} MiB are read: write it with fewer columns and larger row groups"
            )
        return pyarrow.parquet.ParquetFile(
            file,
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
        raise LogError(f"{path_text(path)} cannot be read: {reason_of(error)}") from None
    found = found if len(found) == 1 else [each for each in found if each.path.endswith(".parquet")]
    if not found:
        raise LogError(
            f"{path_text(path)}: there is no Parquet file (only these take a pattern or an address)"
        )
    files = (
        _ParquetFile(store + each.path, each.path, each.size, each.mtime_ns or 0, disk) for each in found
    )
    return sorted(files, key=lambda each: each.name)


def questions(path: Path, how: Batching) -> Iterator[ColumnBatch | Question]:
    """Yield a record's questions by columns, in batches; see ``BatchedLog``."""
    groups, (own, of) = row_groups(path), how.share
    mine = groups[len(groups) * own // of : len(groups) * (own + 1) // of]
    for each, members in groupby(mine, key=itemgetter(0)):
        with each.open() as file:
            numbers = [group for _, group, _ in members]
            number = sum(file.metadata.row_group(group).num_rows for group in range(numbers[0]))
            singly = bool(how.singly & {*file.schema_arrow.names})
            left_out = () if singly and how.again else ("all_texts",)
            known = {*KNOWN, "meta"} - {*left_out, *(READINGS if how.again else ())}
            if _unpacked_size(file, "question", numbers) > MOST_WORDINGS:
                known.discard("question")
            names = [
                name for name in file.schema_arrow.names if name in known or name.startswith((NAMED, LISTED))
            ]
            size = BATCH if "all_texts" in names else COLUMN_BATCH
            for batch in _batches(each, file, size, names, numbers):
                if not singly and (columns := _by_columns(batch, how.most)) is not None:
                    yield columns
                else:
                    for place, row in enumerate(batch.to_pylist(), number + 1):
                        where = f"{each.name}: row {place}"
                        yield question_of(where, unpacked(row), texts=how.again, part=model_of(row))
                number += len(batch)


def _unpacked_size(file: pyarrow.parquet.ParquetFile, column: str, groups: Sequence[int]) -> int:
    """Return the unpacked bytes of a column in some row groups; 0 where there is none."""
    if column not in file.schema_arrow.names:
        return 0
    chunks = (
        group.column(place)
        for group in map(file.metadata.row_group, groups)
        for place in range(group.num_columns)
    )
    return sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema == column)


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


_TYPES = pyarrow.types


def _by_columns(batch: pyarrow.RecordBatch, most: int) -> ColumnBatch | None:
    """Return the questions of a batch by columns; None where a value needs a closer look.

    That is so for what is no list of plain values (or of another length than the answers), for what is
    missing or no number where one is needed, and for questions of more than ``most`` paths.
    """
    given = {name: batch.column(name) for name in batch.schema.names}
    given = {name: values for name, values in given.items() if values.null_count < len(values)}
    lists = {name: given.pop(name) for name in FIELDS if name in given}
    plain = all(name in KNOWN - SINGLY or name == "meta" for name in given) and _plain_meta(given.get("meta"))
    if "id" not in given or "all_answers" not in lists or not plain:
        return None
    if not all(map(_is_plain_list, lists.values())):
        return None
    flat = {name: values.flatten() for name, values in lists.items()}
    return batch_of(
        [_integers(pyarrow.compute.list_value_length(values)) for values in lists.values()],
        {FIELDS[name]: _codes_and_names(values) for name, values in flat.items() if name in TEXTS},
        {FIELDS[name]: _numbers(FIELDS[name], values) for name, values in flat.items() if name not in TEXTS},
        {name: given[name].to_pylist() if name in given else [None] * len(batch) for name in ONCE},
        most,
    )


def _is_plain_list(values: pyarrow.Array) -> bool:
    kind = values.type
    return (_TYPES.is_list(kind) or _TYPES.is_large_list(kind)) and not values.null_count


def _is_text(kind: pyarrow.DataType) -> bool:
    return _TYPES.is_string(kind) or _TYPES.is_large_string(kind)


def _codes_and_names(flat: pyarrow.Array) -> tuple[NDArray[Any], Sequence[str]] | None:
    """Return texts or integers as codes and names, as ``coded`` does; None for other values."""
    if _TYPES.is_dictionary(flat.type):
        flat = flat.dictionary_decode()
    if _TYPES.is_null(flat.type):
        return np.full(len(flat), -1, np.int32), ()
    if not (_is_text(flat.type) or _TYPES.is_integer(flat.type)):
        return None
    coded = flat.dictionary_encode("encode")  # what is missing has a name too
    return _integers(coded.indices), [optional_text(each) or "" for each in coded.dictionary.to_pylist()]


def _numbers(field: str, flat: pyarrow.Array) -> NDArray[Any] | None:
    """Return numbers, NaN where missing; None for what has to be converted, or refused with its place."""
    kind = flat.type
    whole = _TYPES.is_integer(kind) or _TYPES.is_boolean(kind)
    if field in WHOLE:
        if not whole or flat.null_count:
            return None
        column = _integers(flat.cast(pyarrow.int64()))
    elif not (whole or _TYPES.is_floating(kind) or _TYPES.is_null(kind)):
        return None
    else:
        column = np.full(len(flat), np.nan)
        if flat.null_count < len(flat):
            held = np.frombuffer(flat.cast(pyarrow.float64()).buffers()[1], np.float64)
            column = np.where(_integers(flat.is_valid().cast(pyarrow.int8())), held[: len(flat)], np.nan)
    return column if in_range(field, column) else None


def _integers(values: pyarrow.Array) -> NDArray[np.int64]:
    """Return integers without nulls; Arrow's own way imports pandas where it is installed, for a second."""
    return np.from_dlpack(values).astype(np.int64)


def _plain_meta(meta: pyarrow.Array | None) -> bool:
    """Return whether no packed field should be a column."""
    if meta is None:
        return True
    if not _is_text(meta.type):
        return False
    known = f'"(({"|".join(sorted(KNOWN))})"|{NAMED}|{LISTED})'
    found = pyarrow.compute.match_substring_regex(meta, known)
    return not pyarrow.compute.any(found).as_py()


FAILURES = (pyarrow.ArrowException, OSError, UnicodeDecodeError)
# Rows that are read whole, texts included: few, for one text may be long.
BATCH = 32

_TEXT = pyarrow.string()
_COLUMNS = {
    **dict.fromkeys(("id", "question", "gold_answer", "cluster", "task", "answer_space", "model"), _TEXT),
    **dict.fromkeys((*TEXTS, "all_texts", "branches"), pyarrow.list_(_TEXT)),
    **dict.fromkeys(("all_correct", "slots", "all_truncated"), pyarrow.list_(pyarrow.int64())),
    **dict.fromkeys((*NUMBERS, "all_scores"), pyarrow.list_(pyarrow.float64())),
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
                raise LogError(
                    f"{each.name}: it claims to unpack to far more than its size, so keff does not read it"
                )
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
