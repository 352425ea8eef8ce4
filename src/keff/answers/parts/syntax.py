"""Python source as a tree, in one thread at a time."""

from __future__ import annotations

import ast
import threading
from typing import Literal, overload

# CPython before 3.12.1 counts the depth of a tree for all threads at once: where two build trees, one fails
# with SystemError (gh-106905). Paths are read in threads.
_ALONE = threading.RLock()


@overload
def parse(source: str) -> ast.Module: ...
@overload
def parse(source: str, mode: Literal["eval"]) -> ast.Expression: ...
def parse(source: str, mode: Literal["exec", "eval"] = "exec") -> ast.AST:
    """Return the tree of a program or expression; raises what ``ast.parse`` raises."""
    with _ALONE:
        return ast.parse(source, mode=mode)
