"""MBPP (sanitized): short Python programs, scored by running their tests in a sandbox."""

from __future__ import annotations

import ast
import builtins
import json
import marshal
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from keff import sandbox
from keff.answers.literal import parse as parsed
from keff.errors import SandboxError, TaskError
from keff.records import Completion, Item, frozen, stable_hash
from keff.task import Example, Row, ScoredText
from keff.tasks import _code_driver
from keff.tasks._base import Benchmark, DataSet, text
from keff.tasks._code_driver import encode, unhexed

if TYPE_CHECKING:
    from keff.tasks._code_driver import Node

# The default text of an object holds its address, which differs from run to run: it is no part of a value.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# A call of one of these on the tested call alone, such as sorted(f(x)), is tested like it.
_BUILTINS = frozenset(dir(builtins))


@frozen
class CodeTest:
    """One assert, taken apart: call, comparison and expected value.

    ``entry`` is the name of the tested function, ``calls`` are the expressions to evaluate beside the
    candidate, without the expected value. ``names`` stand for their values in ``verdict``, the rest of the
    assert. When that is ``name == literal``, ``expected`` is the literal's canonical text, and no code needs
    to run for the verdict.
    """

    entry: str
    calls: tuple[str, ...]
    names: tuple[str, ...]
    verdict: str
    expected: str | None


def parse(sources: Sequence[str], imports: Sequence[str] = ()) -> tuple[CodeTest, ...]:
    """Return parsed asserts; raises TaskError unless each calls the tested function.

    The tested function is the first one called by the first assert that is neither a builtin nor bound by the
    ``imports`` of the tests: what judges an answer must not be evaluated beside the candidate. A builtin with
    one argument around its call (``set(f(x)) == ...``) is evaluated with it: only what it leaves is tested.
    """
    trees = [_assertion(source) for source in sources]
    if not trees:
        raise TaskError("there are no tests")
    entry = _entry(trees[0], _imported_names(imports))
    return tuple(_take_apart(tree, entry, first=at * 1000) for at, tree in enumerate(trees))


def canonical(node: Node) -> str:
    """Return a node's text, equal for values that are == (and for NaN).

    Raises ValueError, TypeError or another Exception for a node that the driver cannot have written.
    """
    kind, content = node
    if kind in ("list", "tuple", "set", "iter"):
        parts = [canonical(each) for each in content]
        return f"{kind}({', '.join(sorted(parts) if kind == 'set' else parts)})"
    if kind == "dict":
        return f"dict({', '.join(sorted(f'{canonical(key)}: {canonical(value)}' for key, value in content))})"
    if kind in ("int", "float"):
        return _number(int(content, 16) if kind == "int" else float.fromhex(content))
    if kind in ("other", "raise"):
        return f"{kind} {_ADDRESS.sub('', unhexed(content))}"
    if kind == "str":
        return ascii(unhexed(content))
    return {"none": "None", "bytes": f"b {content}"}[kind]


def _number(value: float) -> str:
    if isinstance(value, float) and not value.is_integer():
        return repr(value)
    whole = int(value)
    # Python refuses to write longer ones in decimals, for that takes quadratic time.
    return str(whole) if whole.bit_length() < 4000 else hex(whole)


def _assertion(source: str) -> ast.expr:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = parsed(source.strip()).body
    except (SyntaxError, ValueError) as error:
        raise TaskError(f"a test is not Python ({error}): {source[:100]!r}") from None
    if len(body) != 1 or not isinstance(body[0], ast.Assert):
        raise TaskError(f"a test is not one assert: {source[:100]!r}")
    return body[0].test


def _imported_names(imports: Sequence[str]) -> frozenset[str]:
    """Return the names bound by import lines."""
    names: set[str] = set()
    for source in imports:
        try:
            nodes = list(ast.walk(parsed(source)))
        except (SyntaxError, ValueError) as error:
            raise TaskError(f"an import of the tests is not Python ({error}): {source[:100]!r}") from None
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
    return frozenset(names)


def _entry(test: ast.expr, bound: frozenset[str]) -> str:
    """Return the tested function's name, which may shadow a builtin, as in ``sum(10, 15) == 6``."""
    called = [
        node.func.id
        for node in ast.walk(test)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in bound
    ]
    if not called:
        raise TaskError(f"a test calls no function: {ast.unparse(test)[:100]!r}")
    return next((name for name in called if name not in _BUILTINS), called[0])


class _Lift(ast.NodeTransformer):
    """Replaces calls of the tested function by variables, outermost first."""

    def __init__(self, entry: str, first: int) -> None:
        self.entry = entry
        self.first = first
        self.lifted: dict[str, str] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not self._calls_entry(node):
            return self.generic_visit(node)
        name = f"_value{self.first + len(self.lifted)}"
        self.lifted[name] = ast.unparse(node)
        return ast.Name(name, ast.Load())

    def _calls_entry(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return False
        alone = len(node.args) == 1 and not node.keywords and node.func.id in _BUILTINS
        return node.func.id == self.entry or (alone and self._calls_entry(node.args[0]))


def _take_apart(test: ast.expr, entry: str, first: int) -> CodeTest:
    lift = _Lift(entry, first)
    if entry in _BUILTINS and isinstance(test, ast.Compare):
        # The expected value may be built with the same builtin, and must not reach the candidate.
        test.left = lift.visit(test.left)
    else:
        test = lift.visit(test)
    if not lift.lifted:
        raise TaskError(f"a test does not call {entry}: {ast.unparse(test)[:100]!r}")
    calls, names = tuple(lift.lifted.values()), tuple(lift.lifted)
    return CodeTest(entry, calls, names, ast.unparse(test), _literal_result(test))


def _literal_result(test: ast.expr) -> str | None:
    match test:
        case ast.Compare(left=ast.Name(), ops=[ast.Eq()], comparators=[right]):
            try:
                return canonical(encode(ast.literal_eval(right)))
            except ValueError:
                return None
        case _:
            return None


# The import lines and the tests of a question.
Gold = Mapping[str, Sequence[str]]

_DRIVER = Path(_code_driver.__file__).read_text("utf-8")
# A longer key is its hash: keys are compared, never read, and stand in every row.
_LONGEST_KEY = 200


@frozen
class Ran:
    """Result of running a candidate: ``key`` of its outputs (None: did not run), and if all tests passed."""

    key: str | None
    correct: bool


class Mbpp(Benchmark):
    """MBPP; gold ``{"imports": [...], "tests": [...]}``: all asserts must hold after the imports.

    The vote key is what the program returns for the calls in the asserts; the expected values are no part
    of it. A program that does not run, does not end within the limits or fails in every call abstains.
    Results are compared outside the sandbox, by their data. The prompt shows the first assert, which is
    the only place that names the function; the others stay unseen. ``unsafe_exec`` runs model code with
    the caller's rights where there is no bubblewrap.
    Licence of the data: CC BY 4.0.
    """

    name = "mbpp"
    space = "code"
    family = "code"
    max_tokens = 512
    limits = sandbox.Limits()
    data_set = DataSet(
        "google-research-datasets/mbpp",
        "sanitized",
        ("test", "train", "validation", "prompt"),
        ("task_id", "prompt", "code", "test_imports", "test_list"),
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
        """Return the Item of a row with all columns."""
        gold = {"imports": _lines(row, "test_imports"), "tests": _lines(row, "test_list")}
        parse(gold["tests"], gold["imports"])
        question = f"{text(row, 'prompt').strip()}\nThe program must pass this test:\n{gold['tests'][0]}"
        return self.item(question, gold, id=f"mbpp-{row['task_id']}", meta={"solution": text(row, "code")})

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether a program passes all tests; raises SandboxError without a safe sandbox."""
        return self.ran(answer, cast("Gold", gold)).correct

    def judge(self, item: Item, completion: Completion) -> ScoredText:
        """Return the reading of one completion by one run; ``not executable`` abstains."""
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
        """Return whether the data's program passes; True where code cannot be run."""
        try:
            return self.correct(item.meta["solution"], item.gold)
        except SandboxError:
            return True

    def ran(self, code: str, gold: Gold) -> Ran:
        """Return the result of running a program on the tests' calls."""
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
        """Return whether all asserts hold, non-literals evaluated in a second, clean run."""
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
        """Return one node per call; None where the program did not finish."""
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


task = Mbpp
