"""``/v1/responses`` before servers that know chat only: asked as chat, answered as a response."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from app_rig import until
from gateway_rig import Options, gateway, make_plan
from keff.gateway.upstream.fleet import MOST_MODELS
from keff.protocol.responses import chat_request
from raw_server import answer, given, http, raw_server
from responses_rig import post, response, text

Say = Callable[[dict[str, Any]], dict[str, Any]]


@contextmanager
def chat_server(say: Say, missing: bytes = b'{"detail": "Not Found"}', **options: Any) -> Iterator[Any]:
    """Run a gateway before a server that answers chat with a message, and 404 everything else."""
    bodies: list[dict[str, Any]] = []
    paths: list[str] = []

    def give(_: int, body: dict[str, Any]) -> list[bytes]:
        if paths[-1] != "/v1/chat/completions":
            return http(missing, status=404)
        bodies.append(body)
        message = {"role": "assistant", "content": None} | say(body)
        finish = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return http(json.dumps(answer() | {"choices": [choice]}).encode())

    with raw_server(give, paths) as url, gateway(url, **{"planless": True} | options) as rig:
        yield rig, bodies, paths


def seven(_: dict[str, Any]) -> dict[str, Any]:
    return {"content": "Final answer: 7", "reasoning_content": "3 + 4"}


def test_a_text_is_voted_and_the_missing_path_is_asked_for_once() -> None:
    with chat_server(seven) as (rig, bodies, paths):
        first = rig.client().responses.create(model="m", input="How many?", instructions="Be brief.")
        before = paths.count("/v1/responses")
        second = rig.client().responses.create(
            model="m", input=[{"role": "user", "content": [{"type": "input_text", "text": "How many?"}]}]
        )
        assert paths.count("/v1/responses") == before, "by then it is known"
    for reply in (first, second):
        assert (reply.output_text, reply.status) == ("Final answer: 7", "completed")
        assert reply.output[0].type == "reasoning" and reply.model_extra["keff"]["answer"] == "7"
        assert reply.usage.input_tokens == 21 and reply.usage.output_tokens == 15
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many?"}]
    assert bodies[0] == {"model": "m", "messages": asked} and len(bodies) == 6


def test_a_path_that_one_model_lacks_is_asked_for_with_another() -> None:
    """One address may stand before several servers, of which one knows chat only."""
    asked: list[tuple[str, str]] = []
    paths: list[str] = []

    def give(_: int, body: dict[str, Any]) -> list[bytes]:
        asked.append((body["model"], paths[-1]))
        if paths[-1].endswith("chat/completions"):
            return given()
        if body["model"] == "old":
            return http(b'{"detail": "Not Found"}', status=404)
        return http(json.dumps(response(text("Final answer: 7"))).encode())

    with raw_server(give, paths) as url, gateway(url, planless=True) as rig:
        for model in ("old", "new", "old"):
            assert post(rig, input="How many?", model=model, keff={"k": 1}).json()["keff"]["answer"] == "7"
    chat, own = "/v1/chat/completions", "/v1/responses"
    assert asked == [("old", own), ("old", chat), ("new", own), ("old", chat)]


def test_a_request_that_leaves_its_model_to_the_gateway_is_asked_as_chat_at_once() -> None:
    with chat_server(seven, model="m") as (rig, bodies, paths):
        for _ in range(3):
            assert post(rig, input="How many?", model="keff", keff={"k": 1}).status_code == 200
    assert [body["model"] for body in bodies] == ["m"] * 3
    assert paths.count("/v1/responses") == 1


def test_of_many_models_that_clients_name_the_latest_are_known() -> None:
    with chat_server(seven) as (rig, _, _):
        known = rig.service.upstream.chat_only
        known.extend(range(MOST_MODELS))
        assert post(rig, input="How many?", keff={"k": 1}).status_code == 200
        until(lambda: known[-1] == "stub")  # noted after the answer is sent
        assert len(known) == MOST_MODELS


def test_streams_of_votes_and_of_one_path_end_as_responses_do() -> None:
    with chat_server(seven) as (rig, _, _):
        for more in ({}, {"extra_body": {"keff": {"k": 1}}}):
            events = list(rig.client().responses.create(model="m", input="How many?", stream=True, **more))
            assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
            assert events[-1].response.output_text == "Final answer: 7"


class Total(BaseModel):
    reasoning: str
    total: int


def test_schemas_and_functions_are_asked_and_answered() -> None:
    def say(body: dict[str, Any]) -> dict[str, Any]:
        if "tools" in body:
            arguments = {"name": body["tools"][0]["function"]["name"], "arguments": '{"at": "Rome"}'}
            return {"tool_calls": [{"id": "c1", "type": "function", "function": arguments}]}
        assert body["response_format"]["json_schema"]["schema"]["required"] == ["reasoning", "total"]
        return {"content": '{"reasoning": "so it is", "total": 42}'}

    tool: Any = {"type": "function", "name": "weather", "parameters": {}, "strict": False}
    with chat_server(say) as (rig, bodies, _):
        parsed = rig.client().responses.parse(model="m", input="Add.", text_format=Total).output_parsed
        reply = rig.client().responses.create(model="m", input="Weather?", tools=[tool], tool_choice="auto")
        said = {"call_id": reply.output[0].call_id, "type": "function_call_output", "output": "warm"}
        turns = [{"role": "user", "content": "Weather?"}, reply.output[0].model_dump(), said]
        rig.client().responses.create(model="m", input=turns, tools=[tool])
    assert parsed == Total(reasoning="so it is", total=42)
    call = reply.output[0]
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "weather", {"at": "Rome"})
    assert [message["role"] for message in bodies[-1]["messages"]] == ["user", "assistant", "tool"]
    assert bodies[-1]["messages"][1]["tool_calls"][0]["id"] == call.call_id


def test_under_a_plan_it_is_asked_as_the_pilot_was() -> None:
    plan = make_plan()
    assert plan.config is not None
    plan = make_plan(config={**plan.config, "sampling": {**plan.config["sampling"], "stop": ["\n\n"]}})
    options = Options(append_answer_format=True)
    with chat_server(seven, plan=plan, planless=False, options=options) as (rig, bodies, paths):
        plain = post(rig, input="How many?", model="stub")
        other = post(rig, input="How many?", model="stub", temperature=0.1, instructions="Be rude.")
    assert plain.json()["keff"]["stale_plan"] == []
    assert (bodies[0]["temperature"], bodies[0]["max_tokens"], bodies[0]["stop"]) == (0.7, 64, ["\n\n"])
    assert bodies[0]["messages"][-1]["content"].startswith("How many?\n\n")
    assert "Final answer" in bodies[0]["messages"][-1]["content"]
    assert set(other.json()["keff"]["stale_plan"]) == {"temperature", "system"}
    assert "/v1/responses" not in paths


@pytest.mark.parametrize(
    ("missing", "more", "status"),
    [
        (b'{"error": {"message": "The model `m` does not exist.", "code": 404}}', {}, 404),
        (b'{"detail": "Not Found"}', {"previous_response_id": "resp_1"}, 400),
        (b'{"detail": "Not Found"}', {"input": [{"type": "custom_tool_call", "name": "patch"}]}, 400),
    ],
)
def test_what_is_no_missing_path_or_cannot_be_asked_as_chat_is_said(
    missing: bytes, more: dict[str, Any], status: int
) -> None:
    with chat_server(seven, missing) as (rig, bodies, _):
        assert post(rig, **{"input": "How many?"} | more).status_code == status
    assert not bodies


def test_every_field_of_chat_goes_along_and_pictures_keep_their_parts() -> None:
    picture = {"type": "input_image", "image_url": "data:,", "detail": "low"}
    body = {
        "model": "m",
        "input": [{"role": "developer", "content": [{"type": "input_text", "text": "See"}, picture]}],
        "temperature": 0.5,
        "max_output_tokens": 9,
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_object"}, "verbosity": "low"},
        "tool_choice": {"type": "function", "name": "f"},
        "store": True,
        "top_k": 3,
    }
    shown = {"type": "image_url", "image_url": {"url": "data:,", "detail": "low"}}
    assert chat_request(body) == {
        "model": "m",
        "messages": [{"role": "system", "content": [{"type": "text", "text": "See"}, shown]}],
        "temperature": 0.5,
        "max_tokens": 9,
        "reasoning_effort": "low",
        "response_format": {"type": "json_object"},
        "verbosity": "low",
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "top_k": 3,
    }
