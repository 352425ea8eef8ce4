"""Ask keff's provider in LiteLLM; runs in the environment of ``tests/clients/requirements.txt``.

``python ask_litellm.py URL PLAN CHECKER``: prints as JSON what each kind of request got. The server at URL is
the stub of ``test_litellm.py``; PLAN is a plan for numeric answers, CHECKER knows the right one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from typing import Any

MODEL = "keff/openai/gpt-4o-mini"
QUESTION = [{"role": "user", "content": "How many is 6 times 7?"}]
URL, PLAN, CHECKER = sys.argv[1:]
TOOL = {
    "type": "function",
    "function": {"name": "report", "parameters": {"type": "object", "properties": {"total": {}}}},
}

asked: list[str] = []
sys.addaudithook(
    lambda event, _: asked.append(event) if event in ("socket.connect", "socket.getaddrinfo") else None
)
from keff.integrations.litellm import Provider, provider  # noqa: E402

NETWORK_AT_IMPORT = list(asked)
import litellm  # noqa: E402
from pydantic import BaseModel  # noqa: E402
from silent_server import silent_server  # noqa: E402

litellm.suppress_debug_info = True


class Sum(BaseModel):
    """A sum."""

    total: int


def told(reply: Any) -> dict[str, Any]:
    message = reply.choices[0].message
    calls = [json.loads(call.function.arguments) for call in message.tool_calls or []]
    return {
        "text": message.content,
        "tools": calls,
        "usage": [reply.usage.prompt_tokens, reply.usage.completion_tokens],
        "cost": reply._hidden_params["response_cost"],
        "choices": len(reply.choices),
        "keff": reply.keff,
    }


async def whole(**request: Any) -> dict[str, Any]:
    given = {"model": MODEL, "messages": QUESTION, "api_base": URL, "api_key": "none", "num_retries": 0}
    return told(await litellm.acompletion(**given | request))


async def streamed(**request: Any) -> dict[str, Any]:
    stream = await litellm.acompletion(
        MODEL,
        QUESTION,
        api_base=URL,
        api_key="none",
        stream=True,
        stream_options={"include_usage": True},
        **request,
    )
    return told_of([chunk async for chunk in stream])


def told_of(chunks: list[Any]) -> dict[str, Any]:
    deltas = [chunk.choices[0].delta for chunk in chunks]
    calls = [call for delta in deltas for call in delta.tool_calls or []]
    usage = chunks[-1].usage
    return {
        "text": "".join(delta.content or "" for delta in deltas),
        "tools": [json.loads(call.function.arguments) for call in calls],
        "usage": [usage.prompt_tokens, usage.completion_tokens],
        "cost": usage.cost,
        "keff": next(chunk.keff for chunk in chunks if hasattr(chunk, "keff")),
    }


async def failed(**request: Any) -> list[str]:
    try:
        return [str(await whole(**request))]
    except Exception as error:
        return [type(error).__name__, str(error)]


async def cached() -> list[int]:
    """Return the paths of a vote while LiteLLM caches, and the votes of the same request again."""
    litellm.cache = litellm.Cache()
    try:
        first, again = [await whole(caching=True, keff={"k": 4}) for _ in range(2)]
    finally:
        litellm.cache = None
    return [first["keff"]["paths"], again["keff"]["paths"]]


async def cancelled() -> bool:
    """Cancel a vote once its four calls have begun, and wait until all of them have ended."""
    async with silent_server() as (url, begun, ended), asyncio.timeout(60):
        vote = asyncio.create_task(whole(api_base=url, keff={"k": 4}))
        for _ in range(4):
            await begun.acquire()
        vote.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await vote
        for _ in range(4):
            await ended.acquire()
        return vote.cancelled()


async def main() -> dict[str, Any]:
    numeric = {"keff": {"answer_space": "numeric", "policy": "lead_k:3"}}
    by_plan = {"model_info": {"keff": {"plan": PLAN}}}
    strict = {"model_info": {"keff": {"plan": PLAN, "strict": True}}}
    return {
        "network": NETWORK_AT_IMPORT,
        "whole": await whole(seed=0, **numeric),
        "stream": await streamed(seed=0, **numeric),
        "tool": await whole(tools=[TOOL]),
        "tool stream": await streamed(tools=[TOOL]),
        "schema": await whole(response_format=Sum),
        "several": await whole(n=3),
        "greedy": await whole(temperature=0),
        "plan": await whole(seed=0, model="keff/openai/stub", temperature=0.7, **by_plan),
        "other temperature": await whole(model="keff/openai/stub", temperature=0.2, **by_plan),
        "strict": await failed(model="keff/openai/stub", temperature=0.2, **strict),
        "one completion": await whole(model="keff/openai/same", keff={"k": 4}),
        "rate limit": await failed(model="keff/openai/limited"),
        "some fail": await whole(model="keff/openai/flaky", keff={"k": 4, "answer_space": "numeric"}),
        "bad policy": await failed(keff={"policy": "nonsense"}),
        "no plan": await failed(model_info={"keff": {"plan": "none.json"}}),
        "bad setting": await failed(model_info={"keff": {"odd": 1}}),
        "no checker": await failed(keff={"policy": "retry:3"}),
        "checked": await whole(
            seed=0, model="keff/openai/stub", model_info={"keff": {"policy": "retry:6", "verifier": CHECKER}}
        ),
        "cached": await cached(),
        "cancelled": await cancelled(),
        # As in a notebook, whose own event loop runs.
        "within a loop": litellm.completion(MODEL, QUESTION, api_base=URL, api_key="none").keff["paths"],
    }


if __name__ == "__main__":
    os.environ.pop("OPENAI_API_KEY", None)
    litellm.custom_provider_map = [{"provider": "keff", "custom_handler": provider}]
    got = asyncio.run(main())
    litellm.custom_provider_map = [{"provider": "keff", "custom_handler": Provider(policy="fixed:2")}]
    request = {"model": MODEL, "messages": QUESTION, "api_base": URL, "api_key": "none"}
    got["synchronous"] = [litellm.completion(**request).keff["paths"] for _ in range(2)]
    got["synchronous stream"] = told_of(
        list(litellm.completion(**request, stream=True, stream_options={"include_usage": True}))
    )
    print(json.dumps(got))
