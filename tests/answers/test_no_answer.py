"""Words for "no answer" do not vote, in any space, reader or command; kept words do."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import command_line
import keff
from keff import answers

BRACKETS = ["{}", "[{}]", "<{}>", '"{}"', "**{}**", "{}.", " {} "]
WORDS = ["None", "null", "N/A", "#N/A", "NaN", "NO CONSENSUS", "ERROR", "no answer", "no_answer_found"]
SENTENCES = [
    "failed to extract an answer",
    "Could not parse the output.",
    "EXTRACTION_FAILED",
    "parse error",
    "No valid answer was found",
    "answer not found",
    "ERROR: timed out after 30 s",
    "ValueError: expected 3 values",
    "[invalid]",
    "<unanswered>",
    "无法提取",
    "회답 없음".replace("회답", "답변"),
    "Нет ответа",
    "कोई उत्तर नहीं",
    "未能提取到有效答案",
    "RateLimitError",
    "429 Too Many Requests",
    "Request timed out.",
    "maximum context length exceeded",
    "[unparseable]",
    "<your answer here>",
    "I'm sorry, but I can't answer this question.",
    "I do not know.",
    "no majority",
    r"\boxed{}",
]
SPACES = ["exact", "text", "numeric", "choice", "binary", "math", "json", "list", "set", "date"]
ANSWERS = ["Na", "invalid", "nothing", "no", "unknown", "error bars", "nano", "none of the above"]
ANSWERS += [
    "I do not know of any city but Paris",
    "cannot be determined",
    "TypeError",
    "timeout",
    "404",
    "429 BC",
]


def _votes(word: str, right: int = 2, wrong: int = 4) -> list[str]:
    return ["12"] * right + [word] * wrong


@pytest.mark.parametrize("space", SPACES)
def test_no_space_has_a_key_for_them(space: str) -> None:
    made = answers.space(space)
    for word in [*SENTENCES, *(frame.format(word) for frame, word in itertools.product(BRACKETS, WORDS))]:
        assert made.key(word) is None, word
        assert not made.correct(word, word)


@pytest.mark.parametrize("word", ANSWERS)
def test_words_that_are_answers_vote(word: str) -> None:
    assert answers.space("text").key(word) is not None


@pytest.mark.parametrize("space", ["numeric", "text", "math", "choice", "binary", "list"])
@pytest.mark.parametrize("word", ["N/A", "None", "[invalid]", "no answer found"])
def test_a_text_that_states_none_does_not_vote_for_what_stands_before(space: str, word: str) -> None:
    text = f"There were 12 of them, so yes, B.\nFinal answer: {word}"
    assert answers.read(answers.space(space), text).key is None


def test_a_document_whose_answer_is_null_abstains() -> None:
    for document in (
        '{"answer": null}',
        '{"answer": "N/A", "why": "not 12"}',
        '```json\n{"answer": null}\n```',
    ):
        assert answers.read(answers.space("numeric"), document).key is None


@pytest.mark.parametrize("word", ["NA", "None", "null", "ERROR"])
def test_a_kept_word_is_an_answer(word: str) -> None:
    for spec in (f"text:keep={word}", f"exact:keep=N/A,{word}", f"list:inner=text:keep={word}"):
        space = answers.space(spec)
        assert space.key(word) is not None and space.correct(word, word), spec
    assert answers.space("label", labels=[word, "FR"]).key(word) == word
    assert answers.space("choice", labels="A,B", options=["x", word]).key(word) == "B"


def test_none_is_a_value_of_python() -> None:
    assert answers.space("literal").key("None") == "None"
    assert answers.space("literal").correct("'NA'", "'NA'")


def _table(folder: Path, words: list[str], *, questions: int = 24) -> tuple[Path, float]:
    """Write a table in which words stand for missing answers, and return the mean correctness of a path."""
    rng = np.random.default_rng(5)
    right = 0
    file = folder / "answers.csv"
    with file.open("w", encoding="utf-8", newline="") as out:
        table = csv.writer(out)
        table.writerow(["id", "answer", "gold_answer", "tokens"])
        for number, path in itertools.product(range(questions), range(6)):
            answered = rng.random() < 0.5
            right += answered
            said = f"town {number}" if answered else words[(number + path) % len(words)]
            table.writerow([f"q{number}", said, f"town {number}", "NA" if path == 5 else 20 + path])
    return file, right / (questions * 6)


def test_a_file_and_two_frames_are_read_the_same(tmp_path: Path) -> None:
    file, share = _table(tmp_path, ["NA", "None", "N/A", "null", "#N/A", "<NA>", "nan", ""])
    found = [
        {**keff.analyze(source).to_dict(), "warnings": None}
        for source in (str(file), pl.read_csv(file), pd.read_csv(file))
    ]
    assert found[0] == found[1] == found[2]
    assert found[0]["p"] == pytest.approx(share)


def test_a_command_says_which_words_and_how_to_keep_one(tmp_path: Path) -> None:
    file, _ = _table(tmp_path, ["NA", "[NO CONSENSUS]"])
    said = command_line.keff("analyze", str(file)).stderr
    assert "'NA'" in said and "do not vote" in said
    advice = said.split("keep it: ")[1].split("\n")[0].split(" ")
    kept = command_line.keff("analyze", str(file), *advice)
    assert kept.returncode == 0 and "'NA'" not in kept.stderr.split("do not vote")[0]


def test_gold_that_is_such_a_word_is_left_out_and_said(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    rows = [{"id": n, "all_answers": ["NA", "FR"], "gold_answer": "NA" if n % 2 else "FR"} for n in range(20)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    said = command_line.keff("analyze", str(file), "--json")
    assert "10 gold answers say that there is none" in said.stdout
    kept = command_line.keff("analyze", str(file), "--json", "--answer-space", "text:keep=NA")
    assert "say that there is none" not in kept.stdout


@pytest.mark.parametrize("word", ["NA", "Not found", "[invalid]"])
def test_a_word_that_the_log_marks_right_is_an_answer(word: str, tmp_path: Path) -> None:
    """As many right ones as wrong: the verdicts alone say that the word is no missing answer."""
    rows = [
        {
            "id": n,
            "all_answers": [gold, word, "Oslo"],
            "gold_answer": gold,
            "all_correct": [1, gold == word, 0],
        }
        for n, gold in enumerate([word, "Rome", "Paris", "Kyiv"] * 6)
    ]
    for space in ("exact", "text"):
        found = keff.noise(_written(tmp_path, rows), answer_space=space)
        codes = [note.code for note in found.warnings]
        assert found.score.value == pytest.approx((6 + 24) / 72) and "words_kept" in codes, space
        assert not {"answers_say_none", "gold_says_none", "abstained_correct"}.intersection(codes)
    # Marked right by mistake once in forty times, it stays a missing answer.
    rows = [
        row | {"gold_answer": "Oslo", "all_answers": ["Oslo", word, "x"], "all_correct": [1, not n, 0]}
        for n, row in enumerate(rows)
    ]
    assert "answers_say_none" in [note.code for note in keff.noise(_written(tmp_path, rows)).warnings]


@pytest.mark.parametrize(
    ("word", "cell"), [("not found", False), ("error", False), ("NA", True), ("None", True)]
)
def test_gold_that_is_a_word_is_met_by_it_unless_a_cell_may_be_empty(
    word: str, cell: bool, tmp_path: Path
) -> None:
    rows = [
        {"id": n, "all_answers": [gold, "Oslo"], "gold_answer": gold}
        for n, gold in enumerate([word, "Rome", "Paris", "Kyiv"] * 6)
    ]
    found = keff.noise(_written(tmp_path, rows))
    codes = {note.code for note in found.warnings}
    assert found.n == (18 if cell else 24) and found.score.value == pytest.approx(0.5)
    assert codes.intersection({"words_kept", "gold_says_none"}) == {
        "gold_says_none" if cell else "words_kept"
    }


def _written(folder: Path, rows: list[dict[str, object]]) -> str:
    file = folder / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("word", ["-999", "see log", "???"])
def test_an_unknown_word_that_wins_is_noted(tmp_path: Path, word: str) -> None:
    file, _ = _table(tmp_path, [word])
    assert "is right on none" in command_line.keff("analyze", str(file)).stderr


def test_a_wrong_answer_that_is_right_elsewhere_is_not_noted(tmp_path: Path) -> None:
    file, _ = _table(tmp_path, [f"town {n}" for n in range(24)])
    assert "is right on none" not in command_line.keff("analyze", str(file)).stderr


def test_a_vote_leaves_them_out() -> None:
    for word in WORDS:
        assert keff.vote(_votes(word), space="text").answer == "12"
        assert keff.vote(_votes(word), space=f"text:keep={word}").answer != "12"
