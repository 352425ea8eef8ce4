"""keff read: what a reading does to the texts of a record."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import command_line
from command_line import keff
from keff.errors import LogError, UsageError
from keff.reading.open import Opening
from keff.reading.survey import survey


@pytest.fixture
def log(tmp_path: Path) -> Path:
    texts = [
        "The answer is 4.",
        "#### 1 000",
        "I cannot say\x1b[K",
        "I cannot say\x1b[K",
        "x = [bold]5[/bold]",
    ]
    rows = [{"id": f"q{i}", "all_answers": [None] * 5, "all_texts": texts} for i in range(30)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rules_keys_and_unread_endings_are_counted(log: Path) -> None:
    found = survey(log, Opening(answer_space="numeric"), size=7)
    assert (found.space, found.whole, found.questions, found.texts, found.read) == (
        "numeric",
        True,
        30,
        150,
        90,
    )
    assert found.rules == {"no answer": 60, "marker": 30, "####": 30, "last number": 30}
    assert found.endings == {"I cannot say\x1b[K": 60}
    assert found.agreement == 0
    assert len(found.sample) == 7
    assert {each.key for each in found.sample} <= {"4", "1000", "5", None}
    assert survey(log, Opening(answer_space="numeric"), size=7) == found


def test_the_command_shows_it_and_no_text_moves_the_cursor(log: Path) -> None:
    done = command_line.keff("read", log, "--answer-space", "numeric", "--show", 100)
    assert done.returncode == 0
    told = (
        "keff finds an answer in 90 of 150 texts (answer space numeric). Two answers to a question agree 0%"
    )
    assert done.stdout.startswith(told)
    assert "\x1b" not in done.stdout
    narrow = command_line.keff("read", log, "--answer-space", "numeric", COLUMNS="80").stdout.splitlines()
    assert max(map(len, narrow)) <= 80
    assert any(re.fullmatch("question +rule +answer +key +end of the text *", line) for line in narrow)
    told = json.loads(command_line.keff("read", log, "--answer-space", "numeric", "--json").stdout)
    assert told["rules"]["no answer"] == 60


def test_what_cannot_be_read_is_one_line(tmp_path: Path, log: Path) -> None:
    scores = tmp_path / "scores.jsonl"
    scores.write_text('{"id": "a", "all_answers": [null, null], "all_correct": [1, 0]}\n')
    with pytest.raises(UsageError, match="unknown answer space 'numbers'"):
        survey(log, Opening(answer_space="numbers"))
    with pytest.raises(LogError, match="does not exist"):
        survey(tmp_path / "none.jsonl", Opening())


def test_every_answer_of_a_log_is_surveyed(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    rows = [["4", "4.0", None], ["", " 5", "x"], ["7", None, ""], [None, None, None]]
    lines = [
        json.dumps({"id": f"q{n}", "gold_answer": "4", "all_answers": row}) for n, row in enumerate(rows)
    ]
    log.write_text("\n".join(lines))
    found = survey(log, Opening(answer_space="numeric"), size=50)
    assert (found.agreement, found.read) == (1.0, 4)
    assert found.texts == len(found.sample) == 12


def test_options_of_the_reader_count(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text("".join(f'{{"nr": "q{n}", "guess": "{n}", "answer": "x"}}\n' for n in range(3)))
    seen = survey(file, Opening(columns="id=nr,answer=guess"))
    assert [each.answer for each in seen.sample] == ["0", "1", "2"]


@pytest.mark.parametrize(
    "header", ["nr,guess,truth", "uuid,reply,gold", "q,my_pred,target", "key_,out_1,out_2"]
)
def test_what_keff_read_recommends_it_takes(tmp_path: Path, header: str) -> None:
    (tmp_path / "log.csv").write_text(f"{header}\nq1,4,4\nq2,5,4\n")
    refused = keff("read", "log.csv", cwd=tmp_path)
    assert refused.returncode == 2
    (remedy,) = re.findall(r"--columns (\S+)", refused.stderr)
    done = keff("read", "log.csv", "--columns", remedy, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["questions"] == 2


def test_the_first_paths_are_surveyed_where_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("id,gold,answer_1,answer_2\nq1,4,4,5\nq2,5,4,5\n")
    found = survey(tmp_path / "log.csv", Opening(trim=1))
    assert [each.answer for each in found.sample] == ["4", "4"]
