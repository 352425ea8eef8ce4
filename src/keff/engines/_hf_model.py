"""A Hugging Face model in memory: prompts as tokens, paths drawn in one batch, and their hidden states."""

# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportAttributeAccessIssue=false, reportUntypedBaseClass=false, reportUntypedFunctionDecorator=false
# pyright: reportPrivateImportUsage=false, reportArgumentType=false, reportIncompatibleMethodOverride=false

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessorList,
    StoppingCriteriaList,
)
from transformers.utils import logging

from keff.engines._queue import Waiting
from keff.engines._seeded import Cancelled, SeededChoice
from keff.errors import EngineError
from keff.protocol.tokens import summarize
from keff.records import Completion, Message, Sampling

Embedding = Literal["none", "mean", "last"]


@dataclass(frozen=True, slots=True)
class TransformersSettings:
    """The options of the engine, settled."""

    source: str
    device: str
    dtype: str
    embedding: Embedding = "none"
    layer: int = -1


class HfModel:
    """Tokenizer and weights; raises EngineError when they cannot be loaded."""

    _model: Any
    _tokenizer: Any

    def __init__(self, settings: TransformersSettings) -> None:
        logging.disable_progress_bar()
        logging.set_verbosity_error()
        source = settings.source
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
        self._settings, self._model = settings, model.to(settings.device).eval()

    @torch.inference_mode()
    def draw(
        self, taken: list[Waiting], prompts: list[torch.Tensor], closing: threading.Event
    ) -> list[list[Completion]]:
        """Draw all rows of a batch; prompts are padded on the left, so that paths begin at one place."""
        begun = time.perf_counter()
        width = max(len(prompt) for prompt in prompts)
        rows = [
            (waiting, prompt)
            for waiting, prompt in zip(taken, prompts, strict=True)
            for _ in range(waiting.n)
        ]
        sampling = taken[0].sampling
        seeds = [waiting.sampling.seed + i for waiting in taken for i in range(waiting.n)]
        choice = SeededChoice(sampling.temperature, sampling.top_p, seeds)
        stopped = Cancelled([waiting.stop for waiting, _ in rows], closing)
        config = self._config(sampling)
        ids = torch.full((len(rows), width), config.pad_token_id)
        mask = torch.zeros_like(ids)
        for row, (_, prompt) in enumerate(rows):
            ids[row, width - len(prompt) :] = prompt
            mask[row, width - len(prompt) :] = 1
        whole = self._model.generate(
            input_ids=ids.to(self._settings.device),
            attention_mask=mask.to(self._settings.device),
            generation_config=config,
            logits_processor=LogitsProcessorList([choice]),
            stopping_criteria=StoppingCriteriaList([stopped]),
            tokenizer=self._tokenizer,
        )
        seconds = time.perf_counter() - begun
        logprobs = torch.stack(choice.logprobs, 1).tolist()
        paths = [
            self._completion(row[width - len(prompt) :], len(prompt), values, sampling, seconds)
            for row, (_, prompt), values in zip(whole, rows, logprobs, strict=True)
        ]
        ends = list(accumulate(waiting.n for waiting in taken))
        return [paths[end - waiting.n : end] for waiting, end in zip(taken, ends, strict=True)]

    def prompt(self, messages: list[Message], sampling: Sampling) -> torch.Tensor:
        """Return the tokens of a prompt; raises EngineError where the model does not take so many."""
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
        """Return a configuration in which only our own choice shapes the draw."""
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
