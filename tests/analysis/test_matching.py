"""Whether answers match: hand counts, records with many right answers, and programs that all differ."""

from __future__ import annotations

import ast
import json
import os
import shutil
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import pytest

from by_item import plurality_at_k_items
from keff import answers
from keff.analysis.estimates import Settings, analyze
from keff.analysis.matching import RARE, equal_under, matching
from keff.errors import PluginError
from keff.log import LogInfo, Question
from keff.plugins import load
from keff.reading.ballot import Reading, ballot
from keff.reading.open import Opening, Record, open_record
from keff.records import Completion

pytestmark = pytest.mark.slow

EXACT = Reading(lambda answer: answer, lambda answer, gold: answer == gold)


def record(questions: list[Question], reading: Reading = EXACT) -> Record:
    return Record("log", LogInfo(), ballot(questions, reading))


def test_hand_counts() -> None:
    rows = [
        Question("a", ("x", "x", "y", None), correct=(1, 1, 0, 0), rules=("m", "m", "m", "truncated")),
        Question("b", ("p", "q", "r", "s"), correct=(1, 1, 0, 0)),
        Question("c", ("u", "u", "u", "u"), correct=(1, 1, 1, 1)),
    ]
    found = matching(record(rows).ballot)
    assert found is not None
    assert found.agreement == pytest.approx((1 / 3 + 0 + 1) / 3)
    assert (found.singles, found.questions) == (1, 3)
    assert found.right_agreement == pytest.approx((2 + 0 + 12) / (2 + 2 + 12))
    assert (found.split, found.right_questions) == (1, 3)
    assert found.examples[0].id == "b"
    assert set(found.examples[0].keys) == {"p", "q"}
    assert found.abstentions == {"truncated": 1}
    assert not found.rare


def test_closed_answers_are_compared_with_chance() -> None:
    closed = Reading(EXACT.key, EXACT.correct, closed=True, space="binary")
    apart = [Question(str(i), ("yes", "no"), gold="yes") for i in range(10)]
    found = matching(record(apart, closed).ballot)
    assert found is not None
    assert found.chance == pytest.approx(0.5)
    assert found.rare
    together = [Question(str(i), (answer, answer), gold="yes") for i, answer in enumerate(["yes", "no"] * 5)]
    found = matching(record(together, closed).ballot)
    assert found is not None
    assert not found.rare


@pytest.mark.parametrize(
    ("name", "rare"),
    [
        ("game24_gpt-4_cot", True),
        ("cruxeval_input_codellama-34b+cot_t0.8", True),
        ("cruxeval_input_deepseek-base-33b_t0.8", True),
        ("cruxeval_input_gpt-3.5-turbo-0613_t0.8", True),
        ("cruxeval_input_gpt-4-0613_t0.8", True),
        ("cruxeval_output_phi-1_t0.8", False),
        ("cruxeval_output_codellama-13b+cot_t0.8", False),
        ("boinf_aime2025_NVIDIA-Nemotron-Nano-9B-v2", False),
        ("renze_lsat-ar-100_gpt-35-turbo_chain_of_thought", False),
        ("woc_asdiv_gpt-3.5-turbo-0301", False),
    ],
)
def test_records_where_many_answers_are_right_are_told_apart(data: Path, name: str, rare: bool) -> None:
    opened = open_record(data / "recorded" / f"{name}.jsonl")
    found = matching(opened.ballot)
    assert found is not None
    assert found.rare == rare
    if not rare:
        return
    analysis = analyze(opened, Settings())
    # It warns, and does not override the gain that was measured.
    assert analysis.decision.verdict is not None and not analysis.decision.because.startswith(RARE)
    assert "answers_rarely_equal" in {note.code for note in analysis.warnings}


class _Rename(ast.NodeTransformer):
    """Gives every name that a function assigns or takes another one, so that no two texts are equal."""

    def __init__(self, tree: ast.AST, tail: str) -> None:
        names = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        self.names = {name: f"{name}_{tail}" for name in names}

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self.names.get(node.arg, node.arg)
        return node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node


def rewritten(source: str, tail: str) -> str:
    tree = ast.parse(source)
    return ast.unparse(_Rename(tree, tail).visit(tree))


def mutated(source: str, how: int) -> str:
    """Return the program with what it returns changed: a wrong one that runs."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            node.value = ast.Tuple([node.value, ast.Constant(how % 2)], ast.Load())
    return rewritten(ast.unparse(ast.fix_missing_locations(tree)), f"m{how}")


PATHS, RIGHT = 6, 4


def test_programs_that_all_differ_are_a_warning_by_text_and_a_curve_by_outcome(data: Path) -> None:
    """Four right programs written differently, and two wrong ones, of each question."""
    if shutil.which("bwrap") is None:
        reason = "bubblewrap is not installed: apt-get install bubblewrap"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    lines = (data / "benchmarks" / "mbpp.jsonl").read_text("utf-8").splitlines()
    task = load("task", "mbpp")
    items = [task.to_item(json.loads(line)) for line in lines]
    items = [item for item in items if "return" in item.meta["solution"]][:12]
    by_text: list[Question] = []
    by_outcome: list[Question] = []
    for item in items:
        source = item.meta["solution"]
        programs = [rewritten(source, f"p{i}") for i in range(RIGHT)]
        programs += [mutated(source, i) for i in range(RIGHT, PATHS)]
        judged = [task.judge(item, Completion(f"```python\n{program}\n```")) for program in programs]
        right = tuple(int(each.correct or 0) for each in judged)
        by_text.append(Question(item.id, tuple(programs), correct=right))
        by_outcome.append(
            Question(item.id, tuple(programs), keys=tuple(j.key for j in judged), correct=right)
        )
    assert sum(question.correct == (1,) * RIGHT + (0,) * (PATHS - RIGHT) for question in by_text) >= 10
    text = matching(record(by_text).ballot)
    assert text is not None
    assert text.rare
    assert text.right_agreement == pytest.approx(0, abs=0.2)
    assert analyze(record(by_text), Settings()).decision.verdict != "vote"
    outcome = record([question for question in by_outcome if sum(question.correct or ()) == RIGHT])
    found = matching(outcome.ballot)
    assert found is not None
    assert found.right_agreement == 1
    assert not found.rare
    curve = plurality_at_k_items(outcome.ballot.votes).mean(axis=0)
    assert curve == pytest.approx([enumerated(outcome, k) for k in range(1, PATHS + 1)])


def enumerated(opened: Record, k: int) -> float:
    """Return the accuracy of the plurality of k paths over all subsets, ties split evenly."""
    total = 0.0
    for keys, right in zip(opened.ballot.keys, opened.ballot.votes.correct, strict=True):
        for chosen in combinations(range(PATHS), k):
            votes = [(keys[i], right[i]) for i in chosen if keys[i] is not None]
            names = {key for key, _ in votes}
            counts = {name: sum(key == name for key, _ in votes) for name in names}
            top = [name for name in names if counts[name] == max(counts.values())]
            good = [name for name in top if any(y for key, y in votes if key == name)]
            total += len(good) / len(top) if top else 0.0
    return total / comb(PATHS, k) / len(opened.ballot.keys)


def test_a_space_asked_for_reads_the_texts_of_a_log_again(tmp_path: Path) -> None:
    texts = [
        '{"a": 1, "why": "x"}',
        '```json\n{"why": "y", "a": 1.0}\n```',
        '{"a": 2, "why": "z"}',
        '{"a": 1, "a": 2}',
    ]
    row = {"id": "q", "gold_answer": '{"a": 1}', "all_answers": ["}", "```", "}", "}"], "all_texts": texts}
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row | {"id": f"q{i}"}) + "\n" for i in range(6)))
    found = matching(open_record(log).ballot)
    assert found is not None
    read = open_record(log, Opening(answer_space="json:fields=a"))
    assert read.ballot.keys[0] == ('{"a":1}', '{"a":1}', '{"a":2}', None)
    assert read.ballot.votes.correct is not None
    assert read.ballot.votes.correct[0].tolist() == [1, 1, 0, 0]
    assert read.ballot.questions[0].texts is None
    found = matching(read.ballot)
    assert found is not None
    assert found.abstentions == {"duplicate name 'a'": 6}
    assert "paths that abstained: duplicate name 'a' 6" in "\n".join(_told(read))


def _told(opened: Record) -> list[str]:
    from keff.analysis.matching import agreement_sentences

    return list(agreement_sentences(matching(opened.ballot)))


@pytest.mark.parametrize(
    ("answer", "gold", "space"),
    [
        ("12.0", "12", "numeric"),
        ("$12$", "12", "numeric"),
        ("Paris.", "paris", "text"),
        (r"\frac{1}{2}", "0.5", "numeric"),
    ],
)
def test_gold_answers_that_are_equal_in_another_space_are_said(answer: str, gold: str, space: str) -> None:
    questions = [Question(f"q{i}", (answer, "7", "8"), gold=gold) for i in range(12)]
    (note,) = (
        note for note in analyze(record(questions), Settings()).warnings if note.code == "gold_unequal"
    )
    assert f"{gold!r} as {space} (--answer-space {space})" in note.message


def test_answer_spaces_of_extras_that_are_missing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        if name in ("math", "quantity"):
            raise PluginError(f"space {name} needs a package")
        return answers.space(name)

    monkeypatch.setattr("keff.analysis.matching.space_of", missing)
    assert equal_under("5 km", "5000 m") is None
    assert equal_under("Paris.", "paris") == "text"


def test_whole_numbers_ask_no_answer_space_unless_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert equal_under("033", "33") == "numeric"
    assert equal_under("33", "33.0") == "numeric"
    monkeypatch.setattr("keff.analysis.matching.space_of", None)
    assert equal_under("33", ["34", "330"]) is None


def test_gold_answers_that_the_log_judged_are_not_judged_again() -> None:
    questions = [Question(f"q{i}", ("12.0", "7"), gold="12", correct=(0, 0)) for i in range(12)]
    assert "gold_unequal" not in {note.code for note in analyze(record(questions), Settings()).warnings}


def test_repeats_that_are_taken_for_questions_are_said(tmp_path: Path) -> None:
    file = tmp_path / "traces.jsonl"
    rows = ({"id": f"t{i}", "input": f"{i % 12} + 1?", "answer": str(i % 12 + 1)} for i in range(36))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = analyze(open_record(file), Settings())
    assert any(note.code == "one_path_each" and "36 ids" in note.message for note in found.warnings)
    found = analyze(open_record(file, Opening(columns="id=input")), Settings())
    assert (found.n, found.k) == (12, 3)
