"""The openai engine: its key, its address, its model and the fields that it sends."""

from __future__ import annotations

import asyncio
import json

import pytest

from fault_server import Script
from keff.engines.openai import engine
from keff.errors import EngineError, UsageError
from keff.records import Sampling
from openai_rig import Serve, ask, texts


def test_a_wrong_key_is_one_line_that_does_not_show_it(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-secret-123")
    made = engine(base_url=serve(Script(key="right")), api_key_env="MY_KEY")
    with pytest.raises(EngineError, match=r"HTTP 401: .*\$MY_KEY") as caught:
        asyncio.run(made.start())
    assert not caught.value.transient
    assert "secret" not in str(caught.value)


def test_the_key_is_sent_and_not_recorded(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "right")
    made = engine(base_url=serve(Script(key="right")))
    assert [one.text for one in ask(made)] == texts()
    assert "right" not in json.dumps(made.identity())


def test_an_unreachable_server_is_one_line_with_the_address() -> None:
    with pytest.raises(EngineError, match=r"http://127\.0\.0\.1:9/v1: it cannot be reached") as caught:
        asyncio.run(engine(base_url="http://127.0.0.1:9").start())
    assert not caught.value.transient


def test_the_only_model_is_found_and_of_several_one_must_be_named(serve: Serve) -> None:
    several = serve(Script(models=("a", "b")))
    with pytest.raises(EngineError, match="name a model; it offers a, b"):
        asyncio.run(engine(base_url=several).start())
    script = Script(models=("a", "b"))
    ask(engine(base_url=serve(script), model="b"))
    assert script.requests[0]["model"] == "b"


def test_an_unknown_model_is_not_tried_again(serve: Serve) -> None:
    script = Script(fault=lambda *_: "404")
    with pytest.raises(EngineError, match="HTTP 404") as caught:
        ask(engine(base_url=serve(script), model="b"))
    assert not caught.value.transient
    assert len(script.requests) == 1


def test_extra_fields_thinking_and_left_out_fields(serve: Serve) -> None:
    script = Script()
    url = serve(script)
    ask(engine(base_url=url, extra_body='{"top_k": 20}', omit="seed, top_p"), sampling=Sampling(thinking=0))
    ask(engine(base_url=url, thinking="effort"), sampling=Sampling(thinking=4000))
    first, second = script.requests
    assert first["top_k"] == 20
    assert first["chat_template_kwargs"] == {"enable_thinking": False}
    assert not {"seed", "top_p"} & set(first)
    assert second["reasoning_effort"] == "medium"
    assert second["max_completion_tokens"] == 512


@pytest.mark.parametrize("address", ["ftp://x", "http://", "http://user:key@host/v1"])
def test_addresses_that_cannot_be(address: str) -> None:
    with pytest.raises(UsageError):
        engine(base_url=address)


def test_extra_body_must_be_an_object() -> None:
    for wrong in ("[1]", "{"):
        with pytest.raises(UsageError, match="extra_body"):
            engine(extra_body=wrong)
