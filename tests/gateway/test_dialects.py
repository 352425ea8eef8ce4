"""Replies and streams as servers write them: errors in mid-stream, calls of tools, content in parts."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gateway_rig import QUESTION, Rig, gateway, make_plan
from raw_server import REPLIES, http, raw_server

IN_FLIGHT = "fixed:4,in_flight=4,order=arrival"
Write = Callable[[int], list[bytes]]
"""From the number of a reply to a model to the reply."""


@pytest.fixture(scope="module")
def rig() -> Iterator[tuple[Rig, dict[str, Write]]]:
    """A gateway before one server of many models, each with replies of its own."""
    models = dict[str, Write]()
    calls = dict[str, Iterator[int]]()

    def reply(_: int, body: dict[str, Any]) -> list[bytes]:
        model = body["model"]
        return models[model](next(calls.setdefault(model, itertools.count())))

    with raw_server(reply) as url, gateway(url, make_plan(IN_FLIGHT), answer_space=None) as served:
        yield served, models


def vote(rig: tuple[Rig, dict[str, Write]], written: dict[str, Write], **asked: Any) -> list[dict[str, Any]]:
    """Return what keff says of a vote by each way of writing, all asked at once."""
    served, models = rig
    models.update(written)

    def told(model: str) -> dict[str, Any]:
        reply = served.post({"model": model, "messages": QUESTION, **asked})
        assert reply.status_code == 200, (model, reply.text)
        return reply.json()["keff"]  # type: ignore[no-any-return]

    with ThreadPoolExecutor(len(written)) as pool:
        return list(pool.map(told, written))


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    head = {"id": f"c{next(REPLIES)}", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(head).encode() + b"\n\n"


def stream(*events: bytes) -> list[bytes]:
    return http(b"".join([*events, b"data: [DONE]\n\n"]), content_type="text/event-stream")


def whole(message: dict[str, Any], finish: str = "stop") -> list[bytes]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return http(json.dumps({"id": f"c{next(REPLIES)}", "choices": [choice]}).encode())


ERRORS = [
    b'data: {"error": {"message": "died", "code": 500}}\n\n',
    b'data: {"error": "died"}\n\n',
    b'event: error\ndata: {"message": "died"}\n\n',
    b'id: 1\nevent: server_error\ndata: {"text": "died"}\n\n',
    b"event: error\ndata: died\n\n",
    b'data: {"object": "error", "message": "died"}\n\n',
    b'data: {"type": "error", "message": "died"}\n\n',
    b'data: {"detail": "died"}\n\n',
    b'data: {"code": 500, "msg": "died"}\n\n',
    b'data: {"status_code": 503, "error_msg": "died"}\n\n',
    b'data: {"status": "failed", "message": "died"}\n\n',
    b'data: {"status": 500, "message": "died"}\n\n',
    b'data: {"code": "Throttling", "message": "too many requests"}\n\n',
    b'data: {"choices": [{"index": 0, "delta": {}, "error": {"message": "died"}}]}\n\n',
]
USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 5}}\n\n'


def test_a_stream_that_tells_an_error_is_no_path(rig: tuple[Rig, dict[str, Write]]) -> None:
    """However it is told, and though the stream goes on to its end."""

    def broken(error: bytes, *rest: bytes) -> Write:
        def reply(number: int) -> list[bytes]:
            if number < 3:
                return stream(chunk({"content": "The answer is 7."}), error, *rest)
            return stream(chunk({"content": "It is 42."}, "stop"))

        return reply

    ways = {f"{error!r} {rest!r}": broken(error, *rest) for error in ERRORS for rest in ((), (USAGE,))}
    told = vote(rig, ways)
    assert [(each["votes"], each["failed"]) for each in told] == [({"42": 4}, 3)] * len(ways)


NEWS = [
    b'event: status\ndata: {"type": "status", "message": "searching"}\n\n',
    b'data: {"status": "processing", "message": "please wait"}\n\n',
    b'data: {"code": 0, "message": "success"}\n\n',
    b'data: {"code": "200", "msg": "ok"}\n\n',
    b'data: {"type": "ping"}\n\n',
    b"event: ping\ndata: {}\n\n",
    b'data: {"error": null, "message": ""}\n\n',
    b": error: none\n\n",
]


def test_news_between_the_pieces_of_an_answer_is_no_error(rig: tuple[Rig, dict[str, Write]]) -> None:
    def told_of(news: bytes) -> Write:
        return lambda _: stream(
            news, chunk({"content": "It is "}), news, chunk({"content": "42."}, "stop"), news
        )

    told = vote(rig, {f"news {news!r}": told_of(news) for news in NEWS})
    assert [(each["votes"], each["failed"]) for each in told] == [({"42": 4}, 0)] * len(NEWS)


def test_a_message_that_comes_whole_after_its_role_is_read(rig: tuple[Rig, dict[str, Write]]) -> None:
    message = {"role": "assistant", "content": "It is 42."}
    end = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    last = b"data: " + json.dumps(end).encode() + b"\n\n"
    begun = {"role": "assistant", "content": ""}
    (told,) = vote(rig, {"late": lambda _: stream(chunk(begun), last)})
    assert told["votes"] == {"42": 4}


def test_a_vote_says_how_many_answers_stated_no_prompt(rig: tuple[Rig, dict[str, Write]]) -> None:
    usages = {"none": b"", "zeros": USAGE.replace(b"5", b"0"), "whole": USAGE}
    told = vote(
        rig,
        {
            name: lambda _, usage=usage: stream(chunk({"content": "42"}, "stop"), usage)
            for name, usage in usages.items()
        },
    )
    assert [each["cost"]["uncounted_answers"] for each in told] == [4, 4, 0]


def calls_of(city: str) -> dict[str, dict[str, Any]]:
    """Return messages that call one tool, in the forms of servers."""
    given = json.dumps({"city": city})
    return {
        "text": {"tool_calls": [{"id": "x", "function": {"name": "f", "arguments": given}}]},
        "spaced": {"tool_calls": [{"id": "x", "function": {"name": "f", "arguments": f" {given}\n"}}]},
        "object": {"tool_calls": [{"id": "x", "function": {"name": "f", "arguments": {"city": city}}}]},
        "legacy": {"function_call": {"name": "f", "arguments": given}},
        "index": {"tool_calls": [{"index": "0", "id": "x", "function": {"name": "f", "arguments": given}}]},
        "custom": {"tool_calls": [{"id": "x", "type": "custom", "custom": {"name": "f", "input": city}}]},
    }


@pytest.mark.parametrize("streamed", [False, True])
def test_calls_vote_on_what_they_say_however_they_are_written(
    rig: tuple[Rig, dict[str, Write]], streamed: bool
) -> None:
    cities = ("Rome", "Rome", "Paris", "Rome")

    def write(form: str) -> Write:
        def reply(number: int) -> list[bytes]:
            message = calls_of(cities[number])[form]
            if streamed:
                return stream(
                    chunk({"role": "assistant", "content": None, **message}), chunk({}, "tool_calls")
                )
            return whole({"content": None, **message}, "tool_calls")

        return reply

    told = vote(rig, {f"{form} {streamed}": write(form) for form in calls_of("")})
    assert [sorted(each["votes"].values()) for each in told] == [[1, 3]] * len(told)
    assert all("Rome" in each["answer"] for each in told)


def test_calls_of_one_chunk_without_ids_are_different_calls(rig: tuple[Rig, dict[str, Write]]) -> None:
    for place in ({}, {"index": 0}):
        both = {"tool_calls": [{**place, "function": {"name": name, "arguments": ""}} for name in "fg"]}
        (told,) = vote(
            rig, {f"both {place}": lambda _, both=both: stream(chunk(both), chunk({}, "tool_calls"))}
        )
        assert told["votes"] == {'{"tool_calls":[["f",{}],["g",{}]]}': 4}


THOUGHTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "The answer is 7."}]},
    {"type": "thinking", "text": "The answer is 7."},
    {"type": "reasoning", "text": "The answer is 7."},
    {"type": "reasoning_text", "text": "The answer is 7."},
    {"type": "redacted_thinking", "data": "7"},
    {"thought": True, "text": "The answer is 7."},
]
SAID = [{"type": "text", "text": "42"}, {"type": "output_text", "text": "42"}, {"text": "42"}, "42"]


def test_of_content_in_parts_the_words_vote_and_thoughts_do_not(rig: tuple[Rig, dict[str, Write]]) -> None:
    ways = list(itertools.product(THOUGHTS, SAID))
    written = {
        f"parts {number}": lambda _, parts=parts: whole({"content": list(parts)})
        for number, parts in enumerate(ways)
    }
    told = vote(rig, written)
    assert Counter(str(each["votes"]) for each in told) == {"{'42': 4}": len(ways)}


MESSAGES: list[dict[str, Any]] = [
    {
        "content": None,
        "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"content": None, "refusal": "No."},
    {
        "content": "It is 42.",
        "reasoning_content": "First 7.",
        "reasoning_details": [{"index": 0, "text": "7"}],
    },
    {"content": "It is 42.", "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}]},
]


@pytest.mark.parametrize("message", MESSAGES)
def test_the_official_client_gets_one_message_streamed_and_whole(
    rig: tuple[Rig, dict[str, Write]], message: dict[str, Any]
) -> None:
    served, models = rig
    models["same"] = lambda _: whole(message)
    client = served.client()
    once = client.chat.completions.create(model="same", messages=QUESTION)  # type: ignore[arg-type]
    with client.chat.completions.stream(model="same", messages=QUESTION) as events:  # type: ignore[arg-type]
        last = events.get_final_completion()
    first, second = (each.choices[0].message.model_dump(exclude_none=True) for each in (once, last))
    for call in second.get("tool_calls", ()):
        call.pop("index", None)
        call["function"].pop("parsed_arguments", None)
    assert second == first
