"""The gateway between odd upstreams and hostile clients: valid JSON, its own errors, every token counted."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app_rig import SEVEN, Serve, connect, until
from fault_server import Script
from gateway_rig import QUESTION, Options, gateway, make_plan
from keff.errors import PlanError
from keff.gateway.vote.extraction import reader_of
from keff.gateway.vote.request_policy import terms_of
from keff.sampling.cost import Price
from keff.sampling.manifest import Config
from raw_server import answer, given, http, raw_server


def strict(reply: httpx2.Response) -> Any:
    """Return the JSON of a reply; NaN and the infinities are none."""
    return json.loads(reply.content, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


LOGPROBS = {"content": [{"token": "x", "logprob": float("nan")}, {"token": "y", "logprob": float("-inf")}]}
ODD_ANSWERS: dict[str, dict[str, Any]] = {
    "usage NaN": {"usage": {"prompt_tokens": float("nan"), "completion_tokens": float("inf")}},
    "usage 10^400": {"usage": {"prompt_tokens": 10**400, "completion_tokens": 10**400}},
    "usage negative": {"usage": {"prompt_tokens": -1, "completion_tokens": -(10**9)}},
    "usage texts": {"usage": {"prompt_tokens": "7", "completion_tokens": [5]}},
    "usage a list": {"usage": [1]},
    "usage in details": {
        "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": -4, "x": 1e308}}
    },
    "usage that changes its form": {"usage": {"a": {"b": 1}, "c": 1e308, "prompt_tokens": {"x": 1}}},
    "log-probabilities": {"choices": [answer()["choices"][0] | {"logprobs": LOGPROBS}]},
    "infinite fields": {"created": float("inf"), "x": {"y": [float("-inf")]}},
    "a number of 4,000 digits": {"created": 10**4000},
    "half a surrogate pair": {"choices": [{"index": 0, "message": {"content": "It is \ud83d 7"}}]},
    "a refusal that is an object": {
        "choices": [{"index": 0, "message": {"content": "7", "refusal": {"x": 1}}}]
    },
}


@pytest.mark.slow
def test_odd_answers_of_the_upstream_become_valid_json_and_no_absurd_count() -> None:
    now: list[dict[str, Any]] = [{}]
    price = Price(prompt=1, output=1)
    weighted = make_plan("fixed:2,weight=confidence,temperature=0.5")
    with ExitStack() as stack:
        url = stack.enter_context(raw_server(lambda *_: given(**now[0])))
        rigs = [
            stack.enter_context(gateway(url, plan=plan, options=Options(prices={"": price})))
            for plan in (weighted, make_plan("fixed:2"))
        ]
        for rig, odd in itertools.product(rigs, ODD_ANSWERS.values()):
            now[0] = odd
            reply = rig.post()
            assert reply.status_code == 200, reply.text
            body = strict(reply)
            cost = body["keff"]["cost"]
            assert 0 <= cost["prompt_tokens"] <= 14
            assert 0 <= cost["completion_tokens"] <= 10
            assert 0 <= cost["dollars"] < 1e-3
            assert cost["uncounted_answers"] == (2 if "usage" in odd else 0)
            streamed = rig.post(
                {"messages": QUESTION, "stream": True, "stream_options": {"include_usage": True}}
            )
            for line in streamed.text.splitlines():
                if line.startswith("data: {"):
                    json.loads(line[6:], parse_constant=lambda name: pytest.fail(name))
        assert rigs[0].metric("keff_tokens_total") <= 2 * 2 * len(ODD_ANSWERS) * 12
        assert rigs[0].metric("keff_odd_usage_total") > 0
        assert rigs[0].metric('keff_requests_total{status="500"}') == 0


UNUSABLE: dict[str, Callable[[], Iterable[bytes]]] = {
    "deep JSON": lambda: http(b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "deep JSON in an error": lambda: http(b"[" * 100_000, 500),
    "a number of 5,000 digits": lambda: http(b'{"choices": ' + b"9" * 5000 + b"}"),
    "a gzip bomb": lambda: http(gzip.compress(bytes(50_000_000), 1), content_encoding="gzip"),
    "gzip that is none": lambda: http(b"{}", content_encoding="gzip"),
    "an encoding that was not asked for": lambda: http(b"{}", content_encoding="br"),
    "one path twice": lambda: given(choices=[answer()["choices"][0]] * 2),
    "an index that is a list": lambda: given(choices=[answer()["choices"][0] | {"index": [1]}]),
    "an error in disguise": lambda: http(b'{"error": {"message": {"x": "\\ud83d"}, "code": 1e400}}'),
    "a page": lambda: http(b"<html>", 200),
}


@pytest.mark.slow
def test_unusable_answers_are_a_502() -> None:
    now: list[Callable[[], Iterable[bytes]]] = [given]
    with raw_server(lambda *_: now[0]()) as url, gateway(url, options=Options(replacements=0)) as rig:
        for case, unusable in UNUSABLE.items():
            now[0] = unusable
            reply = rig.post()
            assert reply.status_code == 502, (case, reply.text)
            assert strict(reply)["error"]["code"] == "upstream_failed"
        now[0] = lambda: http(gzip.compress(json.dumps(answer()).encode()), content_encoding="gzip")
        assert rig.post().status_code == 200, "honest gzip is read"


CLIENT_NUMBERS = [
    b'"temperature": 1e400',
    b'"temperature": -1e999, "keff": {"k": 1}',
    b'"logit_bias": {"1": 1e400}',
    b'"top_p": ' + b"1" * 5000,
    b'"seed": ' + b"9" * 4300,
    b'"seed": -' + b"9" * 4000,
    b'"keff": {"deadline_s": ' + b"9" * 4000 + b"}",
    b'"keff": {"deadline_s": 1e400}',
    b'"keff": {"deadline_s": 1e308}',
    b'"keff": {"cap": ' + b"9" * 4000 + b"}",
    b'"keff": {"k": ' + b"9" * 4299 + b"}",
    b'"n": ' + b"9" * 4000,
    b'"x": ' + b"[" * 900 + b"1e400" + b"]" * 900,
    b'"x": ' + b"[" * 100_000 + b"]" * 100_000,
]


def test_numbers_that_no_float_holds_are_the_client_s_fault(serve: Serve) -> None:
    script = Script(answer=lambda *_: SEVEN)
    rig = serve(script)
    head = b'{"messages": ' + json.dumps(QUESTION).encode() + b", "
    for more in CLIENT_NUMBERS:
        reply = rig.post(content=head + more + b"}", headers={"content-type": "application/json"})
        assert reply.status_code == 400, (more[:40], reply.text[:200])
        assert set(strict(reply)["error"]) == {"message", "type", "param", "code"}
    for header, value in (("x-keff-deadline", "1e999"), ("x-keff-deadline", "nan"), ("x-keff-k", "9" * 4200)):
        assert rig.post(headers={header: value}).status_code == 400
    assert not script.requests


def test_what_failed_refused_and_abandoned_requests_cost_is_counted(serve: Serve) -> None:
    """Every finished path was billed: 7 prompt tokens, and its words."""
    words = len(SEVEN.split())
    price = Price(prompt=1e6, output=0)

    failing = Script(answer=lambda *_: SEVEN, fault=lambda number, _: "500" if number >= 3 else None)
    rig = serve(failing, plan=make_plan("fixed:8"), options=Options(replacements=0, prices={"": price}))
    assert rig.post().json()["keff"]["stop"] == "failures"
    assert rig.metric('keff_tokens_total{kind="prompt"}') == 3 * 7
    assert rig.metric('keff_tokens_total{kind="completion"}') == 3 * words

    refused = serve(
        Script(answer=lambda *_: "Once upon a time"), options=Options(free_text="refuse", prices={"": price})
    )
    assert refused.post().status_code == 422
    assert refused.metric('keff_tokens_total{kind="prompt"}') == 3 * 7
    assert refused.metric("keff_dollars_total") == 3 * 7

    script = Script(answer=lambda *_: SEVEN, fault=lambda number, _: "hang" if number >= 23 else None)
    left = serve(script, plan=make_plan("fixed:24"), options=Options(prices={"": price}))
    with connect(left, {"messages": QUESTION}) as client:
        until(lambda: left.metric('keff_tokens_total{kind="prompt"}') == 23 * 7)
        client.shutdown(socket.SHUT_RDWR)
    until(lambda: left.service.in_flight == 0)
    assert left.metric('keff_paths_total{became="abandoned"}') == 23
    assert left.metric('keff_tokens_total{kind="completion"}') == 23 * words


def test_shadows_and_useless_answers_are_billed_too(serve: Serve) -> None:
    rig = serve(Script(answer=lambda *_: SEVEN), options=Options(shadow_budget=1.0, shadow_paths=6))
    for _ in range(2):
        rig.post()
    until(
        lambda: rig.metric('keff_paths_total{became="shadow"}') in (3, 6) and not rig.service.shadows.running
    )
    shadows = rig.metric('keff_paths_total{became="shadow"}')
    assert rig.metric('keff_tokens_total{kind="prompt"}') == (6 + shadows) * 7
    with (
        raw_server(lambda *_: given(choices=[])) as url,
        gateway(url, options=Options(replacements=1)) as useless,
    ):
        assert useless.post().status_code == 502
        assert useless.metric('keff_tokens_total{kind="prompt"}') >= 3 * 7


def tampered(**parts: Any) -> Any:
    plan = make_plan()
    assert plan.config is not None
    config = {name: {**plan.config.get(name, {}), **change} for name, change in parts.items()}
    return make_plan(config={**plan.config, **config})


@pytest.mark.parametrize(
    ("parts", "where"),
    [
        ({"sampling": {"stop": 5}}, "stop"),
        ({"sampling": {"stop": [5]}}, "stop"),
        ({"sampling": {"temperature": "hot"}}, "temperature"),
        ({"sampling": {"temperature": float("nan")}}, "temperature"),
        ({"sampling": {"max_tokens": -1}}, "max_tokens"),
        ({"sampling": {"thinking": "much"}}, "thinking"),
        ({"engine": {"extra_body": {"stream": True}}}, "stream"),
        ({"engine": {"extra_body": {"n": 9}}}, "sets n"),
        ({"engine": {"extra_body": [1]}}, "extra_body"),
        ({"engine": {"omit": 3}}, "omit"),
        ({"engine": {"model": ["x"]}}, "model"),
    ],
)
def test_plans_that_hold_what_no_request_can_are_refused(parts: dict[str, Any], where: str) -> None:
    with pytest.raises(PlanError, match=where) as caught:
        terms_of(tampered(**parts))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("regex", ["(", "a{99999999999}", 5, ["x"], "(?P<1>x)"])
def test_an_answer_expression_that_is_none_is_refused(regex: Any) -> None:
    plan = make_plan(task={"name": "jsonl", "options": {"name": "jsonl", "answer_regex": regex}})
    with pytest.raises(PlanError, match="answer expression"):
        reader_of(plan)


def test_a_plan_whose_configuration_was_changed_is_refused() -> None:
    plan = make_plan()
    assert plan.config is not None
    stamped = plan.model_copy(update={"fingerprint": Config.model_validate(plan.config).fingerprint})
    assert terms_of(stamped).known
    hotter = {**plan.config, "sampling": {**plan.config["sampling"], "temperature": 1.7}}
    with pytest.raises(PlanError, match="fingerprint"):
        terms_of(stamped.model_copy(update={"config": hotter}))


KEY = "sk-very-secret-0123456789-abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize("padding", [0, 470, 495])
def test_no_error_shows_a_key_however_long_its_message(padding: int) -> None:
    for status in (400, 500):
        said = json.dumps({"error": {"message": "x" * padding + KEY, "code": KEY}}).encode()
        with raw_server(lambda *_, s=status, b=said: http(b, s)) as url:
            with gateway(url, key=KEY, options=Options(replacements=0)) as rig:
                assert KEY[:9] not in rig.post().text
                assert KEY[:9] not in httpx2.post(rig.url + "/embeddings", json={}).text
            with gateway(url, options=Options(replacements=0)) as rig:
                assert KEY[:9] not in rig.post(headers={"authorization": f"Bearer {KEY}"}).text


@pytest.mark.slow
def test_keys_of_the_environment_are_stripped_and_checked(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    make_plan().write(plan)
    arguments = ["serve", "--plan", plan, "--upstream", "http://127.0.0.1:9", "--token-env", "GATE"]
    done = subprocess.run(
        [sys.executable, "-m", "keff", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"GATE": f"{KEY}\r{KEY}"},
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("keff: $GATE holds whitespace")
    assert KEY not in done.stderr
