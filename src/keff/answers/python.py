"""Python programs by their syntax: comments, layout, docstrings and names of locals do not count."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from typing import ClassVar

from keff.answers._base import Extracted, same_key
from keff.answers._locals import rename
from keff.answers._syntax import parse
from keff.answers.code import CodeSpace

MOST_CHARACTERS = 50_000
DEEPEST = 90

_CODE = CodeSpace()
_BRACKETS = re.compile(r"[()\[\]{}]")


class _Refused(ValueError):
    """Why a program has no key."""


@dataclass(frozen=True, slots=True)
class PythonSpace:
    """Programs are one answer when their syntax trees are equal up to docstrings and names of locals.

    Local variables and parameters of functions are numbered in the order in which they appear; names of
    functions, classes, attributes and globals count. Equal keys are equal programs, but programs that do the
    same in another way differ: where there are tests, vote on outcomes (task ``mbpp``). Text that is not
    Python abstains. Nothing is executed.
    """

    name: ClassVar[str] = "python"
    closed: ClassVar[bool] = False
    contract: ClassVar[str] = "End with the complete program in one ```python block."

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Read the program as the space ``code`` does: the last fenced block that defines something."""
        return _CODE.extract(text, truncated=truncated)

    def key(self, answer: str) -> str | None:
        """Return the program in its one form; None when it is not Python."""
        try:
            return _form(answer)
        except _Refused:
            return None

    def why(self, text: str) -> str | None:
        """Return why a text or an answer abstains; None when it does not."""
        try:
            _form(text)
        except _Refused as reason:
            return str(reason)
        return None

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether the programs have the same form."""
        return same_key(self, answer, gold)


def _form(source: str) -> str:
    tree = _parsed(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            _drop_docstring(node)
    if not tree.body:
        raise _Refused("no program")
    try:
        return ast.unparse(rename(tree))
    except (RecursionError, ValueError) as error:
        raise _Refused(f"cannot be written: {type(error).__name__}") from None


def _parsed(source: str) -> ast.Module:
    if len(source) > MOST_CHARACTERS:
        raise _Refused(f"longer than {MOST_CHARACTERS:,} characters")
    source = source.replace("\r\n", "\n")
    if _nesting(source) > DEEPEST:
        raise _Refused(f"nested more than {DEEPEST} deep")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = parse(source)
        except SyntaxError as error:
            raise _Refused(f"not Python: line {error.lineno or 1}") from None
        except (ValueError, RecursionError, MemoryError, OverflowError) as error:
            raise _Refused(f"not Python: {type(error).__name__}") from None
    if _depth(tree) > DEEPEST:
        raise _Refused(f"nested more than {DEEPEST} deep")
    return tree


def _nesting(source: str) -> int:
    """Return how many brackets are open at once at most; what stands in strings counts too."""
    depth = deepest = 0
    for bracket in _BRACKETS.finditer(source):
        depth += 1 if bracket[0] in "([{" else -1
        deepest = max(deepest, depth)
    return deepest


def _depth(tree: ast.AST) -> int:
    """Return the height of a tree, without recursion: Python's own limit depends on who calls."""
    depth, level = 0, [tree]
    while level and depth <= DEEPEST:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def _drop_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module) -> None:
    first = node.body[0] if node.body else None
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        # A body must hold something; of nothing but a docstring, as of nothing but pass, nothing is said.
        node.body = node.body[1:] or ([] if isinstance(node, ast.Module) else [ast.Pass()])


def space() -> PythonSpace:
    """Make the space; see ``PythonSpace``."""
    return PythonSpace()
