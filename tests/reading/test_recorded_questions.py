"""Records are the same from every format, in one part or in many; their votes are what the rows say."""

from __future__ import annotations

import csv
import json
import pickle
import random
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import made
from how_many import examples
from keff import answers
from keff.analysis.estimates import Settings, analyze
from keff.errors import KeffError, LogError
from keff.reading import ballot as votes_of
from keff.reading.ballot import ballot
from keff.reading.open import Opening, Record, open_record, read_share
from keff.reading.questions import RecordedQuestions

ANSWERS = [None, "", "a", "b", " b ", "A", "(B)", "1", "1.0", "yes", "no"]
OTHERS = [1, 2, True]
GOLDS = ["a", "b", "1", None, ""]
ENTRIES: dict[str, list[object]] = {
    "all_correct": [0, 1],
    "all_tokens": [1, 2.5, None],
    "all_cached_tokens": [0, 3],
    "all_confidences": [-1.5, None],
    "all_keys": ["x", "y", None],
    "all_rules": ["tag", "boxed"],
}


def some_rows(rng: random.Random) -> list[dict[str, Any]]:
    """Return rows of the JSONL: ragged, with and without labels, lists of numbers, clusters, slots."""
    k, ragged, mixed = rng.randint(1, 5), rng.random() < 0.5, rng.random() < 0.3
    lists = [name for name in (*ENTRIES, "slots") if rng.random() < 0.4]
    kinds = rng.sample(ANSWERS + OTHERS * mixed, rng.randint(1, len(ANSWERS)))
    found: list[dict[str, Any]] = []
    for place in range(rng.randint(1, 12)):
        own = k + (rng.randint(0, 1) if ragged else 0)
        row: dict[str, Any] = {
            "id": f"q{place}",
            "question": rng.choice([None, "Why?", f"How {place}?"]),
            "gold_answer": rng.choice(GOLDS),
            "all_answers": rng.choices(kinds, k=own),
        }
        row["cluster"] = rng.choice([None, None, "left", "right", ""])
        for name in lists:
            row[name] = [0, 1, 2, 3, 4, 5][:own] if name == "slots" else rng.choices(ENTRIES[name], k=own)
        found.append(row)
    return found


ROWS = made(some_rows)


def read(path: Path, **opening: Any) -> Record | str:
    """Return a record, or why it is refused, without what names its place."""
    try:
        return open_record(path, Opening(**opening))
    except KeffError as error:
        return str(error).replace(str(path), "").partition(": ")[2].rpartition(": ")[2]


def as_jsonl(rows: list[dict[str, Any]], folder: Path) -> Path:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def same(one: Record, other: Record) -> None:
    """Assert that two records hold the same votes, keys, rules, notes and questions."""
    mine, theirs = one.ballot, other.ballot
    for name in ("cluster_ids", *(field.name for field in fields(mine.votes) if field.name != "clusters")):
        np.testing.assert_equal(getattr(mine.votes, name), getattr(theirs.votes, name), name)
    assert list(mine.keys) == list(theirs.keys)
    assert mine.notes == theirs.notes
    assert (mine.rules is None) == (theirs.rules is None)
    assert list(mine.rules or ()) == list(theirs.rules or ())
    for name in ("id", "answers", "correct", "gold", "cluster", "question", "slots"):
        assert [getattr(each, name) for each in mine.questions] == [
            getattr(each, name) for each in theirs.questions
        ], name


@settings(max_examples=examples(60), deadline=None)
@given(rows=ROWS, space=st.sampled_from([None, "exact", "numeric", "choice"]), many=st.booleans())
def test_votes_are_what_the_rows_say(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], space: str | None, many: bool
) -> None:
    path = as_jsonl(rows, tmp_path_factory.mktemp("rows"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(votes_of, "MANY_PATHS", 0 if many else 2**21)
        record = read(path, answer_space=space)
    if isinstance(record, str):
        return
    reader = answers.space("choice", labels=tuple("ABCDEFGHIJ")) if space == "choice" else None
    how = reader or answers.space(space or "exact")
    k, by_id = record.ballot.votes.k, {row["id"]: row for row in rows}
    numbers: dict[str | None, int] = {}
    for place, name in enumerate(record.ballot.names):
        row = by_id[name]
        said = [None if answer in (None, "") else str(answer) for answer in row["all_answers"][:k]]
        keys = [answer and how.key(answer) for answer in said]
        if space is None and row.get("all_keys"):
            keys = row["all_keys"][:k]
        assert record.ballot.keys[place] == tuple(keys)
        assert record.ballot.questions[place].answers[:k] == tuple(said)
        numbers = numbers if how.closed else {}
        codes = [-1 if key is None else numbers.setdefault(key, len(numbers)) for key in keys]
        assert record.ballot.votes.answered()[place].tolist() == codes
        if record.ballot.votes.correct is not None:
            right = row.get("all_correct") or [
                bool(answer)
                and how.correct(cast("str", answer), answers.stated_gold(how, row["gold_answer"]))
                for answer in said
            ]
            expected = [int(bool(good) and key is not None) for good, key in zip(right, keys, strict=False)]
            assert record.ballot.votes.correct[place].tolist() == expected


@pytest.mark.parametrize("writer", ["pyarrow", "polars"])
@settings(max_examples=examples(40), deadline=None)
@given(rows=ROWS, space=st.sampled_from([None, "numeric", "choice"]), trim=st.sampled_from([None, None, 1]))
def test_parquet_of_any_writer_is_the_record_of_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory,
    writer: str,
    rows: list[dict[str, Any]],
    space: str | None,
    trim: int | None,
) -> None:
    """polars writes lists and texts of another Arrow type than pyarrow does."""
    if len({type(answer) for row in rows for answer in row["all_answers"]} - {type(None)}) > 1:
        return  # what a writer makes of several types is its own
    path = as_jsonl(rows, tmp_path_factory.mktemp("rows"))
    target = path.with_suffix(".parquet")
    arrow, polars = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    try:
        if writer == "pyarrow":
            table = arrow.Table.from_pylist(rows)
            pytest.importorskip("pyarrow.parquet").write_table(table, target, row_group_size=5)
        else:
            polars.DataFrame(rows, strict=True).write_parquet(target, row_group_size=5)
    except (arrow.ArrowException, TypeError, polars.exceptions.PolarsError):
        return
    expected, found = (read(file, answer_space=space, trim=trim) for file in (path, target))
    if isinstance(expected, Record):
        assert isinstance(found, Record), found
        same(found, expected)
    else:
        assert found == expected


def test_a_table_of_paths_is_the_record_of_its_questions(tmp_path: Path) -> None:
    rng = random.Random(3)
    rows = [
        {
            "id": f"q{n}",
            "gold_answer": "1",
            "all_answers": [str(rng.randint(0, 2)) for _ in range(3)],
            "all_tokens": [rng.randint(1, 9) for _ in range(3)],
        }
        for n in range(60)
    ]
    with (tmp_path / "log.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "gold_answer", "path", "answer", "tokens"])
        for path in range(3):  # the paths of a question do not stand together
            table.writerows(
                [row["id"], "1", path, row["all_answers"][path], row["all_tokens"][path]] for row in rows
            )
    found, expected = open_record(tmp_path / "log.csv"), open_record(as_jsonl(rows, tmp_path))
    assert found.ballot.votes.answers is not None
    np.testing.assert_array_equal(found.ballot.votes.answers, expected.ballot.votes.answers)
    np.testing.assert_array_equal(found.ballot.votes.tokens, expected.ballot.votes.tokens)
    assert list(found.ballot.keys) == list(expected.ballot.keys)


def test_tables_of_shares_merge_into_the_record_that_is_read_at_once(tmp_path: Path) -> None:
    target, rng = tmp_path / "log.parquet", np.random.default_rng(2)
    rows = [
        {
            "id": f"q{n}",
            "gold_answer": "A",
            "cluster": f"c{n % 40}",
            # A share numbers them by what it meets first.
            "all_answers": [None, "B"] * 2 if n == 7 else rng.choice(list("DCBA"[: 1 + n // 30]), 4).tolist(),
            "all_rules": rng.choice(["tag", "boxed", "last"][: 1 + n // 40], 4).tolist(),
            "all_tokens": rng.integers(1, 9, 4).tolist(),
        }
        for n in range(100)
    ]
    table = pytest.importorskip("pyarrow").Table.from_pylist(rows)
    pytest.importorskip("pyarrow.parquet").write_table(table, target, row_group_size=25)
    expected, merged = open_record(target), RecordedQuestions()
    for share in range(3):
        *_, own = read_share(target, Opening(), [].append, (share, 3))
        merged.add_batch(pickle.loads(pickle.dumps(own.as_batch())))
    same(Record("", expected.info, ballot(merged, expected.ballot.reading)), expected)
    assert list(merged) == list(expected.ballot.questions)


@pytest.mark.parametrize("wrong", [{"all_tokens": [1, -1]}, {"all_correct": [0, 2]}, {"all_answers": None}])
def test_a_wrong_value_deep_in_a_file_is_refused_with_its_row(tmp_path: Path, wrong: dict[str, Any]) -> None:
    good = {"all_answers": ["1", "2"], "all_tokens": [1, 2], "all_correct": [0, 1]}
    rows = [{"id": f"q{n}", **good, **(wrong if n == 70 else {})} for n in range(99)]
    table = pytest.importorskip("pyarrow").Table.from_pylist(rows)
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "log.parquet", row_group_size=20)
    with pytest.raises(LogError, match=r"log\.parquet: row 71: "):
        open_record(tmp_path / "log.parquet")
    with pytest.raises(LogError, match=r"log\.jsonl:71: "):
        open_record(as_jsonl(rows, tmp_path))


def test_questions_and_keys_can_be_sliced(tmp_path: Path) -> None:
    rows = [{"id": f"q{n}", "gold_answer": "1", "all_answers": ["1", "2"]} for n in range(5)]
    record = open_record(as_jsonl(rows, tmp_path))
    assert [question.id for question in record.ballot.questions[1:3]] == ["q1", "q2"]
    assert record.ballot.keys[-1] == ("1", "2")
    assert list(record.ballot.keys[3:]) == [("1", "2")] * 2
    with pytest.raises(IndexError):
        record.ballot.keys[5]
    with pytest.raises(IndexError):
        record.ballot.questions[5]


def test_a_log_is_opened_once_for_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": f"q{n}", "gold_answer": "1", "all_answers": ["1", "2"]} for n in range(300)]
    path, opened, plain = as_jsonl(rows, tmp_path), Counter[str](), Path.open

    def counted(self: Path, *mode: Any, **options: Any) -> Any:
        opened[self.name] += 1
        return plain(self, *mode, **options)

    monkeypatch.setattr(Path, "open", counted)
    analyze(open_record(path), Settings())
    assert opened["log.jsonl"] < 10  # once for its rows, else for its head alone


@pytest.mark.slow
def test_a_record_of_more_paths_than_a_policy_may_draw_is_analysed(tmp_path: Path) -> None:
    row = {"gold_answer": "1", "all_answers": ["1", "2", "1"] * 100}
    path = as_jsonl([row | {"id": f"q{n}"} for n in range(12)], tmp_path)
    assert analyze(open_record(path), Settings()).k == 300
