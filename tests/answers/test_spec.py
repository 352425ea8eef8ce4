"""Answer spaces by name: specs, tables, spaces of other packages, extras that are missing."""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from keff import plugins
from keff.answers import Extracted, from_command_line, names, once, read, space
from keff.answers.parts.spec import parse
from keff.errors import PluginError, TaskError, UsageError


@pytest.mark.parametrize(
    ("spec", "name", "options"),
    [
        ("numeric", "numeric", {}),
        ("json:fields=a,b.c,ignore=x", "json", {"fields": "a,b.c", "ignore": "x"}),
        ("set:inner=json:fields=a,b", "set", {"inner": "json:fields=a,b"}),
        ("list:order=free,inner=date:order=dmy", "list", {"order": "free", "inner": "date:order=dmy"}),
        ('label:{"labels": ["a", "b"]}', "label", {"labels": ["a", "b"]}),
    ],
)
def test_specs_are_taken_apart(spec: str, name: str, options: dict[str, Any]) -> None:
    assert parse(spec) == (name, options)
    space(spec)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("jsn", "unknown answer space 'jsn'"),
        ("json:a,b", "write it as name:option=value"),
        ("json:field=a", "has no option 'field'|unknown option 'field'"),
        ('json:{"fields": ', "its options are not JSON"),
        ("label", "name the labels"),
        ("label:labels=a,A", "stands for two labels|two labels"),
        ("date:order=ymd", "order is dmy or mdy"),
        ("sql:dialect=klingon", "is not one of sqlglot's"),
        ("json:fields=a[", "is not a path"),
        ("list:inner=poem", "unknown answer space 'poem'"),
        ("key", "name your function with --answer-key"),
    ],
)
def test_a_wrong_spec_is_one_line(spec: str, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        space(spec).key("{}")


def test_a_table_becomes_part_of_the_spec(tmp_path: Path) -> None:
    file = tmp_path / "labels.json"
    file.write_text(json.dumps({"refund": ["money back"], "billing": []}))
    spec = from_command_line(f"label:table={file}")
    assert str(tmp_path) not in spec
    file.unlink()
    assert space(spec).key("Money back!") == "refund"
    with pytest.raises(UsageError, match="cannot be read"):
        from_command_line(f"label:table={file}")
    with pytest.raises(TaskError, match="table"):
        space(f"label:table={file}")


class Colour:
    """Two methods, as another package may have."""

    def extract(self, text: str) -> str | None:
        return text.split()[-1] if text else None

    def key(self, answer: str) -> str | None:
        return answer.lower() or None


def colour(shade: str = "") -> Any:
    return object() if shade == "broken" else Colour()


def test_a_space_of_another_package_is_used_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("colour", f"{__name__}:colour", "keff.spaces")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    monkeypatch.setattr(
        plugins, "_points_of_packages", lambda kind, _: EntryPoints([point] if kind == "space" else [])
    )
    assert "colour" in names()
    each = space("colour")
    assert (each.name, each.closed, each.contract) == ("colour", False, "")
    assert each.extract("It is Red") == Extracted("Red", "colour")
    assert each.extract("It is Red", truncated=True) is None
    assert read(each, "It is Red").key == "red"
    assert read(each, "").rule == "no answer"
    assert each.correct("RED", ["blue", "red"])
    with pytest.raises(TaskError, match="it has no extract"):
        space("colour:shade=broken")


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    for module in ("keff.answers.sql", "keff.answers.parts.sql_form"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(PluginError, match=r"pip install .*\[sql\]'"):
        space("sql")


def test_each_text_is_read_once() -> None:
    seen: list[str] = []
    reading = once(lambda text: seen.append(text) or len(text))
    assert [reading(text) for text in ("a", "bb", "a", "a")] == [1, 2, 1, 1]
    assert seen == ["a", "bb"]


@pytest.mark.parametrize("name", ["list", "set"])
def test_a_list_is_the_member_that_is_the_answer_of_an_object(name: str) -> None:
    held, keys = space(f"{name}:inner=numeric"), set[str | None]()
    for answer in (
        '{"answer": 42}',
        '```json\n{"reasoning": "1 and 2", "answer": [42]}\n```',
        "Final answer: [42]",
    ):
        found = held.extract(answer)
        assert found is not None
        keys.add(held.key(found.answer))
    assert len(keys) == 1 and None not in keys
    assert held.extract('{"answer": [42') is None, "cut off"
    named, others = space(f"{name}:inner=text"), '{"a", "b"}'
    told = named.extract(others)
    assert told is not None and named.key(told.answer) == named.key('["a", "b"]'), (
        "a set in braces is no object"
    )
    assert named.key('[{"a": 1}, {"a": 1}]') == space(f"{name}:inner=text").key('[{"a": 1}, {"a": 1}]')
