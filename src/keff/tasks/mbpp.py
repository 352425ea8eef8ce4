"""MBPP (sanitized): short Python programs, scored by running their tests in a sandbox."""

from __future__ import annotations

import json
import marshal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from keff import sandbox
from keff.errors import SandboxError
from keff.records import Completion, Item, stable_hash
from keff.task import Example, Row, ScoredText
from keff.tasks import _code_driver
from keff.tasks._base import Benchmark, text
from keff.tasks._code_tests import CodeTest, canonical, parse
from keff.tasks._source import DataSet

if TYPE_CHECKING:
    from keff.tasks._code_driver import Node

Gold = Mapping[str, Sequence[str]]
"""The import lines and the tests of a question."""

_DRIVER = Path(_code_driver.__file__).read_text("utf-8")
_LONGEST_KEY = 200


@dataclass(frozen=True, slots=True)
class Ran:
    """What a candidate program did: ``key`` of its outputs (None: it could not be run), all tests passed."""

    key: str | None
    correct: bool


class Mbpp(Benchmark):
    """The gold answer is ``{"imports": [...], "tests": [...]}``: all asserts must hold after the imports.

    The vote key is what the program returns for the calls in the asserts; the expected values are no part
    of it. A program that does not run, does not end within the limits or fails in every call abstains.
    Results are compared outside the sandbox, by their data. The prompt shows the first assert, which is
    the only place that names the function; the others stay unseen. ``unsafe_exec`` runs model code with
    the caller's rights where there is no bubblewrap.
    """

    name = "mbpp"
    domain = "Code"
    answer_space = "code pass/fail"
    space = "code"
    family = "code"
    limits = sandbox.Limits()
    data_set = DataSet(
        "google-research-datasets/mbpp",
        "sanitized",
        "test",
        ("test", "train", "validation", "prompt"),
        ("task_id", "prompt", "code", "test_imports", "test_list"),
        "CC BY 4.0",
    )
    EXAMPLES = (
        Example("```python\ndef f(x):\n    return x + 1\n```\nThis adds one.", "def f(x):\n    return x + 1"),
        Example("Here:\n\n```python\ndef f(x):\n    return", None, truncated=True),
        Example("I would loop over the list.", None),
    )

    def __init__(
        self,
        data: str | None = None,
        split: str | None = None,
        template: str | None = None,
        unsafe_exec: bool = False,
    ) -> None:
        super().__init__(data, split, template)
        self.unsafe_exec = unsafe_exec

    def build(self, row: Row) -> Item:
        """Turn a row that has all columns into an Item."""
        gold = {"imports": _lines(row, "test_imports"), "tests": _lines(row, "test_list")}
        parse(gold["tests"], gold["imports"])
        question = f"{text(row, 'prompt').strip()}\nThe program must pass this test:\n{gold['tests'][0]}"
        return self.item(question, gold, id=f"mbpp-{row['task_id']}", meta={"solution": text(row, "code")})

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether a program passes all tests; raises SandboxError without a sandbox that holds."""
        return self.ran(answer, cast("Gold", gold)).correct

    def judge(self, item: Item, completion: Completion) -> ScoredText:
        """Read, key and score one completion by one run; ``not executable`` abstains."""
        read = super().judge(replace(item, gold=None), completion)
        if item.gold is None:
            return read
        if read.answer is None:
            return replace(read, correct=0)
        ran = self.ran(read.answer, cast("Gold", item.gold))
        if ran.key is None:
            return ScoredText(read.answer, None, 0, "not executable")
        return replace(read, key=ran.key, correct=int(ran.correct))

    def accepts_gold(self, item: Item) -> bool:
        """Return whether the data's own program passes; unknown, so True, where code cannot be run."""
        try:
            return self.correct(item.meta["solution"], item.gold)
        except SandboxError:
            return True

    def ran(self, code: str, gold: Gold) -> Ran:
        """Run a program on the calls of the tests, and judge what it returned."""
        tests = parse(gold["tests"], gold["imports"])
        calls = [call for test in tests for call in test.calls]
        outputs = self._outputs(code, gold["imports"], calls, entry=tests[0].entry)
        if outputs is None or all(output[0] == "raise" for output in outputs):
            return Ran(None, False)
        key = ", ".join(map(canonical, outputs))
        left = iter(outputs)
        returned = [[next(left) for _ in test.calls] for test in tests]
        return Ran(
            key if len(key) <= _LONGEST_KEY else stable_hash(key),
            self._hold(tests, returned, gold["imports"]),
        )

    def _hold(
        self,
        tests: Sequence[CodeTest],
        returned: Sequence[Sequence[Node]],
        imports: Sequence[str],
    ) -> bool:
        """Judge literals here; other verdicts in a second, clean run that holds data but no candidate."""
        verdicts: list[str] = []
        values: dict[str, Node] = {}
        for test, outputs in zip(tests, returned, strict=True):
            if any(output[0] == "raise" for output in outputs):
                return False
            if test.expected is None:
                verdicts.append(f"bool({test.verdict})")
                values.update(zip(test.names, outputs, strict=True))
            elif canonical(outputs[0]) != test.expected:
                return False
        if not verdicts:
            return True
        return self._outputs("", imports, verdicts, values=values) == [["int", "1"]] * len(verdicts)

    def _outputs(
        self,
        code: str,
        imports: Sequence[str],
        calls: Sequence[str],
        *,
        values: Mapping[str, Node] | None = None,
        entry: str = "",
    ) -> list[Node] | None:
        """Return a node for each call, or None if the program did not run to its end."""
        request = {
            "code": code,
            "entry": entry,
            "setup": list(imports),
            "calls": list(calls),
            "values": dict(values or {}),
        }
        outcome = sandbox.run(_DRIVER, marshal.dumps(request), limits=self.limits, unsafe=self.unsafe_exec)
        if outcome.status != "exited" or outcome.code != 0:
            return None
        try:
            outputs = json.loads(outcome.stdout)
            for output in outputs:
                canonical(output)
        except (
            Exception
        ):  # the report is in the candidate's hands: whatever is wrong with it, it is no answer
            return None
        return outputs if len(outputs) == len(calls) else None


def _lines(row: Row, column: str) -> list[str]:
    lines = row[column]
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):  # pyright: ignore[reportUnknownVariableType]
        raise ValueError(f"{column} is not a list of texts")
    return lines  # pyright: ignore[reportUnknownVariableType]


def task(
    data: str | None = None,
    split: str | None = None,
    template: str | None = None,
    unsafe_exec: bool = False,
) -> Mbpp:
    """Make the task; see ``Benchmark`` and ``Mbpp`` for the options."""
    return Mbpp(data, split, template, unsafe_exec)
