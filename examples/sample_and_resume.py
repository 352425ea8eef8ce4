"""Sample your own questions into a run, then ask for more paths: only what is missing is drawn.

    python examples/sample_and_resume.py

The engine is ``fake``, so that the example runs anywhere. For a real server use
``keff.load("engine", "openai", model="my-model", base_url="http://127.0.0.1:8000/v1")``.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

import keff
from keff.records import stable_hash
from keff.task import select


def draw(questions: Path, folder: Path, k: int) -> int:
    """Bring the run to k paths per question; return how many were drawn now."""
    task = keff.load("task", "jsonl", data=str(questions), answer_space="numeric")
    truth = {stable_hash(list(task.messages(item, 0))): item.gold for item in select(task)}
    engine = keff.load("engine", "fake", p=0.6, c=0.5, oracle=truth)
    order = keff.Order(keff.Sampling(temperature=0.7, seed=7), k=k)
    job = keff.Job(task, engine, folder, order, options={"data": str(questions), "answer_space": "numeric"})
    return asyncio.run(keff.execute(job)).done


def main(folder: Path) -> None:
    """Draw 4 paths per question, then 8, and look at one question."""
    questions = folder / "questions.jsonl"
    rows = [{"id": f"sum-{n}", "question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(25)]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = folder / "run"
    print(f"first: {draw(questions, run, 4)} paths drawn")
    print(f"again: {draw(questions, run, 4)} paths drawn")
    print(f"K raised to 8: {draw(questions, run, 8)} paths drawn")
    record = keff.open_record(run)
    first = record.ballot.questions[0]
    print(f"{first.id}: answers {list(first.answers)}, gold {first.gold}")
    found = keff.analyze(record, keff.Settings())
    print(found)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
