"""One way in: the same numbers whatever holds the answers, and one clear line for what does not fit."""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keff
from keff.errors import KeffError, UsageError
from keff.reading.open import Opening, open_record
from keff.reading.source import record_of
from keff.stats.votes import Votes

pytestmark = pytest.mark.slow

FEW = keff.Settings(k_max=8)
"""The ways in are looked at here: nothing is predicted far beyond what was read."""
analyzed = partial(keff.analyze, settings=FEW)


@pytest.fixture(scope="module", autouse=True)
def _equal_votes_are_decided_once(decided_once: None) -> None:
    """Sources are compared here: where their votes are equal, so is what is found of them."""


N, K = 24, 6


def answers() -> list[list[str | None]]:
    rng = np.random.default_rng(4)
    right = rng.random((N, K)) < rng.beta(1.2, 0.8, (N, 1))
    text = np.where(right, "4", rng.choice(["5", "6", ""], (N, K)))
    return [[str(answer) or None for answer in row] for row in text]


ANSWERS = answers()
CORRECT = [[int(answer == "4") for answer in row] for row in ANSWERS]
GOLD = ["4"] * N
TOKENS = [[10.0 + place for place in range(K)] for _ in range(N)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "log.jsonl"
    rows = (
        {"id": str(place), "gold_answer": "4", "all_answers": row, "all_tokens": TOKENS[place]}
        for place, row in enumerate(ANSWERS)
    )
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def without_path(found: keff.Analysis) -> dict[str, Any]:
    return {name: value for name, value in found.to_dict().items() if name != "path"}


def test_a_path_a_record_votes_and_lists_say_the_same(log: Path) -> None:
    whole = analyzed(log)
    record = open_record(log, Opening())
    assert analyzed(str(log)) == analyzed(record) == whole
    assert analyzed(record.ballot.votes) == whole
    assert analyzed(ANSWERS, gold_answer=GOLD, tokens=TOKENS) == whole
    assert analyzed(np.array(ANSWERS, object), gold_answer=np.array(GOLD), tokens=np.array(TOKENS)) == whole
    assert analyzed(ANSWERS, correct=CORRECT, tokens=TOKENS) == whole


@pytest.mark.parametrize("kind", [int, bool, float, np.uint8])
def test_an_array_of_correctness_is_scores(kind: type) -> None:
    found = analyzed(np.array(CORRECT).astype(kind))
    whole = analyzed(ANSWERS, gold_answer=GOLD)
    assert (found.n, found.k, found.c, found.k_star) == (N, K, whole.c, whole.k_star)
    # Where only correctness is known fewer patterns are summed, so the last bit may differ.
    assert found.majority == pytest.approx(whole.majority, rel=1e-12)
    assert found.plurality is None
    assert analyzed(CORRECT) == analyzed(Votes.from_correct(CORRECT)) == found


def test_missing_paths_are_as_if_they_were_not_drawn() -> None:
    matrix = np.array(CORRECT, float)
    matrix[3, 1] = matrix[7, 5] = np.nan
    found = analyzed(matrix)
    assert found.k == K - 1
    assert "trimmed" in [note.code for note in found.warnings]
    kept = [[value for value in row if value == value][: K - 1] for row in matrix.tolist()]
    assert found.c == analyzed(np.array(kept)).c
    matrix[:12, 2:] = np.nan
    with pytest.raises(KeffError, match="would drop"):
        analyzed(matrix)
    assert analyzed(matrix, trim=1).k == 1


def test_ragged_lists_are_told_the_keyword() -> None:
    with pytest.raises(KeffError, match="say how many with trim=9"):
        record_of([["a", "b"], ["a", "b", "c"], ["a"] * 9], {"gold_answer": ["a"] * 3})


def test_of_what_was_broken_off_the_questions_with_most_paths_count(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    sizes = [4] * 19 + [1]
    rows = ({"id": str(i), "gold_answer": "1", "all_answers": ["1"] * k} for i, k in enumerate(sizes))
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(KeffError, match="say how many with --trim 4"):
        open_record(log)
    votes = open_record(log, Opening(partial=True)).ballot.votes
    assert (votes.n, votes.k) == (19, 4)


def test_answers_without_labels_are_asked_for() -> None:
    found = analyzed(ANSWERS, gold_answer=None)
    assert found.p is None
    assert found.agreement is not None


def test_data_beside_the_answers_are_taken() -> None:
    clusters = [f"passage {place // 2}" for place in range(N)]
    confidence = np.linspace(-1, 0, N * K).reshape(N, K)
    record = record_of(
        ANSWERS,
        {
            "gold_answer": GOLD,
            "cluster": clusters,
            "slot": list(range(K)),
            "confidence": confidence,
            "id": range(100, 100 + N),
            "model": "m",
            "text": [[f"so {answer}" for answer in row] for row in ANSWERS],
        },
    )
    votes, questions = record.ballot.votes, record.ballot.questions
    assert votes.n_clusters == N / 2
    assert votes.slots is not None and votes.slots.tolist() == list(range(K))
    assert votes.confidences is not None and np.array_equal(votes.confidences, confidence)
    assert (questions[0].id, questions[0].texts and questions[0].texts[0]) == ("100", f"so {ANSWERS[0][0]}")
    assert record.info.model == "m"


def test_answers_are_compared_in_the_space_that_is_named() -> None:
    rows = [["4", "4.0", " 4 "], ["5", "$5", "6"]]
    assert analyzed(rows, gold_answer=["4", "5"]).p == pytest.approx(3 / 6)
    assert analyzed(rows, gold_answer=["4", "5"], answer_space="numeric").p == pytest.approx(5 / 6)
    assert analyzed(np.array([[4.0, np.nan], [6.0, 6.0]]), gold_answer=[4, 6]).p == pytest.approx(3 / 4)


BAD: list[tuple[Any, dict[str, Any], str]] = [
    (np.array([[0, 1], [2, 1]]), {}, "holds 0, 1 and NaN .missing., not 2"),
    (np.array([[0.5, 1]]), {}, "not 0.5"),
    (np.array([0, 1, 1]), {}, "2 dimensions, not 1"),
    (np.zeros((2, 2, 2)), {}, "2 dimensions, not 3"),
    (np.array([["4", None]], object), {}, "need gold answers: give gold_answer"),
    (np.array([["4", "5"]]), {}, "need gold answers"),
    ([["4", "5"]], {}, "need gold answers"),
    ([["4", "5"]], {"gold_answer": ["4", "4"]}, "gold_answer has 2 values for 1 questions"),
    ([["4", "5"]], {"gold_answer": "4"}, "gold_answer must be a list with one value per question"),
    (
        [["4", "5"]],
        {"gold_answer": ["4"], "tokens": [[1]]},
        "question 0: all_tokens has 1 entries for 2 answers",
    ),
    ([["4", "5"]], {"gold": ["4"]}, "no keyword 'gold': there are answer_space"),
    ([["4", "5"]], {"gold_answers": ["4"]}, "did you mean gold_answer"),
    ([["4", "5"]], {"gold_answer": ["4"], "answer_space": "number"}, "number"),
    (["4", "5"], {"gold_answer": ["4", "5"]}, "one list of paths per question"),
    ([], {}, "there are no questions"),
    (np.empty((3, 0)), {}, "no paths"),
    (3, {}, "an? int holds no answers: give a path"),
    (None, {}, "NoneType holds no answers"),
    (np.array([[1.0, np.nan]]), {"tokens": [[1, 2]]}, "tokens cannot be matched"),
    ("nowhere.jsonl", {}, "does not exist"),
    ("nowhere.jsonl", {"answer": "a"}, "leave out answer"),
    (Votes.from_correct([[1, 0]]), {"trim": 1}, "leave out trim"),
]


@pytest.mark.parametrize(("source", "how", "line"), BAD)
def test_what_does_not_fit_is_said_in_one_line(source: Any, how: dict[str, Any], line: str) -> None:
    with pytest.raises(KeffError, match=line) as error:
        analyzed(source, **how)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)


def test_slots_and_parts_are_chosen_by_the_string(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    row = {"gold_answer": "4", "slots": [0, 0, 1, 1]}
    lines = [row | {"id": str(i), "all_answers": ["4", "4", "5", "4"]} for i in range(4)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert analyzed(f"{file}#1").k == 2
    assert keff.compare(f"{file}#0", f"{file}#1").shared_items == 4


def test_two_arms_of_lists_are_paired_by_place() -> None:
    other = [row[::-1] for row in ANSWERS]
    found = keff.compare(ANSWERS, other, gold_answer=GOLD)
    assert found.shared_items == N
    assert found.delta_p.value == 0
    assert [arm.path for arm in found.arms] == ["A", "B"] and found.better.names == ("A", "B")


def test_policies_are_replayed_on_anything() -> None:
    found = keff.replay(ANSWERS, ["fixed:3", "lead_k:2,cap=6"], gold_answer=GOLD)
    assert found["fixed:3"].mean_paths == 3
    assert keff.replay(ANSWERS, "fixed:3", gold_answer=GOLD)["fixed:3"] == found["fixed:3"]
    with pytest.raises(KeffError, match="verdicts and no answers"):
        keff.replay(np.array(CORRECT), "fixed:3")


def test_weights_are_judged_on_anything() -> None:
    assert keff.combine(ANSWERS, gold_answer=GOLD).n == N


def test_a_frame_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    class Frame:
        columns = ("id", "answer")

    monkeypatch.setitem(sys.modules, "narwhals", None)
    monkeypatch.delitem(sys.modules, "keff.reading.frames", raising=False)
    with pytest.raises(KeffError, match=r"pip install .*\[frame\]'"):
        analyzed(Frame())


def test_the_paper_in_three_lines() -> None:
    y = np.array(CORRECT)
    c = keff.c(y)
    whole = analyzed(y)
    assert c == whole.c
    assert keff.k_eff(K, c) == whole.k_eff
    assert keff.k_eff(32, 0.4) == pytest.approx(32 / (1 + 31 * 0.4))
    assert keff.k_eff(np.array([1, 8]), 0.5).tolist() == pytest.approx([1, 8 / 4.5])
    assert keff.k_star(0.604) == keff.k_star(keff.Interval(0.604, None, None, "given")) == 6
    assert dict(enumerate(keff.majority(y), 1)) == pytest.approx(whole.majority)
    curve = keff.plurality(ANSWERS, gold_answer=GOLD)
    assert curve.shape == (K,)
    assert curve[0] == pytest.approx(np.mean(CORRECT))
    with pytest.raises(UsageError, match="does not say which wrong answers agree"):
        keff.plurality(y)
    with pytest.raises(UsageError, match="without gold answers"):
        keff.c(ANSWERS, gold_answer=None)
    with pytest.raises(UsageError, match="2 questions with 2 paths"):
        keff.c(y[:, :1])
    with pytest.raises(UsageError):
        keff.k_star(0.5, epsilon=-1)


def test_a_report_is_written_of_anything(tmp_path: Path, log: Path) -> None:
    pytest.importorskip("vl_convert")
    page = keff.write_report([str(log), log], tmp_path / "two.html")
    assert "2 runs" in page.read_text("utf-8")
    assert "correctness" not in keff.write_report(np.array(CORRECT), str(tmp_path / "one.html")).name
    with pytest.raises(UsageError, match="nowhere"):
        keff.write_report(log, tmp_path / "nowhere" / "x.html")


def test_a_path_may_be_text_wherever_one_is_taken(tmp_path: Path, log: Path) -> None:
    assert keff.open_record(str(log)).path == keff.open_record(log).path
    plan = keff.Plan(policy="fixed:8", estimates={})
    plan.write(str(tmp_path / "plan.json"))
    assert keff.Plan.read(str(tmp_path / "plan.json")) == keff.Plan.read(tmp_path / "plan.json") == plan
    folder, order = str(tmp_path / "run"), keff.Order(keff.Sampling(max_tokens=8), 2)
    task: Any = keff.load("task", "starter")
    job = keff.Job(task, keff.load("engine", "fake"), folder, order, 3)  # type: ignore[arg-type]
    asyncio.run(keff.execute(job))
    with keff.Run.open(folder) as run:
        assert run.done() == 3
    with keff.Run.edit(folder) as run:
        assert run.folder == Path(folder)
    assert keff.analyze(folder).n == 3
