"""Where the rows of a benchmark come from: the Hugging Face hub, or a local file in the same columns."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import from_json

from keff.errors import TaskError
from keff.narrow import fields, is_object
from keff.plugins import missing_extra
from keff.records import mended
from keff.task import Located


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set on the hub.

    ``split`` is read by default; ``splits`` are all that have labels. ``columns`` are those that a task
    reads, and that a local file must have. ``licence`` is that of the data. ``large`` data are streamed;
    others are downloaded once, into the cache of ``datasets``.
    """

    hub: str
    config: str
    split: str
    splits: tuple[str, ...]
    columns: tuple[str, ...]
    licence: str
    large: bool = False


def check_split(name: str, data_set: DataSet, split: str | None) -> str:
    """Return the split to read; raises TaskError for one without labels."""
    if split is not None and split not in data_set.splits:
        raise TaskError(f"{name} has no labelled split {split!r}; there are: {', '.join(data_set.splits)}")
    return split or data_set.split


def read_hub(data_set: DataSet, split: str) -> Iterator[Located]:
    """Read one split from the hub, in its order.

    Raises PluginError without the ``data`` extra, and TaskError when the hub cannot be reached.
    """
    where = f"{data_set.hub} {data_set.config} {split}"
    try:
        hub = importlib.import_module("keff.tasks._hub")
    except ImportError as error:
        raise missing_extra(error, f"reading {data_set.hub} (without --data FILE)") from error
    try:
        rows = hub.read(data_set.hub, data_set.config, split, streaming=data_set.large)
        for index, row in enumerate(rows, start=1):
            yield Located.at(f"{where}: row {index}", row)
    except hub.FAILURES as error:
        reason = str(error).split("\n", 1)[0][:200]
        raise TaskError(
            f"{where} cannot be read from the hub ({type(error).__name__}: {reason}); "
            "give a local copy in the same columns with --data FILE.jsonl or FILE.parquet"
        ) from error


def read_file(path: str | Path) -> Iterator[Located]:
    """Read the rows of a local .jsonl or .parquet file; raises TaskError naming the file and the line."""
    path = Path(path)
    if path.suffix not in (".jsonl", ".parquet"):
        raise TaskError(f"{path}: data files end in .jsonl or .parquet")
    if not path.is_file():
        raise TaskError(f"{path}: no such file")
    return _parquet(path) if path.suffix == ".parquet" else _jsonl(path)


def _jsonl(path: Path) -> Iterator[Located]:
    try:
        with path.open(encoding="utf-8-sig") as lines:
            name = str(path)
            for number, line in enumerate(lines, start=1):
                if not line.isspace():
                    where = f"{name}:{number}"
                    yield Located.at(where, _object(line, where))
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path}: cannot be read: {error}") from error


def _object(line: str, where: str) -> dict[str, object]:
    row = _value(line, where)
    if not is_object(row):
        raise TaskError(f"{where}: expected a JSON object, found {type(row).__name__}")
    # Half a surrogate pair, which JSON can escape, can stand in no file, request or database.
    return fields(mended(row)) if "\\ud" in line.lower() else row


def _value(line: str, where: str) -> object:
    try:
        return from_json(line)
    except ValueError:
        # Four times as fast, it refuses a few values that JSON of Python takes, and says it in other words.
        pass
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{where}: not a JSON line: {error}") from error


def _parquet(path: Path) -> Iterator[Located]:
    try:
        parquet = importlib.import_module("keff.tasks._parquet")
    except ImportError as error:
        raise missing_extra(error, f"reading {path}") from error
    try:
        for index, row in enumerate(parquet.stream(path), start=1):
            yield Located.at(f"{path}: row {index}", row)
    except parquet.FAILURES as error:
        raise TaskError(f"{path}: not a readable Parquet file: {error}") from error
