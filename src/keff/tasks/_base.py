"""What all tasks share: framing a question, and reading, keying and scoring an answer by its answer space."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from keff.answers import Extracted, Space, space, why
from keff.answers.parts.base import golds
from keff.errors import TaskError
from keff.records import AnswerSpace, Completion, Item, Message, stable_hash
from keff.task import Located, Row, ScoredText, Task
from keff.tasks._source import DataSet, check_split, read_file, read_hub
from keff.tasks._templates import TEMPLATES, read_templates


@lru_cache(maxsize=1024)
def _space(name: AnswerSpace, options: tuple[tuple[str, object], ...]) -> Space:
    return space(name, **dict(options))


class SpacedTask(Task):
    """A task whose items are read by their answer space.

    ``item.meta["labels"]`` and ``item.meta["options"]`` are the labels and texts of a choice. Without an
    item, ``extract``, ``key`` and ``correct`` use the task's own ``space``. ``space_options`` are options of
    the answer space.
    """

    space_options: tuple[tuple[str, object], ...] = ()

    def reader(self, item: Item | None = None) -> Space:
        """Return the answer space of an item, or of the task."""
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
        """Read the final answer from a completion; None abstains."""
        read = self.read(None, text, truncated=truncated)
        return None if read is None else read.answer

    def key(self, answer: str) -> str | None:
        """Return the canonical vote key of an answer."""
        return self.reader().key(answer)

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether an answer agrees with the gold answer, or with any of a list of them."""
        return self.reader().correct(answer, gold)

    def judge(self, item: Item, completion: Completion) -> ScoredText:
        """Read, key and score one completion.

        A refusal abstains by the rule ``refusal``; text without a final answer by ``truncated`` when it was
        cut at max_tokens (or cancelled), else by the reason that its answer space gives (``no answer`` where
        it gives none). Abstaining is not correct.
        """
        wrong = None if item.gold is None else 0
        if completion.refusal or completion.finish == "content_filter":
            return ScoredText(None, None, wrong, "refusal")
        truncated = completion.finish in ("length", "cancelled")
        read = self.read(item, completion.text, truncated=truncated)
        key = None if read is None else self.reader(item).key(read.answer)
        if read is None or key is None:
            return ScoredText(
                None, None, wrong, "truncated" if truncated else self.why(item, completion.text)
            )
        if item.gold is None:
            return ScoredText(read.answer, key, None, read.rule)
        return ScoredText(read.answer, key, int(self.reader(item).correct(read.answer, item.gold)), read.rule)

    def accepts_gold(self, item: Item) -> bool:
        """Return whether every acceptable gold answer passes the item's own scorer."""
        if item.gold is None:
            return True
        reader = self.reader(item)
        return all(reader.correct(gold, gold) for gold in golds(item.gold))

    def contract(self, item: Item) -> str:
        """Return the final-answer instruction that ends the prompt."""
        return self.reader(item).contract

    def instruction(self, slot: int) -> str:
        """Return the template of a slot; raises TaskError for one that the task does not have."""
        if not 0 <= slot < len(self.templates):
            raise TaskError(f"{self.name} has the slots 0 to {len(self.templates) - 1}, not {slot}")
        return self.templates[slot]

    def messages(self, item: Item, slot: int) -> tuple[Message, ...]:
        """Return the item's messages with the slot's instruction before, and the contract after, the last.

        A template that holds ``{question}`` is the whole last message instead.
        """
        *before, last = item.messages
        content = frame(self.instruction(slot), last["content"], self.contract(item))
        return (*before, {**last, "content": content})


class Benchmark(SpacedTask):
    """A published benchmark: its data set, its template family and its labels in the paper's Table 3.

    Subclasses give the class data and ``build``. ``data`` is a local file with the data set's columns,
    read instead of the hub; ``split`` one of the labelled splits; ``template`` a TOML file with
    ``templates = ["...", ...]`` used instead of the paper's. Raises TaskError for what does not fit.
    """

    data_set: DataSet
    family: ClassVar[str]
    version = "1"

    def __init__(
        self, data: str | None = None, split: str | None = None, template: str | None = None
    ) -> None:
        self.split = check_split(self.name, self.data_set, split)
        self.data = data
        self.templates: Sequence[str] = read_templates(template) if template else TEMPLATES[self.family]

    def rows(self) -> Iterator[Located]:
        """Read the rows of the local file or of the hub's split, in their order."""
        return read_hub(self.data_set, self.split) if self.data is None else read_file(self.data)

    def to_item(self, row: Row) -> Item:
        """Turn a row into an Item; raises TaskError naming missing columns, or what has a wrong form."""
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
        """Turn a row that has all columns into an Item."""

    def item(self, question: str, gold: object, **fields: Any) -> Item:
        """Return an Item with one user message; its id is a content hash unless the fields give one."""
        identity = str(fields.pop("id", None) or stable_hash(self.name, question)[:16])
        message = {"role": "user", "content": question}
        return Item(identity, (message,), gold, fields.pop("space", self.space), **fields)


def frame(instruction: str, question: str, contract: str) -> str:
    """Join the instruction, the question and the contract by blank lines, or fill in ``{question}``."""
    if "{question}" in instruction:
        return instruction.replace("{question}", question)
    return "\n\n".join(part for part in (instruction, question, contract) if part)


def lettered(question: str, options: Sequence[str]) -> tuple[str, dict[str, list[str]]]:
    """Return a question with options A, B, ... one per line, and the meta of an Item that holds them."""
    labels = list("ABCDEFGHIJ"[: len(options)])
    if len(options) != len(labels) or len(options) < 2:
        raise ValueError(f"{len(options)} options, expected 2 to 10")
    lines = (f"{label}. {option}" for label, option in zip(labels, options, strict=True))
    return "\n".join((question, *lines)), {"labels": labels, "options": list(options)}


def text(row: Row, column: str) -> str:
    """Return a column that must be a text which is not blank."""
    value = row[column]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{column} is {value!r}, not a string")
    return value
