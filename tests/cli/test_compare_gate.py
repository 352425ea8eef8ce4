"""keff compare --gate as a pull request meets it: verdicts, exit codes, several logs, bad input."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keff as library
from command_line import Done, keff

N = 160
THETA = np.random.default_rng(0).beta(1.5, 0.4, N)


def log(file: Path, rows: Sequence[Sequence[object]], names: Sequence[str] | None = None) -> Path:
    """Write one line per question, of right (1) and wrong (0) answers, or of graded scores."""
    with file.open("w") as out:
        for place, row in enumerate(rows):
            line: dict[str, object] = {"id": names[place] if names else f"q{place}"}
            if all(value in (0, 1) for value in row):
                line |= {"gold_answer": "4", "all_answers": ["4" if value else "5" for value in row]}
            else:
                line |= {"all_scores": list(row)}
            out.write(json.dumps(line) + "\n")
    return file


def drawn(seed: int, k: int, theta: np.ndarray = THETA) -> list[list[int]]:
    return (np.random.default_rng(seed).random((theta.size, k)) < theta[:, None]).astype(int).tolist()


def broken(share: float = 0.15) -> np.ndarray:
    """Return the rates of a run that fails on the first questions of ``share``."""
    return np.where(np.arange(N) < share * N, 0.0, THETA)


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    return log(tmp_path / "baseline.jsonl", drawn(1, 8))


def gate(*arguments: object, points: float = 5, **environment: str) -> tuple[Done, dict[str, Any]]:
    done = keff("compare", *arguments, "--gate", points, "--json", **environment)
    return done, json.loads(done.stdout) if done.stdout else {}


def bad(*arguments: object) -> str:
    done = keff("compare", *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stdout
    assert done.stderr.count("\n") == 1
    return done.stderr


def codes(found: dict[str, Any]) -> set[str]:
    return {note["code"] for note in found["warnings"]}


def repeated(baseline: Path, theta: np.ndarray, *flags: object) -> tuple[Done, dict[str, Any], int]:
    """Repeat a run, a log for each repeat, until the gate asks for no more."""
    runs = list[Path]()
    while True:
        name = baseline.parent / f"run{len(runs)}.jsonl"
        runs.append(log(name, drawn(100 + len(runs), 1, theta)))
        done, found = gate(baseline, *runs, *flags)
        if done.returncode != 4:
            return done, found, len(runs)
        assert found["verdict"] == "repeat" and len(runs) < 8


def test_a_run_is_repeated_until_it_passes_or_is_worse(baseline: Path) -> None:
    done, found, repeats = repeated(baseline, THETA)
    assert (done.returncode, found["verdict"]) == (0, "pass") and repeats < 8
    assert found["difference"]["lo"] > -0.05 and found["repeats"] == [8, repeats]
    done, found, repeats = repeated(baseline, broken())
    assert (done.returncode, found["verdict"]) == (3, "worse") and repeats < 8
    assert found["difference"]["hi"] < 0


def test_the_questions_that_lost_are_named_from_two_repeats_on(baseline: Path, tmp_path: Path) -> None:
    _, early = gate(baseline, log(tmp_path / "1.jsonl", drawn(2, 1, broken())))
    assert early["regressed"] is None
    run = log(tmp_path / "4.jsonl", drawn(2, 4, broken()))
    _, found = gate(baseline, run)
    named = [int(each["id"][1:]) for each in found["regressed"]]
    assert len(named) >= 10 and np.mean(np.array(named) >= 0.15 * N) <= 0.2
    assert all(each["chance"] >= 0.9 for each in found["regressed"])
    assert not {each["id"] for each in found["flaky"]} & {each["id"] for each in found["regressed"]}
    assert (
        "needs two repeats of a question"
        in keff("compare", baseline, tmp_path / "1.jsonl", "--gate", 5).stdout
    )
    plain = json.loads(keff("compare", baseline, run, "--json").stdout)
    assert plain["better"]["regressed"] == found["regressed"]


def test_repeats_in_one_log_in_several_and_in_a_folder_are_one_run(baseline: Path, tmp_path: Path) -> None:
    rows = drawn(3, 3)
    folder = tmp_path / "runs"
    folder.mkdir()
    logs = [log(folder / f"{place}.jsonl", [[row[place]] for row in rows]) for place in range(3)]
    _, one = gate(baseline, log(tmp_path / "all.jsonl", rows))
    for several in (logs, logs[::-1], [folder]):
        _, found = gate(baseline, *several)
        assert {**found, "run": "", "warnings": []} == {**one, "run": "", "warnings": []}


def test_python_says_what_the_command_says(baseline: Path, tmp_path: Path) -> None:
    run = log(tmp_path / "run.jsonl", drawn(4, 2))
    _, found = gate(baseline, run, "--max-repeats", 5)
    said = library.compare(baseline, run, gate=5, max_repeats=5)
    assert isinstance(said, library.Gate) and json.loads(json.dumps(said.to_dict())) == found
    rows = library.compare(np.array(drawn(1, 8)), drawn(4, 2), gate=5, max_repeats=5)
    assert rows.difference == said.difference and rows.verdict == said.verdict


def test_undecided_is_said_and_fails_where_asked(tmp_path: Path) -> None:
    base, run = (log(tmp_path / f"{k}.jsonl", drawn(k, 8, THETA[:5] * 0 + 0.5)) for k in (1, 2))
    done, found = gate(base, run)
    assert (done.returncode, found["verdict"]) == (0, "undecided")
    assert {"too_noisy", "few_questions"} <= codes(found) and found["questions_needed"] > 5
    assert "Not decided" in keff("compare", base, run, "--gate", 5).stdout
    assert gate(base, run, "--fail-if-undecided")[0].returncode == 5
    assert keff("compare", base, run, "--fail-if-undecided").returncode == 5
    better = log(tmp_path / "good.jsonl", [[1] * 8] * 60)
    worse = log(tmp_path / "bad.jsonl", [[0] * 8] * 60)
    assert keff("compare", worse, better, "--fail-if-undecided").returncode == 0


def test_new_questions_count_as_a_sample_and_ask_for_no_repeat(baseline: Path, tmp_path: Path) -> None:
    theta = np.clip(THETA + np.random.default_rng(9).normal(0, 0.2, N), 0, 1)
    run = log(tmp_path / "run.jsonl", drawn(5, 8, theta))
    _, these = gate(baseline, run)
    done, new = gate(baseline, run, "--new-questions")
    wide = [found["difference"]["hi"] - found["difference"]["lo"] for found in (these, new)]
    assert wide[1] > 1.2 * wide[0] and new["verdict"] != "repeat" and done.returncode != 4
    one = log(tmp_path / "one.jsonl", drawn(6, 1, theta))
    done, new = gate(baseline, one, "--new-questions", points=2)
    assert (done.returncode, new["verdict"]) == (0, "undecided") and new["questions_needed"] > N
    said = keff("compare", baseline, one, "--gate", 2, "--new-questions").stdout
    assert "More questions decide this" in " ".join(said.split())


def test_graded_scores_of_any_scale_have_the_tolerance_of_their_scale(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    level = rng.uniform(2, 9, 120)[:, None]

    def graded(name: str, k: int, shift: float) -> Path:
        rows = np.clip(level + shift + rng.normal(0, 0.5, (120, k)), 0.5, 10).round(3)
        return log(tmp_path / name, rows.tolist())

    base = graded("base.jsonl", 8, 0)
    _, same = gate(base, graded("same.jsonl", 3, 0), points=0.5)
    _, lost = gate(base, graded("lost.jsonl", 3, -1), points=0.5)
    assert (same["verdict"], lost["verdict"], same["scale"]) == ("pass", "worse", [0, 10])
    assert lost["difference"]["value"] == pytest.approx(-1, abs=0.2)
    assert "from 0 to 1" in bad(base, log(tmp_path / "right.jsonl", drawn(1, 2)), "--gate", 1)


def test_all_right_on_both_sides_passes(tmp_path: Path) -> None:
    base, run = (log(tmp_path / f"{k}.jsonl", [[1] * k] * 200) for k in (8, 3))
    done, found = gate(base, run)
    assert (done.returncode, found["verdict"], found["flaky"]) == (0, "pass", [])


def test_lost_and_new_questions_and_ungraded_rows_are_named(baseline: Path, tmp_path: Path) -> None:
    names = [f"q{place}" for place in range(3, N)] + ["new"]
    rows = drawn(7, 2)
    run = log(tmp_path / "run.jsonl", [*rows[3:], [1, 1]], names)
    _, found = gate(baseline, run)
    said = " ".join(note["message"] for note in found["warnings"])
    assert "(q0, q1, q2)" in said and "(new)" in said and found["shared_questions"] == N - 3
    more = log(tmp_path / "more.jsonl", [[row[0] ^ 1] for row in rows[:-5]])
    _, found = gate(baseline, run, more)
    assert "missing_repeats" in codes(found)


def test_a_baseline_of_one_repeat_says_what_to_do(tmp_path: Path) -> None:
    done, found = gate(log(tmp_path / "1.jsonl", drawn(1, 1)), log(tmp_path / "2.jsonl", drawn(2, 2)))
    (note,) = [note["message"] for note in found["warnings"] if note["code"] == "one_repeat"]
    assert "Repeat the baseline 8 times" in note and done.returncode in (0, 4)


def test_bad_input_is_one_line_that_says_what_to_do(baseline: Path, tmp_path: Path) -> None:
    run = log(tmp_path / "run.jsonl", drawn(2, 2))
    other = log(tmp_path / "other.jsonl", drawn(2, 2), [f"x{place}" for place in range(N)])
    copy = tmp_path / "copy.jsonl"
    copy.write_text(baseline.read_text())
    first = log(tmp_path / "first.jsonl", [row[:3] for row in drawn(1, 8)])
    for same in (baseline, copy, first):
        assert "asked once more" in bad(baseline, same, "--gate", 5)
    assert "asked once more" in bad(baseline, run, run, "--gate", 5)
    assert "share no item id" in bad(baseline, other, "--gate", 5)
    assert "two logs" in bad(baseline, "--gate", 5)
    for points in (0, -3, 100, "nan"):
        assert "above 0" in bad(baseline, run, "--gate", points)
    assert "0 to 10" in bad(baseline, log(tmp_path / "out.jsonl", [[0.5, 400]] * N), "--gate", 5)
    assert "--gate has its own" in bad(baseline, run, "--gate", 5, "--tolerance", 1)
    assert "stdout" in bad(baseline, run, "--gate", 5, "--json", "--markdown")
    ungraded = tmp_path / "ungraded.jsonl"
    ungraded.write_text("".join(json.dumps({"id": f"q{i}", "all_answers": ["4"]}) + "\n" for i in range(N)))
    assert "neither scores nor gold" in bad(baseline, ungraded, "--gate", 5)


def test_markdown_goes_to_the_summary_too_and_shows_hostile_names_as_text(tmp_path: Path) -> None:
    hostile = "<img src=x>|`@octocat` [a](http://x)\n# head"
    names = [f"{hostile}{place}" for place in range(N)]
    base = log(tmp_path / "base.jsonl", drawn(1, 8), names)
    run = log(tmp_path / "run.jsonl", drawn(2, 4, broken()), names)
    summary = tmp_path / "summary.md"
    done = keff("compare", base, run, "--gate", 5, "--markdown", GITHUB_STEP_SUMMARY=str(summary))
    assert summary.read_text() == done.stdout and done.returncode == 3
    shown = done.stdout
    assert shown.startswith("<!-- keff -->\n### Worse") and "<details>" in shown
    assert "<img" not in shown and "@octocat" not in shown and "](http" not in shown
    table = [line for line in shown.splitlines() if "img" in line]
    assert table and all(line.count("|") - line.count("\\|") == 5 for line in table)
    plain = keff("compare", base, run, "--markdown").stdout
    assert plain.startswith("<!-- keff -->\n### ") and "Questions that got worse" in plain
