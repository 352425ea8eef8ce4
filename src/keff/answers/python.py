"""Python programs by their syntax: comments, layout, docstrings and names of locals do not count."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence

from keff.answers.code import CodeSpace
from keff.answers.literal import parse
from keff.answers.parts.base import ByForm, Extracted, NotRead, height, nesting
from keff.records import frozen

# Functions that find a name by its text: where one is called, no name can be changed safely.
_LOOKS_UP = frozenset(("eval", "exec", "locals", "vars", "globals", "getattr", "__import__", "dir"))
_PREFIX = "v"
# Names that a program may have by itself and that renaming would give to another variable.
_OURS = re.compile(r"v\d+")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
# The nodes that write a name, and the field that holds it.
_NAME_FIELD: dict[type[ast.AST], str] = {
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef), "name"),
    **dict.fromkeys((ast.ExceptHandler, ast.MatchAs, ast.MatchStar), "name"),
    ast.MatchMapping: "rest",
    ast.Name: "id",
}
_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def rename(tree: ast.Module) -> ast.Module:
    """Rename a tree's local names by order of appearance, in place; returns the tree.

    A name is renamed in the scope of the function, lambda or comprehension that binds it, and where inner
    scopes refer to it. Left alone are globals, attributes, class bodies, names that ``global`` declares,
    parameters that a call of the program names (``f(x=1)``) or that are keyword-only, and programs that could
    look names up by their text (eval, exec, locals, vars, globals).
    """
    nodes = list(ast.walk(tree))
    names = set(filter(None, map(_named, nodes)))
    if names & _LOOKS_UP:
        return tree
    kept = {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg}
    kept |= {arg.arg for node in nodes if isinstance(node, ast.arguments) for arg in node.kwonlyargs}
    taken = kept
    if any(map(_OURS.fullmatch, names)):
        # A global that looks like one of our names keeps it for itself: found by renaming nothing.
        survey = _Renamer(names | {node.arg for node in nodes if isinstance(node, ast.arg)}, set())
        survey.visit(tree)
        taken = survey.free | kept
    _Renamer(kept, taken).visit(tree)
    return tree


class _Renamer(ast.NodeVisitor):
    def __init__(self, kept: set[str], taken: set[str]) -> None:
        self.kept, self.count = kept, 0
        self.scopes: list[dict[str, str]] = [{}]
        self.classes: set[int] = set()
        self.taken = taken
        self.free: set[str] = set()

    def _new(self) -> str:
        self.count += 1
        while f"{_PREFIX}{self.count}" in self.taken:
            self.count += 1
        return f"{_PREFIX}{self.count}"

    def _enter(self, names: Iterator[str]) -> None:
        scope: dict[str, str] = {}
        for name in names:
            if name not in scope:
                scope[name] = name if name in self.kept else self._new()
        self.scopes.append(scope)

    def _declare_globals(self, body: Sequence[ast.AST]) -> None:
        """Map a function's global names to themselves, whatever outer scopes call them."""
        for node in _inside(body):
            if isinstance(node, ast.Global):
                self.scopes[-1].update((name, name) for name in node.names)
                self.free.update(node.names)

    def _resolved(self, name: str) -> str:
        for depth in range(len(self.scopes) - 1, -1, -1):
            # What a class binds is seen in its body only, not from functions and comprehensions in it.
            if name in self.scopes[depth] and (depth not in self.classes or depth == len(self.scopes) - 1):
                return self.scopes[depth][name]
        self.free.add(name)
        return name

    def _visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        """Rename a node in the innermost scope, then all below it."""
        if name := _named(node):
            setattr(node, _NAME_FIELD[type(node)], self._resolved(name))
        super().generic_visit(node)

    def _function(self, node: Function | ast.Lambda) -> None:
        arguments, parameters = node.args, _parameters(node.args)
        if not isinstance(node, ast.Lambda):
            self._declared(node)
            self._visit_all([node.returns])
        self._visit_all([*arguments.defaults, *arguments.kw_defaults])
        self._visit_all(each.annotation for each in parameters)
        self._enter(_bound(node))
        self._declare_globals(_body(node))
        for each in parameters:
            each.arg = self._resolved(each.arg)
        self._visit_all(_body(node))
        self.scopes.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def _declared(self, node: Function | ast.ClassDef) -> None:
        """Rename a declared function or class, and its decorators."""
        node.name = self._resolved(node.name)
        self._visit_all(node.decorator_list)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._declared(node)
        self._visit_all([*node.bases, *node.keywords])
        # Names of a class body are attributes: they are seen from outside.
        self.classes.add(len(self.scopes))
        self.scopes.append({name: name for name in _assigned(node.body)})
        self._declare_globals(node.body)
        self._visit_all(node.body)
        self.scopes.pop()
        self.classes.discard(len(self.scopes))

    def _comprehension(self, node: Comprehension) -> None:
        first, *others = node.generators
        self.visit(first.iter)
        self._enter(name for each in node.generators for name in _targets(each.target))
        self._visit_all([first.target, *first.ifs, *others])
        self._visit_all(getattr(node, part, None) for part in ("elt", "key", "value"))
        self.scopes.pop()

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        node.names = [self._resolved(name) for name in node.names]

    def visit_alias(self, node: ast.alias) -> None:
        bound = node.asname or node.name.partition(".")[0]
        new = self._resolved(bound)
        if new != bound:
            node.asname = new


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    stars = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *stars]


def _body(node: Function | ast.Lambda) -> Sequence[ast.AST]:
    return [node.body] if isinstance(node, ast.Lambda) else node.body


def _bound(node: Function | ast.Lambda) -> Iterator[str]:
    """Yield the names a function binds, parameters first, without global and nonlocal ones."""
    body = _body(node)
    declared = {
        name
        for inner in _inside(body)
        if isinstance(inner, ast.Global | ast.Nonlocal)
        for name in inner.names
    }
    yield from (each.arg for each in _parameters(node.args))
    yield from (name for name in _assigned(body) if name not in declared)


def _named(node: ast.AST) -> str | None:
    """Return the name that a node writes, or None."""
    return getattr(node, _NAME_FIELD.get(type(node), ""), None)


def _assigned(body: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the names that statements bind in their own scope, in text order."""
    for node in _inside(body):
        if isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
        elif not isinstance(getattr(node, "ctx", None), ast.Load) and (name := _named(node)):
            yield name


def _inside(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield nodes in text order, without inner scopes (but with their walrus targets)."""
    for node in nodes:
        yield node
        if isinstance(node, _FUNCTIONS + _COMPREHENSIONS + (ast.ClassDef,)):
            yield from (
                inner.target
                for inner in ast.walk(node)
                if isinstance(node, _COMPREHENSIONS) and isinstance(inner, ast.NamedExpr)
            )
            continue
        yield from _inside(list(ast.iter_child_nodes(node)))


def _targets(target: ast.AST) -> Iterator[str]:
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


# Longer ones are not parsed: this bounds the time that a hostile answer can take.
MOST_CHARACTERS = 50_000
# Deeper nesting is refused before the parser's own stack is at risk.
DEEPEST = 90

_CODE = CodeSpace()


@frozen
class PythonSpace(ByForm):
    """Answer space of programs: equal syntax trees, up to docstrings and local names.

    Local variables and parameters of functions are numbered in the order in which they appear; names of
    functions, classes, attributes and globals count. Equal keys are equal programs, but programs that do the
    same in another way differ: where there are tests, vote on outcomes (task ``mbpp``). Text that is not
    Python abstains. Nothing is executed.
    """

    name = "python"
    contract = "End with the complete program in one ```python block."

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the program as space ``code`` does: the last fenced block with a definition."""
        return _CODE.extract(text, truncated=truncated)

    def form(self, answer: str) -> str:
        """Return the program's canonical form; raises NotRead."""
        return _form(answer)


def _form(source: str) -> str:
    tree = _parsed(source)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            # A body must hold something; of nothing but a docstring, as of nothing but pass, nothing is said.
            node.body = node.body[1:] or ([] if isinstance(node, ast.Module) else [ast.Pass()])
    if not tree.body:
        raise NotRead("no program")
    try:
        return ast.unparse(rename(tree))
    except (RecursionError, ValueError) as error:
        raise NotRead(f"cannot be written: {type(error).__name__}") from None


def _parsed(source: str) -> ast.Module:
    if len(source) > MOST_CHARACTERS:
        raise NotRead(f"longer than {MOST_CHARACTERS:,} characters")
    source = source.replace("\r\n", "\n")
    # What stands in strings counts too.
    if nesting(source) > DEEPEST:
        raise NotRead(f"nested more than {DEEPEST} deep")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = parse(source)
        except SyntaxError as error:
            raise NotRead(f"not Python: line {error.lineno or 1}") from None
        except (ValueError, RecursionError, MemoryError, OverflowError) as error:
            raise NotRead(f"not Python: {type(error).__name__}") from None
    if height(tree, ast.iter_child_nodes, DEEPEST) > DEEPEST:
        raise NotRead(f"nested more than {DEEPEST} deep")
    return tree


space = PythonSpace
