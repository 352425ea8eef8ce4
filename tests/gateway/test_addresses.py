"""Addresses as people write them, and servers that answer with another address or a time to wait."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from gateway_rig import QUESTION, Options, gateway
from keff.cli._serve_options import read_settings
from keff.errors import UsageError
from keff.protocol.server import base_url
from raw_server import given, http, raw_server

ONCE = Options(replacements=0)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("host:8000", "http://host:8000/v1"),
        ("https://host", "https://host/v1"),
        ("https://host/v1/", "https://host/v1"),
        ("https://host/v1/chat/completions", "https://host/v1"),
        ("https://host/chat/completions/", "https://host/v1"),
        ("https://host/openai/deployments/x/chat/completions", "https://host/openai/deployments/x"),
        ("https://host/openai?api-version=2026-01-01", "https://host/openai?api-version=2026-01-01"),
        ("https://host/v1#part", "https://host/v1"),
        ("https://host/v1/responses", "https://host/v1"),
        ("https://host/v1/completions//", "https://host/v1"),
        ("https://host/models", "https://host/models"),
        (" https://host/v1\n", "https://host/v1"),
    ],
)
def test_an_address_is_what_was_meant(written: str, meant: str) -> None:
    assert base_url(written, "--upstream", "--upstream-key-env") == meant


def test_an_address_with_white_space_in_it_is_refused() -> None:
    with pytest.raises(UsageError, match="not an http address"):
        base_url("https://host one/v1", "--upstream", "--upstream-key-env")


def test_the_query_of_an_upstream_goes_with_every_call() -> None:
    paths: list[str] = []
    with raw_server(lambda *_: given(), paths) as url:
        address = base_url(f"{url}/chat/completions?api-version=2", "--upstream", "")
        with gateway(address, planless=True) as rig:
            assert rig.post({"model": "m", "messages": QUESTION}).status_code == 200
            httpx2.post(f"{rig.url}/embeddings?a=b", json={"input": "x"})
    assert set(paths) == {"/v1/chat/completions?api-version=2", "/v1/embeddings?api-version=2&a=b"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_refused_at_once_and_its_target_is_named(status: int) -> None:
    calls: list[int] = []

    def away(number: int, _: dict[str, Any]) -> list[bytes]:
        calls.append(number)
        return http(b"", status, location="https://elsewhere.example/v1")

    with raw_server(away) as url, gateway(url, planless=True, policy="fixed:1") as rig:
        voted = rig.post({"model": "m", "messages": QUESTION})
        assert len(calls) == 1, "the same address would redirect again"
        passed = httpx2.post(f"{rig.url}/embeddings", json={"input": "x"})
    for refused in (voted, passed):
        assert refused.status_code == 502
        assert "it redirects to https://elsewhere.example/v1" in refused.json()["error"]["message"]


@pytest.mark.parametrize(("status", "wait"), [(503, "7"), (529, "20"), (429, "3")])
def test_an_overload_keeps_its_status_and_its_time_to_wait(status: int, wait: str) -> None:
    body = json.dumps({"error": {"message": "too many", "type": "overloaded"}}).encode()
    with (
        raw_server(lambda *_: http(body, status, retry_after=wait)) as url,
        gateway(url, planless=True, policy="fixed:1", options=ONCE) as rig,
    ):
        refused = rig.post({"model": "m", "messages": QUESTION})
    assert (refused.status_code, refused.headers["retry-after"]) == (status, wait)
    assert refused.json()["error"]["message"] == "too many"


@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_error_object_of_other_servers_keeps_its_message(status: int) -> None:
    said = "max_tokens must be at least 1"
    body = json.dumps({"object": "error", "message": said, "type": "BadRequestError", "code": 400}).encode()
    with (
        raw_server(lambda *_: http(body, status)) as url,
        gateway(url, planless=True, policy="fixed:1", options=ONCE) as rig,
    ):
        refused = rig.post({"model": "m", "messages": QUESTION})
    assert refused.status_code >= 400 and said in refused.json()["error"]["message"]


@pytest.mark.parametrize("name", ["org/model-7b", "org%2Fmodel-7b", "@cf/meta/llama-3.1", "m:free", "a+b"])
def test_a_model_s_name_may_hold_slashes(name: str) -> None:
    seen: list[str] = []

    with raw_server(lambda *_: http(b"{}"), seen) as url, gateway(url, planless=True) as rig:
        reply = httpx2.request("POST", f"{rig.url}/models/{name}", json={})
    assert (reply.status_code, seen) == (200, [f"/v1/models/{name}"])


@pytest.mark.parametrize("origin", ["https://a.example", "app://obsidian.md", "capacitor://localhost"])
def test_origins_of_desktop_apps_may_be_named(origin: str) -> None:
    assert read_settings([f"cors_origin={origin}"], None).cors_origin == (origin,)
