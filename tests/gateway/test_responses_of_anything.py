"""Whatever a client or a server of the Responses API sends is read or refused."""

from __future__ import annotations

import json
from typing import Any

import httpx2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn import ANY_FLOAT, jsons
from how_many import examples
from keff.errors import EngineError
from keff.gateway.http.stream import response_events
from keff.protocol.responses import chat_usage, choice_of, response_usage
from responses_rig import USAGE, says, served

JSON = jsons(ANY_FLOAT)
ITEM = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["message", "function_call", "custom_tool_call", "reasoning"]) | JSON,
        "role": st.just("user") | JSON,
        "content": JSON | st.lists(st.fixed_dictionaries({"type": JSON, "text": JSON}), max_size=2),
        "arguments": JSON,
        "name": JSON,
        "summary": JSON,
    },
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.fixed_dictionaries(
        {"output": st.lists(ITEM, max_size=3) | JSON},
        optional={"status": JSON, "error": JSON, "incomplete_details": JSON, "usage": JSON},
    )
)
def test_whatever_a_server_answers_is_read_or_refused(body: dict[str, Any]) -> None:
    try:
        choice = choice_of(body)
    except EngineError:
        return
    assert isinstance(choice["message"], dict)
    assert b"".join(response_events(body)).startswith(b"event: response.created")
    chat_usage(body.get("usage"))


def test_usage_goes_there_and_back() -> None:
    assert response_usage(chat_usage(USAGE)) == USAGE  # type: ignore[arg-type]


def test_random_requests_end_in_an_answer_or_a_clear_refusal() -> None:
    bodies = st.dictionaries(
        st.sampled_from(
            ["input", "model", "keff", "stream", "tools", "text", "reasoning", "max_output_tokens"]
        ),
        JSON,
    )

    with served(says("Final answer: 7"), planless=True) as (rig, _, _):

        @settings(max_examples=examples(60), deadline=None)
        @given(bodies)
        def ask(body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            headers = {"content-type": "application/json"}
            reply = httpx2.post(f"{rig.url}/responses", content=content, headers=headers, timeout=60)
            assert reply.status_code in (200, 400)

        ask()
        assert rig.metric('keff_requests_total{status="500"}') == 0
