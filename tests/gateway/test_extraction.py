"""Reading one path: the plan's space, an expression, JSON, tool calls; what abstains."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from drawn import jsons, made
from gateway_rig import make_plan
from keff.answers import canonical_json
from keff.errors import PlanError
from keff.gateway.vote.extraction import Reader, reader_of
from keff.gateway.vote.tool_calls import tool_key
from keff.plan import Plan


def choice(text: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}


def key(reader: Reader, path: dict[str, Any]) -> str | None:
    return reader.read(path).key


def call(name: str, arguments: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


NUMERIC = reader_of(make_plan())


def test_the_plan_s_space_reads_the_text() -> None:
    assert key(NUMERIC, choice("<think>9</think>So the final answer is 42.")) == "42"
    assert key(NUMERIC, choice("The final answer is 84/2.")) == "42"
    assert key(NUMERIC, choice([{"type": "text", "text": "#### 42"}])) == "42"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path",
    [
        choice(None),
        choice("I do not know."),
        choice("so 41 or 42", "length"),
        choice("The answer is 42.", "content_filter"),
        choice("42", refusal="I will not."),
    ],
)
def test_what_has_no_answer_abstains(path: dict[str, Any]) -> None:
    assert key(NUMERIC, path) is None


def test_an_expression_of_the_pilot_is_used() -> None:
    options = {"name": "jsonl", "answer_regex": r"<<(.*?)>>", "data": "/gone.jsonl"}
    reader = reader_of(make_plan(space="text", task={"name": "jsonl:mine", "options": options}))
    assert key(reader, choice("<<Rome>> no, <<Paris>> it is")) == key(reader, choice("<<paris>>"))
    assert key(reader, choice("Paris")) is None
    assert key(reader, choice("so <<Paris>>", "length")) is None


VALUES = jsons(kinds=4)


@given(VALUES, made(lambda rng: rng))
def test_json_votes_by_value_however_it_is_written(value: Any, random: Any) -> None:
    def shuffled(one: Any) -> Any:
        if isinstance(one, dict):
            names = list(one)
            random.shuffle(names)
            return {name: shuffled(one[name]) for name in names}
        if isinstance(one, list):
            return [shuffled(inner) for inner in one]
        return float(one) if type(one) is int and abs(one) < 2**53 else one

    text = json.dumps(value)
    assert canonical_json(json.dumps(shuffled(value), indent=3)) == canonical_json(text)
    assert canonical_json(f"```json\n{text}\n```") == canonical_json(text)
    assert json.loads(canonical_json(text) or "") == value


def test_json_that_differs_is_another_answer() -> None:
    assert canonical_json('{"a": [1, 2]}') != canonical_json('{"a": [2, 1]}')
    assert canonical_json('{"a": "1"}') != canonical_json('{"a": 1}')
    assert canonical_json("not json") is None
    assert canonical_json("[" * 100_000) is None


def test_tool_calls_vote_on_names_and_arguments() -> None:
    one = [call("f", '{"a": 1, "b": [2]}', id="call_1")]
    two = [call("f", '{"b":[2.0],"a":1}', id="call_2")]
    assert tool_key(one) == tool_key(two)
    assert tool_key(one) != tool_key([call("g", '{"a": 1, "b": [2]}')])
    assert tool_key([call("f", "{")]) is None
    assert tool_key([7]) is None
    assert key(NUMERIC, choice(None, "tool_calls", tool_calls=one)) == tool_key(one)
    assert key(NUMERIC, choice(None, "length", tool_calls=one)) is None


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        (make_plan(space="exact", task=None), "--answer-space"),
        (make_plan(space="code"), "--answer-space"),
        (make_plan(task={"name": "jsonl:x", "options": {"scorer": "s.py:f"}}), "scorer"),
    ],
)
def test_a_plan_that_cannot_be_read_live_is_refused(plan: Plan, line: str) -> None:
    with pytest.raises(PlanError, match=line):
        reader_of(plan)
    assert reader_of(plan, "numeric").space.name == "numeric"
