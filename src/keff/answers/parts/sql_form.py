"""Canonical SQL, by sqlglot: statements that differ only in layout, aliases or order are made equal.

Folded are layout, comments, the case of keywords and of names that are not quoted, aliases of tables and
of the outermost columns, qualifiers where there is one table, the order of what AND, OR, = and IN join,
parentheses that group nothing, and words that say the default (ASC, INNER, OUTER). Left alone is what could
matter: the order of columns and joins, aliases inside subqueries, aliases that WHERE, GROUP BY or HAVING
refer to (a column of the table may have that name), and qualifiers over several tables (nobody knows the
schema).
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from keff.answers.parts.base import NotRead, height, nesting, settled

# The base class of sqlglot's nodes is named otherwise from version to version.
Tree: TypeAlias = Any

# Longer ones are not parsed: this bounds the time that a hostile answer can take.
MOST_CHARACTERS = 20_000
# Deeper nesting is refused before the parser's own stack is at risk.
DEEPEST = 20
# The height of a tree of statements, for Python's stack holds the walk over it.
HIGHEST = 60

# What asks or changes; a PRAGMA or SET is no answer to a question about data.
_STATEMENTS = (exp.Query, exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Alter)
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
# a > b is b < a: one direction is kept, so that both are one answer.
_FLIPPED: dict[type[Tree], type[Tree]] = {exp.GT: exp.LT, exp.GTE: exp.LTE}
# ALL and ANY stand on the right only, so such a comparison is not turned around.
_COMPARED_WITH_ALL = (exp.All, exp.Any)
_ATOMS = (
    *(exp.Column, exp.Literal, exp.Null, exp.Boolean, exp.Star, exp.Placeholder, exp.Parameter, exp.Paren),
    *(exp.Subquery, exp.Tuple, exp.Case, exp.Exists, *_COMPARED_WITH_ALL),
)
_ASSIGNS = (exp.Update, exp.OnConflict)
_SUMS, _PRODUCTS = (exp.Add, exp.Sub), (exp.Mul, exp.Div, exp.Mod)
_OTHERS = (exp.Neg, exp.BitwiseNot, exp.DPipe, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
# What binds tighter than what in every dialect. All else stands in parentheses within another operator.
_LEVELS: tuple[tuple[tuple[type[Tree], ...], int], ...] = (
    ((exp.Or,), 1),
    ((exp.And,), 2),
    ((exp.Not,), 3),
    ((exp.Predicate, exp.Escape), 4),
    (_SUMS, 5),
    (_PRODUCTS, 6),
)

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.ILike, exp.Is)
_OPERATORS = (
    *(exp.Or, exp.And, exp.Xor, exp.Not, exp.Between, exp.In),
    *(*_COMPARISONS, *_SUMS, *_PRODUCTS, *_OTHERS),
)
# Nodes whose children end by a word, a comma or a bracket, so that parentheses around them group nothing.
_DELIMITED = (
    *(exp.Where, exp.Having, exp.Join, exp.Select, exp.Alias, exp.Ordered, exp.Group, exp.Tuple, exp.Case),
    *(exp.If, exp.Paren, exp.Func, exp.Distinct, exp.Limit, exp.Offset),
)

_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|[()]")

# sqlglot logs what it cannot parse; here that is an abstention with a reason.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


def canonical(text: str, dialect: str) -> str:
    """Return SQL's canonical form; raises NotRead."""
    # Numbers of aliases follow the order of the text, which sorting changes: until nothing changes.
    try:
        return settled(
            lambda each: "; ".join(_canonical_sql(tree, dialect) for tree in _parse(each, dialect)), text
        )
    except (RecursionError, SqlglotError) as error:
        raise NotRead(f"not normalised: {type(error).__name__}") from None


def _canonical_sql(tree: Tree, dialect: str) -> str:
    folding = _Folding(Counter(_table_name(table) for table in tree.find_all(exp.Table)))
    folding.query(tree, [], {})
    _fold_output(tree)
    tree = tree.transform(_plain, copy=False)
    _group(tree)
    _sort(tree, dialect)
    return _sql(tree, dialect)


def _parse(text: str, dialect: str) -> list[Tree]:
    if len(text) > MOST_CHARACTERS:
        raise NotRead(f"longer than {MOST_CHARACTERS:,} characters")
    if nesting(text, _QUOTED) > DEEPEST:
        raise NotRead(f"nested more than {DEEPEST} deep")
    try:
        trees = [tree for tree in sqlglot.parse(text, read=dialect or None) if tree is not None]
    except (SqlglotError, RecursionError, ValueError) as error:
        raise NotRead(
            "not SQL" if isinstance(error, SqlglotError) else f"not SQL: {type(error).__name__}"
        ) from None
    if not trees or not all(isinstance(tree, _STATEMENTS) for tree in trees):
        raise NotRead("not a statement of SQL")
    if any(isinstance(tree, exp.Select) and not tree.expressions for tree in trees):
        raise NotRead("a SELECT without columns")
    if any(height(tree, lambda node: node.iter_expressions(), HIGHEST) > HIGHEST for tree in trees):
        raise NotRead("too long a chain of operators")
    return trees


def _sql(tree: Tree, dialect: str) -> str:
    return tree.sql(dialect=dialect or None, comments=False, normalize_functions="upper")


@dataclass(slots=True)
class _Folding:
    """Renames the aliases of one statement canonically."""

    uses: Counter[str]
    count: int = 0

    def _next_name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def query(self, node: Tree, scopes: list[dict[str, str]], ctes: dict[str, str]) -> None:
        """Rename a node and all below it; ``scopes`` map aliases to names, outermost first."""
        if isinstance(node, exp.Identifier):
            _fold_name(node)
            return
        with_ = node.args.get("with_")
        if with_ is not None:
            ctes = self._ctes(with_, scopes, ctes)
        sources = list(_sources(node)) if isinstance(node, exp.Select) else []
        if sources:
            scopes = [*scopes, self._scope(sources, scopes, ctes)]
        if isinstance(node, exp.Column) and node.table:
            self._qualifier(node, scopes)
        if isinstance(node, exp.Table):
            _rename_table(node, ctes)
        for child in list(node.iter_expressions()):
            if child is not with_ and not any(child is source for source in sources):
                self.query(child, scopes, ctes)

    def _ctes(self, with_: Tree, scopes: list[dict[str, str]], ctes: dict[str, str]) -> dict[str, str]:
        for cte in with_.expressions:
            name = cte.alias.lower()
            if with_.args.get("recursive"):
                ctes = ctes | {name: name}
            self.query(cte.this, scopes, ctes)
            ctes = ctes | {name: name if with_.args.get("recursive") else self._next_name("cte")}
            _set_alias(cte, ctes[name])
        return ctes

    def _scope(
        self, sources: list[Tree], scopes: list[dict[str, str]], ctes: dict[str, str]
    ) -> dict[str, str]:
        scope: dict[str, str] = {}
        for source in sources:
            alias = source.alias_or_name.lower()
            # A table that is used twice, wherever, needs its alias: else its names could mean either.
            single = self.uses[_table_name(source)] == 1
            if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
                for part in source.find_all(exp.Identifier):
                    _fold_name(part)
                _rename_table(source, ctes)
                new = source.name if single else self._next_name(source.name)
                _set_alias(source, "" if single else new)
            elif isinstance(source, exp.Subquery):
                self.query(source.this, scopes, ctes)
                new = self._next_name("query")
                _set_alias(source, new)
            else:
                self.query(source, scopes, ctes)
                new = alias
            scope[alias] = new
        return scope

    def _qualifier(self, column: exp.Column, scopes: list[dict[str, str]]) -> None:
        alias = column.table.lower()
        for depth, scope in enumerate(reversed(scopes)):
            if alias in scope:
                # Unqualified, a name of an outer query would be looked for in the inner one first.
                new = "" if depth == 0 and len(scope) == 1 else scope[alias]
                column.set("table", exp.to_identifier(new) if new else None)
                if not new:
                    column.set("db", None)
                return


def _sources(select: exp.Select) -> Iterator[Tree]:
    """Yield the tables and subqueries of a SELECT, from FROM and its joins."""
    from_ = select.args.get("from_")
    if from_ is not None:
        yield from_.this
        yield from (join.this for join in select.args.get("joins") or ())


def _table_name(source: Tree) -> str:
    """Return the last part of a table's name, without its schema."""
    return source.name.lower() if isinstance(source, exp.Table) else ""


def _rename_table(table: exp.Table, ctes: dict[str, str]) -> None:
    if not table.db and table.name.lower() in ctes:
        table.set("this", exp.to_identifier(ctes[table.name.lower()]))


def _set_alias(node: Tree, name: str) -> None:
    alias = node.args.get("alias")
    columns = alias.args.get("columns") if alias is not None else None
    named = exp.TableAlias(this=exp.to_identifier(name), columns=columns) if name or columns else None
    node.set("alias", named)


def _fold_name(identifier: exp.Identifier) -> None:
    if not identifier.args.get("quoted"):
        identifier.set("this", identifier.this.lower())
    elif _PLAIN_NAME.fullmatch(identifier.this):
        identifier.set("quoted", False)


def _fold_output(tree: Tree) -> None:
    """Drop the outermost columns' aliases, and replace them in ORDER BY by their expressions.

    Only there an alias goes before a column of the table: what else names it keeps it.
    """
    if not isinstance(tree, exp.Select):
        return
    aliased = [each for each in tree.expressions if isinstance(each, exp.Alias)]
    aliases = {each.alias: each for each in aliased}
    if len(aliases) < len(aliased):
        return
    order = tree.args.get("order")
    terms = [term.this for term in order.expressions] if order is not None else []
    referring = [term for term in terms if _is_bare(term) and term.name in aliases]
    at = set(map(id, referring))
    elsewhere = {column.name for column in tree.find_all(exp.Column) if id(column) not in at}
    for name, each in aliases.items():
        same_name = isinstance(each.this, exp.Column) and each.this.name == name
        # In the alias's place a number would be that of a column, and a subquery would be there twice.
        ordered = any(term.name == name for term in referring)
        plain = each.this.find(exp.Column) is not None and each.this.find(exp.Query) is None
        plain = plain or each.this.find(exp.AggFunc) is not None
        if same_name or not (name in elsewhere or (ordered and not plain)):
            for term in referring:
                if term.name == name:
                    term.replace(each.this.copy())
            each.replace(each.this)


def _is_bare(node: Tree) -> bool:
    return isinstance(node, exp.Column) and not node.table


def _plain(node: Tree) -> Tree:
    """Remove default keywords (ASC, INNER, OUTER) from one node."""
    kind = node.args.get("kind") if isinstance(node, exp.Join) else None
    if kind == "INNER" or (kind == "OUTER" and node.args.get("side")):
        node.set("kind", None)
    elif isinstance(node, exp.Ordered) and node.args.get("desc") is False:
        node.set("desc", None)
    return node


def _group(tree: Tree) -> None:
    """Set parentheses exactly where they are needed.

    The generator of sqlglot writes those of the tree only, and AND and OR are functions to it: all are taken
    off first and set again by what binds tighter.
    """
    for node in tree.walk():
        if isinstance(node, _OPERATORS) and any(_depends(node, child) for child in node.iter_expressions()):
            raise NotRead("operators whose order depends on the dialect: add parentheses")
    for paren in list(tree.find_all(exp.Paren)):
        parent = paren.parent
        delimited = isinstance(parent, _DELIMITED) and not isinstance(parent, exp.Binary)
        if delimited or isinstance(parent, _OPERATORS):
            paren.replace(paren.this)
    for node in list(tree.walk()):
        if isinstance(node, _OPERATORS):
            for part in ("this", "expression", "low", "high"):
                child = node.args.get(part)
                if child is not None and _needs_parentheses(node, part, child):
                    node.set(part, exp.Paren(this=child))


def _depends(node: Tree, child: Tree) -> bool:
    """Return whether dialects disagree on precedence: ``a < b = c``, ``a || b * c``, ``a | b & c``."""
    if not isinstance(child, _OPERATORS) or isinstance(child, exp.Neg):
        return False
    outer, inner = _level(node), _level(child)
    if outer == 4:
        # In (x, y) commas part them.
        return 0 < inner <= 4 and not (isinstance(node, exp.In) and child is not node.this)
    return (outer == 0 or outer > 4) and not (outer and inner) and type(node) is not type(child)


def _needs_parentheses(node: Tree, part: str, child: Tree) -> bool:
    negative = isinstance(child, exp.Neg) and isinstance(child.this, exp.Literal)
    function = isinstance(child, exp.Func) and not isinstance(child, exp.Binary | exp.Predicate)
    if isinstance(child, _ATOMS) or function or (negative and not isinstance(node, exp.Neg)):
        return False
    outer, inner = _level(node), _level(child)
    if not outer or not inner:
        return True
    if outer <= 3:
        return inner < outer
    return inner < outer or (inner == outer and (outer == 4 or part != "this"))


def _level(node: Tree) -> int:
    return next((level for kinds, level in _LEVELS if isinstance(node, kinds)), 0)


def _sort(tree: Tree, dialect: str) -> None:
    """Sort commutative operands, innermost first."""
    for node in reversed(list(tree.walk(bfs=True))):
        if isinstance(node, exp.And | exp.Or) and not isinstance(node.parent, type(node)):
            _sort_chain(node, dialect)
        elif isinstance(node.args.get("expression"), _COMPARED_WITH_ALL) or isinstance(node.parent, _ASSIGNS):
            continue  # x > ALL (...) has no other side; SET a = b is no comparison
        elif isinstance(node, exp.EQ | exp.NEQ):
            left, right = node.this, node.expression
            if _sql(left, dialect) > _sql(right, dialect):
                node.set("this", right)
                node.set("expression", left)
        elif type(node) in _FLIPPED:
            node.replace(_FLIPPED[type(node)](this=node.expression, expression=node.this))
        elif isinstance(node, exp.In) and node.expressions:
            node.set("expressions", sorted(node.expressions, key=lambda each: _sql(each, dialect)))


def _sort_chain(node: Tree, dialect: str) -> None:
    parts = sorted(node.flatten(unnest=False), key=lambda each: _sql(each, dialect))
    kind = cast("Any", type(node))
    chain = parts[0].copy()
    for part in parts[1:]:
        chain = kind(this=chain, expression=part.copy())
    node.replace(chain)
