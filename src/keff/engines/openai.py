"""Any OpenAI-compatible server: a hosted API, vLLM, SGLang, llama.cpp, Ollama or a gateway.

The key is read from the environment and goes nowhere else. Several paths share one request (and one reading
of the prompt) where the server allows it and the tokens of each path can be counted, which needs
log-probabilities; otherwise each path is its own request. The first requests find out, and the answer is
remembered. Path i carries the seed ``seed + i`` either way. 408, 409, 425, 429, 5xx and broken connections
are tried again, after as long as Retry-After says; what still fails is an EngineError. ``timeout`` bounds
one request as a whole, so a server that sends a byte now and then holds no path for ever.

A refusal or a content filter is an outcome, not an error. Hidden thinking that the server keeps apart
becomes ``reasoning``; thinking segments inside the text stay there. Closing the connection, which
cancelling does, stops a path on vLLM, SGLang and llama.cpp; ``stream=True`` does so on other servers too.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Literal
from urllib.parse import urlsplit

from keff.engine import Capabilities
from keff.engines._transport import ServerAddress, Transport, UnsupportedError
from keff.errors import EngineError, UsageError
from keff.narrow import Fields
from keff.protocol.server import (
    Sharing,
    chat_body,
    checked_key,
    effort_thinking,
    json_object,
    parameters_taught,
    taken_by,
    template_thinking,
)
from keff.protocol.server import base_url as checked_url
from keff.records import Completion, Message, Sampling

HOSTED = "api.openai.com"
# Paths in one request when nothing else is said: enough to share the prompt, few enough to lose little.
SHARED_N = 8

ONE_EACH = (
    "the server draws one path per request from now on: it bills the prompt with every path, so long prompts "
    "cost several times as much"
)


class OpenAI:
    """Engine of one model on one server.

    ``model``: asked of the server when it has only one. ``base_url``: default ``$OPENAI_BASE_URL``, then
    OpenAI's own. ``n_per_request``: paths in one request; a number also shares requests where tokens can
    only be counted in sum. ``thinking``: how ``Sampling.thinking`` is sent, as a switch of the chat template
    or as ``reasoning_effort`` (auto: the latter for OpenAI's own server). ``extra_body``: more fields of each
    request, as JSON or a mapping, such as ``{"top_k": 20}``. ``omit``: names of fields, by comma, that the
    server does not take, such as ``seed``. Raises UsageError for options that do not fit.
    """

    name = "openai"
    local = False
    needs_gpu = False

    def __init__(
        self,
        *,
        model: str | None = None,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        n_per_request: Literal["auto"] | int = "auto",
        logprobs: bool = True,
        stream: bool = False,
        max_retries: int = 3,
        timeout: float = 600.0,
        parallel: int = 32,
        thinking: Literal["auto", "template", "effort"] = "auto",
        extra_body: str | Fields | None = None,
        omit: str = "",
    ) -> None:
        given = base_url or os.environ.get("OPENAI_BASE_URL") or f"https://{HOSTED}/v1"
        url = checked_url(given, "engine openai: base_url", "api_key_env")
        if n_per_request != "auto" and int(n_per_request) < 1:
            raise UsageError("engine openai: n_per_request must be auto or at least 1")
        self._model, self._parallel = model, parallel
        self._address = ServerAddress(url, api_key_env, max_retries, timeout)
        self._hosted = urlsplit(url).hostname == HOSTED
        self._effort = thinking == "effort" or (thinking == "auto" and self._hosted)
        self._length_field = "max_completion_tokens" if self._effort else "max_tokens"
        self._logprobs, self._stream = logprobs, stream
        self._n = None if n_per_request == "auto" else int(n_per_request)
        self._sharing = Sharing(self._n or (SHARED_N if logprobs else 1))
        self._extra_body = json_object(extra_body, "engine openai: extra_body")
        # What the server taught about the fields of a request.
        self.parameters: dict[str, str | None] = {}
        self._omit = {name.strip() for name in omit.split(",") if name.strip()}
        self._transport: Transport | None = None

    @property
    def capabilities(self) -> Capabilities:
        """The server's capabilities as known so far."""
        return Capabilities(self._sharing.most, self._parallel)

    async def start(self) -> None:
        """Connect to the server and determine the model; raises EngineError."""
        if self._transport is not None:
            return
        variable = self._address.key_name
        key = checked_key(os.environ.get(variable, ""), variable)
        if not key and self._hosted:
            raise EngineError(f"set the environment variable {variable}", transient=False)
        transport = Transport(self._address, key)
        try:
            models = await transport.models()
            if self._model is None and len(models) != 1:
                raise transport.error(f"name a model; it offers {', '.join(models) or 'no list'}", False)
        except BaseException:
            await transport.close()
            raise
        self._model = self._model or models[0]
        self._transport = transport

    def identity(self) -> dict[str, object]:
        """Return model and extra fields, but not the address, so that a run survives a move."""
        return {
            "engine": self.name,
            "model": self._model,
            "extra_body": self._extra_body,
            "omit": sorted(self._omit),
            "thinking": "effort" if self._effort else "template",
        }

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        """Draw at most n paths in one request, fewer after a refusal; see ``Engine.generate``."""
        most = self._sharing.most
        try:
            return await self._draw_paths(messages, sampling, min(n, most))
        finally:
            if most > 1 and self._sharing.most == 1:
                warnings.warn(ONE_EACH, stacklevel=2)

    async def _draw_paths(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        try:
            drawn = await self._draw(messages, sampling, n)
        except UnsupportedError as refusal:
            if n == 1:
                raise refusal.error from None
            # Was it n? The same request for one path tells, and is drawn in any case.
            drawn = await self._draw_paths(messages, sampling, 1)
            if refusal.sure:
                self._sharing.refused(n)
                return drawn
        self._sharing.came(n, len(drawn))
        return drawn

    async def _draw(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        """Send one request, repeated without unsupported fields, and return its paths."""
        transport = self._transport
        if transport is None:
            raise EngineError("engine openai: call start() before generate()", transient=False)
        while True:
            body = self._body(messages, sampling, n)
            try:
                drawn = await transport.chat(body, n)
            except UnsupportedError as refusal:
                if not self._simplify(str(refusal), body):
                    raise
                continue
            if self._logprobs and not all(path.logprobs for path in drawn if path.text):
                self._forget_logprobs()
            return drawn[:n]

    def _body(self, messages: Sequence[Message], sampling: Sampling, n: int) -> dict[str, object]:
        think = effort_thinking if self._effort else template_thinking
        body = chat_body(messages, sampling, n) | think(sampling.thinking)
        body |= {"model": self._model, self._length_field: sampling.max_tokens}
        if self._logprobs:
            body |= {"logprobs": True, "top_logprobs": 1}
        if self._stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        body |= self._extra_body
        return taken_by(
            self.parameters, {name: value for name, value in body.items() if name not in self._omit}
        )

    def _simplify(self, refusal: str, body: Fields) -> bool:
        """Drop or rename the refused field in later requests, if it does not change the paths.

        False when there is nothing to give up.
        """
        if "logprobs" in refusal and "logprobs" in body:
            self._forget_logprobs()
            return True
        taught = parameters_taught(body, refusal, self.parameters)
        if not taught and "seed" in body and "seed" in refusal:
            # Without one the server chooses, and paths differ all the same.
            taught = {"seed": None}
        self.parameters |= taught
        return bool(taught)

    def _forget_logprobs(self) -> None:
        warnings.warn("the server gives no log-probabilities: its paths are ordinary votes", stacklevel=2)
        self._logprobs = False
        self.parameters |= {"logprobs": None, "top_logprobs": None}
        if self._n is None:
            self._sharing.most = 1

    async def close(self) -> None:
        """Close the connections."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()


engine = OpenAI
