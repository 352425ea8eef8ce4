"""A statement and its key return the same rows of random tables: then equal keys are equal statements."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.answers import read, space

SQL = space("sql:dialect=sqlite")
COLUMNS = "abc"
RANDOM = st.randoms(use_true_random=False)


def expression(rng: random.Random, prefix: str, depth: int) -> str:
    """Return a random expression over the columns of one table, or of two where the prefix names them."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([f"{prefix}{rng.choice(COLUMNS)}", str(rng.randint(-2, 3)), "NULL", "'x'"])

    def part() -> str:
        inner = expression(rng, prefix, depth - 1)
        return f"({inner})" if rng.random() < 0.5 else inner

    forms = (
        *(
            f"{{}} {sign} {{}}"
            for sign in ("AND", "OR", "and", "=", "<>", "<", ">", "<=", ">=", "+", "-", "*")
        ),
        *(
            "{} / {}",
            "{} % {}",
            "{} || {}",
            "{} | {}",
            "{} & {}",
            "NOT {}",
            "- {}",
            "{} IS NULL",
            "{} IS NOT {}",
        ),
        *(
            "{} BETWEEN {} AND {}",
            "{} NOT BETWEEN {} AND {}",
            "{} IN ({}, {})",
            "{} NOT IN ({})",
            "{} LIKE {}",
        ),
        *("CASE WHEN {} THEN {} ELSE {} END", "CASE {} WHEN {} THEN {} END", "abs({})", "coalesce({}, {})"),
        *("{} IN (SELECT a FROM s)", "EXISTS (SELECT 1 FROM s AS z WHERE z.a = {})"),
    )
    form = rng.choice(forms)
    return form.format(*(part() for _ in range(form.count("{}"))))


def statement(rng: random.Random) -> str:
    """Return a random query: one table or two, aliases that may be names of columns, groups, orders."""
    alias = rng.choice(["", " AS x", " s", " AS a"])
    prefix = f"{alias.split()[-1]}." if alias and rng.random() < 0.6 else ""
    source = f"t{alias}"
    if rng.random() < 0.3:
        one, other = rng.choice([("p", "q"), ("s", "t"), ("t", "u"), ("a", "b")])
        join = rng.choice(["JOIN", "inner join", "LEFT OUTER JOIN", "LEFT JOIN"])
        on = f"{one}.{rng.choice(COLUMNS)} {rng.choice(['=', '<', '>='])} {other}.{rng.choice(COLUMNS)}"
        source = f"t AS {one} {join} {rng.choice(['s', 't'])} AS {other} ON {on}"
        prefix = f"{rng.choice([one, other])}."
    names = [rng.choice(["", " AS a", " AS b", " AS n", " AS m", " n2"]) for _ in range(rng.randint(1, 3))]
    columns = ", ".join(expression(rng, prefix, rng.randint(0, 2)) + name for name in names)
    where = f" WHERE {expression(rng, prefix, 3)}" if rng.random() < 0.8 else ""
    named = [name.split()[-1] for name in names if name]
    term = rng.choice(named) if named and rng.random() < 0.7 else expression(rng, prefix, 1)
    group = f" GROUP BY {term}" if rng.random() < 0.2 else ""
    having = f" HAVING {term} > 0" if group and rng.random() < 0.5 else ""
    order = f" ORDER BY {term}{rng.choice(['', ' ASC', ' DESC'])}" if not group and rng.random() < 0.3 else ""
    query = f"SELECT {rng.choice(['', '', 'DISTINCT '])}{columns} FROM {source}{where}{group}{having}{order}"
    if rng.random() < 0.15:
        query = f"WITH w AS (SELECT a, b AS c, c AS b FROM t) {query.replace('FROM t', 'FROM w')}"
    return f"{query} UNION ALL SELECT 1 FROM s AS y WHERE y.a > 1" if rng.random() < 0.1 else query


def tables(rng: random.Random) -> sqlite3.Connection:
    """Return a database of two small random tables with NULLs, numbers and texts."""
    made = sqlite3.connect(":memory:")
    for name in "ts":
        made.execute(f"CREATE TABLE {name} (a, b, c)")
        rows = [[rng.choice([None, -1, 0, 1, 2, 3, "x"]) for _ in COLUMNS] for _ in range(6)]
        made.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
    return made


def rows(database: sqlite3.Connection, query: str) -> Counter[tuple[object, ...]] | None:
    """Return what a query gives, in any order; None when it fails."""
    try:
        return Counter(database.execute(query).fetchall())
    except sqlite3.Error:
        return None


@pytest.mark.slow
@settings(max_examples=examples(80), deadline=None)
@given(rng=RANDOM)
def test_a_statement_and_its_key_return_the_same_rows(rng: random.Random) -> None:
    query = statement(rng)
    key = SQL.key(query)
    for _ in range(3):
        with closing(tables(rng)) as database:
            expected = rows(database, query)
            if key is not None and expected is not None:
                assert rows(database, key) == expected, (query, key)
    assert key is None or SQL.key(key) == key


Condition = tuple[object, ...]


def condition(rng: random.Random, depth: int) -> Condition:
    """Return a random condition as a tree: ("AND", one, two), ("NOT", one), ("=", "a", "1")."""
    if depth == 0 or rng.random() < 0.2:
        return (rng.choice(["=", "<>", "<", "<="]), rng.choice(COLUMNS), str(rng.randint(0, 2)))
    if rng.random() < 0.2:
        return ("NOT", condition(rng, depth - 1))
    return (rng.choice(["AND", "OR"]), condition(rng, depth - 1), condition(rng, depth - 1))


def written(tree: Condition, rng: random.Random, outer: int = 0) -> str:
    """Write a condition with sides in any order and needless parentheses."""
    sign, *parts = tree
    level = {"OR": 1, "AND": 2, "NOT": 3}.get(str(sign), 4)
    if level == 4:
        left, right = map(str, parts)
        flipped = {"<": ">", "<=": ">="}.get(str(sign), str(sign))
        if rng.random() < 0.3:
            left = f"({left})"
        text = f"{left} {sign} {right}" if rng.random() < 0.5 else f"{right} {flipped} {left}"
    elif sign == "NOT":
        text = f"NOT {written(parts[0], rng, 3)}"  # type: ignore[arg-type]
    else:
        rng.shuffle(parts)
        word = rng.choice([str(sign), str(sign).lower()])
        text = f" {word} ".join(written(part, rng, level) for part in parts)  # type: ignore[arg-type]
    return f"({text})" if level < outer or rng.random() < 0.3 else text


@settings(max_examples=examples(60), deadline=None)
@given(rng=RANDOM)
def test_conditions_have_one_key_in_any_dress_and_another_where_their_rows_differ(rng: random.Random) -> None:
    one, other = condition(rng, 3), condition(rng, 3)
    forms = [f"SELECT a, b, c FROM t WHERE {written(one, rng)}" for _ in range(3)]
    assert len({SQL.key(form) for form in forms}) == 1, forms
    changed = f"SELECT a, b, c FROM t WHERE {written(other, rng)}"
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE t (a, b, c)")
        cells = [(a, b, c) for a in range(3) for b in range(3) for c in range(3)]
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", cells)
        if rows(database, changed) != rows(database, forms[0]):
            assert SQL.key(changed) != SQL.key(forms[0])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "SELECT a FROM t WHERE (a > 1 OR b > 2) AND NOT c > 3",
            "SELECT a FROM t WHERE a > 1 OR b > 2 AND NOT c > 3",
        ),
        ("SELECT (a + b) * c FROM t", "SELECT a + b * c FROM t"),
        ("SELECT a - (b - c) FROM t", "SELECT a - b - c FROM t"),
        ("UPDATE t SET a = b", "UPDATE t SET b = a"),
        ("SELECT a AS b FROM t GROUP BY b", "SELECT a AS c FROM t GROUP BY c"),
        (
            "SELECT x.i FROM p.t AS x JOIN q.t AS y ON x.i = y.j",
            "SELECT y.i FROM p.t AS x JOIN q.t AS y ON x.i = y.j",
        ),
    ],
)
def test_statements_that_mean_something_else_have_another_key(one: str, other: str) -> None:
    assert None not in (SQL.key(one), SQL.key(other))
    assert SQL.key(one) != SQL.key(other)


def test_what_dialects_read_in_another_order_abstains() -> None:
    for text in (
        "SELECT a FROM t WHERE a < b = c",
        "SELECT a FROM t WHERE a IN (1) BETWEEN b AND c",
        "SELECT a | b & c FROM t",
    ):
        assert SQL.key(text) is None
        assert "add parentheses" in str(read(SQL, text).rule)
