"""``/v1/responses``: voted like chat for the official client; what cannot be voted on is passed and said."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx2
import openai
import pytest
from pydantic import BaseModel

from gateway_rig import Options
from keff.sampling.cost import Price
from responses_rig import call, post, response, says, served, text


def test_a_text_is_voted_and_the_usage_is_that_of_all_paths() -> None:
    give = says("The answer is 41.", "So the answer is 42.", "The answer is 42", "Final answer: 42", "42")
    priced = Options(prices={"": Price(prompt=1e6, output=1e6)})
    asked = {"model": "stub", "input": "How many is 6 times 7?", "instructions": "Be brief."}
    with served(give, planless=True, options=priced) as (rig, bodies, paths):
        reply = rig.client().responses.create(**asked)  # type: ignore[call-overload]
    assert "42" in reply.output_text
    told = (reply.model_extra or {})["keff"]
    assert told["answer"] == "42"
    assert set(paths) == {"/v1/responses"}
    assert told["paths"] == len(bodies) == 5
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.total_tokens) == (35, 25, 60)
    assert (reply.usage.input_tokens_details.cached_tokens, told["cost"]["dollars"]) == (15, 60)
    assert bodies[0] == asked


@pytest.mark.anyio
async def test_the_async_client_streams_the_winner() -> None:
    with served(says("Final answer: 42"), planless=True) as (rig, bodies, _):
        async with openai.AsyncOpenAI(base_url=rig.url, api_key="none", max_retries=0) as client:
            stream = await client.responses.create(model="m", input="How many?", stream=True)
            events = [event async for event in stream]
            async with client.responses.stream(model="m", input="How many?") as managed:
                async for _ in managed:
                    pass
                final = await managed.get_final_response()
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert said == final.output_text == "Final answer: 42"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    assert events[-1].response.model_extra["keff"]["paths"] == 3
    assert events[-1].response.usage.output_tokens == 15
    assert not any(body.get("stream") for body in bodies)


def test_a_stream_that_fails_late_tells_the_official_client_why() -> None:
    def give(*_: Any) -> dict[str, Any]:
        time.sleep(0.05)
        return response(status="failed", error={"code": "server_error", "message": "boom"})

    options = Options(quiet_seconds=0.01, replacements=0)
    with (
        served(give, planless=True, options=options) as (rig, _, _),
        rig.client().responses.stream(model="m", input="How many?") as stream,
    ):
        events = list(stream)
    assert [event.type for event in events] == ["response.created", "error"]
    assert "boom" in events[-1].message  # type: ignore[union-attr]


def item(*content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "id": "m", "role": "assistant", "content": content, **more}


@pytest.mark.parametrize(
    ("output", "votes"),
    [
        ([item({"type": "output_text", "text": "It is 7"}), text("42")], {"42": 4}),
        (
            [item({"type": "output_text", "text": "The answer is 7."}, phase="commentary"), text("42")],
            {"42": 4},
        ),
        ([item("It is 42.") | {"content": "It is 42."}], {"42": 4}),
        ([item({"type": "output_text", "text": "So 3 and 4 are 7, and"}, status="incomplete")], {}),
    ],
)
def test_items_of_a_response_are_read_apart(output: list[dict[str, Any]], votes: dict[str, int]) -> None:
    with served(lambda *_: response(*output), planless=True) as (rig, _, _):
        told = post(rig, input="How many?", keff={"policy": "fixed:4", "answer_space": "numeric"}).json()[
            "keff"
        ]
    assert told["votes"] == votes


def test_function_calls_vote_by_name_and_values() -> None:
    def give(number: int, _: dict[str, Any]) -> dict[str, Any]:
        if number == 1:
            return response(text("I do not know where you are."))
        return response({"type": "reasoning", "id": "r", "summary": []}, call("weather", at="Rome", days=1.0))

    tools = [{"type": "function", "name": "weather", "parameters": {}, "strict": False}]
    with served(give, planless=True) as (rig, _, _):
        reply = rig.client().responses.create(model="m", input="And the weather?", tools=tools)  # type: ignore[call-overload]
        streamed = list(rig.client().responses.create(model="m", input="x", tools=tools, stream=True))  # type: ignore[call-overload]
    assert [item.type for item in reply.output] == ["reasoning", "function_call"]
    assert json.loads(reply.output[1].arguments) == {"at": "Rome", "days": 1.0}
    done = [event for event in streamed if event.type == "response.function_call_arguments.done"]
    assert [json.loads(event.arguments) for event in done] == [{"at": "Rome", "days": 1.0}]


class Sum(BaseModel):
    total: int


def test_a_json_schema_is_voted_by_value_and_parsed() -> None:
    give = says('{"total": 41}', '{ "total": 42 }', '{"total":42}', '{"total": 42.0}', '{"total": 42}')
    with served(give, planless=True) as (rig, bodies, _):
        reply = rig.client().responses.parse(model="m", input="Add.", text_format=Sum)
    assert reply.output_parsed == Sum(total=42)
    assert bodies[0]["text"]["format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"tools": [{"type": "web_search"}]}, "tools other than functions"),
        ({"tools": [{"type": "custom", "name": "patch"}]}, "tools other than functions"),
    ],
)
def test_what_cannot_be_voted_is_passed_through_and_said(more: dict[str, Any], reason: str) -> None:
    with served(says("Here it is."), planless=True) as (rig, bodies, _):
        reply = post(rig, input="How many?", **more)
    assert reply.headers["x-keff-not-voted"] == reason
    assert "keff" not in reply.json()
    assert len(bodies) == 1
    assert bodies[0].items() >= more.items()


def test_one_path_is_streamed_as_it_comes_and_counted() -> None:
    with served(says("A long story"), planless=True) as (rig, bodies, _):
        events = list(
            rig.client().responses.create(model="m", input="Hi", stream=True, extra_body={"keff": {"k": 1}})
        )
        assert [event.type for event in events][-1] == "response.completed"
        assert rig.metric('keff_tokens_total{kind="completion"}') == 5
    assert len(bodies) == 1
    assert bodies[0]["stream"] is True
    assert "stream_options" not in bodies[0]


def test_free_text_and_tiny_requests_cost_one_path() -> None:
    with served(says("Once upon a time\nthere was a king."), planless=True) as (rig, bodies, _):
        assert post(rig, input="Tell me a story.").json()["keff"]["stop"] == "free_text"
        assert post(rig, input="Tell me a story.", max_output_tokens=16).json()["keff"]["paths"] == 1
    assert len(bodies) == 2


def test_a_response_that_was_billed_but_cannot_be_read_is_counted() -> None:
    def give(number: int, _: dict[str, Any]) -> dict[str, Any]:
        failed = response(status="failed", error={"code": "server_error", "message": "no luck"})
        return failed if number == 0 else response(text("Final answer: 7"))

    with served(give, planless=True) as (rig, _, _):
        assert post(rig, input="How many?").status_code == 200
        assert rig.metric('keff_tokens_total{kind="prompt"}') == 4 * 7


@pytest.mark.parametrize("body", [{}, {"input": 3}, {"input": None}, {"input": "x", "model": 3}])
def test_a_malformed_request_is_refused_by_name(body: dict[str, Any]) -> None:
    with served(says("x"), planless=True) as (rig, bodies, _):
        reply = httpx2.post(f"{rig.url}/responses", json=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] in ("input", "model")
    assert bodies == []
