"""Short questions of graded difficulty that come with keff: sums, yes/no reading and four-option choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from keff.records import AnswerSpace, Item, Message
from keff.task import Example, LocatedRow, Row
from keff.tasks._base import SpacedTask, lettered, read_file
from keff.tasks._templates import family, read_templates

FILE = Path(__file__).with_name("_starter.jsonl")

# Two worked examples of each answer space, shown as earlier turns.
#
# A very small model keeps to their form.
WORKED: dict[AnswerSpace, tuple[tuple[str, str], ...]] = {
    "numeric": (
        ("What is 1 + 3?", "1 + 3 = 4. The answer is 4."),
        ("Tom has 5 hats and buys 2. How many hats?", "5 + 2 = 7. The answer is 7."),
    ),
    "binary": (
        ("The dog is big. Is the dog small?", "The dog is big. The answer is no."),
        ("Ann has a cat. Does Ann have a cat?", "Ann has a cat. The answer is yes."),
    ),
    "choice": (
        ("Which is a fruit?\nA. dog\nB. apple\nC. car\nD. book", "An apple is a fruit. The answer is B."),
        ("Which is a color?\nA. red\nB. two\nC. cat\nD. sun", "Red is a color. The answer is A."),
    ),
}


class Starter(SpacedTask):
    """Starter task; items are numeric, binary or choice (``item.space``), the instruction a system message.

    The worked examples take the place of a final-answer instruction. ``extract``, ``key`` and ``correct``
    without an item read numbers. ``template`` is a TOML file with ``templates = ["...", ...]`` for the system
    message.
    """

    name = "starter"
    version = "1"
    space = "numeric"
    max_tokens = 40
    EXAMPLES = (
        Example("The answer is 5.", "5"),
        Example("Tom has 2 + 3 = 5 hats.", "5"),
        Example("Tom has 12 hats, and to find out how many are left we take 5", None, truncated=True),
        Example("I am not sure.", None),
    )

    def __init__(self, template: str | None = None) -> None:
        self.templates: Sequence[str] = read_templates(template) if template else family("starter")

    def rows(self) -> Iterator[LocatedRow]:
        """Yield the items that come with the package."""
        return read_file(FILE)

    def to_item(self, row: Row) -> Item:
        """Return a row's Item, with worked examples before its question."""
        question: str = row["question"]
        meta: dict[str, object] = {"kind": row["kind"], "level": row["level"]}
        if row["space"] == "choice":
            question, options = lettered(question, row["choices"])
            meta |= options
        turns = [turn for pair in WORKED[row["space"]] for turn in pair] + [question]
        messages = tuple({"role": ("user", "assistant")[i % 2], "content": t} for i, t in enumerate(turns))
        return Item(row["id"], messages, row["answer"], row["space"], meta=meta)

    def messages(self, item: Item, slot: int) -> tuple[Message, ...]:
        """Return the slot's instruction as system message, the worked examples and the question."""
        return ({"role": "system", "content": self.instruction(slot)}, *item.messages)


task = Starter
