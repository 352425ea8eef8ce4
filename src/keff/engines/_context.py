"""How large the context of a local model must be for the prompts of a run."""

# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from keff.narrow import entries, fields, items
from keff.records import Message

# Prompts that are counted in tokens: the longest one in bytes need not be the longest in tokens.
CANDIDATES = 32

# More than a chat template adds to a prompt; a token is at least one byte.
FRAME_BYTES = 512

# The model's library rounds contexts up to this.
STEP = 256


@dataclass(frozen=True, slots=True)
class Need:
    """What must fit: each of some prompts, with ``max_tokens`` after it."""

    prompts: Sequence[Sequence[Message]] = ()
    max_tokens: int = 0

    @property
    def most(self) -> int:
        """How many tokens that can be at most, known without the model."""
        longest = max((_bytes(prompt) for prompt in self.prompts), default=0)
        return longest + FRAME_BYTES + self.max_tokens


def longest(prompts: Iterable[Sequence[Message]]) -> list[list[dict[str, object]]]:
    """Return the longest prompts in bytes, among which is the longest in tokens."""
    largest = nlargest(CANDIDATES, prompts, key=_bytes)
    return [[dict(message) for message in prompt] for prompt in largest]


def _bytes(prompt: Sequence[Message]) -> int:
    return sum(len(str(message["content"]).encode("utf-8", "replace")) for message in prompt)


def context_size(address: str, key: str, need: Need) -> int:
    """Return the context that ``need`` takes by a loaded model's server, at most what it was trained for."""
    counts = [_tokens(address, key, prompt) for prompt in need.prompts]
    wanted = max(counts, default=0) + need.max_tokens
    listed = entries(_call(f"{address}/v1/models", key)["data"])
    trained = fields(listed[0]["meta"])["n_ctx_train"]
    return min(-(-(wanted + 1) // STEP) * STEP, int(str(trained)))


def _tokens(address: str, key: str, prompt: Sequence[Message]) -> int:
    framed = _call(f"{address}/apply-template", key, {"messages": [dict(message) for message in prompt]})
    asked = {"content": framed["prompt"], "add_special": True, "parse_special": True}
    return len(items(_call(f"{address}/tokenize", key, asked)["tokens"]))


def _call(url: str, key: str, body: Mapping[str, object] | None = None) -> dict[str, object]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    # The server is in this process: no proxy of the environment stands before it.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, data, headers), timeout=60) as answer:
        return json.load(answer)
