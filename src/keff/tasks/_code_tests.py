"""Asserts taken apart: what to evaluate beside a candidate, and how to judge what it returned elsewhere."""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from keff.answers._syntax import parse as parsed
from keff.errors import TaskError
from keff.tasks._code_driver import encode, unhexed

if TYPE_CHECKING:
    from keff.tasks._code_driver import Node

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_BUILTINS = frozenset(dir(builtins))


@dataclass(frozen=True, slots=True)
class CodeTest:
    """One assert.

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
    """Take asserts apart; raises TaskError for what is not one assert that calls the tested function.

    The tested function is the first one called by the first assert that is neither a builtin nor bound by the
    ``imports`` of the tests: what judges an answer must not be evaluated beside the candidate. A builtin with
    one argument around its call (``set(f(x)) == ...``) is evaluated with it: only what it leaves is tested.
    """
    trees = [_assertion(source) for source in sources]
    if not trees:
        raise TaskError("there are no tests")
    entry = _entry(trees[0], _bound(imports))
    return tuple(_take_apart(tree, entry, first=at * 1000) for at, tree in enumerate(trees))


def canonical(node: Node) -> str:
    """Return the text of a node: equal for values that Python's ``==`` calls equal (and for two NaN).

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


def _bound(imports: Sequence[str]) -> frozenset[str]:
    """Return the names that import lines bind."""
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
    """Return the tested function's name; ``sum(10, 15) == 6`` may test one that shadows a builtin."""
    called = [
        node.func.id
        for node in ast.walk(test)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in bound
    ]
    if not called:
        raise TaskError(f"a test calls no function: {ast.unparse(test)[:100]!r}")
    return next((name for name in called if name not in _BUILTINS), called[0])


class _Lift(ast.NodeTransformer):
    """Replaces calls of the tested function by names, outermost first."""

    def __init__(self, entry: str, first: int) -> None:
        self.entry = entry
        self.first = first
        self.lifted: dict[str, str] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not self._tested(node):
            return self.generic_visit(node)
        name = f"_value{self.first + len(self.lifted)}"
        self.lifted[name] = ast.unparse(node)
        return ast.Name(name, ast.Load())

    def _tested(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return False
        alone = len(node.args) == 1 and not node.keywords and node.func.id in _BUILTINS
        return node.func.id == self.entry or (alone and self._tested(node.args[0]))


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
    return CodeTest(entry, calls, names, ast.unparse(test), _expected(test))


def _expected(test: ast.expr) -> str | None:
    match test:
        case ast.Compare(left=ast.Name(), ops=[ast.Eq()], comparators=[right]):
            try:
                return canonical(encode(ast.literal_eval(right)))
            except ValueError:
                return None
        case _:
            return None
