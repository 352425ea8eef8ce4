"""Paths that an upstream ended by a fault are drawn again, whatever it calls the fault."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from gateway_rig import QUESTION, Options, gateway
from raw_server import http, raw_server

FAULTS = ("error", "network_error", "insufficient_system_resource", "upstream_timeout")
CASES = [case for word in FAULTS for case in (word, word.upper(), word.title())]


@pytest.mark.parametrize("reason", CASES)
def test_paths_that_broke_off_do_not_outvote_those_that_ended(reason: str) -> None:
    """Five broken-off paths say 7 in passing; three ended ones say 42."""
    count = itertools.count()

    def reply(*_: Any) -> bytes:
        number = next(count)
        broken = number < 5
        text = "First 3 + 4 = 7, and then" if broken else "The answer is 42."
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": reason if broken else "stop",
        }
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        body = {"id": f"c{number}", "object": "chat.completion", "choices": [choice], "usage": usage}
        return http(json.dumps(body).encode())

    with (
        raw_server(reply) as address,
        gateway(f"{address}/v1", planless=True, options=Options(replacements=8)) as rig,
    ):
        answer = rig.post({"model": "m", "messages": QUESTION, "keff": {"policy": "fixed:8"}})
    assert answer.status_code == 200, answer.text
    told = answer.json()["keff"]
    assert told["answer"] == "42"
    assert "7" not in told["votes"]
