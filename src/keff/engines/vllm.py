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

import asyncio
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from vllm import LLM, SamplingParams

from keff.engine import Capabilities
from keff.errors import EngineError, UsageError
from keff.protocol.reply import finish_reason, summarize
from keff.protocol.server import json_object, template_thinking
from keff.records import Completion, Message, Sampling

T = TypeVar("T")


def engine(
    *,
    model: str | None = None,
    dtype: str = "auto",
    max_model_len: int | None = None,
    tensor_parallel_size: int = 1,
    parallel: int = 64,
    max_n: int = 64,
    llm: str | Mapping[str, object] | None = None,
) -> Vllm:
    """Make an engine for a hub name or a local folder.

    ``llm``: more arguments of ``vllm.LLM``, as JSON or a mapping. ``parallel``: requests worth having at
    once. Raises UsageError without a model, or when ``llm`` is not a JSON object.
    """
    if model is None:
        raise UsageError("engine vllm: name a model (--model)")
    arguments: dict[str, object] = {
        "model": model,
        "dtype": dtype,
        "max_model_len": max_model_len,
        "tensor_parallel_size": tensor_parallel_size,
        "enable_prefix_caching": True,
        "trust_remote_code": False,
    }
    return Vllm(arguments | json_object(llm, "engine vllm: llm"), Capabilities(max_n, parallel))


@dataclass(slots=True, eq=False)
class _Request:
    """One request that waits for a batch."""

    messages: list[Message]
    sampling: Sampling
    n: int
    done: asyncio.Future[list[Completion]] = field(repr=False)

    def calls(self) -> list[tuple[list[Message], SamplingParams]]:
        """Return what vLLM is asked: at temperature 0 it takes no n above 1."""
        if self.sampling.temperature > 0:
            return [(self.messages, self._params(self.n, 0))]
        return [(self.messages, self._params(1, i)) for i in range(self.n)]

    def _params(self, n: int, shift: int) -> SamplingParams:
        return SamplingParams(
            n=n,
            temperature=self.sampling.temperature,
            top_p=self.sampling.top_p,
            max_tokens=self.sampling.max_tokens,
            stop=list(self.sampling.stop),
            seed=self.sampling.seed + shift,
            logprobs=1,
        )


class Vllm:
    """See the module."""

    name = "vllm"
    local = True
    needs_gpu = True

    def __init__(self, arguments: dict[str, object], capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self._arguments = arguments
        self._llm: Any = None
        self._waiting: list[_Request] = []
        self._batches: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="vllm")

    async def start(self) -> None:
        """Load the model; raises EngineError when that does not work."""
        if self._llm is None:
            try:
                self._llm = await self._in_thread(partial(LLM, **self._arguments))
            except (OSError, RuntimeError, ValueError) as error:
                line = str(error).strip().split("\n")[0]
                raise EngineError(
                    f"vLLM cannot load {self._arguments['model']}: {line}", transient=False
                ) from error

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def identity(self) -> dict[str, object]:
        """Return the model and the number format."""
        return {"engine": self.name, "model": self._arguments["model"], "dtype": self._arguments["dtype"]}

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        """Draw n paths in the next batch; see ``Engine.generate``."""
        if self._llm is None:
            raise EngineError("engine vllm: start() comes before generate()", transient=False)
        request = _Request(list(messages), sampling, n, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        if self._batches is None or self._batches.done():
            self._batches = asyncio.create_task(self._run_batches())
        return await request.done

    async def _run_batches(self) -> None:
        """Run what waits, batch after batch, until nothing does."""
        await asyncio.sleep(0)
        while batch := self._next_batch():
            drawn: list[list[Completion] | EngineError] = await self._in_thread(partial(self._draw, batch))
            for request, outcome in zip(batch, drawn, strict=True):
                if request.done.done():
                    continue
                if isinstance(outcome, EngineError):
                    request.done.set_exception(outcome)
                else:
                    request.done.set_result(outcome)

    def _next_batch(self) -> list[_Request]:
        """Take every waiting request whose thinking is switched as the first one's is."""
        waiting = [request for request in self._waiting if not request.done.done()]
        batch = [request for request in waiting if request.sampling.thinking == waiting[0].sampling.thinking]
        self._waiting = [request for request in waiting if request not in batch]
        return batch

    def _draw(self, batch: list[_Request]) -> list[list[Completion] | EngineError]:
        """Run a batch; when it fails, each request alone, so that one bad prompt spoils no other.

        A request that fails alone is not tried again where the library says that its value is wrong.
        """
        try:
            return list(self._ask(batch))
        except Exception as error:
            if len(batch) > 1:
                return [outcome for request in batch for outcome in self._draw([request])]
            wrong = {"ValueError", "VLLMClientError"} & {kind.__name__ for kind in type(error).__mro__}
            line = f"vLLM failed: {' '.join(str(error).split())}"
            return [EngineError(line, transient=not wrong, refused=bool(wrong))]

    def _ask(self, batch: list[_Request]) -> list[list[Completion]]:
        begun = time.perf_counter()
        calls = [request.calls() for request in batch]
        outputs = iter(
            self._llm.chat(
                [messages for group in calls for messages, _ in group],
                [params for group in calls for _, params in group],
                use_tqdm=False,
                **template_thinking(batch[0].sampling.thinking),
            )
        )
        answers = [[next(outputs) for _ in group] for group in calls]
        seconds = time.perf_counter() - begun
        return [
            [
                _completion(output, path, seconds)
                for output in group
                for path in sorted(output.outputs, key=lambda o: o.index)
            ]
            for group in answers
        ]

    async def close(self) -> None:
        """Let the running batch end, and free the model."""
        for request in self._waiting:
            request.done.cancel()
        if self._batches is not None:
            await asyncio.gather(self._batches, return_exceptions=True)
        llm, self._llm = self._llm, None
        if llm is not None:
            await self._in_thread(partial(_shut_down, llm))
        del llm
        await asyncio.to_thread(self._thread.shutdown)


def _shut_down(llm: Any) -> None:
    """End vLLM's core process and give its memory back, so that another model can be loaded here.

    Dropping the object alone leaves the core, and with it the accelerator's memory, to the garbage collector.
    """
    core = getattr(getattr(llm, "llm_engine", None), "engine_core", None)
    if core is not None:
        core.shutdown()
    gc.collect()


def _completion(answer: Any, path: Any, seconds: float) -> Completion:
    drawn = [entry[token] for token, entry in zip(path.token_ids, path.logprobs or (), strict=False)]
    return Completion(
        path.text,
        finish_reason(path.finish_reason),
        len(path.token_ids),
        len(answer.prompt_token_ids or ()),
        answer.num_cached_tokens or 0,
        logprobs=summarize([one.logprob for one in drawn], [one.decoded_token for one in drawn]),
        seconds=seconds,
    )
