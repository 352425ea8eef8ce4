"""LiteLLM: a provider named ``keff``, so that the model ``keff/<model>`` answers by a vote of ``<model>``.

In Python:

    litellm.custom_provider_map = [{"provider": "keff", "custom_handler": Provider(policy="lead_k:3")}]
    await litellm.acompletion("keff/openai/gpt-4o-mini", messages)

In the proxy's YAML, where ``model_info`` holds what ``Provider`` takes:

    model_list:
      - model_name: voted
        litellm_params: {model: keff/openai/gpt-4o-mini}
        model_info: {keff: {plan: plan.json}}
    litellm_settings:
      custom_provider_map: [{provider: keff, custom_handler: keff.integrations.litellm.provider}]

A request is read, voted on and answered as by ``keff serve``: the object ``keff`` of a request and of a reply
are the same. Every path is a call of LiteLLM's own, whose errors are passed on as they are.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from keff.errors import KeffError, UsageError
from keff.gateway.deployment import Deployment, service_of
from keff.gateway.http.errors import Problem
from keff.gateway.http.request import read_ask
from keff.gateway.http.stream import deltas
from keff.gateway.options import POLICY, Options
from keff.gateway.service import Service
from keff.gateway.upstream.answer import (
    CHAT,
    NOBODY,
    Address,
    Answer,
    StreamedPath,
    UpstreamCall,
    UpstreamError,
)
from keff.gateway.upstream.fleet import Fleet
from keff.gateway.upstream.server import Upstream
from keff.narrow import entries, fields
from keff.plan import Plan
from keff.plugins import import_extra
from keff.protocol.server import Refusal
from keff.protocol.values import Object, decoded, encoded
from keff.sampling.verifier import verifier_of

# Else LiteLLM fetches its price list from the network when it is imported.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

litellm: Any = import_extra("litellm", "keff.integrations.litellm")

T = TypeVar("T")

# Fields of a request that say how the reply is sent, and not what a path is.
OF_THE_REPLY = ("stream", "stream_options")
# What a request says of the server that it goes to, in the words of ``litellm.acompletion``.
OF_THE_SERVER = ("api_base", "api_key", "api_version", "timeout")


class HostError(UpstreamError):
    """A call of LiteLLM's that failed, and that LiteLLM has tried again; ``host`` is its exception."""

    def __init__(self, host: Exception) -> None:
        super().__init__(str(host), Refusal(getattr(host, "status_code", 0), str(host)), transient=False)
        self.host = host


class LiteLLMCalls(Fleet):
    """LiteLLM as the upstream of a vote."""

    async def draw(
        self, call: UpstreamCall, home: Upstream | None = None, streamed: StreamedPath | None = None
    ) -> Answer:
        """Draw one path, past LiteLLM's cache: a cached reply is no further path; raises UpstreamError."""
        del home, streamed
        fresh = {"cache": {"no-cache": True, "no-store": True}, "no-log": True}
        try:
            response = await litellm.acompletion(**fields(decoded(call.body)), **fresh)
        except Exception as error:
            raise HostError(error) from None
        try:
            return Answer(*CHAT.read(response.model_dump()))
        except KeffError as error:
            raise UpstreamError(str(error)) from None


class Provider(litellm.CustomLLM):
    """LiteLLM's handler of models ``keff/<model>``.

    ``plan`` is the file of a plan, ``policy`` what is drawn without one; ``answer_space`` says how answers
    are read (default: the plan's, else found for each request), ``verifier`` (``FILE.py:function``) or
    ``verifier_url`` rates paths, ``settings`` are those of ``keff serve``. The ``model_info`` of a model
    replaces them. Raises UsageError for a plan over several models.
    """

    def __init__(
        self,
        plan: str | None = None,
        policy: str = POLICY,
        answer_space: str | None = None,
        verifier: str | None = None,
        verifier_url: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._options: dict[str, Any] = {
            "plan": plan,
            "policy": policy,
            "answer_space": answer_space,
            "verifier": verifier,
            "verifier_url": verifier_url,
            **settings,
        }
        self._services = dict[str, Service]()

    async def acompletion(self, **call: Any) -> Any:
        """Return LiteLLM's response of a vote: a path with the winning answer, and the usage of all paths."""
        return litellm.ModelResponse(**await self._reply(call))

    async def astreaming(self, **call: Any) -> AsyncIterator[Any]:
        """Yield the reply of a vote in chunks, once it is decided."""
        for chunk in _chunks(await self._reply(call)):
            yield chunk

    def completion(self, **call: Any) -> Any:
        """Return what ``acompletion`` does, once it is there."""
        return _run_to_end(self.acompletion(**call))

    def streaming(self, **call: Any) -> Iterator[Any]:
        """Yield what ``astreaming`` does."""
        yield from _chunks(_run_to_end(self._reply(call)))

    async def _reply(self, call: dict[str, Any]) -> Object:
        model = call["model"]
        _copy_prices(model)
        try:
            service = self._service(fields(fields(call["litellm_params"].get("model_info")).get("keff")))
            ask = read_ask(encoded(_body(call)), {})
            job = await service.job(f"keff-{secrets.token_hex(12)}", ask, NOBODY)
            return {**await service.run(job), "model": f"keff/{model}"}
        except HostError as error:
            raise error.host from None
        except (UpstreamError, Problem, KeffError) as error:
            problem = error.problem() if isinstance(error, UpstreamError) else error
            raise _error(model, getattr(problem, "status", 400), str(problem)) from None

    def _service(self, options: dict[str, Any]) -> Service:
        told = json.dumps(options, sort_keys=True)
        if told not in self._services:
            self._services[told] = _service(**(self._options | options))
        return self._services[told]


provider = Provider()


def _run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine, run in a thread of its own: a notebook's runs an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _service(
    *,
    plan: str | None,
    policy: str,
    answer_space: str | None,
    verifier: str | None,
    verifier_url: str | None,
    **settings: Any,
) -> Service:
    """Return the service of a plan or policy whose paths LiteLLM draws."""
    known = None if plan is None else Plan.read(plan)
    if known is not None and known.branches:
        raise UsageError(f"{plan} asks several models or prompts: serve it with keff serve --plan {plan}")
    try:
        options = Options(shadow_budget=0, **settings)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"keff: {first['loc'][0]}: {first['msg']}") from None
    address = Address(url="litellm")
    deployment = Deployment(
        plan=known,
        policy=policy,
        answer_space=answer_space,
        verifier=verifier_of(verifier, verifier_url),
        address=address,
        options=options,
    )
    service = service_of(deployment, np.random.default_rng())
    service.upstream = LiteLLMCalls(address)
    return service


def _body(call: dict[str, Any]) -> Object:
    """Return the chat request of a call, with what LiteLLM needs to know of its server."""
    given = {**call["litellm_params"], **call}
    asked = {name: value for name, value in call["optional_params"].items() if name not in OF_THE_REPLY}
    more = fields(asked.pop("extra_body", None))
    name, host, *_ = litellm.get_llm_provider(call["model"], api_base=call["api_base"])
    server = {name: given[name] for name in OF_THE_SERVER if given.get(name)}
    headers = {"extra_headers": call["headers"]} if call["headers"] else {}
    return {
        "messages": call["messages"],
        **asked,
        **more,
        **server,
        **headers,
        "model": name,
        "custom_llm_provider": host,
    }


def _chunks(reply: Object) -> Iterator[Any]:
    """Yield a reply in chunks, the last in the form by which LiteLLM takes over the usage of a provider."""
    about = {name: reply[name] for name in ("id", "created", "model") if name in reply}
    choices = entries(reply["choices"])
    for index, choice in enumerate(choices):
        for delta in deltas(choice, index):
            yield litellm.ModelResponseStream(**about, choices=[delta])
    yield {
        "text": "",
        "is_finished": True,
        "finish_reason": choices[0].get("finish_reason") or "stop",
        "usage": reply["usage"],
        "index": 0,
        "provider_specific_fields": {"keff": reply["keff"]},
    }


@cache
def _copy_prices(model: str) -> None:
    """Give ``keff/<model>`` the prices that LiteLLM knows of a model, if any."""
    try:
        known = litellm.get_model_info(model)
    except Exception:  # LiteLLM raises no narrower one
        return
    prices = {name: value for name, value in known.items() if value is not None and name != "key"}
    litellm.register_model({f"keff/{model}": {**prices, "litellm_provider": "keff"}})


def _error(model: str, status: int, message: str) -> Exception:
    """Return LiteLLM's exception for a status: of one that is the request's fault, none is tried again."""
    if 400 <= status < 500:
        return litellm.BadRequestError(message, model=model, llm_provider="keff")
    return litellm.APIError(status, message, llm_provider="keff", model=model)
