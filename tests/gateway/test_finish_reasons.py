"""Paths that an upstream ended by a fault are drawn again, whatever it calls the fault."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import httpx2
import pytest

from gateway_rig import QUESTION, gateway, make_plan
from raw_server import http, raw_server

FAULTS = (
    *("error", "network_error", "insufficient_system_resource", "upstream_timeout", "timed_out"),
    *("error_out_of_memory", "server_overloaded", "aborted", "engine_dead", "worker_crashed"),
)


def styles(words: str) -> list[str]:
    """Return a reason as servers write it."""
    parts = words.split("_")
    camel = "".join(part.title() for part in parts)
    return [words, words.upper(), words.title(), "-".join(parts), camel, f"FINISH_REASON_{words.upper()}"]


@pytest.mark.parametrize("reason", FAULTS)
def test_paths_that_broke_off_do_not_outvote_those_that_ended(reason: str) -> None:
    """Five broken-off paths say 7 in passing; three ended ones say 42."""
    calls = Counter[str]()

    def reply(number: int, body: dict[str, Any]) -> list[bytes]:
        style = body["model"]
        calls[style] += 1
        broken = calls[style] <= 5
        return http(chat(number, choice_of(0, BROKEN if broken else ENDED, style if broken else "stop")))

    with raw_server(reply) as url, gateway(url, make_plan("fixed:8")) as rig:
        asked = {"messages": QUESTION}
        told = [rig.post({"model": style, **asked}).json()["keff"] for style in styles(reason)]
    assert [each["votes"] for each in told] == [{"42": 8}] * len(told)


BROKEN, ENDED = "First 3 + 4 = 7, and then", "The answer is 42."
CUT = ("MAX_TOKENS", "Length", "model_length", "OTHER", "budget_exceeded", "tool_limit", "¿por qué?", "17")


def choice_of(index: int, text: str, reason: object) -> dict[str, Any]:
    return {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": reason}


def chat(number: int, *choices: dict[str, Any]) -> bytes:
    return json.dumps({"id": f"c{number}", "object": "chat.completion", "choices": choices}).encode()


def response(number: int, text: str, status: str, reason: str | None) -> bytes:
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    more = {} if reason is None else {"incomplete_details": {"reason": reason}}
    told = {"id": f"r{number}", "object": "response", "status": status, "output": [item], **more}
    return json.dumps(told).encode()


def as_stream(number: int, text: str, reason: str) -> list[bytes]:
    chunks: list[dict[str, Any]] = [
        {"delta": {"role": "assistant", "content": text}, "finish_reason": None},
        {"delta": {}, "finish_reason": reason},
    ]
    lines = [json.dumps({"id": f"c{number}", "choices": [{"index": 0, **chunk}]}) for chunk in chunks]
    body = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])
    return http(body.encode(), content_type="text/event-stream")


@pytest.mark.parametrize("reason", CUT)
@pytest.mark.parametrize("api", ["chat", "stream", "responses"])
def test_five_paths_of_an_unknown_end_do_not_outvote_three_that_ended(api: str, reason: str) -> None:
    """They count as cut: what they say in passing is no answer."""

    def reply(number: int, body: dict[str, Any]) -> list[bytes]:
        broken = number < 5
        text, why = (BROKEN, reason) if broken else (ENDED, "stop")
        if "input" in body:
            status = "incomplete" if broken else "completed"
            return http(response(number, text, status, reason if broken else None))
        return (
            as_stream(number, text, why)
            if body.get("stream")
            else http(chat(number, choice_of(0, text, why)))
        )

    policy = "fixed:8,in_flight=8,order=arrival" if api == "stream" else "fixed:8"
    asked: dict[str, Any] = {"model": "stub", "keff": {"policy": policy}}
    path = "responses" if api == "responses" else "chat/completions"
    asked |= {"input": "What is 6 times 7?"} if api == "responses" else {"messages": QUESTION}
    with raw_server(reply) as url, gateway(url, make_plan()) as rig:
        told = httpx2.post(f"{rig.url}/{path}", json=asked, timeout=60).json()["keff"]
    assert (told["votes"], told["abstentions"], told["answer"]) == ({"42": 3}, 5, "42"), told


@pytest.mark.parametrize("reason", FAULTS[:3])
@pytest.mark.parametrize("n", [2, 5, 8])
def test_of_several_choices_only_the_faulty_ones_are_drawn_again(reason: str, n: int) -> None:
    calls = list[int]()

    def reply(number: int, body: dict[str, Any]) -> list[bytes]:
        several = body.get("n", 1)
        calls.append(several)
        faulty = (0, n - 1) if several == n and several > 2 else (0,) if several == n else ()
        choices = [
            choice_of(place, BROKEN if place in faulty else ENDED, reason if place in faulty else "stop")
            for place in range(several)
        ]
        return http(chat(number, *choices))

    with raw_server(reply) as url, gateway(url, make_plan(f"fixed:{n}"), upstream_n=n) as rig:
        told = rig.post().json()["keff"]
    faulty = 2 if n > 2 else 1
    assert (told["votes"], told["failed"], calls) == ({"42": n}, faulty, [n, faulty])


ENDS = ("stop", "end_turn", "stop_sequence", "end_of_text", "eos_token", "complete")
FILTERS = ("content_filter", "prohibited_content", "guardrail_intervened", "blocklist", "image_safety")
LIMITS = (
    "max_tokens",
    "max_output_tokens",
    "context_window_exceeded",
    "pause_turn",
    "malformed_function_call",
)
WORDS = [(reason, kind) for kind, each in enumerate((ENDS, LIMITS, FILTERS)) for reason in each]


@pytest.mark.parametrize(("reason", "kind"), WORDS)
def test_a_reason_means_the_same_in_every_style(reason: str, kind: int) -> None:
    """In passing, a text that ended says 7; one that states its answer says it, but for a filtered one."""
    texts = ("So it is 7", "The answer is 7.")
    votes = ((True, True), (False, True), (False, False))[kind]
    written = [(style, text) for style in (*styles(reason), {"type": reason}) for text in texts]

    def reply(number: int, _: Any) -> list[bytes]:
        style, text = written[number % len(written)]
        return http(chat(number, choice_of(0, text, style)))

    with raw_server(reply) as url, gateway(url, make_plan(f"fixed:{len(written)}"), free_text="draw") as rig:
        paths = rig.post({"model": "stub", "messages": QUESTION, "keff": {"return_paths": True}}).json()
    got = {(path["message"]["content"], path["answer"]) for path in paths["keff"]["all_paths"]}
    assert got == {(text, "7" if vote else None) for text, vote in zip(texts, votes, strict=True)}
