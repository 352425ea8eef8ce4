"""A real small model asked for JSON on the starter questions: sampled, read, analysed and served."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gateway_rig import Options, gateway
from how_many import examples
from keff import plugins
from keff.analysis.estimates import Settings, analyze
from keff.analysis.plans import make_plan
from keff.reading.open import Opening, open_record
from keff.records import Sampling
from keff.sampling.job import Job, execute
from keff.sampling.sampler import Order
from keff.tasks import starter

pytestmark = [pytest.mark.slow, pytest.mark.integration]

QUESTIONS, PATHS = examples(100), 3
WORKED = (("What is 1 + 3?", 4), ("The dog is big. Is the dog small?", "no"), ("What is 5 + 2?", 7))


def asked(question: str) -> list[dict[str, str]]:
    """Return a question with worked examples before it, whose answers are pretty-printed JSON."""
    turns = [{"role": "system", "content": "Reply with one JSON object that has the field answer."}]
    for text, answer in WORKED:
        turns += [{"role": "user", "content": text}]
        turns += [{"role": "assistant", "content": json.dumps({"answer": answer}, indent=2)}]
    return [*turns, {"role": "user", "content": question}]


def test_json_of_a_real_model_end_to_end(smollm2: Path, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="pip install 'keff[llamacpp]'")
    from real_server import real_base_url

    lines = starter.FILE.read_text("utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["space"] != "choice"][:QUESTIONS]
    assert len(rows) == QUESTIONS
    own = tmp_path / "own.jsonl"
    own.write_text("\n".join(json.dumps(_row(row)) for row in rows))
    url = real_base_url(smollm2)
    options = {"name": "jsonl", "data": str(own), "answer_space": "json:fields=answer"}
    task = plugins.load("task", "jsonl", data=str(own), answer_space="json:fields=answer")
    engine = plugins.load("engine", "openai", base_url=url)
    order = Order(Sampling(max_tokens=24), k=PATHS)
    asyncio.run(execute(Job(task, engine, tmp_path / "run", order, options=options)))
    record = open_record(tmp_path / "run", Opening(texts=True))
    assert record.ballot.reading.space == "json:fields=answer"
    keys = [key for row in record.ballot.keys for key in row]
    read = [key for key in keys if key is not None]
    assert len(read) > 0.8 * len(keys)
    assert all(list(json.loads(key)) == ["answer"] for key in read)
    for question in record.ballot.questions:
        for text, key in zip(question.texts or (), question.keys or (), strict=True):
            assert key is None or json.loads(key)["answer"] == _loose(text)["answer"]
    analysis = analyze(record, Settings(k_max=8))
    assert analysis.matching is not None
    assert sum(analysis.matching.abstentions.values()) == len(keys) - len(read)
    assert analysis.p is not None
    assert analysis.p > 0
    plan = make_plan(record, analysis).model_copy(update={"policy": "fixed:3"})
    with gateway(url, plan, path_seconds=120, options=Options()) as rig:
        reply: Any = rig.client(timeout=120).chat.completions.create(
            model="keff",
            messages=asked("What is 2 + 1?"),  # type: ignore[arg-type]
            seed=1,
        )
    told = reply.model_extra["keff"]
    assert told["paths"] == 3
    assert (
        told["answer"] is None
        or json.loads(told["answer"])["answer"] == _loose(reply.choices[0].message.content)["answer"]
    )


def _row(row: dict[str, Any]) -> dict[str, Any]:
    answer = row["answer"]
    gold = {"answer": int(answer) if str(answer).lstrip("-").isdigit() else answer}
    return {"id": row["id"], "messages": asked(row["question"]), "answer": gold}


def _loose(text: str) -> Any:
    """Return the JSON object that a reply begins with, by Python's own reader."""
    return json.JSONDecoder().raw_decode(text[text.index("{") :])[0]
