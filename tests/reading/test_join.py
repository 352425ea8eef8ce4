"""Branches are aligned by question id, and what does not fit is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import keff
from keff.errors import KeffError, LogError, UsageError
from keff.reading.join import align, joined_rows, own_parts
from keff.reading.open import Opening, Record, open_record
from keff.reading.several import pool_records, side_by_side


def write(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


def question(key: str, answers: list[str], gold: str = "4", **more: Any) -> dict[str, Any]:
    return {"id": key, "gold_answer": gold, "all_answers": answers, **more}


def records(tmp_path: Path, *branches: list[dict[str, Any]], space: str = "numeric") -> list[Record]:
    files = [write(tmp_path / f"bench_model{number}.jsonl", rows) for number, rows in enumerate(branches)]
    return [open_record(file, Opening(answer_space=space)) for file in files]


def test_questions_are_matched_by_id_and_answers_share_codes(tmp_path: Path) -> None:
    small = [question("a", ["4", "5"]), question("b", ["7", "4"]), question("only small", ["4", "4"])]
    large = [question("b", ["4.0", "7", "8"]), question("a", ["5", "4", ""])]
    group = align(records(tmp_path, small, large))
    assert group.ids == ("a", "b") and group.names == ("model0", "model1")
    codes = [branch.votes.answered().tolist() for branch in group.branches]
    assert codes == [[[0, 1], [0, 1]], [[1, 0, -1], [1, 0, 2]]]
    np.testing.assert_allclose(group.credit[:, :2], [[1, 0], [0, 1]])
    assert [note.code for note in group.notes] == ["not_shared"]
    assert "1 of model0" in group.notes[0].message


def test_few_shared_questions_are_warned_about(tmp_path: Path) -> None:
    small = [question(str(i), ["4", "5"]) for i in range(10)]
    large = [question(str(i), ["4", "5"]) for i in range(7, 17)]
    group = align(records(tmp_path, small, large))
    assert group.n == 3 and [note.code for note in group.notes] == ["few_shared"]


def test_joined_records_are_read_back_as_the_same_group(tmp_path: Path) -> None:
    small = [question(key, ["4", "5", ""], all_tokens=[3, 4, 5], cluster="p") for key in "ab"]
    large = [question(key, ["5", "4"], all_tokens=[30, 40], cluster="p") for key in "ab"]
    group = align(records(tmp_path, small, large))
    joined = write(tmp_path / "joined.jsonl", list(joined_rows(group)))
    again = align([open_record(joined)])
    assert again.names == group.names and again.ids == group.ids and again.space == "numeric"
    for one, other in zip(group.branches, again.branches, strict=True):
        np.testing.assert_array_equal(one.votes.answered(), other.votes.answered())
        np.testing.assert_array_equal(one.votes.scored(), other.votes.scored())
        assert one.votes.tokens is not None and other.votes.tokens is not None
        np.testing.assert_array_equal(one.votes.tokens, other.votes.tokens)
    np.testing.assert_array_equal(group.clusters, again.clusters)
    assert len(set(again.clusters.tolist())) == 1


def test_slots_of_a_record_are_branches(tmp_path: Path) -> None:
    rows = [question(key, ["4", "5", "4", "4"], slots=[0, 1, 0, 1]) for key in "ab"]
    group = align(records(tmp_path, rows))
    assert group.names == ("slot-0", "slot-1")
    assert [branch.votes.scored().tolist() for branch in group.branches] == [[[1, 1]] * 2, [[0, 1]] * 2]


def test_questions_of_one_cluster_in_any_branch_are_one_unit(tmp_path: Path) -> None:
    small = [question("a", ["4"], cluster="x"), question("b", ["4"], cluster="x"), question("c", ["4"])]
    large = [question("a", ["4"]), question("b", ["4"], cluster="y"), question("c", ["4"], cluster="y")]
    assert len(set(align(records(tmp_path, small, large)).clusters.tolist())) == 1


def test_equal_answers_that_a_log_calls_right_and_wrong_share_their_credit(tmp_path: Path) -> None:
    small = [question("a", ["4", "4"], all_correct=[1, 0])]
    large = [question("a", ["4", "5"], all_correct=[1, 0])]
    group = align(records(tmp_path, small, large))
    np.testing.assert_allclose(group.credit, [[2 / 3, 0]])


BAD: list[tuple[list[list[dict[str, Any]]], type[KeffError], str]] = [
    ([[question("a", ["4"])]], UsageError, "one branch only"),
    ([[question("a", ["4"])], [question("b", ["4"])]], UsageError, "share no question id.*'a'.*'b'"),
    (
        [[question("a", ["4"])], [question("a", ["4"], gold="5")]],
        UsageError,
        "gold answers differ.*1 of 1.*'a'",
    ),
    (
        [[question("a", ["4"])], [{"id": "a", "gold_answer": None, "all_answers": ["4"]}]],
        UsageError,
        "model1 has no gold answers",
    ),
    (
        [[question("a", ["4"])], [question("a", ["4"]), question("b", ["4"])], [question("b", ["4"])]],
        UsageError,
        "share no question id",
    ),
]


@pytest.mark.parametrize(("branches", "error", "words"), BAD)
def test_what_does_not_fit_ends_in_one_line(
    tmp_path: Path, branches: list[list[dict[str, Any]]], error: type[KeffError], words: str
) -> None:
    with pytest.raises(error, match=words):
        align(records(tmp_path, *branches))


def test_one_generation_given_twice_is_refused(tmp_path: Path) -> None:
    rows = [question(key, ["4", "5"], all_tokens=[3, 4]) for key in "ab"]
    with pytest.raises(UsageError, match="hold the same paths"):
        align(records(tmp_path, rows, rows))


def test_equal_answers_of_equal_length_are_no_copies(tmp_path: Path) -> None:
    rows = [question(str(key), ["4", "4"], all_tokens=[3, 3]) for key in range(12)]
    assert [note.code for note in align(records(tmp_path, rows, rows)).notes] == ["same_answers"]


def test_copies_of_single_paths_and_of_some_questions_are_refused_or_named(tmp_path: Path) -> None:
    rows = [question(str(key), ["4"], all_tokens=[300 + key]) for key in range(24)]
    with pytest.raises(UsageError, match="hold the same paths"):
        align(records(tmp_path, rows, rows))
    others = [row | {"all_answers": ["5"]} for row in rows[12:]]
    (note,) = align(records(tmp_path, rows, rows[:12] + others)).notes
    assert note.code == "same_paths" and "12 of 24" in note.message


def test_duplicated_questions_are_named(tmp_path: Path) -> None:
    rows = [question("a", ["4"]), question("a", ["5"])]
    with pytest.raises(LogError, match="'a'"):
        align(records(tmp_path, rows, [question("a", ["4"])]))


def test_different_spaces_are_named(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{name}.jsonl", [question("a", ["4"])]) for name in ("one", "two")]
    opened = [
        open_record(file, Opening(answer_space=s))
        for file, s in zip(files, ("numeric", "exact"), strict=True)
    ]
    with pytest.raises(UsageError, match="one as numeric, two as exact"):
        align(opened)


def test_names_of_files_lose_what_they_share() -> None:
    assert own_parts(["gpqa_small_7b", "gpqa_large_70b"]) == ["small_7b", "large_70b"]
    assert own_parts(["gpqa_small"]) == ["gpqa_small"]
    assert own_parts(["same", "same"]) == ["same", "same"]


def test_records_of_one_path_each_are_repeats_when_they_are_pooled(tmp_path: Path) -> None:
    runs = [
        [question(key, [answer], all_tokens=[number]) for key, answer in zip("ab", answers, strict=True)]
        for number, answers in enumerate(("45", "44", "54"))
    ]
    votes = pool_records(records(tmp_path, *runs)).ballot.votes
    assert votes.scored().tolist() == [[1, 1, 0], [0, 1, 1]]
    assert votes.tokens is not None and votes.tokens.tolist() == [[0, 1, 2]] * 2


def test_one_file_for_each_question_is_one_record_when_they_are_pooled(tmp_path: Path) -> None:
    votes = pool_records(records(tmp_path, *([question(key, ["4", "5"])] for key in "abc"))).ballot.votes
    assert votes.scored().tolist() == [[1, 0]] * 3


def test_repeats_with_different_gold_answers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="different gold answers to the question 'a'"):
        side_by_side(records(tmp_path, [question("a", ["4"])], [question("a", ["4"], gold="5")]))


def test_verdicts_alone_are_pooled_as_they_are(tmp_path: Path) -> None:
    """A path without an answer is not right in a log of answers; in one of verdicts none has an answer."""
    rows = {"a": (1, 1), "b": (0, 1), "c": (1, 0)}
    for place in range(2):
        lines = "".join(f"{name},{right[place]}\n" for name, right in rows.items())
        (tmp_path / f"{place}.csv").write_text(f"id,correct\n{lines}")
    for ending in ("jsonl", "parquet"):
        out = tmp_path / f"all.{ending}"
        assert keff("join", tmp_path / "0.csv", tmp_path / "1.csv", "--pool", "-o", out).returncode == 0
        assert open_record(out).ballot.votes.scored().tolist() == [list(right) for right in rows.values()]
