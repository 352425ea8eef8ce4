"""SQL statements, compared by what they say: layout, case and aliases do not count (extra "sql")."""

from __future__ import annotations

import re
from functools import lru_cache

import sqlglot

from keff.answers.parts import sql_form
from keff.answers.parts.base import MARK, ByForm, Extracted, NotRead, fences
from keff.answers.parts.thinking import strip_thinking
from keff.records import frozen

# Only so much of the end is searched: final answers stand there, and the time stays bounded.
_TAIL = 200_000
# A statement begins its line, behind a quotation mark or a label at most: a keyword within a sentence is
# prose.
_BEGIN = re.compile(
    r"^[ \t>*`]{0,40}(?:(?:final[ ])?(?:answer|query|sql)(?:[ ]is)?[ ]?:[ *`]{0,10})?"
    r"((?:SELECT|WITH|INSERT[ ]+INTO|UPDATE|DELETE[ ]+FROM|MERGE[ ]+INTO|CREATE|DROP|ALTER)\b)",
    re.IGNORECASE | re.MULTILINE,
)
# Marks of a block that may hold SQL; none at all is frequent.
_SQL = frozenset(
    ("", "sql", "sqlite", "postgres", "postgresql", "mysql", "bigquery", "snowflake", "tsql", "duckdb")
)
# A statement ends with its semicolon, a blank line or the end of its block.
_END = re.compile(r";|\n[ \t]{0,40}\n|```")


@frozen
class SqlSpace(ByForm):
    """Answer space of SQL: statements with the same canonical form are equal.

    Folded are layout, comments, the case of keywords and unquoted names, aliases of tables and of outermost
    columns (but not those that WHERE, GROUP BY or HAVING refer to), the order of conditions under AND and OR,
    the sides of =, needless parentheses, and words that say the default; the order of columns and joins
    counts. Where dialects differ in what binds tighter (a < b = c), a statement abstains. Two queries that
    only return the same rows differ: where there is a database, vote on results with ``--answer-key``.
    ``dialect`` is one of sqlglot's (postgres, sqlite, ...).
    What sqlglot cannot parse abstains.
    """

    dialect: str = ""
    name = "sql"
    contract = "End with the complete query in one ```sql block."

    def __post_init__(self) -> None:
        known = sorted(each.lower() for each in sqlglot.Dialects.__members__ if each != "DIALECT")
        if self.dialect and self.dialect not in known:
            raise ValueError(f"dialect {self.dialect!r} is not one of sqlglot's: {', '.join(known)}")

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the last fenced block of SQL; else the last statement that begins a line."""
        text = strip_thinking(text)[-_TAIL:]
        blocks = [block for block in fences(text) if block.language in _SQL and _BEGIN.search(block.content)]
        if blocks:
            return Extracted(blocks[-1].content.strip(), "fence")
        if truncated:
            return None
        begins = list(_BEGIN.finditer(text))
        if not begins:
            return None
        last = _first_of_statement(text, begins)
        end = _END.search(text, last)
        # A fence that was never closed holds the statement too.
        answer = text[last : end.start() if end else len(text)].strip(" \n\t`*")
        return Extracted(answer, "open fence" if MARK in text[:last] else "statement")

    def form(self, answer: str) -> str:
        """Return the statement's canonical form; raises NotRead."""
        return _form(answer, self.dialect)


def _first_of_statement(text: str, begins: list[re.Match[str]]) -> int:
    """Return where the last statement begins; WITH ... SELECT is one statement."""
    start = begins[-1].start(1)
    for begin in reversed(begins[:-1]):
        if _END.search(text, begin.start(1), start):
            break
        start = begin.start(1)
    return start


@lru_cache(maxsize=2**16)
def _form(answer: str, dialect: str) -> str:
    text = answer.strip().strip("`").strip().rstrip(";").strip()
    if not text:
        raise NotRead("no answer")
    return sql_form.canonical(text, dialect)


space = SqlSpace
