"""Records of JSON answers: which members vote, one key for one text in pilot, replay and gateway."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from command_line import keff
from keff import answers, plugins, self_consistency
from keff.analysis.estimates import Settings, analyze
from keff.gateway.vote.extraction import reader_of
from keff.plan import Plan
from keff.reading.open import Opening, open_record
from keff.records import Completion, Item

WORDS = "we add up the parts with some care, one after the other, and so we find in step number"


def solved(number: int, rng: random.Random) -> str:
    said = {"reasoning": f"{WORDS} {rng.random()}", "answer": number, "confidence": rng.random()}
    return json.dumps(said, indent=rng.choice((None, 2)))


def record(folder: Path, rows: int = 12, paths: int = 4, form: str = "{}") -> Path:
    rng = random.Random(5)
    lines = [
        {
            "id": str(row),
            "gold_answer": {"answer": row},
            "all_answers": [form.format(solved(row + (rng.random() < 0.3), rng)) for _ in range(paths)],
        }
        for row in range(rows)
    ]
    file = folder / "log.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


@pytest.mark.slow
@pytest.mark.parametrize("form", ["{}", "Here you are:\n```json\n{}\n```\nDone."])
def test_analyze_proposes_the_fields_and_their_space_is_one_vote_per_answer(
    tmp_path: Path, form: str
) -> None:
    file = record(tmp_path, form=form)
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
    '{"answer": 42, "confidence": 0.9}',
    'So:\n```json\n{\n  "answer": 42,\n  "reasoning": "b"\n}\n```',
    'Here:\n```json\n{"answer": 42, "why": "the answer is not 7"}\n```\nHope that helps, all 3 of you.',
    '```json\n{"answer": "B", "why": "the answer is not A"}\n```\nAs asked.',
    '```json\n{"answer": 41}\n```\nNo, I was wrong: the answer is 42',
    '<think>{"answer": 1}</think>It is {"answer": 42}, I think.',
    '{"reasoning": "c"}',
    '{"order": 1, "items": [2.5], "count": 2}',
    '{"name": "Ann", "age": 42}',
    '{"answer": 42, "answer": 43}',
    '{"answer": 42',
    '{"reasoning": "not B", "final_answer": "A"}',
    '{"answer": "1/2", "why": "half"}',
    '{"answer": true}',
    '{"answer": ["x", 2]}',
    '{"x": 1}\n\nFinal answer: 7 km',
    "The answer is (F).",
    "Final answer: yes",
    "Born on May 5, 2020",
    "SELECT 1",
    "```python\nx = 1\n```",
    "42",
)
SPACES = (
    "json:fields=answer",
    "json",
    "list",
    "set",
    "numeric",
    "choice",
    "binary",
    "math",
    "exact",
    "text",
    "date",
    "quantity",
    "literal",
    "label:labels=A,B,yes",
    "sql",
)


def replayed(texts: Sequence[str], spec: str, file: Path) -> list[str | None]:
    """Return the keys of whole completions in a log, one question each."""
    rows = (
        {"id": str(row), "all_answers": [text, text], "all_texts": [text, text]}
        for row, text in enumerate(texts)
    )
    file.write_text("\n".join(map(json.dumps, rows)))
    return [row[0] for row in open_record(file, Opening(answer_space=spec)).ballot.keys]


async def said(text: str, spec: str) -> str | None:
    """Return the key of a completion in the library."""
    body = SimpleNamespace(model_dump=lambda: {"choices": [{"message": {"content": text}}]})
    create = AsyncMock(return_value=body)
    client = cast("Any", SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create))))
    return (await self_consistency(client, "?", "fixed:1", space=spec, model="m")).keys[0]


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPACES)
def test_one_text_has_one_key_in_pilot_replay_library_and_gateway(spec: str, tmp_path: Path) -> None:
    """Whatever the reply is, JSON too: the gateway reads it as the space does, however it was asked for."""
    (tmp_path / "own.jsonl").write_text('{"id": "1", "question": "How many?"}')
    options = {"data": str(tmp_path / "own.jsonl"), "answer_space": spec}
    task = plugins.load("task", "jsonl", **options)
    item = Item("1", ({"role": "user", "content": "How many?"},), space=task.space)
    plan = Plan(policy="fixed:2", estimates={}, space=spec, task={"options": {"name": "jsonl", **options}})
    gateway = reader_of(plan)
    pilot = [task.judge(item, Completion(text=text, finish="stop")).key for text in TEXTS]
    served = [gateway.read({"message": {"content": text}, "finish_reason": "stop"}).key for text in TEXTS]
    assert served == pilot
    assert [asyncio.run(said(text, spec)) for text in TEXTS] == pilot
    assert replayed(TEXTS, spec, tmp_path / "log.jsonl") == pilot
    assert any(pilot), "some are read"


def test_the_member_that_is_called_answer_is_read_without_what_follows_it() -> None:
    said = '{"why": "x", "answer": 42, "confidence": 0.9}'
    for spec in ("math", "numeric"):
        assert answers.read(answers.space(spec), said).key == "42"
    assert answers.read(answers.space("math"), '{"answer": "\\\\frac{1}{2}"}').key == "0.5"
    assert answers.read(answers.space("numeric"), 'The "answer": not said').key is None


def test_in_words_the_object_that_names_the_answer_is_read() -> None:
    held = '{"answer": %s, "why": "the answer is not 7 or D"}'
    for spec, value, key in (("numeric", "42", "42"), ("choice", '"B"', "B"), ("math", '"1/2"', "0.5")):
        for said in (
            f"So:\n```json\n{held}\n```\nThat is all 3.",
            f"So: {held} (3 of 3)",
            f"{held}\nDone, 3.",
        ):
            read = answers.read(answers.space(spec), said % value)
            assert (read.key, read.rule) == (key, "JSON")
    numeric = answers.space("numeric")
    assert answers.read(numeric, f"So:\n```json\n{held}\n```\nNo: the answer is 5" % 42).key == "5"
    assert answers.read(numeric, 'Not {"answer": 1}, but {"answer": 2}: 3').key == "2"
    assert answers.read(numeric, 'So {"answer": "unknown"}, or 7').key == "7"


def test_an_object_that_names_no_answer_votes_as_a_whole_wherever_one_value_is_read() -> None:
    numeric, one, other = answers.space("numeric"), '{"a": 42, "b": 1}', '```json\n{"b": 1.0,\n "a": 42}\n```'
    assert answers.read(numeric, one).key == answers.read(numeric, other).key == '{"a":42,"b":1}'
    assert numeric.key('{"a":42,"b":1}') == '{"a":42,"b":1}' and not numeric.correct('{"a":42,"b":1}', "42")
    assert answers.read(numeric, '{"final_answer": "42.0", "steps": [1, 2]}').key == "42"
    assert answers.read(numeric, 'So {"a": 42}, hence 7').key == "7"
    assert answers.read(numeric, '{"a": 42}\n\nThe answer is 7.').key == "7"
    assert answers.read(numeric, '```json\n{"a": 42}\n```\nThe answer is 7.').key == "7"
    assert answers.read(answers.space("math"), "[[1, 2], [3, 4]]").rule != "JSON"
    for broken in ('{"a": 42, "a": 43}', '{"a": 42, "b": 7', '```json\n{"a": NaN}\n```', '[{"a": 1]'):
        for name in ("numeric", "text", "choice", "math"):
            assert answers.read(answers.space(name), broken).key is None
    cut = answers.read(numeric, '{"answer": 42}', truncated=True)
    assert (cut.key, cut.rule) == (None, "truncated")
