"""Records of JSON answers: which members vote, one key for one text in pilot, replay and gateway."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from command_line import keff
from keff import answers, plugins
from keff.analysis.estimates import Settings, analyze
from keff.gateway.vote.extraction import reader_of
from keff.plan import Plan
from keff.reading.open import Opening, open_record
from keff.records import Completion, Item

WORDS = "we add up the parts with some care, one after the other, and so we find in step number"


def solved(number: int, rng: random.Random) -> str:
    said = {"reasoning": f"{WORDS} {rng.random()}", "answer": number, "confidence": rng.random()}
    return json.dumps(said, indent=rng.choice((None, 2)))


def record(folder: Path, rows: int = 12, paths: int = 4) -> Path:
    rng = random.Random(5)
    lines = [
        {
            "id": str(row),
            "gold_answer": {"answer": row},
            "all_answers": [solved(row + (rng.random() < 0.3), rng) for _ in range(paths)],
        }
        for row in range(rows)
    ]
    file = folder / "log.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


def test_analyze_proposes_the_fields_and_their_space_is_one_vote_per_answer(tmp_path: Path) -> None:
    file = record(tmp_path)
    done = keff("analyze", str(file), "--json", "--answer-space", "json")
    told = json.loads(done.stdout)
    (note,) = [each["message"] for each in told["warnings"] if each["code"] == "json_fields"]
    assert told["agreement"] == 0 and "reasoning (it is longer than 60 characters" in note
    assert "confidence (it does not repeat" in note
    (space,) = re.findall(r"--answer-space (\S+)", note)
    assert space == "json:fields=answer"
    again = analyze(open_record(file, Opening(answer_space=space)), Settings(k_max=8))
    assert (again.agreement or 0) > 0.4 and "json_fields" not in {note.code for note in again.warnings}


def test_answers_that_are_no_json_or_vote_as_they_are_say_nothing(tmp_path: Path) -> None:
    for answers_ in (["7", "7", "8"], ['{"answer": 7}', '{"answer": 7}', '{"answer": 8}']):
        lines = [{"id": str(row), "all_answers": answers_} for row in range(12)]
        file = tmp_path / "log.jsonl"
        file.write_text("\n".join(map(json.dumps, lines)))
        found = analyze(open_record(file), Settings(k_max=8))
        assert "json_fields" not in {note.code for note in found.warnings}


TEXTS = (
    '{"reasoning": "a", "answer": 42.0}',
    'So:\n```json\n{\n  "answer": 42,\n  "reasoning": "b"\n}\n```',
    '<think>{"answer": 1}</think>It is {"answer": 42}, I think.',
    '{"reasoning": "c"}',
    '{"answer": 42, "answer": 43}',
    '{"answer": 42',
    "42",
)


@pytest.mark.parametrize("spec", ["json:fields=answer", "json", "list", "set", "sql"])
def test_one_text_has_one_key_in_pilot_replay_library_and_gateway(spec: str, tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"id": "1", "question": "How many?"}')
    options = {"data": str(tmp_path / "own.jsonl"), "answer_space": spec}
    task = plugins.load("task", "jsonl", **options)
    item = Item("1", ({"role": "user", "content": "How many?"},), space=task.space)
    plan = Plan(policy="fixed:2", estimates={}, space=spec, task={"options": {"name": "jsonl", **options}})
    gateway, library = reader_of(plan), answers.space(spec)
    for text in TEXTS:
        pilot = task.judge(item, Completion(text=text, finish="stop")).key
        choice: dict[str, Any] = {"message": {"content": text}, "finish_reason": "stop"}
        assert pilot == answers.read(library, text).key
        for as_json in (False, True):
            assert pilot == gateway.read(choice, as_json=as_json).key, (spec, text, as_json)
        rows = [{"id": str(row), "all_answers": [text, text]} for row in range(3)]
        (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
        if pilot is not None and spec.startswith("json"):
            ballot = open_record(tmp_path / "log.jsonl", Opening(answer_space=spec)).ballot
            assert {key for row in ballot.keys for key in row} == {pilot}
