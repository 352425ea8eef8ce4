"""What comes in: how many paths, NaN, structured answers, duplicate keys; and memory that stays bounded."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from command_line import keff
from keff.errors import LogError
from keff.reading import admit
from keff.reading.admit import EXACT_PATHS, MOST_PATHS, memory_left
from keff.reading.open import Opening, open_record, read_log
from keff.reading.transfer import import_log


def log(folder: Path, *rows: object) -> Path:
    file = folder / "log.jsonl"
    file.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return file


def long(folder: Path, k: int, n: int = 3) -> Path:
    answers = ["4" if place % 3 else "5" for place in range(k)]
    return log(folder, *({"id": f"q{i}", "gold_answer": "4", "all_answers": answers} for i in range(n)))


def test_records_up_to_the_most_paths_are_analysed_by_their_first_ones(tmp_path: Path) -> None:
    record = open_record(long(tmp_path, MOST_PATHS))
    assert record.ballot.votes.k == EXACT_PATHS
    assert "long_record" in {note.code for note in record.ballot.notes}
    assert record.ballot.votes.p == pytest.approx(
        sum(place % 3 > 0 for place in range(EXACT_PATHS)) / EXACT_PATHS
    )


def test_more_paths_are_refused_with_the_way_out(tmp_path: Path) -> None:
    file = long(tmp_path, MOST_PATHS + 1)
    done = keff("analyze", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--trim {MOST_PATHS}" in done.stderr
    assert open_record(file, Opening(trim=40)).ballot.votes.k == 40
    with pytest.raises(LogError, match=f"at most {MOST_PATHS} paths"):
        open_record(file, Opening(trim=MOST_PATHS + 1))


@pytest.mark.slow
@pytest.mark.parametrize("k", [100_000, 400_000])
def test_a_very_long_question_takes_memory_like_its_file(tmp_path: Path, k: int) -> None:
    row = json.dumps({"id": "q", "gold_answer": "4", "all_answers": ["4"] * 10})
    file = log(tmp_path, row.replace('["4"', "[" + '"4", ' * (k - 10) + '"4"', 1))
    tracemalloc.start()
    try:
        with pytest.raises(LogError, match="--trim"):
            open_record(file)
        assert tracemalloc.get_traced_memory()[1] < 60 * file.stat().st_size + 2**24
    finally:
        tracemalloc.stop()


def test_an_import_keeps_any_number_of_paths(tmp_path: Path) -> None:
    assert import_log(long(tmp_path, MOST_PATHS + 1, 1), tmp_path / "run").paths == MOST_PATHS + 1


def test_nan_abstains_and_is_said(tmp_path: Path) -> None:
    record = open_record(log(tmp_path, '{"id": "q", "gold_answer": NaN, "all_answers": [NaN, 4.0, 4]}'))
    assert tuple(record.ballot.keys) == ((None, "4", "4"),)
    assert record.ballot.votes.correct is None
    assert "1 answers are NaN" in next(
        note.message for note in record.ballot.notes if note.code == "nan_answers"
    )


@pytest.mark.parametrize("answer", [["4"], {"value": 4}])
def test_structured_answers_are_refused_where_the_space_does_not_compare_them(
    tmp_path: Path, answer: object
) -> None:
    file = log(tmp_path, {"id": "q7", "all_answers": [answer, "4"]})
    with pytest.raises(LogError, match=r"'q7' has a list or an object as an answer.*--answer-space json"):
        open_record(file)
    with pytest.raises(LogError, match="a list or an object"):
        import_log(file, tmp_path / "run")


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    good = {"id": "p", "all_answers": ["4"]}
    file = log(tmp_path, good, '{"id": "q", "all_answers": ["4"], "all_answers": ["5"]}')
    with pytest.raises(LogError, match=r"log\.jsonl:2: not JSON \(duplicate name 'all_answers'\)"):
        open_record(file)


def test_a_file_of_blank_lines_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "blank.jsonl"
    file.write_bytes(b"\n" * 3_000_000)
    with pytest.raises(LogError, match="blank lines: not a log"):
        open_record(file)
    file.write_bytes(b'{"id": "q", "all_answers": ["4"]}\n' + b"\n" * 3_000_000)
    with pytest.raises(LogError, match="blank lines: not a log"):
        open_record(file)


@pytest.mark.parametrize("command", ["analyze", "report", "replay"])
def test_a_name_that_no_file_can_have_is_one_line(command: str, tmp_path: Path) -> None:
    done = keff(command, tmp_path / ("x" * 300))
    assert done.returncode == 2
    assert "too long" in done.stderr.lower()
    assert "Traceback" not in done.stderr


def test_a_json_text_of_too_many_values_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keff.logs.parts.lines.MOST_VALUES", 1000)
    file = log(
        tmp_path, {"id": "p", "all_answers": ["4"]}, '{"id": "q", "all_answers": [' + "[]," * 2000 + "[]]}"
    )
    with pytest.raises(LogError, match="more than 1,000 values"):
        open_record(file)


def test_of_more_than_fits_in_memory_a_sample_of_whole_clusters_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def rows(answer: str) -> list[dict[str, object]]:
        return [{"id": f"q{i}", "cluster": f"c{i // 2}", "all_answers": [answer] * 2} for i in range(800)]

    (tmp_path / "other").mkdir()
    files = [log(tmp_path, *rows("4")), log(tmp_path / "other", *rows("5"))]
    whole = read_log(files[0], Opening())
    assert (len(whole.questions), whole.notes) == (800, [])

    monkeypatch.setattr(admit, "LOOK", 100)
    monkeypatch.setattr("keff.logs.keff_jsonl.ROWS", 100)
    kept: list[list[str]] = []
    for file in files:
        left = iter([1000.0, 900.0, 400.0])
        monkeypatch.setattr(admit, "memory_left", lambda left=left: next(left))
        caplog.clear()
        some = read_log(file, Opening())
        assert "memory runs short after 200 questions" in caplog.text  # before anything is analysed
        names = [question.id for question in some.questions]
        (note,) = some.notes
        assert note.code == "sampled"
        assert f"800 questions do not fit in memory, so keff uses {len(names)} of them" in note.message
        # Never as many as were there when memory ran short, and no cluster in part.
        assert 0 < len(names) < 200
        assert len(names) == 2 * len({question.cluster for question in some.questions})
        kept.append(names)
    assert kept[0] == kept[1], "records of the same questions keep the same ones"


def test_free_memory_is_known_here() -> None:
    if not Path("/proc/meminfo").exists():
        pytest.skip("this system does not say how much memory is free")
    assert 2**20 < memory_left() < 2**50
