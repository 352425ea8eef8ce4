"""noise, compare and audit as an evaluator meets them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import keff


def good(*arguments: object, code: int = 0) -> dict[str, Any]:
    done = keff(*arguments, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def bad(*arguments: object) -> str:
    done = keff(*arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stdout
    assert done.stderr.count("\n") == 1
    return done.stderr


def log(file: Path, rows: Sequence[Sequence[object]], **more: object) -> Path:
    """Write one line per question; rows of 0 and 1 are right and wrong answers, others scores."""
    with file.open("w") as out:
        for place, row in enumerate(rows):
            line: dict[str, object] = {"id": f"q{place}"} | more
            if all(value in (0, 1) for value in row):
                line |= {"gold_answer": "4", "all_answers": ["4" if value else "5" for value in row]}
            else:
                line |= {"all_scores": list(row)}
            out.write(json.dumps(line) + "\n")
    return file


def drawn(seed: int, n: int = 60, k: int = 4, shift: float = 0.0) -> list[list[int]]:
    theta = np.random.default_rng(0).beta(1.2, 0.8, (n, 1)) + shift
    return (np.random.default_rng(seed).random((n, k)) < theta).astype(int).tolist()


def codes(found: dict[str, Any]) -> set[str]:
    return {note["code"] for note in found["warnings"]}


def test_noise_tells_the_score_and_what_two_runs_differ_by(tmp_path: Path) -> None:
    file = log(tmp_path / "a.jsonl", drawn(1))
    found = good("noise", file)
    assert found["gap_of_two_runs"] == pytest.approx(2.772 * found["run_to_run_sd"]["value"], rel=1e-3)
    assert set(found["pass_hat_k"]) == {"1", "2", "4", "8", "16"}
    assert (
        found["pass_hat_k"]["8"]["lo"] < found["pass_hat_k"]["8"]["value"] < found["pass_at_k"]["8"]["value"]
    )
    shown = keff("noise", file).stdout
    assert "all right (pass^k)" in shown and "80% power" in shown and "new questions" in shown


def test_noise_of_one_repeat_is_the_interval_alone(tmp_path: Path) -> None:
    found = good("noise", log(tmp_path / "a.jsonl", drawn(1, k=1)))
    assert found["score"]["lo"] < found["score"]["value"] < found["score"]["hi"]
    assert found["run_to_run_sd"] is None and found["power"] == []
    assert "one_repeat" in codes(found)


def test_ragged_and_graded_repeats_are_all_used(tmp_path: Path) -> None:
    rows = [row[: 1 + place % 4] for place, row in enumerate(drawn(1))]
    found = good("noise", log(tmp_path / "a.jsonl", rows))
    assert (found["n"], found["k"]) == (60, 1) and "ragged" in codes(found)
    assert found["score"]["value"] == pytest.approx(np.mean([np.mean(row) for row in rows]))
    graded = good("noise", log(tmp_path / "b.jsonl", [[3, 7.5, 9], [2, 2.5], [10, 9]] * 8))
    assert graded["scale"] == [1, 10] and graded["pass_hat_k"] is None and "graded" in codes(graded)
    assert graded["score"]["value"] == pytest.approx(np.mean([6.5, 2.25, 9.5]))


def test_copies_and_runs_that_share_a_seed_are_named(tmp_path: Path) -> None:
    rows = [[*row, row[0]] for row in drawn(1)]
    assert "copied_runs" in codes(good("noise", log(tmp_path / "a.jsonl", rows)))
    same = [[row[0]] * 4 for row in drawn(1)]
    assert "all_alike" in codes(good("noise", log(tmp_path / "b.jsonl", same)))


@pytest.mark.parametrize("tokens", ["one a letter", "of the request", "own"])
def test_equal_tokens_alone_are_no_copies(tmp_path: Path, tokens: str) -> None:
    rng, rows = np.random.default_rng(5), drawn(1)
    counts = {
        "one a letter": np.ones((len(rows), 4), int),
        "of the request": np.repeat(rng.integers(50, 900, (len(rows), 1)), 4, axis=1),
        "own": rng.integers(50, 900, (len(rows), 4)),
    }[tokens].tolist()

    def written(name: str, answers: list[list[int]], lengths: list[list[int]]) -> Path:
        lines = [
            {"id": f"q{n}", "gold_answer": "1", "all_answers": list(map(str, row)), "all_tokens": spent}
            for n, (row, spent) in enumerate(zip(answers, lengths, strict=True))
        ]
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        return tmp_path / name

    assert "copied_runs" not in codes(good("noise", written("a.jsonl", rows, counts)))
    copied = [[*row, row[0]] for row in rows], [[*row, row[0]] for row in counts]
    assert "copied_runs" in codes(good("noise", written("b.jsonl", *copied)))


def test_bad_scores_end_in_one_line(tmp_path: Path) -> None:
    far = log(tmp_path / "far.jsonl", [[0.5, 140]] * 4)
    assert "0 to 1, 1 to 10" in bad("noise", far)
    blind = tmp_path / "blind.jsonl"
    blind.write_text(json.dumps({"id": "a", "all_answers": ["1", "2"]}) + "\n")
    assert "neither scores nor gold answers" in bad("noise", blind)
    assert "graded scores" in bad("analyze", log(tmp_path / "g.jsonl", [[0.5, 0.25]] * 4))
    ten = log(tmp_path / "ten.jsonl", [[3.5, 9]] * 4)
    assert "one scale" in bad("compare", ten, log(tmp_path / "unit.jsonl", [[0.5, 0.25]] * 4))


def test_compare_says_which_is_better_and_fails_with_3(tmp_path: Path) -> None:
    a, b = log(tmp_path / "a.jsonl", drawn(1)), log(tmp_path / "b.jsonl", drawn(2, shift=-0.25))
    found = good("compare", a, b)
    assert found["better"]["verdict"] == "worse" and found["better"]["difference"]["hi"] < 0
    assert found["arms"][0]["k"] == 4
    good("compare", a, b, "--fail-if-worse", code=3)
    good("compare", a, b, "--fail-if-worse", "--tolerance", 60)
    good("compare", b, a, "--fail-if-worse")
    assert "is worse than" in keff("compare", a, b).stdout


def test_several_are_compared_with_the_first_and_models_of_one_log_with_each_other(tmp_path: Path) -> None:
    files = [log(tmp_path / f"{seed}.jsonl", drawn(seed, k=1)) for seed in (1, 2, 3)]
    found = good("compare", *files)
    assert found["better"] is None and len(found["pairs"]) == 2
    assert all(pair["p_adjusted"] >= pair["p_value"] for pair in found["pairs"])
    both = tmp_path / "models.jsonl"
    lines = [
        json.dumps(
            {
                "id": f"q{place}",
                "model": f"m{seed}",
                "gold_answer": "4",
                "all_answers": ["45"[1 - x] for x in row],
            }
        )
        for seed in (1, 2, 3)
        for place, row in enumerate(drawn(seed))
    ]
    both.write_text("\n".join(lines) + "\n")
    assert len(good("compare", both)["pairs"]) == 3
    assert "two logs" in bad("compare", both, "--fail-if-worse")
    assert "needs two scores" in bad("compare", files[0])


def test_different_questions_are_said(tmp_path: Path) -> None:
    a, b = log(tmp_path / "a.jsonl", drawn(1)), log(tmp_path / "b.jsonl", drawn(2)[:40])
    found = good("compare", a, b)
    assert found["better"]["shared_questions"] == 40 and "unpaired_items" in codes(found)
    b.write_text(b.read_text().replace('"q', '"x'))
    assert "share no item id" in bad("compare", a, b)


def test_other_texts_under_the_same_ids_are_said(tmp_path: Path) -> None:
    a = log(tmp_path / "a.jsonl", drawn(1), question="What is two and two?")
    b = log(tmp_path / "b.jsonl", drawn(2), question="What is three and one?")
    assert "other_questions" in codes(good("compare", a, b))
    assert "other_questions" not in codes(good("compare", a, a))
