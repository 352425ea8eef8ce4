"""GSM8K, 10 questions x 8 paths, from a real local server.

Keff sample beside a plain loop with the same client.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from typing import Any

from openai import AsyncOpenAI

from benchmarks.places import QUESTIONS
from keff.engines._local import locate
from keff.engines.llamacpp import LlamaCppSettings, open_server
from keff.plugins import load
from keff.task import select

GSM8K = QUESTIONS / "gsm8k.jsonl"
ITEMS, K, TOKENS = 10, 8, 24


async def plain_loop(url: str) -> int:
    """Send the same prompts with n = K, all at once; return the tokens that came back."""
    task = load("task", "gsm8k", data=str(GSM8K))
    async with AsyncOpenAI(base_url=url, api_key="none") as client:

        async def one(item: Any) -> int:
            messages: Any = list(task.messages(item, 0))
            asked: Any = {"n": K, "max_tokens": TOKENS, "temperature": 0.7, "top_p": 0.95, "logprobs": True}
            answer = await client.chat.completions.create(model="any", messages=messages, **asked)
            return sum(len(one.logprobs.content or []) for one in answer.choices if one.logprobs)

        return sum(await asyncio.gather(*(one(item) for item in select(task, ITEMS))))


def sampled(url: str, run: str) -> int:
    """Run the command line; return the tokens that it kept."""
    command = ["sample", "gsm8k", "--data", GSM8K, "--n", ITEMS, "--k", K, "--max-tokens", TOKENS, "--json"]
    command += ["--engine", "openai", "--base-url", url, "--run", run]
    done = subprocess.run(
        [sys.executable, "-m", "keff", *map(str, command)], stdout=subprocess.PIPE, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert (found["items"], found["drawn"], found["failed"]) == (ITEMS, ITEMS * K, 0), found
    return found["tokens"]


def main() -> None:
    """Print tokens a second of both, and their ratio."""
    server = open_server(locate(None), LlamaCppSettings(n_ctx=512, n_parallel=K, threads=2))
    url = f"{server.listening_address}/v1"
    rates: dict[str, float] = {}
    for name in ("plain loop", "keff sample"):
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            tokens = sampled(url, f"{folder}/run") if name == "keff sample" else asyncio.run(plain_loop(url))
        rates[name] = tokens / (time.perf_counter() - begun)
        print(f"{name:<14}{tokens:>8} tokens{rates[name]:>10.1f} tokens/s")
    ratio = rates["keff sample"] / rates["plain loop"]
    print(
        "claim: keff sample on a real server against a plain loop, start-up included | "
        f"{ratio:.2f} | at least 0.9"
    )


if __name__ == "__main__":
    main()
