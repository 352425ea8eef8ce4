"""Logs into runs and out again: nothing is lost on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import keff
from keff.errors import LogError, StoreError, UsageError
from keff.reading import transfer
from keff.reading.open import Opening, Record, open_record
from keff.reading.transfer import AT_ONCE, export_log, import_log

ROWS = [
    {
        "id": f"q{i}",
        "question": f"{i}+1?",
        "gold_answer": [str(i + 1), f"{i + 1}.0"] if i else "1",
        "all_answers": [str(i + 1), None, "7", "7.0"],
        "all_tokens": [3, 4, 5, 6],
        "all_confidences": [0.5, 0.25, 0.75, 1],
        "all_texts": ["so", "hm", "é\u2028", "7!"],
        "slots": [1, 2, 1, 2],
        "cluster": f"c{i // 2}",
        "answer_space": "numeric",
        "model": "m",
        "level": {"hard": i},
    }
    for i in range(4)
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return file


def same(first: Record, second: Record) -> None:
    assert list(first.ballot.keys) == list(second.ballot.keys)
    one, two = first.ballot.votes, second.ballot.votes
    for name in ("answers", "correct", "slots", "clusters", "tokens", "confidences"):
        a, b = getattr(one, name), getattr(two, name)
        assert (a is None) == (b is None), name
        assert a is None or a.tolist() == b.tolist(), name
    for a, b in zip(first.ballot.questions, second.ballot.questions, strict=True):
        assert (a.id, a.gold, a.question, a.texts, dict(a.meta)) == (
            b.id,
            b.gold,
            b.question,
            b.texts,
            dict(b.meta),
        )
    assert first.ballot.reading.space == second.ballot.reading.space
    assert first.info.model == second.info.model


@pytest.mark.parametrize("to", ["jsonl", "parquet"])
def test_a_log_that_goes_into_a_run_and_out_again_is_the_same(log: Path, tmp_path: Path, to: str) -> None:
    whole = Opening(texts=True)
    done = import_log(log, tmp_path / "run")
    assert (done.questions, done.paths) == (4, 16)
    same(open_record(log, whole), open_record(tmp_path / "run", whole))
    export_log(tmp_path / "run", tmp_path / f"out.{to}")
    same(open_record(log, whole), open_record(tmp_path / f"out.{to}", whole))


def test_importing_twice_changes_nothing(log: Path, tmp_path: Path) -> None:
    import_log(log, tmp_path / "run")
    before = open_record(tmp_path / "run")
    import_log(log, tmp_path / "run")
    same(before, open_record(tmp_path / "run"))


def test_a_run_takes_no_other_answers_of_the_same_questions(log: Path, tmp_path: Path) -> None:
    import_log(log, tmp_path / "run")
    before = open_record(tmp_path / "run")
    other = tmp_path / "other.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    for row in rows:
        row["all_answers"] = row["all_answers"][::-1]
        row.pop("all_texts", None)
    other.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(StoreError, match="other paths of item"):
        import_log(other, tmp_path / "run")
    same(before, open_record(tmp_path / "run"))


def test_more_questions_than_are_in_memory_at_a_time_all_arrive(tmp_path: Path) -> None:
    log = tmp_path / "long.jsonl"
    rows = ({"id": str(i), "gold_answer": "4", "all_answers": ["4", "5", ""]} for i in range(2 * AT_ONCE + 3))
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert import_log(log, tmp_path / "run").paths == 3 * (2 * AT_ONCE + 3)
    same(open_record(log), open_record(tmp_path / "run"))


def test_questions_without_paths_make_no_run(tmp_path: Path) -> None:
    log = tmp_path / "empty.jsonl"
    log.write_text('{"id": "1", "all_answers": []}\n')
    with pytest.raises(LogError, match="no paths"):
        import_log(log, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_is_wrong_with_a_log_names_it(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"id": "1", "all_answers": ["4"], "answer_space": "nonsense"}\n')
    with pytest.raises(LogError, match=r"log\.jsonl: .*nonsense"):
        import_log(log, tmp_path / "run")
    with pytest.raises(LogError, match=r"log\.jsonl: .*nonsense"):
        open_record(log)
    with pytest.raises(LogError, match=r"log\.jsonl: it has no part"):
        import_log(log, tmp_path / "run", Opening(part="other"))


def test_texts_stay_behind_when_asked(log: Path, tmp_path: Path) -> None:
    export_log(log, tmp_path / "out.jsonl", texts=False)
    assert "all_texts" not in (tmp_path / "out.jsonl").read_text()


def test_an_existing_file_is_never_overwritten_and_no_draft_is_left(log: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists already"):
        export_log(log, log)
    log.write_text(log.read_text().replace('"all_answers": ["4"', '"all_answers": ["4", "extra"', 1))
    with pytest.raises(LogError):
        export_log(log, tmp_path / "out.jsonl")
    assert [file.name for file in tmp_path.iterdir()] == ["log.jsonl"]


def test_records_of_correctness_alone_have_no_answers_to_keep(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    row = {"task": "mbpp", "method": "sc", "seed": 1, "instance_id": "a", "K": 2, "all_correct": [1, 0]}
    file.write_text(json.dumps(row) + "\n")
    with pytest.raises(LogError, match="correctness only"):
        import_log(file, tmp_path / "run")


@pytest.mark.parametrize("to", ["jsonl", "parquet"])
def test_votes_are_one_row_per_question(tmp_path: Path, to: str) -> None:
    log = tmp_path / "votes.jsonl"
    rows = [
        {"id": "a", "gold_answer": "4", "all_answers": ["5", "4", "4.0", None]},
        {"id": "b", "gold_answer": "4", "all_answers": ["5", "4", None, None]},
        {"id": "c", "gold_answer": "4", "all_answers": [None, None, None, None]},
    ]
    log.write_text("".join(json.dumps(row | {"answer_space": "numeric"}) + "\n" for row in rows))
    out = tmp_path / f"out.{to}"
    export_log(log, out, votes=True)
    if to == "jsonl":
        found = [json.loads(line) for line in out.read_text().splitlines()]
    else:
        found = pytest.importorskip("pyarrow.parquet").read_table(out).to_pylist()
    assert [
        (row["id"], row["answer"], row["votes"], row["share"], row["tied"], row["correct"]) for row in found
    ] == [
        ("a", "4", 2, 0.5, False, 1.0),
        ("b", "5", 1, 0.25, True, 0.0),
        ("c", None, 0, 0.0, False, 0.0),
    ]


def test_a_name_as_long_as_a_file_system_allows_is_exported_to(log: Path, tmp_path: Path) -> None:
    out = tmp_path / ("x" * 249 + ".jsonl")
    export_log(log, out)
    assert out.exists()
    with pytest.raises(UsageError, match="name too long"):
        export_log(log, tmp_path / ("x" * 300))


@pytest.mark.slow
def test_a_killed_import_is_not_taken_as_whole(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**ROWS[1], "id": f"q{i}"} for i in range(3 * AT_ONCE + 5)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run, whole = tmp_path / "run", transfer._import
    asked: list[object] = []

    def killed(*given: Any) -> None:
        asked.append(given)
        if len(asked) == 3:
            raise KeyboardInterrupt
        whole(*given)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(transfer, "_import", killed)
        import_log(log, run)
    line = f"{2 * AT_ONCE} of {len(rows)} questions; run import again"
    out = ("-o", tmp_path / "out")
    for command in (
        ("analyze", run),
        ("replay", run, "fixed:2"),
        ("report", run, *out),
        ("export", run, *out),
        ("export", run, "--votes", *out),
        ("read", run),
        ("tables", run),
        ("join", log, run, *out),
        ("import", run, "--run", tmp_path / "other"),
    ):
        done = keff(*command)
        assert (done.returncode, line in done.stderr) == (2, True), (command, done.stderr)
        assert not (tmp_path / "out").exists()
    done = keff("export", run, "--partial", *out)
    assert done.returncode == 0
    assert line in done.stderr
    assert (tmp_path / "out").read_text().count("\n") == 2 * AT_ONCE
    done = keff("analyze", run, "--partial", "--json")
    assert done.returncode == 0
    assert {note["code"] for note in json.loads(done.stdout)["warnings"]} >= {"partial"}
    assert len(open_record(run, Opening(partial=True)).ballot.questions) == 2 * AT_ONCE
    import_log(log, run)
    assert len(open_record(run).ballot.questions) == len(rows)


def test_whose_verdicts_count_is_said(log: Path, tmp_path: Path) -> None:
    """A grader that calls right what the gold answer does not: its word stays until asked otherwise."""
    graded = [{**row, "all_texts": ["1", "", "7", "7.0"], "all_correct": [0, 0, 1, 1]} for row in ROWS[:1]]
    log.write_text("".join(json.dumps(row) + "\n" for row in graded))
    run = tmp_path / "run"
    import_log(log, run)
    for path in (log, run):
        plain, asked = open_record(path), open_record(path, Opening(answer_space="numeric"))
        again = open_record(path, Opening(answer_space="numeric", rescore=True))
        assert plain.ballot.votes.p == asked.ballot.votes.p == 0.5
        assert again.ballot.votes.p == 0.25
        said = [{note.code for note in one.ballot.notes} for one in (plain, asked, again)]
        assert [codes & {"verdicts_of_the_log", "rescored"} for codes in said] == [
            set(),
            {"verdicts_of_the_log"},
            {"rescored"},
        ]
    for row in graded:
        del row["gold_answer"]
    log.write_text("".join(json.dumps(row) + "\n" for row in graded))
    with pytest.raises(LogError, match="--rescore needs gold answers"):
        open_record(log, Opening(rescore=True))
