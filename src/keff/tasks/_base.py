"""Base classes of tasks: reading data, framing questions, extracting and scoring answers."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from pydantic_core import from_json

from keff.answers import UNREAD, Extracted, Space, UnreadError, space, why
from keff.answers.parts.base import golds
from keff.errors import TaskError
from keff.narrow import Object, fields, is_object, replace_surrogates
from keff.plugins import import_extra
from keff.records import AnswerSpace, Completion, Item, Message, frozen, stable_hash
from keff.task import LocatedRow, Row, ScoredText, Task
from keff.tasks._templates import family, read_templates


@frozen
class DataSet:
    """A data set on the Hugging Face hub.

    ``splits`` are all that have labels, the first of which is read by default. ``columns`` are those that a
    task reads, and that a local file must have. ``large`` data are streamed; others are downloaded once, into
    the cache of ``datasets``.
    """

    hub: str
    config: str
    splits: tuple[str, ...]
    columns: tuple[str, ...]
    large: bool = False


def check_split(name: str, data_set: DataSet, split: str | None) -> str:
    """Return the split; raises TaskError for one without labels."""
    if split is not None and split not in data_set.splits:
        raise TaskError(f"{name} has no labelled split {split!r}; there are: {', '.join(data_set.splits)}")
    return split or data_set.splits[0]


def read_hub(data_set: DataSet, split: str) -> Iterator[LocatedRow]:
    """Yield one split's rows from the hub, in order.

    Raises PluginError without the ``data`` extra, and TaskError when the hub cannot be reached.
    """
    where = f"{data_set.hub} {data_set.config} {split}"
    # Heavy packages are loaded only where their rows are read.
    local = '(or give your copy of it: --data FILE, in a study data = "FILE")'
    datasets = import_extra("datasets", f"reading {data_set.hub} {local}")
    try:
        # Streaming does not download the rest, and keeps nothing.
        rows = datasets.load_dataset(data_set.hub, data_set.config, split=split, streaming=data_set.large)
        for index, row in enumerate(rows, start=1):
            yield LocatedRow.at(f"{where}: row {index}", row)
    except Exception as error:  # network, cache, authentication and format errors have no common class there
        reason = str(error).split("\n", 1)[0][:200]
        raise TaskError(
            f"{where} cannot be read from the hub ({type(error).__name__}: {reason}); "
            "give a local copy in the same columns with --data FILE.jsonl or FILE.parquet (study: data=FILE)"
        ) from error


def read_file(path: str | Path) -> Iterator[LocatedRow]:
    """Yield the rows of a local .jsonl or .parquet file; raises TaskError with file and line."""
    path = Path(path)
    if path.suffix not in (".jsonl", ".parquet"):
        raise TaskError(f"{path}: data files end in .jsonl (an object a line) or .parquet")
    if not path.is_file():
        raise TaskError(f"{path}: no such file")
    return _parquet(path) if path.suffix == ".parquet" else _jsonl(path)


def _jsonl(path: Path) -> Iterator[LocatedRow]:
    try:
        with path.open(encoding="utf-8-sig") as lines:
            name = str(path)
            for number, line in enumerate(lines, start=1):
                if not line.isspace():
                    where = f"{name}:{number}"
                    yield LocatedRow.at(where, _object(line, where))
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path}: cannot be read: {error}") from error


def _object(line: str, where: str) -> Object:
    row = _value(line, where)
    if not is_object(row):
        raise TaskError(f"{where}: expected a JSON object, found {type(row).__name__}")
    # Half a surrogate pair, which JSON can escape, can stand in no file, request or database.
    return fields(replace_surrogates(row)) if "\\ud" in line.lower() else row


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


def _parquet(path: Path) -> Iterator[LocatedRow]:
    parquet = import_extra("pyarrow.parquet", f"reading {path}")
    arrow = import_extra("pyarrow", f"reading {path}")
    try:
        # In batches, so that memory does not grow with the file.
        with parquet.ParquetFile(path) as file:
            rows = chain.from_iterable(batch.to_pylist() for batch in file.iter_batches(batch_size=1000))
            for index, row in enumerate(rows, start=1):
                yield LocatedRow.at(f"{path}: row {index}", row)
    except (arrow.ArrowException, OSError) as error:
        raise TaskError(f"{path}: not a readable Parquet file: {error}") from error


@lru_cache(maxsize=1024)
def _space(name: AnswerSpace, options: tuple[tuple[str, object], ...]) -> Space:
    return space(name, **dict(options))


class SpacedTask(Task):
    """Task whose answers are read and compared in an answer space.

    ``item.meta["labels"]`` and ``item.meta["options"]`` are the labels and texts of a choice. Without an
    item, ``extract``, ``key`` and ``correct`` use the task's own ``space``. ``space_options`` are options of
    the answer space.
    """

    space_options: tuple[tuple[str, object], ...] = ()

    def reader(self, item: Item | None = None) -> Space:
        """Return the answer space of an item, else the task's."""
        if item is None:
            return _space(self.space, self.space_options)
        options = self.space_options
        if item.space == "choice":
            options = tuple((name, tuple(item.meta[name])) for name in ("labels", "options"))
        return _space(item.space, options)

    def read(self, item: Item | None, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the final answer of a completion and the rule that found it; thinking is never read."""
        return self.reader(item).extract(text, truncated=truncated)

    def why(self, item: Item | None, text: str) -> str:
        """Return why a completion abstains, in a few words."""
        return why(self.reader(item), text)

    def extract(self, text: str, *, truncated: bool = False) -> str | None:
        """Return the final answer of a completion; None abstains."""
        read = self.read(None, text, truncated=truncated)
        return None if read is None else read.answer

    def key(self, answer: str) -> str | None:
        """Return the canonical vote key of an answer."""
        return self.reader().key(answer)

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether an answer agrees with any acceptable gold answer."""
        return self.reader().correct(answer, gold)

    def judge(self, item: Item, completion: Completion) -> ScoredText:
        """Return the reading of one completion: answer, key and correctness.

        A refusal abstains by the rule ``refusal``; text without a final answer by ``truncated`` when it was
        cut at max_tokens (or cancelled), else by the reason that its answer space gives (``no answer`` where
        it gives none), and by ``unread`` where a worker was lost. Abstaining is not correct.
        """
        wrong = None if item.gold is None else 0
        if completion.refusal or completion.finish == "content_filter":
            return ScoredText(None, None, wrong, "refusal")
        truncated = completion.finish in ("length", "cancelled")
        read, reader = self.read(item, completion.text, truncated=truncated), self.reader(item)
        try:
            key = None if read is None else reader.key(read.answer)
        except UnreadError:
            # Neither right nor wrong: it is not known what the answer means.
            return ScoredText(None, None, wrong, UNREAD)
        if read is None or key is None:
            return ScoredText(
                None, None, wrong, "truncated" if truncated else self.why(item, completion.text)
            )
        if item.gold is None:
            return ScoredText(read.answer, key, None, read.rule)
        return ScoredText(read.answer, key, int(reader.correct(read.answer, item.gold)), read.rule)

    def accepts_gold(self, item: Item) -> bool:
        """Return whether every acceptable gold answer passes the item's own scorer."""
        if item.gold is None:
            return True
        reader = self.reader(item)
        return all(reader.correct(gold, gold) for gold in golds(item.gold))

    def contract(self, item: Item) -> str:
        """Return the final-answer instruction at the prompt's end."""
        return self.reader(item).contract

    def instruction(self, slot: int) -> str:
        """Return a slot's template; raises TaskError for an unknown slot."""
        if not 0 <= slot < len(self.templates):
            raise TaskError(f"{self.name} has the slots 0 to {len(self.templates) - 1}, not {slot}")
        return self.templates[slot]

    def messages(self, item: Item, slot: int) -> tuple[Message, ...]:
        """Return the item's messages, the last with the slot's instruction before and the contract after.

        A template that holds ``{question}`` is the whole last message instead.
        """
        *before, last = item.messages
        content = frame(self.instruction(slot), last["content"], self.contract(item))
        return (*before, {**last, "content": content})


class Benchmark(SpacedTask):
    """Published benchmark: its data set and its template family.

    Subclasses give the class data and ``build``. ``data`` is a local file with the data set's columns,
    read instead of the hub; ``split`` one of the labelled splits; ``template`` a TOML file with
    ``templates = ["...", ...]`` used instead of the paper's. Raises TaskError for what does not fit.
    """

    data_set: DataSet
    family: ClassVar[str]
    version = "1"
    max_tokens = 2048

    def __init__(
        self, data: str | None = None, split: str | None = None, template: str | None = None
    ) -> None:
        self.split = check_split(self.name, self.data_set, split)
        self.data = data
        self.templates: Sequence[str] = read_templates(template) if template else family(self.family)

    def rows(self) -> Iterator[LocatedRow]:
        """Yield the rows of the local file or the hub's split, in order."""
        return read_hub(self.data_set, self.split) if self.data is None else read_file(self.data)

    def to_item(self, row: Row) -> Item:
        """Return a row's Item; raises TaskError for missing columns or wrong forms."""
        missing = [column for column in self.data_set.columns if column not in row]
        if missing:
            raise TaskError(
                f"{self.name} needs the column{'s' * (len(missing) > 1)} {', '.join(missing)} "
                f"(found: {', '.join(map(str, row)) or 'none'})"
            )
        try:
            return self.build(row)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise TaskError(
                f"a column of {self.name} does not have the expected form ({type(error).__name__}: {error})"
            ) from error

    @abstractmethod
    def build(self, row: Row) -> Item:
        """Return the Item of a row with all columns."""

    def item(self, question: str, gold: object, **fields: Any) -> Item:
        """Return an Item with one user message; by default its id is a content hash."""
        identity = str(fields.pop("id", None) or stable_hash(self.name, question)[:16])
        message = {"role": "user", "content": question}
        return Item(identity, (message,), gold, fields.pop("space", self.space), **fields)


def frame(instruction: str, question: str, contract: str) -> str:
    """Return instruction, question and contract joined by blank lines, or filled into ``{question}``."""
    if "{question}" in instruction:
        return instruction.replace("{question}", question)
    return "\n\n".join(part for part in (instruction, question, contract) if part)


def lettered(question: str, options: Sequence[str]) -> tuple[str, dict[str, list[str]]]:
    """Return a question with options A, B, ... one per line, and the Item's meta for them."""
    labels = list("ABCDEFGHIJ"[: len(options)])
    if len(options) != len(labels) or len(options) < 2:
        raise ValueError(f"{len(options)} options, expected 2 to 10")
    lines = (f"{label}. {option}" for label, option in zip(labels, options, strict=True))
    return "\n".join((question, *lines)), {"labels": labels, "options": list(options)}


def text(row: Row, column: str) -> str:
    """Return a column's text; raises ValueError where blank or no text."""
    value = row[column]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{column} is {value!r}: expected a text that is not blank")
    return value
