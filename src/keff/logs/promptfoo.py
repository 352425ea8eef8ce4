"""Results of promptfoo (``promptfoo eval -o results.json``): repeats of a test case are its paths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, NoteSink, ignore
from keff.logs.parts.field_table import FieldReader, FieldTable, milliseconds_at
from keff.logs.parts.foreign import mark
from keff.logs.parts.lines import Row
from keff.logs.parts.values import at, inner, spoken
from keff.narrow import Fields, only

# ``failureReason`` of a call that failed; 1 is a failed assertion, which is a verdict.
ERROR = 2


class Promptfoo(FieldReader):
    """Reader of promptfoo's results, as JSON.

    ``--repeat`` writes every repeat as a test of its own, so tests with equal variables and assertions are
    one question. Each provider, or each provider and prompt where there are several prompts, is a branch.
    ``success`` is the verdict. Calls that failed are left out and counted.
    """

    name = "promptfoo"
    table = FieldTable(
        names=("evalId", "results"),
        # Older versions wrote the list without an object around it.
        rows=("results/results", "results"),
        fields={
            "id": "asked",
            "model": "branch",
            "text": lambda row: spoken(at(row, "response/output")),
            "correct": "success",
            "question": "question",
            "tokens": "response/tokenUsage/completion",
            "prompt_tokens": "response/tokenUsage/prompt",
            "seconds": milliseconds_at("latencyMs"),
        },
        left_out={
            "failed": lambda row: row.get("failureReason") == ERROR or at(row, "response/output") is None
        },
    )

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        return LogInfo(model=only({_provider(row) for _, row in super().rows_in(path)}))

    def rows_in(self, path: Path, tell: NoteSink = ignore) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of every result, with the name of its test, its branch and its question."""
        rows = list(super().rows_in(path, tell))
        several = len({str(row.get("promptIdx")) for _, row in rows}) > 1
        for where, row in rows:
            branch, question = _provider(row), at(row, "prompt/raw")
            if several:
                branch, question = f"{branch} prompt {row.get('promptIdx')}", None
            yield where, row | {"asked": _test(where, row), "branch": branch, "question": question}


def _test(where: str, row: Row) -> str:
    """Return the name of a test: equal variables and assertions are one."""
    case, given = inner(row, "testCase"), inner(row, "vars")
    named = sorted(inner(case, "vars"))
    if not set(named) <= set(given):
        raise LogError(f"{where}: its variables are not those of its test case")
    return mark([[given[name] for name in named], case.get("assert"), case.get("description")])


def _provider(result: Fields) -> str:
    return str(at(result, "provider/label", "provider/id", "provider"))


log = Promptfoo
