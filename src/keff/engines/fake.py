"""A model of known accuracy and correlation, for tests, documentation and dry runs.

Each prompt has its own chance theta of a right path, drawn from a beta distribution with mean ``p`` and
intraclass correlation ``c``: theta ~ Beta(p(1-c)/c, (1-p)(1-c)/c). Given theta, the paths of a prompt are
independent, so correctness is beta-binomial and ``c`` is the true design correlation. Theta and every text
depend only on a stable hash of (messages, path seed, ``seed``): the same run gives the same paths in any
order, process or machine.

The engine sees messages and no gold answers. ``oracle`` maps ``stable_hash(messages)`` to the right final
answer, or to ``{"right": text, "wrong": [text, ...]}``, the ends of a path as the task scores them; a prompt
that it lacks has a right answer of its own, a number made from the hash.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
from scipy.special import betaincinv

from keff.engine import Capabilities
from keff.errors import EngineError, UsageError
from keff.records import Completion, Logprobs, Message, Sampling, frozen, stable_hash

# What the engine takes as ``oracle``; see the module.
Oracle = Mapping[str, str | Mapping[str, str | Sequence[str]]]

# Below it the quantile of a beta law underflows: such a prompt is never right.
SMALLEST = 1e-300

WORDS = ("so", "then", "we", "add", "both", "and", "find", "that", "it", "must", "be", "more")


@frozen
class AnswerLaw:
    """Options of the fake engine that determine its texts."""

    p: float
    c: float
    answers: int
    tokens: int
    refuse: float
    seed: int


def skill(p: float, c: float, u: float) -> float:
    """Return the u-quantile of the beta distribution with mean p and intraclass correlation c."""
    if c <= 0 or p in (0, 1):
        return p
    if c >= 1:
        return float(u < p)
    total = (1 - c) / c
    theta = float(betaincinv(p * total, (1 - p) * total, u))
    # Where doubles end, the inverse rounds now down to 0 and now up to the least of them.
    return theta if theta > SMALLEST else 0.0


def wrong_answers(right: str, count: int) -> list[str]:
    """Return up to ``count`` plausible wrong answers of the same kind as ``right``."""
    letters = "ABCDEFGHIJ"
    if len(right) == 1 and right in letters:
        return [letter for letter in letters[: count + 1] if letter != right][:count]
    for pair in (("yes", "no"), ("true", "false")):
        if right.lower() in pair:
            other = pair[1 - pair.index(right.lower())]
            return [other.capitalize() if right[0].isupper() else other]
    try:
        number = float(right.replace(",", ""))
    except ValueError:
        return [f"{right} {name}" for name in map(str, range(2, count + 2))]
    return [f"{number + shift:.12g}" for shift in range(1, count + 1)]


class Fake:
    """Simulated engine with given accuracy and correlation.

    ``p`` and ``c``: mean accuracy and intraclass correlation, both in [0, 1]. ``answers``: how many wrong
    answers a prompt has, drawn with weights 1, 1/2, 1/3, ... . ``tokens``: mean length of a path (Poisson);
    a path longer than ``max_tokens`` is cut before its answer. ``latency``: seconds a request takes.
    ``fail``: share of requests that raise a transient EngineError; ``refuse``: share of paths that decline.
    Raises UsageError when a number is out of range.
    """

    name = "fake"
    local = True
    needs_gpu = False
    # The command line fills ``oracle`` in.
    takes_oracle = True

    def __init__(
        self,
        *,
        model: str | None = None,
        p: float = 0.6,
        c: float = 0.3,
        answers: int = 4,
        tokens: int = 20,
        latency: float = 0.0,
        fail: float = 0.0,
        refuse: float = 0.0,
        seed: int = 0,
        parallel: int = 8,
        max_n: int = 8,
        oracle: Oracle | None = None,
    ) -> None:
        for name, value in {"p": p, "c": c, "fail": fail, "refuse": refuse}.items():
            if not 0 <= value <= 1:
                raise UsageError(f"engine fake: {name} must lie in [0, 1], not {value}")
        if answers < 1 or tokens < 1 or latency < 0:
            raise UsageError("engine fake: answers and tokens must be at least 1, and latency at least 0")
        self.capabilities = Capabilities(max_n, parallel)
        self._law = AnswerLaw(p, c, answers, tokens, refuse, seed)
        self._model = model or "fake"
        self._oracle: Oracle = oracle or {}
        self._latency, self._fail = latency, fail
        self._failures: dict[str, int] = {}

    async def start(self) -> None:
        """Do nothing."""

    def identity(self) -> dict[str, object]:
        """Return the settings that determine the texts."""
        return {"engine": self.name, "model": self._model, **asdict(self._law)}

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        """Draw n paths; the module states their distribution."""
        prompt = stable_hash(list(messages))
        drawn = [self._draw(prompt, sampling, sampling.seed + i, messages) for i in range(n)]
        await asyncio.sleep(self._latency)
        self._maybe_fail(stable_hash(prompt, sampling.seed, n, self._law.seed))
        return drawn

    async def close(self) -> None:
        """Do nothing."""

    def _maybe_fail(self, request: str) -> None:
        """Raise EngineError for a share of requests, drawn anew at each repetition."""
        tries = self._failures.get(request, 0)
        if _uniform(request, tries) < self._fail:
            self._failures[request] = tries + 1
            raise EngineError("engine fake: simulated failure (option fail)")
        self._failures.pop(request, None)

    def _draw(self, prompt: str, sampling: Sampling, seed: int, messages: Sequence[Message]) -> Completion:
        law = self._law
        theta = skill(law.p, law.c, _uniform("skill", prompt, law.seed))
        path = seed if sampling.temperature > 0 else -1
        rng = np.random.default_rng(int(stable_hash(prompt, path, law.seed)[:16], 16))
        right = bool(rng.random() < theta)
        truth, others = self._ends(prompt)
        end = truth if right else self._wrong(others, prompt, rng)
        length = max(1, int(rng.poisson(law.tokens)))
        # Half of what parts right from wrong paths: their logprobs tell, and not too well.
        noise = float(rng.normal(0, 0.1))
        prompt_tokens = sum(len(str(message.get("content", "")).split()) for message in messages)
        if rng.random() < law.refuse:
            return Completion("", tokens=1, prompt_tokens=prompt_tokens, refusal="I cannot help with that.")
        words = [WORDS[int(i)] for i in rng.integers(len(WORDS), size=length)]
        cut = length > sampling.max_tokens
        kept = min(length, sampling.max_tokens)
        text = " ".join(words[:kept]) + ("" if cut else f".\n{end}")
        mean = min(-0.01, (-0.2 if right else -0.4) + noise)
        logprobs = Logprobs(mean, 3 * mean, mean * kept)
        finish = "length" if cut else "stop"
        return Completion(text, finish, kept, prompt_tokens, logprobs=logprobs, seconds=self._latency)

    def _ends(self, prompt: str) -> tuple[str, list[str]]:
        """Return the final sentence of right paths of a prompt, and those of wrong ones."""
        # Without an oracle a prompt has an answer of its own, the same in every process.
        told = self._oracle.get(prompt) or str(int(prompt[:6], 16) % 1000)
        if isinstance(told, str):
            wrong = wrong_answers(told, self._law.answers)
            return f"The final answer is {told}", [f"The final answer is {answer}" for answer in wrong]
        return str(told["right"]), list(told["wrong"])[: self._law.answers]

    def _wrong(self, choices: Sequence[str], prompt: str, rng: np.random.Generator) -> str:
        """Return a random wrong ending; one of them, by prompt, is common."""
        shift = math.floor(_uniform("order", prompt) * len(choices))
        weights = 1 / np.arange(1, len(choices) + 1)
        rank = int(rng.choice(len(choices), p=weights / weights.sum()))
        return choices[(rank + shift) % len(choices)]


def _uniform(*parts: object) -> float:
    # 13 hexadecimal digits are 52 bits: a float holds them exactly.
    return int(stable_hash(*parts)[:13], 16) / 16**13


engine = Fake
