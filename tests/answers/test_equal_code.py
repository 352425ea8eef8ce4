"""SQL statements: layout, case and aliases never change a key."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.answers import read, space

NAMES = st.sampled_from(["users", "orders", "items", "t1"])
COLUMNS = st.lists(st.sampled_from(["id", "name", "total", "age"]), min_size=1, max_size=3, unique=True)


@settings(max_examples=examples(30), deadline=None)
@given(table=NAMES, columns=COLUMNS, limit=st.integers(0, 9), alias=st.sampled_from(["x", "q", "zz"]))
def test_layout_case_and_aliases_never_change_a_statement(
    table: str, columns: list[str], limit: int, alias: str
) -> None:
    sql = space("sql")
    plain = f"SELECT {', '.join(columns)} FROM {table} WHERE id > {limit} AND name = 'Bo'"
    named = [f"{alias}.{name} AS out_{i}" for i, name in enumerate(columns)]
    other = (
        f"select\n  {', '.join(named)} -- columns\nfrom {table.upper()} as {alias}\n"
        f"where {alias}.NAME = 'Bo' and {limit} < {alias}.id;"
    )
    key = sql.key(plain)
    assert key is not None
    assert key == sql.key(other)
    assert sql.key(key) == key
    changed = (
        plain.replace(f"> {limit}", f"> {limit + 1}"),
        plain.replace("Bo", "bo"),
        plain.replace("AND", "OR"),
        plain.replace(f"FROM {table}", "FROM elsewhere"),
        plain.replace(columns[0], f"{columns[0]}2", 1),
    )
    assert all(sql.key(each) != key for each in changed)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT a FROM t WHERE", "not SQL"),
        ("SELECT a FROM (SELECT b FROM t", "not SQL"),
        ("}", "not SQL"),
        ("hello world", "not a statement of SQL"),
        ("SELECT " + "(" * 5_000 + "1" + ")" * 5_000, "nested more than 20 deep"),
        ("SELECT " + "1 + " * 10_000 + "1", "longer than 20,000 characters"),
        ("SELECT " + "1+" * 5_000 + "1", "too long a chain of operators"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_not_sql_has_no_key_and_a_reason(text: str, reason: str) -> None:
    sql: Any = space("sql")
    assert sql.key(text) is None
    assert sql.why(text) == reason


@pytest.mark.parametrize(
    ("text", "answer", "rule"),
    [
        ("Use this:\n```sql\nSELECT a\nFROM t;\n```\nDone.", "SELECT a FROM t", "fence"),
        ("The query is:\nSELECT a\nFROM t;\nIt lists all.", "SELECT a FROM t", "statement"),
        ("WITH x AS (\n  SELECT 1 AS a\n)\nSELECT a\nFROM x", None, "statement"),
        ("Answer: SELECT a FROM t", "SELECT a FROM t", "statement"),
        ("I would select the first.", None, "not a statement of SQL"),
    ],
)
def test_statements_of_several_lines_are_read_whole(text: str, answer: str | None, rule: str) -> None:
    said = read(space("sql"), text)
    assert said.rule == rule or said.key is None
    if answer is not None:
        assert said.key == answer
    if rule == "statement":
        assert said.key is not None
    assert read(space("sql"), "```sql\nSELECT a FROM t", truncated=True).key is None
