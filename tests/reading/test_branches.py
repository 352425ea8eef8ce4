"""Several models or prompts in one record: found, named, read apart, and told from sorted paths."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import keff
from keff.errors import LogError
from keff.reading.open import Opening, open_record
from keff.reading.several import open_records

pytestmark = pytest.mark.slow

MODELS = {"small": 0.3, "large": 0.8, "middle": 0.55}


def write(file: Path, right: np.ndarray, **fields: object) -> Path:
    with file.open("w") as out:
        for number, row in enumerate(right):
            answers = ["4" if value else f"{5 + place % 3}" for place, value in enumerate(row)]
            out.write(
                json.dumps({"id": str(number), "gold_answer": "4", "all_answers": answers} | fields) + "\n"
            )
    return file


def draws(n: int = 400, levels: tuple[float, ...] = tuple(MODELS.values()), seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    hard = rng.normal(size=(n, 1))
    level = np.log(np.array(levels) / (1 - np.array(levels)))
    return rng.random((n, len(levels))) < 1 / (1 + np.exp(-(level + hard)))


def test_columns_of_clearly_different_accuracy_are_read_apart(tmp_path: Path) -> None:
    right = draws(levels=(0.3, 0.8, 0.55, 0.7, 0.4, 0.75))
    records = open_records(write(tmp_path / "log.jsonl", right))
    assert [record.info.model for record in records] == [f"column {place}" for place in range(1, 7)]
    assert [record.ballot.votes.p for record in records] == pytest.approx(right.mean(axis=0).tolist())
    (note,) = (note for note in records[0].ballot.notes if note.code == "several_branches")
    assert "keff combine" in note.message
    assert "--branches" in note.message


@pytest.mark.parametrize("k", [2, 8, 40])
def test_paths_of_one_model_are_never_taken_for_several(tmp_path: Path, k: int) -> None:
    for seed in range(6):
        records = open_records(write(tmp_path / f"{seed}.jsonl", draws(200, (0.6,) * k, seed)))
        assert len(records) == 1
        assert not {note.code for note in records[0].ballot.notes} & {"several_branches", "ordered_paths"}


def test_sorted_paths_are_an_order_and_no_models(tmp_path: Path) -> None:
    right = -np.sort(-draws(400, (0.6,) * 10).astype(int), axis=1)
    (record,) = open_records(write(tmp_path / "log.jsonl", right))
    assert "ordered_paths" in {note.code for note in record.ballot.notes}


def test_names_from_a_file_or_a_list_stay_with_their_columns(tmp_path: Path) -> None:
    right = draws()
    file = write(tmp_path / "log.jsonl", right)
    names = tmp_path / "names.json"
    names.write_text(json.dumps({"columns": list(MODELS), "note": "in order"}))
    for given in (str(names), ",".join(MODELS)):
        records = open_records(file, Opening(branches=given))
        assert [record.info.model for record in records] == list(MODELS)
        assert [record.path.rpartition("#")[2] for record in records] == list(MODELS)
    joined = open_record(file, Opening(branches=",".join(MODELS)))
    assert joined.branches == tuple(MODELS)
    assert joined.ballot.votes.slots is not None
    assert joined.ballot.votes.slots.tolist() == [0, 1, 2]


@pytest.mark.parametrize("given", ["a,b", "a,a,b", "a", "gone.json"])
def test_names_that_do_not_fit_are_refused(tmp_path: Path, given: str) -> None:
    with pytest.raises(LogError, match="--branches"):
        open_records(write(tmp_path / "log.jsonl", draws()), Opening(branches=given))


def test_a_model_column_of_a_long_table_is_never_pooled(tmp_path: Path) -> None:
    right = draws(30)
    file = tmp_path / "log.csv"
    lines = ["question_id,model,prediction,target"]
    for place, model in enumerate(MODELS):
        lines += [f"{number},{model},{4 if row[place] else 5},4" for number, row in enumerate(right)]
    file.write_text("\n".join(lines) + "\n")
    done = keff("analyze", file, "--json")
    found = json.loads(done.stdout)["runs"]
    assert [run["path"].rpartition("#")[2] for run in found] == list(MODELS)
    assert [run["p"] for run in found] == pytest.approx(right.mean(axis=0).tolist())
    assert open_records(file, Opening(part="large"))[0].ballot.votes.p == pytest.approx(right[:, 1].mean())
    done = keff("analyze", file, "-o", tmp_path / "plan.json")
    assert done.returncode == 2
    assert "3 records" in done.stderr


def test_the_record_of_28_models_names_the_one_that_is_best(data: Path) -> None:
    stem = data / "recorded" / "mmlupro_multimodel_votes"
    records = open_records(stem.with_suffix(".jsonl"), Opening(branches=f"{stem}.voters.json"))
    best = max(records, key=lambda record: record.ballot.votes.p)
    assert len(records) == 28
    assert (best.info.model, round(best.ballot.votes.p, 3)) == ("gemini-1.5-pro-002", 0.699)


def test_recorded_generations_of_one_model_are_one_record(recorded: list[Path]) -> None:
    for file in recorded:
        if "multimodel" not in file.name and file.stat().st_size < 10**6:
            assert len(open_records(file)) == 1, file.name


def two_models(folder: Path) -> Path:
    right = draws(60, (0.5,) * 8)
    return write(folder / "two.jsonl", right, branches=["small"] * 4 + ["large"] * 4)


@pytest.mark.parametrize("command", ["replay", "compare"])
def test_several_models_are_not_replayed_or_compared_as_one(tmp_path: Path, command: str) -> None:
    file = two_models(tmp_path)
    paths = [file] * (2 if command == "compare" else 1)
    done = keff(command, *paths)
    assert done.returncode == 2
    assert "holds 2 models or prompts (small, large), not paths of one" in done.stderr.replace("\n", " ")
    # The line that it names works when it is typed.
    assert f"{file.name}#small" in done.stderr.replace("\n", "")
    named = [f"{file}#small", f"{file}#large"][: len(paths)]
    again = keff(command, *named)
    assert again.returncode == 0, again.stderr


def test_unnamed_columns_of_different_models_are_not_replayed(tmp_path: Path) -> None:
    done = keff("replay", write(tmp_path / "log.jsonl", draws(levels=(0.3, 0.8, 0.55, 0.7, 0.4, 0.75))))
    assert done.returncode == 2
    assert "holds 6 models or prompts, not paths of one: keff combine" in " ".join(done.stderr.split())


def test_branches_of_one_path_are_a_table_and_a_file_names_them(tmp_path: Path) -> None:
    right = draws(levels=(0.3, 0.8, 0.55, 0.7, 0.4, 0.75))
    file = write(tmp_path / "log.jsonl", right)
    names = tmp_path / "log.names.json"
    names.write_text(json.dumps({"in_order": list("abcdef")}))
    done = keff("analyze", file)
    assert done.returncode == 0, done.stderr
    title, _, _, *lines = done.stdout.splitlines()
    assert "there is nothing to vote on" in title
    assert [line.split()[:2] for line in lines] == [["column", each] for each in "264351"]
    said = "".join(done.stderr.split())
    assert "Tonamethecolumns:--branchesa,b,c(oraJSONfile)" in said
    named = keff("analyze", file, "--branches", names)
    assert [line.split()[0] for line in named.stdout.splitlines()[3:]] == list("bfdcea")


def test_columns_of_different_models_are_weighed_as_slots(tmp_path: Path) -> None:
    right = draws(levels=(0.3, 0.8, 0.55, 0.7, 0.4, 0.75))
    file = write(tmp_path / "log.jsonl", right)
    found = json.loads(keff("combine", file, "--json").stdout)
    assert [slot["accuracy"] for slot in found["slots"]] == pytest.approx(right.mean(axis=0).tolist())
    done = keff("combine", file, "--branches", "a,b,c,d,e,f")
    assert done.stdout.startswith("Ask b, c, d, f and take the vote")
    assert "column means nothing" not in done.stderr
