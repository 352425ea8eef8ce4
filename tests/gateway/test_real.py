"""The whole way with real parts: pilot a small model, make the plan, serve it over its real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import keff
from gateway_rig import Rig, gateway
from keff import plugins
from keff.analysis.estimates import Settings, analyze
from keff.analysis.plans import make_plan
from keff.plan import Plan
from keff.reading.open import open_record
from keff.records import Sampling
from keff.sampling.job import Job, execute
from keff.sampling.sampler import Order
from keff.sampling.store import Run
from keff.stats.voting.calibration import Calibration

pytestmark = pytest.mark.slow

SYSTEM = "You add numbers. Reply with: The answer is <number>."


@pytest.fixture(scope="module")
def pilot(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("xllamacpp", reason="pip install 'keff[llamacpp]'")
    from real_server import real_base_url

    url, folder = real_base_url(smollm2), tmp_path_factory.mktemp("pilot")
    rows = [{"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(1, 4)]
    (folder / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = {"name": "jsonl", "data": str(folder / "own.jsonl"), "system": SYSTEM}
    task = plugins.load("task", "jsonl", data=options["data"], system=SYSTEM)
    engine = plugins.load("engine", "openai", base_url=url)
    order = Order(Sampling(max_tokens=10), k=4)
    asyncio.run(execute(Job(task, engine, folder / "run", order, options=options)))
    (folder / "own.jsonl").unlink()
    return folder / "run"


@pytest.fixture(scope="module")
def served(smollm2: Path, pilot: Path) -> Iterator[Rig]:
    from real_server import real_base_url

    record = open_record(pilot)
    plan = make_plan(record, analyze(record, Settings(k_max=8)))
    with gateway(real_base_url(smollm2), plan, path_seconds=120) as rig:
        yield rig


def question(rig: Rig, **more: object) -> Any:
    messages = [{"role": "user", "content": "What is 2 + 1?"}]
    extra = {"keff": {"cap": 3}}
    return rig.client(timeout=120).chat.completions.create(  # type: ignore[call-overload]
        model="keff", messages=messages, extra_body=extra, **more
    )


def test_the_real_model_answers_by_a_vote(served: Rig) -> None:
    reply = question(served, seed=1)
    told = reply.model_extra["keff"]
    assert 1 <= told["paths"] <= 3
    assert told["stale_plan"] == []
    assert sum(told["votes"].values()) + told["abstentions"] == told["paths"]
    assert reply.usage.completion_tokens <= 10 * told["paths"]
    assert reply.usage.prompt_tokens > 10 * told["paths"]
    assert reply.choices[0].message.content
    assert served.service.terms.system == SYSTEM


def test_the_real_model_s_answers_have_a_log_probability_of_their_own(pilot: Path) -> None:
    votes = open_record(pilot).ballot.votes
    assert votes.answers is not None and votes.confidences is not None
    kept, read = votes.named["logprob_answer"], votes.answers >= 0
    assert read.any() and np.array_equal(np.isfinite(kept), read)
    # The mean of a part of the tokens.
    assert np.all(kept[read] >= votes.named["logprob_total"][read] - 1e-9)
    assert np.any(kept[read] != votes.confidences[read])


@pytest.mark.parametrize("name", ["logprob_bottom", "logprob_answer"])
def test_the_real_model_s_log_probabilities_weigh_votes(served: Rig, name: str) -> None:
    messages = [{"role": "user", "content": "What is 2 + 1?"}]
    extra = {"keff": {"policy": f"fixed:4,weight=log_odds,confidence={name}"}, "seed": 1}
    reply = served.client(timeout=120).chat.completions.create(  # type: ignore[call-overload]
        model="keff", messages=messages, extra_body=extra
    )
    told = reply.model_extra["keff"]
    assert told["paths"] == sum(told["votes"].values()) + told["abstentions"]
    assert told["weight"]["kind"] == "weighted_share" or not told["votes"]
    # The upstream gave them, and the client did not ask.
    assert reply.choices[0].logprobs is None


def test_the_real_model_is_sampled_by_the_rule_of_a_plan(smollm2: Path, pilot: Path, tmp_path: Path) -> None:
    """Each vote ends at the first path of at least median log-probability, or at the cap."""
    from real_server import real_base_url

    given = open_record(pilot).ballot.votes.confidences
    assert given is not None
    bar = float(np.median(given))
    held = Calibration((bar - 1e-6, bar + 1e-6), (0.1, 0.95), (1.0, 1.0), 0.5)
    plan = Plan(policy="switch:0.5,cap=3", estimates={}, calibrations={"confidence": held})
    plan.write(tmp_path / "plan.json")
    rows = [{"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(1, 5)]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = keff(
        *("sample", tmp_path / "own.jsonl", "--run", tmp_path / "run", "--max-tokens", 10, "--seed", 1),
        *("--base-url", real_base_url(smollm2), "--system", SYSTEM, "--policy", tmp_path / "plan.json"),
    )
    assert done.returncode == 0, done.stderr
    with Run.open(tmp_path / "run") as run:
        for item in run.items():
            good = [
                scored.judged is not None
                and scored.judged.key is not None
                and scored.completion.logprobs is not None
                and scored.completion.logprobs.mean >= bar
                for scored in run.kept(item.id)
            ]
            assert not any(good[:-1])
            assert good[-1] or len(good) == 3


def test_the_real_model_streams(served: Rig) -> None:
    events = list(question(served, seed=1, stream=True, stream_options={"include_usage": True}))
    text = "".join(event.choices[0].delta.content or "" for event in events if event.choices)
    assert text
    assert events[-1].usage.total_tokens > 0


def test_another_system_message_is_not_the_pilot_s(served: Rig) -> None:
    assert served.monitor is not None
    before = served.monitor.seen
    messages = [{"role": "system", "content": "Be rude."}, {"role": "user", "content": "What is 2 + 1?"}]
    reply = served.post({"messages": messages, "keff": {"k": 1}})
    assert reply.headers["x-keff-stale-plan"] == "system"
    assert served.monitor.seen == before
