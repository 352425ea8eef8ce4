"""The plan's terms: what a request leaves open is filled in, what it states otherwise is named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fault_server import Script
from gateway_rig import ENGINE, QUESTION, SAMPLING, Rig, make_plan
from keff.gateway.vote.request_policy import terms_of
from keff.plan import Plan


def applied(body: dict[str, Any], **config: Any) -> tuple[dict[str, Any], list[str]]:
    engine = ENGINE | config.pop("engine", {})
    sampling = SAMPLING | config.pop("sampling", {})
    task = {"name": "own", "options": {"system": config.pop("system", None)}}
    plan = make_plan(task=task, config={"engine": engine, "sampling": sampling})
    body = {"messages": copy.deepcopy(QUESTION)} | body
    return body, terms_of(plan, config.pop("model", None)).apply(body)


def test_an_empty_request_becomes_the_one_that_was_measured() -> None:
    extra = {"engine": {"extra_body": {"top_k": 20}}, "sampling": {"stop": ["\n\n"]}, "system": "Be brief."}
    body, different = applied({}, **extra)
    assert different == []
    assert body == {
        "messages": [{"role": "system", "content": "Be brief."}, *QUESTION],
        "model": "stub",
        "temperature": 0.7,
        "top_p": 0.95,
        "max_tokens": 64,
        "stop": ["\n\n"],
        "top_k": 20,
    }
    again = dict(body)
    assert applied(again, **extra) == (body, [])


@pytest.mark.parametrize(
    ("stated", "named"),
    [
        ({"temperature": 0.2}, ["temperature"]),
        ({"temperature": 0.70}, []),
        ({"temperature": None}, []),
        ({"top_p": 1}, ["top_p"]),
        ({"max_tokens": 65}, ["max_tokens"]),
        ({"max_completion_tokens": 64}, []),
        ({"max_completion_tokens": 65}, ["max_tokens"]),
        ({"model": "other"}, ["model"]),
        ({"model": "keff"}, []),
        ({"stop": ["x"]}, ["stop"]),
        ({"stop": []}, []),
        ({"top_k": 40}, ["top_k"]),
        ({"top_k": -1, "min_p": 0, "presence_penalty": 0.0, "tools": []}, []),
        ({"tools": [{"type": "function"}]}, ["tools"]),
        ({"response_format": {"type": "json_object"}}, ["response_format"]),
        ({"response_format": {"type": "text"}}, []),
        ({"reasoning_effort": "high"}, ["reasoning_effort"]),
        ({"messages": [{"role": "system", "content": "x"}, *QUESTION]}, ["system"]),
        ({"messages": [{"role": "developer", "content": "x"}, *QUESTION]}, ["system"]),
        ({"user": "someone", "metadata": {}}, []),
    ],
)
def test_what_differs_is_named_and_kept(stated: dict[str, Any], named: list[str]) -> None:
    body, different = applied(dict(stated))
    assert different == named
    for name, value in stated.items():
        assert value is None or body[name] == value or (name, value) == ("model", "keff")


def test_what_the_plan_itself_stated_is_no_difference() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert applied({"tools": tools}, engine={"extra_body": {"tools": tools}})[1] == []
    assert applied({"stop": "END"}, sampling={"stop": ["END"]})[1] == []
    assert applied({"messages": [{"role": "system", "content": "s"}, *QUESTION]}, system="s")[1] == []


def test_a_model_file_goes_by_its_alias_and_an_own_name_by_the_option() -> None:
    body, different = applied({"model": "m.gguf"}, engine={"model": "m.gguf", "engine": "llamacpp"})
    assert (body["model"], different) == ("m", [])
    assert (body["top_k"], body["min_p"]) == (0, 0.0)
    body, different = applied({"model": "stub"}, model="deployed")
    assert (body["model"], different) == ("deployed", [])


def test_thinking_is_sent_as_the_pilot_sent_it() -> None:
    body, _ = applied({}, sampling={"thinking": 0})
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    body, _ = applied({}, sampling={"thinking": 1000}, engine={"thinking": "effort"})
    assert body["reasoning_effort"] == "low"
    assert body["max_completion_tokens"] == 64
    assert "max_tokens" not in body


def test_fields_that_the_server_does_not_take_stay_out() -> None:
    assert "top_p" not in applied({}, engine={"omit": ["top_p"]})[0]


def test_a_plan_from_a_log_compares_nothing() -> None:
    body: dict[str, Any] = {"messages": QUESTION, "model": "any", "temperature": 2}
    assert terms_of(make_plan(config=None)).apply(body) == []
    assert body == {"messages": QUESTION, "model": "any", "temperature": 2}


def test_a_plan_of_0_2_is_served(serve: Callable[..., Rig]) -> None:
    """The file was written by keff 0.2.0 (``keff analyze RUN -o``) after 60 questions x 8 paths."""
    old = Plan.read(Path(__file__).parent / "fixtures" / "plan_0_2.json")
    assert (old.keff_version, old.policy) == ("0.2.0", "budget:2.1,b=2")
    rig = serve(Script(answer=lambda *_: "The answer is 7."), plan=old)
    reply = rig.post({"model": "any", "messages": QUESTION}).json()
    assert reply["keff"]["answer"] == "7"
    assert reply["keff"]["policy"].startswith("budget:2.1,b=2")
    assert rig.monitor is not None
