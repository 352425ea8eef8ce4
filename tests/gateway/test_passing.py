"""Where goes what is not voted on: the operator's server, its fallback, or the first branch's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest

from gateway_rig import Rig, gateway
from keff.gateway.upstream.answer import Address
from keff.gateway.upstream.server import FAILURES
from keff.gateway.vote import vote
from keff.plan import BranchPlan, Plan
from raw_server import http, raw_server

NOWHERE = "http://127.0.0.1:9/v1"
CLIENT = {"authorization": "Bearer client"}


def embed(rig: Rig, **more: Any) -> httpx2.Response:
    return httpx2.post(f"{rig.url}/embeddings", json={"input": "x"}, timeout=60, **more)


def named(name: str, status: int = 200) -> Any:
    return lambda *_: http(b'{"from": "%s"}' % name.encode(), status=status)


def test_a_server_that_cannot_be_reached_leaves_it_to_the_fallback() -> None:
    with ExitStack() as stack:
        spare = stack.enter_context(raw_server(named("spare")))
        rig = stack.enter_context(
            gateway(NOWHERE, planless=True, fallback=Address(url=spare, key="spare-key"))
        )
        for _ in range(FAILURES + 1):
            assert embed(rig).json() == {"from": "spare"}


@pytest.mark.parametrize(
    ("status", "answers"), [(503, "spare"), (502, "spare"), (500, "first"), (400, "first")]
)
def test_only_a_server_that_says_so_is_passed_over(status: int, answers: str) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(raw_server(named("first", status)))
        spare = stack.enter_context(raw_server(named("spare")))
        rig = stack.enter_context(gateway(first, planless=True, fallback=Address(url=spare)))
        assert embed(rig).json() == {"from": answers}


def test_without_a_fallback_the_error_is_the_upstream_s() -> None:
    with raw_server(named("first", 503)) as first, gateway(first, planless=True) as rig:
        assert (embed(rig).status_code, embed(rig).json()) == (503, {"from": "first"})
    with gateway(NOWHERE, planless=True) as rig:
        assert embed(rig).json()["error"]["code"] == "upstream_failed"


def branches(upstream: str | None) -> Plan:
    told = tuple(BranchPlan(name=name, model=f"{name}-model", upstream=upstream) for name in ("a", "b"))
    return Plan(policy="cascade:a(fixed:1)/b(fixed:1)", space="numeric", estimates={}, branches=told)


def test_a_branch_that_is_down_leaves_what_is_not_voted_on_to_the_fallback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vote, "LONGEST_PAUSE", 0.01)
    with ExitStack() as stack:
        spare = stack.enter_context(raw_server(named("spare")))
        fallback = Address(url=spare)
        for upstream, plan in ((NOWHERE, branches(None)), (None, branches(NOWHERE))):
            rig = stack.enter_context(gateway(upstream, plan, fallback=fallback))
            for _ in range(2):
                rig.post()
                assert embed(rig).json() == {"from": "spare"}


def test_with_branches_of_their_own_servers_the_operator_s_gets_it() -> None:
    with ExitStack() as stack:
        home = stack.enter_context(raw_server(named("home")))
        rig = stack.enter_context(gateway(home, branches(NOWHERE)))
        assert embed(rig).json() == {"from": "home"}


@contextmanager
def noting(seen: list[tuple[str, str | None]]) -> Iterator[str]:
    """Run a server that answers everything, and notes which key it was shown."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            seen.append((self.path, self.headers.get("authorization")))
            self.rfile.read(int(self.headers.get("content-length", 0)))
            body = b'{"data": []}'
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("trusted", [True, False])
def test_a_client_s_key_goes_to_no_server_that_only_a_plan_names(trusted: bool) -> None:
    seen: list[tuple[str, str | None]] = []
    with noting(seen) as url:
        upstream, plan = (url, branches(None)) if trusted else (None, branches(url))
        with gateway(upstream, plan) as rig:
            embed(rig, headers=CLIENT)
            httpx2.get(f"{rig.url}/models", headers=CLIENT)
    key = CLIENT["authorization"] if trusted else None
    assert seen == [("/v1/embeddings", key), ("/v1/models", key)]


def test_the_fallback_gets_its_own_key_only() -> None:
    seen: list[tuple[str, str | None]] = []
    with (
        noting(seen) as url,
        gateway(NOWHERE, planless=True, key="ours", fallback=Address(url=url, key="theirs")) as rig,
    ):
        embed(rig, headers=CLIENT)
    with noting(seen) as url, gateway(NOWHERE, planless=True, fallback=Address(url=url)) as rig:
        embed(rig, headers=CLIENT)
    assert seen == [("/v1/embeddings", "Bearer theirs"), ("/v1/embeddings", None)]
