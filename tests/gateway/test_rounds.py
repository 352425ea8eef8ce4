"""Retries count rounds of time: calls that fail side by side are one, and all paths that were asked vote."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import Any

import pytest

from gateway_rig import QUESTION, Options, gateway
from raw_server import http, raw_server


def told(number: int) -> list[bytes]:
    choice = {"index": 0, "message": {"role": "assistant", "content": "It is 7."}, "finish_reason": "stop"}
    return http(json.dumps({"id": f"c{number}", "object": "chat.completion", "choices": [choice]}).encode())


def busy(after: str) -> list[bytes]:
    return http(b'{"error": {"message": "slow down"}}', 429, retry_after_ms=after)


class Busy:
    """A server that refuses everything for some time from its first request, and counts its calls."""

    def __init__(self, seconds: float, after: str) -> None:
        self.seconds, self.after, self.calls, self.begun = seconds, after, 0, 0.0
        self.lock = threading.Lock()

    def __call__(self, number: int, _: Any) -> list[bytes]:
        with self.lock:
            self.begun = self.begun or time.monotonic()
            self.calls += 1
        return busy(self.after) if time.monotonic() < self.begun + self.seconds else told(number)


@pytest.mark.parametrize("seed", range(4))
def test_a_server_that_is_busy_for_a_while_is_waited_for_by_all_paths_at_once(seed: int) -> None:
    """Whatever the number of paths, they wait for as many rounds as the server asks for, and all vote."""
    rng = random.Random(seed)
    paths, rounds = rng.choice((8, 16, 24)), rng.randrange(1, 4)
    server = Busy(0.1 * rounds, "100")
    policy = rng.choice(("fixed:{0}", "fixed:{0},in_flight={0},order=arrival")).format(paths)
    with raw_server(server) as url, gateway(url) as rig:
        reply = rig.post({"model": "stub", "messages": QUESTION, "keff": {"policy": policy}})
    assert reply.status_code == 200, reply.text
    assert reply.json()["keff"]["votes"] == {"7": paths}
    assert paths * (1 + rounds) >= server.calls - paths >= paths


def test_several_choices_are_all_there_or_the_request_fails() -> None:
    """One of sixteen choices never comes."""

    def reply(number: int, body: dict[str, Any]) -> list[bytes]:
        return busy("1") if body.get("seed") == 3 else told(number)

    with raw_server(reply) as url, gateway(url, replacements=2) as rig:
        got = rig.post({"model": "stub", "messages": QUESTION, "n": 16, "seed": 0})
        other = rig.post({"model": "stub", "messages": QUESTION, "n": 16, "seed": 100})
    assert (got.status_code, got.json()["error"]["code"]) == (429, "upstream_rate_limit")
    assert (other.status_code, len(other.json()["choices"])) == (200, 16)


def test_a_server_that_stays_busy_is_given_up_after_rounds_not_calls() -> None:
    server = Busy(60.0, "20")
    with raw_server(server) as url, gateway(url) as rig:
        reply = rig.post({"model": "stub", "messages": QUESTION, "keff": {"policy": "fixed:8"}})
    assert (reply.status_code, server.calls) == (429, 8 * (1 + Options().replacements))
