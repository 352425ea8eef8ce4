"""The fake engine's answers: for each prompt one that its task scores right, and wrong ones."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache

from keff.engines.fake import wrong_answers
from keff.narrow import is_array
from keff.records import Completion, Item, stable_hash
from keff.sampling.orders import Order
from keff.task import Task

# Wrong answers of a prompt, where its task has so many.
WRONG = 4

# Ways to state an answer; the first that the task reads is used.
FORMS = ("The final answer is {}", "Final answer: {}", r"The final answer is $\boxed{{{}}}$", "#### {}")

# Answers that share no word with any gold answer: near misses would pass a token F1 of one half.
STRANGERS = ("Quillby", "Ostrava", "Venlo", "Marbeck", "Tolleson", "9001", "9002", "9003", "9004")


# ``{"right": text, "wrong": [text, ...]}``: how right and wrong paths of a prompt end.
Ends = dict[str, str | list[str]]


# What an engine will be asked: an item of a task under the slots of an order.
Asked = tuple[Task, Item, Order]


class Oracle(Mapping[str, Ends]):
    """Right and wrong texts ``{"right": text, "wrong": [...]}`` by prompt hash, for items with gold.

    Nothing is worked out before a prompt is asked: a complete run asks none.
    """

    def __init__(self, asked: Iterable[Asked]) -> None:
        self._asked = list(asked)
        self._ends = lru_cache(maxsize=1024)(self._worked_out)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {
            stable_hash(list(task.messages(item, slot))): place
            for place, (task, item, order) in enumerate(self._asked)
            if item.gold is not None
            for slot in order.slots
        }

    def _worked_out(self, place: int) -> Ends:
        task, item, _ = self._asked[place]
        return _program(item) if item.space == "code" else _texts(task, item)

    def __getitem__(self, prompt: str) -> Ends:
        """Return a prompt's right and wrong texts; raises KeyError for items without gold."""
        return self._ends(self._places[prompt])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the prompt hashes."""
        return iter(self._places)

    def __len__(self) -> int:
        """Return the number of prompts."""
        return len(self._places)


def _texts(task: Task, item: Item) -> Ends:
    """Return texts that the task itself scores as right and as wrong."""
    golds = item.gold if is_array(item.gold) else [item.gold]

    @lru_cache(maxsize=256)
    def score(text: str) -> tuple[str | None, int | None]:
        judged = task.judge(item, Completion(text))
        return judged.key, judged.correct

    def stated(answers: Iterable[str], right: int) -> Iterator[str]:
        for answer in answers:
            texts = (form.format(answer) for form in FORMS)
            fitting = next((text for text in texts if score(text)[0] and score(text)[1] == right), None)
            if fitting is not None:
                yield fitting

    right = next(stated(map(str, golds), 1), FORMS[0].format(golds[0]))
    wrong: dict[str | None, str] = {}
    for text in stated(_candidates(item, str(golds[0])), 0):
        wrong.setdefault(score(text)[0], text)
        if len(wrong) == WRONG:
            break
    return {"right": right, "wrong": list(wrong.values()) or ["I do not know."]}


def _candidates(item: Item, gold: str) -> Iterator[str]:
    yield from (str(label) for label in item.meta.get("labels", ()))
    yield from wrong_answers(gold, WRONG)
    yield from STRANGERS
    yield from map(repr, STRANGERS)


def _program(item: Item) -> Ends:
    """Return the gold program, and wrong programs with other return values."""
    solution = str(item.meta.get("solution", ""))
    try:
        names = [node.name for node in ast.parse(solution).body if isinstance(node, ast.FunctionDef)]
    except SyntaxError:
        names = []
    wrong = (
        "\n".join(f"def {name}(*args, **kwargs):\n    return 'wrong {rank}'\n" for name in names)
        for rank in range(WRONG)
    )
    return {"right": f"```python\n{solution}\n```", "wrong": [f"```python\n{text}\n```" for text in wrong]}
