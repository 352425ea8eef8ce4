"""A model in this process through vLLM (extra ``vllm``), for machines with an accelerator.

The n paths of a request share the reading of the prompt, and prompts that begin alike share it too. Path i
carries seed + i; in bfloat16 the batch that it runs in may change a late token. Requests that wait are run
together as one batch: ask for many at once. A request that is cancelled is dropped if it still waits; a
batch that runs is finished. To use a server instead, which also stops cancelled paths and takes new
requests at any moment:

    vllm serve MODEL --port 8000
    keff sample TASK --engine openai --base-url http://HOST:8000/v1 --run DIR
"""

# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportAttributeAccessIssue=false
# Where vLLM is not installed, pyright takes this very file for the package of its name.
# pyright: reportInvalidTypeForm=false, reportGeneralTypeIssues=false, reportCallIssue=false
# pyright: reportArgumentType=false

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from typing import Any

from vllm import LLM, SamplingParams

from keff.engine import Capabilities
from keff.engines._local import BatchEngine, WaitingRequest
from keff.errors import EngineError, UsageError
from keff.protocol.reply import finish_reason, summarize
from keff.protocol.server import json_object, template_thinking
from keff.records import Completion, Sampling


def _params(sampling: Sampling, n: int, shift: int) -> SamplingParams:
    return SamplingParams(
        n=n,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        max_tokens=sampling.max_tokens,
        stop=list(sampling.stop),
        seed=sampling.seed + shift,
        logprobs=1,
    )


class Vllm(BatchEngine):
    """Engine of a model by hub name or local folder.

    ``llm``: more arguments of ``vllm.LLM``, as JSON or a mapping. ``parallel``: requests worth having at
    once. Raises UsageError without a model, or when ``llm`` is not a JSON object.
    """

    name = "vllm"
    local = True
    needs_gpu = True

    def __init__(
        self,
        *,
        model: str | None = None,
        dtype: str = "auto",
        max_model_len: int | None = None,
        tensor_parallel_size: int = 1,
        parallel: int = 64,
        max_n: int = 64,
        llm: str | Mapping[str, object] | None = None,
    ) -> None:
        if model is None:
            raise UsageError("engine vllm: name a model (--model)")
        super().__init__(parallel * max_n)
        self.capabilities = Capabilities(max_n, parallel)
        self._arguments: dict[str, Any] = {
            "model": model,
            "dtype": dtype,
            "max_model_len": max_model_len,
            "tensor_parallel_size": tensor_parallel_size,
            "enable_prefix_caching": True,
            "trust_remote_code": False,
            **json_object(llm, "engine vllm: llm"),
        }

    def load(self) -> LLM:
        """Return the loaded model; raises EngineError."""
        try:
            return LLM(**self._arguments)
        except (OSError, RuntimeError, ValueError) as error:
            line = str(error).strip().split("\n")[0]
            raise EngineError(
                f"vLLM cannot load {self._arguments['model']}: {line}", transient=False
            ) from error

    def identity(self) -> dict[str, object]:
        """Return the model and number format."""
        return {"engine": self.name, "model": self._arguments["model"], "dtype": self._arguments["dtype"]}

    def shared(self, sampling: Sampling) -> object:
        """Return the thinking switch, which a batch must share."""
        return sampling.thinking

    def failure(self, error: Exception) -> EngineError:
        """Return a transient EngineError, or a permanent one for an invalid value."""
        wrong = {"ValueError", "VLLMClientError"} & {kind.__name__ for kind in type(error).__mro__}
        line = f"vLLM failed: {' '.join(str(error).split())}"
        return EngineError(line, transient=not wrong, refused=bool(wrong))

    def draw(self, batch: list[WaitingRequest]) -> list[list[Completion]]:
        """Return the paths of each request; at temperature 0 vLLM takes no n above 1."""
        begun = time.perf_counter()
        asked = [
            [(one.messages, _params(one.sampling, one.n, 0))]
            if one.sampling.temperature > 0
            else [(one.messages, _params(one.sampling, 1, i)) for i in range(one.n)]
            for one in batch
        ]
        outputs = iter(
            self._model.chat(
                [messages for group in asked for messages, _ in group],
                [params for group in asked for _, params in group],
                use_tqdm=False,
                **template_thinking(batch[0].sampling.thinking),
            )
        )
        answers = [[next(outputs) for _ in group] for group in asked]
        seconds = time.perf_counter() - begun
        return [
            [
                _completion(output, path, seconds)
                for output in group
                for path in sorted(output.outputs, key=lambda o: o.index)
            ]
            for group in answers
        ]

    def free(self) -> None:
        """End vLLM's core process and free its memory.

        Dropping the object alone leaves the core, and with it the accelerator's memory, to the garbage
        collector.
        """
        core = getattr(getattr(self._model, "llm_engine", None), "engine_core", None)
        if core is not None:
            core.shutdown()
        super().free()
        gc.collect()


def _completion(answer: Any, path: Any, seconds: float) -> Completion:
    drawn = [entry[token] for token, entry in zip(path.token_ids, path.logprobs or (), strict=False)]
    return Completion(
        path.text,
        finish_reason(path.finish_reason),
        len(path.token_ids),
        len(answer.prompt_token_ids or ()),
        answer.num_cached_tokens or 0,
        logprobs=summarize([one.logprob for one in drawn], [one.decoded_token or "" for one in drawn]),
        seconds=seconds,
    )


engine = Vllm
