"""``keff replay``: the JSON contract, the table, and clear refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import command_line


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(1)
    file = tmp_path_factory.mktemp("replay") / "log.jsonl"
    rows = (
        {
            "id": i,
            "gold_answer": "0",
            "all_answers": [str(min(a, 3)) for a in rng.geometric(0.3 + 0.6 * rng.random(), 20) - 1],
        }
        for i in range(60)
    )
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def keff(*arguments: object) -> command_line.Done:
    return command_line.keff("replay", *arguments)


@pytest.mark.slow
def test_the_json_contract_and_the_markdown(log: Path, tmp_path: Path) -> None:
    done = keff(
        log,
        "lead_k:3,cap=16",
        "fixed:16",
        "--cap",
        16,
        "--json",
        "-o",
        tmp_path / "t.md",
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["n"], found["k"], found["cap"]) == (60, 20, 16)
    lead, fixed, recommended = found["policies"]
    assert recommended["policy"] == found["decision"]["policy"]
    assert lead["policy"] == "lead_k:3,cap=16"
    assert {"accuracy", "mean_paths", "mean_tokens", "rounds", "kept", "delta_at_equal_cost"} <= set(lead)
    assert lead["mean_paths"] < fixed["mean_paths"] == 16
    assert fixed["kept"]["value"] == pytest.approx(1)
    table = (tmp_path / "t.md").read_text()
    assert [line.split(" | ")[0] for line in table.splitlines()[-3:-1]] == [
        "| `lead_k:3,cap=16`",
        "| `fixed:16`",
    ]


@pytest.mark.slow
def test_the_default_policies_fit_the_record(log: Path) -> None:
    done = keff(log)
    assert done.returncode == 0, done.stderr
    assert "curtailed" in done.stdout


@pytest.mark.slow
def test_the_figure_is_drawn_with_the_same_bytes_every_time(log: Path, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    policies = ("lead_k:3,cap=16", "fixed:16", "--cap", 16)
    for name in ("first.svg", "second.svg"):
        done = keff(log, *policies, "-o", tmp_path / name)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()
    assert (tmp_path / "first.pdf").read_bytes().startswith(b"%PDF")


def test_a_file_of_another_kind_is_refused_before_any_work(tmp_path: Path) -> None:
    done = keff(tmp_path / "absent.jsonl", "-o", tmp_path / "t.png")
    assert done.returncode == 2
    assert done.stderr.strip().endswith("name a .md, .svg or .pdf file")


@pytest.mark.parametrize("policy", ["magic", "lead_k:-1", "fixed:64"])
def test_a_policy_that_does_not_fit_is_one_line(log: Path, policy: str) -> None:
    done = keff(log, policy)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def write(file: Path, answers: list[list[str]], **more: object) -> Path:
    rows = [{"id": str(i), "gold_answer": "0", "all_answers": each} | more for i, each in enumerate(answers)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_default_policies_fit_a_short_record(tmp_path: Path, k: int) -> None:
    done = keff(write(tmp_path / "log.jsonl", [["0", "1", "0", "2"][:k]] * 12))
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_template_slots_are_refused_with_two_ways_that_work(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", [list("0010") * 3] * 12, slots=[3, 5] * 6)
    policy = ("lead_k:2,cap=6", "--json")
    refused = keff(log, *policy)
    assert refused.returncode == 2
    assert "PATH#3" in refused.stderr and "--random-slots" in refused.stderr
    assert json.loads(keff(f"{log}#3", *policy).stdout)["k"] == 6
    assert json.loads(keff(log, "--random-slots", *policy).stdout)["k"] == 12


def test_the_folder_of_the_table_is_made(log: Path, tmp_path: Path) -> None:
    done = keff(log, "fixed:4", "-o", tmp_path / "new" / "t.md")
    assert done.returncode == 0 and (tmp_path / "new" / "t.md").exists()


def test_no_figure_where_nothing_is_right(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", [["1"] * 8] * 12)
    done = keff(log, "fixed:4", "-o", tmp_path / "f.svg")
    assert done.returncode == 2 and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("lead_k:3,rounds=2",), "rounds= was removed"),
        (("--now", 64), "the records hold 20"),
    ],
)
def test_what_cannot_be_is_one_line(log: Path, options: tuple[object, ...], says: str) -> None:
    done = keff(log, *options)
    assert done.returncode == 2
    assert says in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.slow
def test_without_gold_answers_it_shows_agreement_and_paths_instead_of_refusing(
    log: Path, tmp_path: Path
) -> None:
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    file = tmp_path / "bare.jsonl"
    file.write_text(
        "".join(json.dumps({"id": row["id"], "all_answers": row["all_answers"]}) + "\n" for row in rows)
    )
    shown = keff(file, "--now", 8, "lead_k:2,cap=8", "fixed:1")
    assert shown.returncode == 0, shown.stderr
    assert "same answer" in shown.stdout
    assert "accuracy" not in shown.stdout
    lead, once, *_ = json.loads(keff(file, "--now", 8, "lead_k:2,cap=8", "fixed:1", "--json").stdout)[
        "policies"
    ]
    assert lead["accuracy"] is None
    assert once["same_answer"]["value"] < lead["same_answer"]["lo"]
    assert once["change"]["paths"]["value"] == -7
    refused = keff(file, "--out", tmp_path / "figure.svg")
    assert refused.returncode == 2
    assert "name a .md file" in refused.stderr
