"""One draw is one path: caches that repeat a completion, greedy requests, and seeds.

Inputs are drawn by a generator; the right number of paths is counted from the drawn replies in the test.
"""

from __future__ import annotations

import asyncio
import json
import random
import warnings
from typing import Any

import openai
import pytest

import keff
from gateway_rig import QUESTION, gateway
from keff.engines.openai import OpenAI
from keff.errors import EngineError
from openai_rig import ask
from raw_server import http, raw_server


def chat(name: str | int | None, *texts: str) -> dict[str, Any]:
    choices = [
        {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        for index, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 5, "completion_tokens": 3 * len(texts), "total_tokens": 5 + 3 * len(texts)}
    return {"id": name, "object": "chat.completion", "model": "m", "choices": choices, "usage": usage}


def response(name: str | int, text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
    return {"id": name, "object": "response", "status": "completed", "model": "m", "output": [item]}


def as_stream(whole: dict[str, Any]) -> list[bytes]:
    head = {name: value for name, value in whole.items() if name not in ("choices", "usage")}
    choice = whole["choices"][0]
    chunks: list[dict[str, Any]] = [
        head | {"choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]},
        head | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        head | {"choices": [], "usage": whole["usage"]},
    ]
    body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    return http(body + b"data: [DONE]\n\n", content_type="text/event-stream")


@pytest.mark.parametrize("api", ["chat", "in flight", "responses"])
@pytest.mark.parametrize("seed", range(6))
def test_completions_that_a_cache_gives_again_are_one_path(api: str, seed: int) -> None:
    """Of eight replies each is a new completion or one that came before."""
    rng = random.Random(seed)
    # Some servers number their completions.
    kept = [(f"c{number}" if seed % 2 else number + 1, rng.choice("77789")) for number in range(8)]
    replies = [kept[0]]
    for one in kept[1:]:
        replies.append(rng.choice(replies) if rng.random() < 0.5 else one)

    def reply(number: int, body: dict[str, Any]) -> list[bytes]:
        name, digit = replies[number]
        text = f"Thus the answer is {digit}."
        if api == "responses":
            return http(json.dumps(response(name, text)).encode())
        whole = chat(name, text)
        return as_stream(whole) if body.get("stream") else http(json.dumps(whole).encode())

    policy = "fixed:8,in_flight=8,order=arrival" if api == "in flight" else "fixed:8"
    asked: dict[str, Any] = {"model": "m", "keff": {"policy": policy}}
    path = "responses" if api == "responses" else "chat/completions"
    asked |= {"input": QUESTION[0]["content"]} if api == "responses" else {"messages": QUESTION}
    with raw_server(reply) as url, gateway(url, planless=True) as rig:
        got = openai.OpenAI(base_url=rig.url, api_key="none", max_retries=0)
        answer = got.post(f"/{path}", body=asked, cast_to=object, options={"headers": {}})
        told: Any = answer["keff"]  # type: ignore[index]
        counted = rig.metric('keff_paths_total{became="repeated"}')
        got.close()
    different = dict(replies)
    votes = {digit: list(different.values()).count(digit) for digit in set(different.values())}
    assert (told["paths"], told["repeated"]) == (len(different), 8 - len(different))
    assert told["votes"] == votes
    assert counted == 8 - len(different)


def test_a_header_says_how_many_paths_were_repeated() -> None:
    said = json.dumps(chat("c", "It is 7.")).encode()
    with raw_server(lambda *_: http(said)) as url, gateway(url, planless=True) as rig:
        reply = rig.post({"model": "m", "messages": QUESTION, "keff": {"policy": "fixed:3"}})
    assert (reply.headers["x-keff-paths"], reply.headers["x-keff-repeated"]) == ("1", "2")
    assert reply.json()["keff"]["share"] == 1.0


HITS = [
    ("x-cache", "HIT from proxy"),
    ("cf-aig-cache-status", "HIT"),
    ("x-portkey-cache-status", "SEMANTIC HIT"),
    ("cache-status", "proxy; hit; ttl=30"),
    ("x-cache-hit", "True"),
]
MISSES = [("x-cache", "MISS"), ("cache-status", "proxy; fwd=miss"), ("x-cache-hit", "false"), ("age", "3")]


@pytest.mark.parametrize("seeds", [{}, {"seed": 1}])
@pytest.mark.parametrize(("name", "value"), [*HITS, *MISSES])
def test_an_answer_that_says_it_is_cached_is_no_new_path_under_whatever_id(
    name: str, value: str, seeds: dict[str, int]
) -> None:
    """Two draws that differ, then one of them again and again, each time under an id of its own or none."""

    def reply(number: int, _: Any) -> list[bytes]:
        text = "So it is 8." if number == 1 else "It is 7."
        headers = {name.replace("-", "_"): value} if number > 1 else {}
        return http(json.dumps(chat(f"c{number}" if number % 2 else "", text)).encode(), **headers)

    with raw_server(reply) as url, gateway(url, planless=True) as rig:
        # One after the other, as a cache gives what was given before.
        asked = {"model": "m", "messages": QUESTION, "keff": {"policy": "lead_k:9,cap=6"}}
        told = rig.post(asked | seeds).json()
    # With a seed for each path a cache gives each its own.
    hit = (name, value) in HITS and not seeds
    votes = {"7": 1, "8": 1} if hit else {"7": 5, "8": 1}
    assert (told["keff"]["votes"], told["keff"]["repeated"]) == (votes, 4 if hit else 0)


@pytest.mark.parametrize("name", ["", None, "same"])
def test_choices_of_one_reply_and_replies_without_an_id_are_different_paths(name: str | None) -> None:
    """Three equal choices of one reply; and of a server whose ids name nothing, every reply is a path."""

    def reply(number: int, body: dict[str, Any]) -> list[bytes]:
        texts = ["It is 7."] * body.get("n", 1)
        if body.get("n", 1) == 1:
            texts = ["It is 7." if number % 2 else "I think it is 7."]
        return http(json.dumps(chat(name, *texts)).encode())

    for together in (1, 8):
        with raw_server(reply) as url, gateway(url, planless=True, upstream_n=together) as rig:
            told = rig.post({"model": "m", "messages": QUESTION, "keff": {"policy": "fixed:8"}}).json()[
                "keff"
            ]
        assert (told["paths"], told["repeated"], told["votes"]) == (8, 0, {"7": 8})


GREEDY = [
    *(
        {"temperature": 0},
        {"temperature": "0.0"},
        {"top_p": 0},
        {"top_p": 1e-7},
        {"top_k": 1},
        {"min_p": 1.0},
    ),
    *({"do_sample": False}, {"use_beam_search": True}),
]
FREE = [{"temperature": 0.2}, {"top_p": 0.1}, {"top_k": 2}, {"min_p": 0.9}, {"temperature": 0.5, "seed": 7}]


def number_of(number: int, body: dict[str, Any]) -> list[bytes]:
    whole = chat(f"c{number}", f"Thus the answer is {number % 2}.")
    return as_stream(whole) if body.get("stream") else http(json.dumps(whole).encode())


@pytest.mark.parametrize("sampling", GREEDY)
@pytest.mark.parametrize("asked", [{}, {"keff": {"k": 5}}, {"n": 3}, {"stream": True}])
def test_greedy_requests_draw_one_path_and_say_so(sampling: dict[str, Any], asked: dict[str, Any]) -> None:
    calls: list[str] = []
    with raw_server(number_of, calls) as url, gateway(url, planless=True) as rig:
        reply = rig.post({"model": "m", "messages": QUESTION} | sampling | asked)
    assert reply.status_code == 200
    assert len(calls) == 1
    (name, value) = next(iter(sampling.items()))
    assert reply.headers["x-keff-greedy"] == f"{name} {float(value):g}"
    if "stream" not in asked:
        assert len(reply.json()["choices"]) == asked.get("n", 1)
        assert (reply.json()["keff"]["paths"], reply.json()["keff"]["greedy"]) == (
            1,
            f"{name} {float(value):g}",
        )


@pytest.mark.parametrize("sampling", FREE)
def test_other_requests_draw_what_the_policy_says(sampling: dict[str, Any]) -> None:
    calls: list[str] = []
    with raw_server(number_of, calls) as url, gateway(url, planless=True) as rig:
        reply = rig.post({"model": "m", "messages": QUESTION, "keff": {"k": 5}} | sampling)
    assert (len(calls), reply.json()["keff"]["greedy"]) == (5, None)
    assert "x-keff-greedy" not in reply.headers


@pytest.mark.parametrize("name", ["seed", "random_seed"])
@pytest.mark.parametrize("path", ["chat/completions", "responses"])
@pytest.mark.parametrize("first", [41, 2**63 - 2])
def test_every_path_has_a_seed_of_its_own(name: str, path: str, first: int) -> None:
    """And each fits into 64 bits."""
    seeds: list[int] = []

    def reply(_: int, body: dict[str, Any]) -> list[bytes]:
        seeds.append(body[name])
        text = f"It is {body[name]}."
        return http(json.dumps(response("", text) if "input" in body else chat("", text)).encode())

    asked: dict[str, Any] = {"model": "m", name: first, "keff": {"k": 4}}
    asked |= {"input": "How many?"} if path == "responses" else {"messages": QUESTION}
    with raw_server(reply) as url, gateway(url, planless=True) as rig:
        got = openai.OpenAI(base_url=rig.url, api_key="none", max_retries=0)
        got.post(f"/{path}", body=asked, cast_to=object)
        got.close()
    assert len(set(seeds)) == 4
    assert all(-(2**63) <= seed < 2**63 for seed in seeds)


def consensus(url: str, **request: Any) -> Any:
    async def work() -> Any:
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            return await keff.self_consistency(
                client, "How many is 6 x 7?", policy="fixed:6", space="numeric", model="m", **request
            )

    return asyncio.run(work())


@pytest.mark.parametrize("seed", range(3))
def test_self_consistency_counts_a_repeated_completion_once(seed: int) -> None:
    rng = random.Random(seed)
    replies = [f"c{rng.randrange(4)}" for _ in range(6)]
    digits = {name: rng.choice("78") for name in replies}

    def reply(number: int, _: Any) -> list[bytes]:
        name = replies[number]
        return http(json.dumps(chat(name, f"Thus the answer is {digits[name]}.")).encode())

    with raw_server(reply) as url:
        found = consensus(url)
    assert (found.verdict.paths, found.repeated) == (len(digits), 6 - len(digits))
    assert sorted(found.keys) == sorted(digits.values())


def test_self_consistency_draws_one_greedy_path_and_gives_each_path_a_seed() -> None:
    seeds: list[Any] = []

    def reply(number: int, body: dict[str, Any]) -> list[bytes]:
        seeds.append(body.get("seed"))
        return number_of(number, body)

    with raw_server(reply) as url:
        with pytest.warns(UserWarning, match="temperature 0"):
            assert consensus(url, temperature=0).verdict.paths == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert consensus(url, extra_body={"seed": 5}).verdict.paths == 6
    assert sorted(seeds[1:]) == [5, 6, 7, 8, 9, 10]


def test_a_pilot_fails_where_a_cache_answers_instead_of_the_model() -> None:
    with raw_server(lambda *_: http(json.dumps(chat("c", "It is 7.")).encode())) as url:
        made = OpenAI(base_url=url, model="m", n_per_request=1, max_retries=0, omit="seed", logprobs=False)
        with pytest.raises(EngineError, match="gave the completion c again"):
            ask(made, 3)
