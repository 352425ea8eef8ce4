"""Reading a request: what is taken out, what is refused, and that nothing else than a Problem comes out."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import INFINITE, jsons
from gateway_rig import QUESTION, make_plan
from how_many import examples
from keff.gateway.http.errors import Problem
from keff.gateway.http.request import read_ask
from keff.gateway.vote.request_policy import RequestPolicies, policy_of_plan, terms_of

POLICIES = RequestPolicies()
GOOD: dict[str, Any] = {"model": "stub", "messages": QUESTION}


def raw(**more: Any) -> bytes:
    return json.dumps(GOOD | more).encode()


def refused(body: bytes, headers: dict[bytes, bytes] | None = None) -> Problem:
    with pytest.raises(Problem) as caught:
        read_ask(body, headers or {})
    assert caught.value.status == 400
    return caught.value


def test_what_the_gateway_decides_is_taken_out_and_all_else_stays() -> None:
    unknown = {"min_p": 0.1, "metadata": {"a": [1, None]}, "tools": [{"type": "function"}]}
    own = {"n": 1, "stream": True, "stream_options": {"include_usage": True}, "seed": 3}
    ask = read_ask(raw(**unknown, **own, keff={"policy": "lead_k:2", "cap": 8, "deadline_s": 2}), {})
    assert ask.body == GOOD | unknown
    assert (ask.seeds, ask.stream, ask.include_usage) == ({"seed": 3}, True, True)
    assert (ask.wish.policy, ask.wish.cap, ask.wish.deadline_s) == ("lead_k:2", 8, 2)


def test_headers_ask_too_and_the_body_wins() -> None:
    headers = {b"x-keff-policy": b"fixed:4", b"x-keff-deadline": b"1.5"}
    assert read_ask(raw(), headers).wish.policy == "fixed:4"
    assert read_ask(raw(), headers).wish.deadline_s == 1.5
    assert read_ask(raw(keff={"policy": "fixed:2"}), headers).wish.policy == "fixed:2"


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [{"content": "no role"}]}, "messages[0]"),
        ({"messages": [*QUESTION, 7]}, "messages[1]"),
        ({"model": 7}, "model"),
        ({"n": 0}, "n"),
        ({"n": True}, "n"),
        ({"n": "1"}, "n"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": []}, "stream_options"),
        ({"seed": 1.5}, "seed"),
        ({"seed": True}, "seed"),
        ({"keff": "fixed:4"}, "keff"),
        ({"keff": {"polcy": "fixed:4"}}, "keff"),
        ({"keff": {"__dataclass_self__": 4}}, "keff"),
        ({"keff": {"policy": 4}}, "keff.policy"),
        ({"keff": {"policy": "\ud800"}}, "keff.policy"),
        ({"keff": {"return_paths": None}}, "keff.return_paths"),
        ({"keff": {"fields": []}}, "keff.fields"),
        ({"keff": {"fields": ["total", 3]}}, "keff.fields"),
        ({"keff": {"k": True}}, "keff.k"),
        ({"keff": {"deadline_s": True}}, "keff.deadline_s"),
        ({"keff": {"k": 0}}, "keff.k"),
        ({"keff": {"cap": 2.5}}, "keff.cap"),
        ({"keff": {"k": 4, "policy": "fixed:4"}}, "keff.k"),
        ({"keff": {"deadline_s": 0}}, "keff.deadline_s"),
        ({"keff": {"deadline_s": "soon"}}, "keff.deadline_s"),
    ],
)
def test_a_wrong_field_is_named(more: dict[str, Any], param: str) -> None:
    problem = refused(raw(**more))
    assert problem.param == param
    assert json.loads(problem.body())["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"a": NaN}',
        b'{"messages": ' + b"[" * 100_000,
        b'{"seed": ' + b"9" * 10_000 + b"}",
    ],
)
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    refused(body)


def test_a_header_that_is_no_number_is_refused() -> None:
    assert refused(raw(), {b"x-keff-k": b"many"}).param == "keff.k"


JSON = jsons(INFINITE)
NAMES = ["model", "messages", "n", "stream", "seed", "stop", "tools", "temperature", "max_tokens", "top_k"]
SPECS = st.sampled_from(
    ["off", "fixed:4", "lead_k:3", "esc", "adaptive_k", "fixed:1e9", "nope", ":", "cap=3"]
)
WISHES = st.fixed_dictionaries({}, optional={"policy": SPECS | st.text(), "cap": JSON, "k": JSON})


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(NAMES), JSON), st.none() | WISHES | JSON, st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_any_json_is_understood_or_refused(body: dict[str, Any], own: Any, valid: bool) -> None:
    """Reading, filling in the plan and settling the policy end in an answer or in a Problem."""
    if valid:
        body["messages"] = QUESTION
    if own is not None:
        body["keff"] = own
    plan = make_plan()
    try:
        ask = read_ask(json.dumps(body).encode(), {})
        terms_of(plan).apply(ask.body)
        policy = asyncio.run(POLICIES.settled(policy_of_plan(plan.policy), ask.wish, 16))
    except Problem as problem:
        assert 400 <= problem.status < 500
    else:
        assert 1 <= policy.cap <= 32
        json.dumps(ask.body).encode()
