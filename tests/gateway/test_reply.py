"""The reply: which path is shown, what it cost, and how it is streamed."""

from __future__ import annotations

import json
from typing import Any

from keff.gateway.http.reply import completion, total_usage, vote_object, winner
from keff.gateway.http.stream import chunks
from keff.gateway.vote.vote import Outcome, PathResult
from keff.policy import Stop
from keff.protocol.reply import Counts


def path(text: str, key: str | None, **usage: Any) -> PathResult:
    choice = {"index": 3, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return PathResult(choice, {"id": text, "model": "m", "system_fingerprint": "f", "usage": usage}, key)


def outcome(*paths: PathResult, answer: str | None, unused: tuple[PathResult, ...] = ()) -> Outcome:
    return Outcome(Stop(answer, 0.97, "posterior", "enough"), "policy", paths, unused, 1, 2)


LONG, SHORT, OTHER, SILENT = path("long 7", "7"), path("7", "7"), path("8", "8"), path("", None)


def test_the_shortest_path_of_the_winner_is_shown_or_the_first() -> None:
    voted = outcome(OTHER, LONG, SHORT, answer="7")
    assert winner(voted, "shortest") is SHORT
    assert winner(voted, "first") is LONG
    assert winner(outcome(SILENT, path("x", None), answer=None), "shortest") is SILENT


def test_usage_is_the_sum_and_a_shared_response_counts_once() -> None:
    one = path("a", "7", prompt_tokens=5, completion_tokens=2, prompt_tokens_details={"cached_tokens": 4})
    two = path("b", "7", prompt_tokens=5, completion_tokens=3, prompt_tokens_details={"cached_tokens": 1})
    twin = PathResult(two.choice, two.body, "8")
    usage, counts = total_usage([one, two, twin])
    assert usage == {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 5},
    }
    assert counts == Counts(10, 5, 5)
    assert one.body["usage"]["prompt_tokens_details"] == {"cached_tokens": 4}
    strange = path("c", "7", prompt_tokens="many", completion_tokens=None, extra=True)
    assert total_usage([strange])[0]["total_tokens"] == 0


def test_the_vote_is_told_in_full() -> None:
    voted = outcome(OTHER, LONG, SILENT, SHORT, answer="7", unused=(OTHER,))
    told = vote_object(voted, "lead_k:3", ["top_p"], Counts(1000, 400, 500), 0, 0.25)
    assert told["votes"] == {"7": 2, "8": 1}
    assert told["share"] == 2 / 3
    assert told["weight"] == {"value": 0.97, "kind": "posterior"}
    assert (told["paths"], told["abstentions"], told["unused"]) == (4, 1, 1)
    assert (told["failed"], told["cancelled"], told["stale_plan"]) == (1, 2, ["top_p"])
    assert told["cost"]["dollars"] == 0.25


def test_long_answers_are_shortened_but_stay_apart() -> None:
    one, two = "x" * 300 + "1", "x" * 300 + "2"
    told = vote_object(
        outcome(path("", one), path("", two), path("", two), answer=two), "p", [], Counts(), 0, None
    )
    assert sorted(told["votes"].values()) == [1, 2]
    assert told["votes"][told["answer"]] == 2
    assert told["share"] == 2 / 3


def test_a_stream_says_what_the_whole_reply_says() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    shown = path("text", "7")
    shown.choice["message"] |= {"reasoning_content": "hm", "tool_calls": [call], "refusal": None}
    shown.choice["logprobs"] = {"content": []}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    reply = completion("name", [shown], usage, {"answer": "7"})
    assert (reply["id"], reply["model"], reply["choices"][0]["index"]) == ("text", "m", 0)
    events = [piece.removeprefix(b"data: ").strip() for piece in chunks(reply, include_usage=True)]
    assert events[-1] == b"[DONE]"
    first, content, end, last = map(json.loads, events[:-1])
    assert {one["id"] for one in (first, content, end, last)} == {"text"}
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert content["choices"][0]["delta"] == {
        "content": "text",
        "reasoning_content": "hm",
        "tool_calls": [{**call, "index": 0}],
    }
    assert end["choices"][0]["finish_reason"] == "stop"
    assert end["keff"] == {"answer": "7"}
    assert (last["choices"], last["usage"]) == ([], usage)
    assert first["usage"] is None
    assert not any(b"usage" in piece for piece in chunks(reply, include_usage=False))
