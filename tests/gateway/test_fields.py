"""Structured answers that carry a reasoning: the fields that can repeat vote, and what cannot is given up."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fault_server import Script
from gateway_rig import QUESTION, Rig, make_plan
from keff.answers import only_object, space
from keff.gateway.vote.kinds import Settlement
from keff.plan import Plan

Serve = Callable[..., Rig]
OPEN = [{"role": "user", "content": "Please solve it."}]
WORDS = "because we look at each of the parts in turn and add them up, we find with some care step number"


def solved(number: int, seed: int, **more: Any) -> str:
    return json.dumps({"reasoning": f"{WORDS} {seed}", "answer": number, **more}, indent=seed % 3)


def schema(**properties: Any) -> dict[str, Any]:
    given = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": given}}


SOLUTION = schema(reasoning={"type": "string"}, answer={"type": "integer"})


def ask(rig: Rig, **more: Any) -> dict[str, Any]:
    reply = rig.post({"model": "stub", "messages": QUESTION, "seed": 0, **more})
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("form", [SOLUTION, {"type": "json_object"}])
def test_the_answer_votes_and_the_reasoning_does_not(serve: Serve, form: dict[str, Any]) -> None:
    numbers = (5, 9, 5, 5, 9, 5, 5, 5)
    script = Script(answer=lambda _, seed: solved(numbers[seed % 8], seed))
    reply = ask(serve(script, planless=True), response_format=form)
    told = reply["keff"]
    assert json.loads(reply["choices"][0]["message"]["content"])["answer"] == 5, "a whole path is sent"
    assert (told["answer"], told["votes"]) == ('{"answer":5}', {'{"answer":5}': 5, '{"answer":9}': 2})
    assert (
        told["fields"]["voted"] == ["answer"] and "60 characters" in told["fields"]["left_out"]["reasoning"]
    )
    assert (told["stop"], len(script.requests)) == ("policy", 7)


FENCED = "Let me see.\n\n```json\n{}\n```\nI hope that step {} helps."


@pytest.mark.parametrize("form", [FENCED, "The object you asked for: {} (path {})", "{}\n\nThat is all {}."])
def test_an_object_that_stands_in_a_plain_reply_votes_by_its_fields(serve: Serve, form: str) -> None:
    numbers = (5, 9, 5, 5, 5)

    def said(_: Any, seed: int) -> str:
        text = json.dumps({"reasoning": f"{WORDS} {seed}", "answer": str(numbers[seed % 5])}, indent=seed % 3)
        return form.format(text, seed)

    script = Script(answer=said)
    reply = ask(serve(script, planless=True), messages=[{"role": "user", "content": "How many? As JSON."}])
    told = reply["keff"]
    assert (told["stop"], told["fields"]["voted"], told["paths"]) == ("policy", ["answer"], 5)
    assert (told["answer"], told["votes"]) == ('{"answer":"5"}', {'{"answer":"5"}': 4, '{"answer":"9"}': 1})
    winning = only_object(reply["choices"][0]["message"]["content"])
    assert winning is not None and json.loads(winning[0])["answer"] == "5", "a whole path is sent"
    assert space("json:fields=answer").key(reply["choices"][0]["message"]["content"]) == told["answer"]


@pytest.mark.parametrize(
    ("texts", "answer"),
    [
        ([f'One of the things that one may write here is {{"{name}": 1}}.' for name in "abcd"], None),
        (['Either {"a": 1} or {"a": 2}, both are good.'] * 4, None),
        (['```python\n{"a": 1}\n```\nruns.'] * 4, None),
        (['{"draft": 7, "x": 1}\nFinal answer: 8'] * 4, "8"),
    ],
)
def test_other_objects_in_a_text_change_nothing(serve: Serve, texts: list[str], answer: str | None) -> None:
    told = ask(serve(Script(answer=lambda _, seed: texts[seed % 4]), planless=True), messages=OPEN)["keff"]
    assert (told["answer"], told["stop"]) == (answer, "policy" if answer else "free_text")


def test_strings_that_are_numbers_or_options_are_never_given_up(serve: Serve) -> None:
    for values in (["11", "12", "13", "14", "15"], list("ABCDE"), ["x^2", "x^3", "2x^2", "x^4", "x^5"]):
        texts = [json.dumps({"reasoning": f"{WORDS} {value}", "answer": value}) for value in values]
        script = Script(answer=lambda _, seed, t=texts: t[seed % 5])
        told = ask(serve(script, planless=True), messages=OPEN)["keff"]
        assert (told["stop"], told["paths"], told["fields"]["voted"]) == ("policy", 32, ["answer"])


def test_a_number_that_never_repeats_leaves_the_vote_and_is_named(serve: Serve) -> None:
    script = Script(answer=lambda _, seed: solved(7, seed, confidence=0.5 + seed / 97))
    form = schema(reasoning={"type": "string"}, answer={"type": "integer"}, confidence={"type": "number"})
    told = ask(serve(script, planless=True), response_format=form)["keff"]
    assert told["fields"]["voted"] == ["answer"]
    assert set(told["fields"]["left_out"]) == {"reasoning", "confidence"}
    assert (told["answer"], told["paths"]) == ('{"answer":7}', 4)


def test_a_lone_number_that_differs_is_a_hard_question_and_is_not_given_up(serve: Serve) -> None:
    script = Script(answer=lambda _, seed: solved(seed if seed < 6 else 40, seed))
    told = ask(serve(script, planless=True), response_format=SOLUTION)["keff"]
    assert (told["answer"], told["stop"]) == ('{"answer":40}', "policy") and told["paths"] > 6


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (lambda seed: json.dumps({"title": f"Song {seed} of the sea"}), schema(title={"type": "string"})),
        (lambda seed: json.dumps({"title": f"No {seed}", "price": seed}), {"type": "json_object"}),
        (lambda seed: f"Final answer: brook number {chr(97 + seed)}", {"type": "text"}),
    ],
)
def test_texts_that_are_made_up_are_given_up_after_four(serve: Serve, text: Any, form: Any) -> None:
    script = Script(answer=lambda _, seed: text(seed % 20))
    contract = [{"role": "user", "content": "A name for a brook. End with 'Final answer: ...'."}]
    rig = serve(script, planless=True)
    reply = ask(rig, messages=contract, response_format=form)
    told = reply["keff"]
    assert (told["stop"], told["paths"], told["answer"]) == ("no_agreement", 4, None)
    assert reply["choices"][0]["message"]["content"] == text(0), "the first path is sent"
    assert len(script.requests) == 4
    assert ask(rig, messages=contract, response_format=form, keff={"k": 6})["keff"]["paths"] == 6


def test_a_plan_may_give_up_too_and_its_drift_alarm_sees_it(serve: Serve) -> None:
    """``give_up`` of the policy: whatever the answers are, for replay decided that."""
    script = Script(answer=lambda _, seed: f"The answer is {seed}.")
    for policy, paths in (("lead_k:3,give_up=5", 5), ("lead_k:3,give_up=3,in_flight=3,order=arrival", 3)):
        rig = serve(script, plan=make_plan(policy))
        reply = ask(rig)
        told = reply["keff"]
        assert (told["stop"], told["paths"], told["policy"]) == ("no_agreement", paths, policy)
        assert told["stop_reason"].startswith("no agreement")
        if "arrival" not in policy:
            assert reply["choices"][0]["message"]["content"] == "The answer is 0.", "the first path is sent"
            assert rig.monitor is not None and rig.monitor.seen == 1


def test_numbers_and_options_are_never_given_up(serve: Serve) -> None:
    for answers in ("Final answer: {}", "Final answer: ({})"):
        script = Script(
            answer=lambda _, seed, a=answers: a.format(seed if "(" not in a else "ABCDE"[seed % 5])
        )
        told = ask(serve(script, planless=True))["keff"]
        assert (told["stop"], told["paths"]) == ("policy", 32)


def test_what_may_be_mathematics_is_never_given_up(serve: Serve) -> None:
    script = Script(answer=lambda _, seed: f"Final answer: x^{'abcdefgh'[seed % 8]} and more of y")
    told = ask(serve(script, planless=True))["keff"]
    assert (told["stop"], told["paths"]) == ("policy", 32)


def test_an_answer_without_the_field_abstains(serve: Serve) -> None:
    def said(_: Any, seed: int) -> str:
        return json.dumps({"reasoning": f"{WORDS} {seed}"}) if seed == 2 else solved(3, seed)

    told = ask(serve(Script(answer=said), planless=True), response_format=SOLUTION)["keff"]
    assert (told["answer"], told["abstentions"], told["votes"]) == ('{"answer":3}', 1, {'{"answer":3}': 3})


def call(name: str, **arguments: Any) -> dict[str, str]:
    return {"tool": json.dumps({"tool_calls": [[name, arguments]]})}


def test_arguments_that_are_written_anew_leave_the_vote_of_a_tool_call() -> None:
    settlement = Settlement()
    paths = [call("find", city="Oslo", why=f"{WORDS} {place}", id=place * 7) for place in range(4)]
    settlement.settle(paths)
    assert len({settlement.key(path) for path in paths}) == 1
    assert settlement.key(call("find", city="Bergen", why="x", id=0)) != settlement.key(paths[0])
    other = call("book", city="Oslo")
    assert settlement.key(other) == other["tool"]
    assert settlement.key({"no call": '{"tool_calls":[]}'}) == '{"tool_calls":[]}'
    plain = Settlement()
    plain.settle([call("find", city=name) for name in ("Oslo", "Bergen", "Voss", "Moss")])
    assert plain.key(paths[0]) == paths[0]["tool"]
    assert not plain.agrees_on_nothing([str(place) for place in range(4)])


HUGE = {"type": "object", "properties": {f"f{n}": {"type": "integer"} for n in range(5000)}}
LOOP = {"$ref": "#/$defs/x", "$defs": {"x": {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}}}}
BAD: list[Any] = [
    {"schema": HUGE},
    {"schema": LOOP},
    {"schema": 5},
    {"schema": {"type": 3, "enum": 7}},
    3,
    [1],
    {},
]


@pytest.mark.parametrize("broken", BAD)
def test_a_schema_that_is_recursive_huge_or_wrong_stops_no_vote(serve: Serve, broken: Any) -> None:
    script = Script(answer=lambda _, seed: solved(5, seed))
    form = {"type": "json_schema", "json_schema": broken}
    reply = ask(serve(script, planless=True), response_format=form)
    assert json.loads(reply["choices"][0]["message"]["content"])["answer"] == 5


def plan(spec: str) -> Plan:
    return make_plan(space=spec, config=None)


def test_a_plan_measured_on_fields_is_served_on_them_and_says_when_a_schema_lacks_them(serve: Serve) -> None:
    rig = serve(Script(answer=lambda _, seed: solved(8, seed)), plan=plan("json:fields=answer"))
    told = ask(rig, model="stub", response_format=SOLUTION)["keff"]
    assert (told["paths"], told["answer"], told["stale_plan"]) == (3, '{"answer":8}', [])
    other = schema(total={"type": "number"})
    assert "fields" in ask(rig, model="stub", response_format=other)["keff"]["stale_plan"]


def test_a_request_names_its_space_or_its_fields_and_never_a_path(serve: Serve) -> None:
    rig = serve(Script(answer=lambda _, seed: solved(8, seed, extra=seed)), planless=True)
    assert ask(rig, keff={"fields": ["answer"]})["keff"]["answer"] == '{"answer":8}'
    assert ask(rig, keff={"answer_space": "json", "fields": ["answer"]})["keff"]["paths"] == 3
    assert ask(rig, keff={"answer_space": "numeric"})["keff"]["answer"] == "8"
    for bad in (
        {"answer_space": "key:/tmp/x.py:f"},
        {"answer_space": "code"},
        {"answer_space": "json:fields=answer"},
        {"answer_space": "no"},
        {"answer_space": 3},
        {"answer_space": "numeric", "fields": ["a"]},
        {"fields": []},
        {"fields": "answer"},
        {"fields": ["a"] * 65},
        {"fields": ["[["]},
        {"fields": [3]},
    ):
        assert rig.post({"model": "stub", "messages": QUESTION, "keff": bad}).status_code == 400, bad
