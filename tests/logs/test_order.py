"""The order of an object's members, and members that no reader knows, change nothing that is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.logs import log_bases
from keff.log import Question, find_log

# Objects whose members are data by their names, of which a further one is more data.
BY_NAME = {"value", "scores", "vars"}
# A run is no log of lines, and the others are tables or packed.
OTHERS = {"run", "csv", "csv_wide", "inspect_eval", *log_bases.NEEDS_ARROW}


def turned(value: object, name: str = "") -> object:
    """Return a JSON value with the members of objects in reversed order, and one more of each."""
    if isinstance(value, dict):
        further = {} if name in BY_NAME else {"a further member": None}
        return further | {key: turned(part, key) for key, part in reversed(value.items())}
    return [turned(part) for part in value] if isinstance(value, list) else value


def known(question: Question) -> tuple[object, ...]:
    return question.id, question.answers, question.gold, question.correct, question.tokens, question.part


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in log_bases.FORMATS if name not in OTHERS])
def test_the_order_of_members_means_nothing(name: str, tmp_path: Path) -> None:
    base = log_bases.FORMATS[name](tmp_path, log_bases.draws())
    before = list(map(known, find_log(base.path).questions(base.path)))
    for file, _ in base.kinds:
        text = file.read_text("utf-8")
        try:
            written = json.dumps(turned(json.loads(text)))
        except ValueError:
            written = "".join(json.dumps(turned(json.loads(line))) + "\n" for line in text.splitlines())
        file.write_text(written, "utf-8")
    log = find_log(base.path)
    assert (log.name, list(map(known, log.questions(base.path)))) == (base.reader, before)
