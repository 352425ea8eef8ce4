"""The gateway as clients meet it: the official client, bad input, faults upstream, and clients that leave."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from app_rig import Serve, ask, says
from fault_server import Script
from gateway_rig import QUESTION, SAMPLING, Options, make_plan
from keff.gateway.vote.vote import REASONS
from keff.sampling.cost import Price


def test_the_official_client_gets_a_voted_answer_with_its_cost(serve: Serve) -> None:
    script = Script(answer=says("8", "7", "7", "7", "7"))
    rig = serve(script, options=Options(prices={"": Price(prompt=1, output=2)}))
    reply = ask(rig)
    told = reply.model_extra["keff"]
    assert "answer is 7" in reply.choices[0].message.content
    assert (told["answer"], told["votes"], told["paths"]) == ("7", {"7": 4, "8": 1}, 5)
    assert told["stop"] == "policy"
    assert len(script.requests) == 5
    assert reply.usage.prompt_tokens == 7 * 5
    words = sum(len(says("8", "7", "7", "7", "7")([], seed).split()) for seed in range(5))
    assert reply.usage.completion_tokens == words
    assert told["cost"]["dollars"] == pytest.approx((35 + 2 * words) / 1e6)


def test_the_plan_fills_in_and_the_client_s_fields_pass_through(serve: Serve) -> None:
    script = Script(answer=says("7"))
    rig = serve(script)
    ask(rig, extra_body={"min_p": 0, "custom": {"x": [1]}}, user="me")
    for number, body in enumerate(sorted(script.requests, key=lambda body: body["seed"])):
        assert body.pop("seed") == number
        assert body == {
            "model": "stub",
            "messages": QUESTION,
            "user": "me",
            "min_p": 0,
            "custom": {"x": [1]},
            "temperature": 0.7,
            "top_p": 0.95,
            "max_tokens": SAMPLING["max_tokens"],
        }


def test_without_a_seed_none_is_sent(serve: Serve) -> None:
    script = Script(answer=says("7"))
    rig = serve(script)
    rig.post()
    assert all("seed" not in body for body in script.requests)


def test_the_official_client_streams_the_winner(serve: Serve) -> None:
    rig = serve(Script(answer=says("8", "7", "7", "7", "7")))
    whole = ask(rig)
    events = list(ask(rig, stream=True, stream_options={"include_usage": True}))
    text = "".join(event.choices[0].delta.content or "" for event in events if event.choices)
    assert text == whole.choices[0].message.content
    assert events[-1].choices == []
    assert events[-1].usage == whole.usage
    assert [event.choices[0].finish_reason for event in events if event.choices][-1] == "stop"
    told = [event.model_extra["keff"] for event in events if "keff" in (event.model_extra or {})]
    assert told == [whole.model_extra["keff"]]


def test_a_slow_vote_keeps_its_stream_open_with_comments(serve: Serve) -> None:
    options = Options(quiet_seconds=0.02, comment_seconds=0.02)
    rig = serve(Script(answer=says("7"), latency=0.15), options=options)
    reply = rig.post({"messages": QUESTION, "stream": True})
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.text.count(": 0 paths drawn\n\n") >= 2
    assert reply.text.endswith("data: [DONE]\n\n")
    assert "answer is 7" in "".join(
        event.choices[0].delta.content or "" for event in ask(rig, stream=True) if event.choices
    )


def test_an_error_before_the_stream_has_its_status_and_one_in_it_is_raised(serve: Serve) -> None:
    rig = serve(Script(fault=lambda *_: "404"))
    with pytest.raises(openai.NotFoundError):
        ask(rig, stream=True)
    slow = serve(
        Script(fault=lambda *_: "error_200", latency=0.1), options=Options(quiet_seconds=0.01, replacements=0)
    )
    with pytest.raises(openai.APIError, match="overloaded"):
        list(ask(slow, stream=True))


def test_off_relays_the_stream_as_it_comes(serve: Serve) -> None:
    script = Script(answer=says("7"))
    rig = serve(script)
    events = list(
        ask(rig, stream=True, stream_options={"include_usage": True}, extra_body={"keff": {"k": 1}})
    )
    assert "".join(e.choices[0].delta.content or "" for e in events if e.choices).startswith(
        "Thus the answer"
    )
    assert events[-1].usage.prompt_tokens == 7
    (body,) = script.requests
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["temperature"] == 0.7
    flaky = Script(answer=says("7"), fault=lambda number, _: "500" if number < 2 else None)
    assert "data: [DONE]" in serve(flaky).post({"messages": QUESTION, "stream": True, "keff": {"k": 1}}).text
    garbage = Script(fault=lambda *_: "error_200")
    reply = serve(garbage).post({"messages": QUESTION, "stream": True, "keff": {"k": 1}})
    assert (reply.status_code, len(garbage.requests)) == (502, 3)
    assert "overloaded" in reply.json()["error"]["message"]
    whole = ask(rig, extra_body={"keff": {"policy": "off"}})
    assert whole.model_extra["keff"]["paths"] == 1


def test_a_relayed_stream_that_breaks_ends_in_an_error(serve: Serve) -> None:
    cut = serve(Script(answer=says("7"), fault=lambda *_: "truncated"), plan=make_plan("fixed:1"))
    text = cut.post({"messages": QUESTION, "stream": True}).text
    assert "[DONE]" not in text


def test_requests_choose_their_policy(serve: Serve) -> None:
    script = Script(answer=says("1", "2", "3", "4", "5", "6"))
    rig = serve(script)
    assert ask(rig, extra_body={"keff": {"policy": "fixed:5"}}).model_extra["keff"]["paths"] == 5
    by_header = rig.client(default_headers={"x-keff-policy": "lead_k:3", "x-keff-cap": "4"})
    reply = by_header.chat.completions.create(model="stub", messages=QUESTION, seed=0)  # type: ignore[arg-type]
    assert reply.model_extra["keff"]["policy"] == "lead_k:3,cap=4"
    with pytest.raises(openai.BadRequestError, match="more than the 64"):
        ask(rig, extra_body={"keff": {"k": 65}})


def test_several_choices_are_the_winner_and_other_paths(serve: Serve) -> None:
    script = Script(answer=says("1", "2", "2", "3"))
    rig = serve(script)
    reply = ask(rig, n=4)
    texts = [choice.message.content for choice in reply.choices]
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3] and "2" in texts[0]
    assert len({*texts}) == 4 and reply.usage.prompt_tokens == 4 * 7
    assert reply.model_extra["keff"]["policy"] == "fixed:4" and len(script.requests) == 4
    chunks = [chunk for chunk in ask(rig, n=3, stream=True) if chunk.choices]
    streamed: dict[int, str] = {}
    for chunk in chunks:
        delta = chunk.choices[0]
        streamed[delta.index] = streamed.get(delta.index, "") + (delta.delta.content or "")
    assert sorted(streamed) == [0, 1, 2] and len({*streamed.values()}) == 3 and "2" in streamed[0]
    free = serve(Script(answer=lambda _, seed: f"Once upon a time {seed}"))
    assert len(ask(free, n=3).choices) == 3
    for n, more in ((0, {}), (-1, {}), (True, {}), (2.0, {}), (65, {}), (2, {"keff": {"k": 3}})):
        assert rig.post({"messages": QUESTION, "n": n, **more}).status_code == 400
    assert ask(rig, n=1).choices[0].message.content


def test_a_deadline_is_kept_and_told(serve: Serve) -> None:
    script = Script(answer=says("7"), fault=lambda number, _: "hang" if number >= 2 else None)
    rig = serve(script, plan=make_plan("fixed:4"))
    told = ask(rig, extra_body={"keff": {"deadline_s": 1.0}}).model_extra["keff"]
    assert (told["stop"], told["paths"], told["cancelled"]) == ("deadline", 2, 2)
    assert told["stop_reason"] == REASONS["deadline"]
    nothing = serve(Script(fault=lambda *_: "hang"), options=Options(deadline=0.1))
    reply = nothing.post()
    assert reply.status_code == 504
    assert reply.json()["error"]["type"] == "timeout_error"


def test_a_mismatch_is_named_and_kept_out_of_the_drift_alarm(serve: Serve) -> None:
    rig = serve(Script(answer=says("7")))
    reply = rig.post({"messages": QUESTION, "temperature": 0.1, "max_tokens": 9})
    assert reply.status_code == 200
    assert reply.headers["x-keff-stale-plan"] == "max_tokens, temperature"
    assert reply.json()["keff"]["stale_plan"] == ["max_tokens", "temperature"]
    assert rig.monitor is not None
    assert rig.monitor.seen == 0
    assert "x-keff-stale-plan" not in rig.post().headers
    assert rig.monitor.seen == 1
    strict = serve(Script(answer=says("7")), options=Options(strict=True))
    assert strict.post({"messages": QUESTION, "temperature": 0.1}).status_code == 400
    assert strict.post({"messages": QUESTION, "model": "other"}).status_code == 404
    assert strict.post().status_code == 200


def test_structured_outputs_and_tool_calls_vote_as_json(serve: Serve) -> None:
    forms = ['{"a": 1, "b": 2}', '{"b": 2, "a": 1}', '{"a": 3}', "no json"]
    rig = serve(Script(answer=lambda _, seed: forms[seed]), plan=make_plan("fixed:4"))
    told = ask(rig, response_format={"type": "json_object"}).model_extra["keff"]
    assert told["votes"] == {'{"a":1,"b":2}': 2, '{"a":3}': 1}
    assert told["abstentions"] == 1


@pytest.mark.parametrize(("mode", "status"), [("pass", 200), ("refuse", 422)])
def test_free_text_is_passed_or_refused(serve: Serve, mode: Any, status: int) -> None:
    rig = serve(Script(answer=lambda *_: "Once upon a time."), options=Options(free_text=mode))
    reply = rig.post()
    assert reply.status_code == status
    if status == 200:
        assert reply.json()["choices"][0]["message"]["content"] == "Once upon a time."
        assert (reply.json()["keff"]["answer"], reply.json()["keff"]["paths"]) == (None, 3)


def test_the_answer_contract_is_appended_only_when_asked(serve: Serve) -> None:
    script = Script(answer=says("7"))
    rig = serve(script, options=Options(append_answer_format=True))
    rig.post()
    rig.post({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]})
    contract = rig.service.reader.space.contract
    assert script.requests[0]["messages"][-1]["content"] == f"{QUESTION[0]['content']}\n\n{contract}"
    assert script.requests[-1]["messages"][-1]["content"][-1] == {"type": "text", "text": f"\n\n{contract}"}


def test_a_policy_on_confidence_asks_for_log_probabilities(serve: Serve) -> None:
    script = Script(answer=says("7", "8"))
    rig = serve(script, plan=make_plan("fixed:4,weight=confidence,temperature=0.5"))
    reply = rig.post()
    assert reply.status_code == 200
    assert all(body["logprobs"] is True for body in script.requests)
    assert "logprobs" not in reply.json()["choices"][0]
    assert reply.json()["keff"]["weight"]["kind"] == "weighted_share"


def test_several_paths_share_one_call_where_the_upstream_allows_it(serve: Serve) -> None:
    script = Script(answer=says("7", "8", "9"), max_n=2)
    rig = serve(script, plan=make_plan("fixed:6"), upstream_n=6)
    told = ask(rig).model_extra["keff"]
    assert told["votes"] == {"7": 2, "8": 2, "9": 2}
    script.requests.clear()
    ask(rig)
    assert max(body.get("n", 1) for body in script.requests) <= 2
    assert len(script.requests) == 3
