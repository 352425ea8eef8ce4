"""Records read by columns are the records that questions read one by one give."""

from __future__ import annotations

import csv
import json
import pickle
import random
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import made
from how_many import examples
from keff.analysis.estimates import Settings, analyze
from keff.errors import KeffError
from keff.logs import keff_jsonl
from keff.logs.parquet import parts_of
from keff.logs.parts import bulk, lines
from keff.logs.parts.bulk import ColumnOptions
from keff.logs.parts.coding import NotPlainError
from keff.reading import open as reading
from keff.reading.open import Opening, Record, by_columns, open_record
from keff.reading.parts import VoteParts, VoteTable
from keff.reading.transfer import export_log

ANSWERS = [None, "", "a", "b", " b ", "A", "(B)", "1", "1.0", 1, 2, True, "yes", "no"]
GOLDS = ["a", "b", "1", 1, 1.0, ["a", "b"], ["1"], None, ""]
ENTRIES: dict[str, list[object]] = {
    "all_correct": [0, 1, True],
    "all_tokens": [1, 2.5, None],
    "all_cached_tokens": [0, 3],
    "all_keys": ["x", "y", None],
    "all_rules": ["tag", "boxed"],
}


def some_rows(rng: random.Random) -> list[dict[str, object]]:
    """Return rows of the JSONL: ragged, with and without labels, lists of numbers, clusters, slots."""
    k, ragged = rng.randint(1, 5), rng.random() < 0.5
    given_lists = [name for name in (*ENTRIES, "slots") if rng.random() < 0.4]
    # Few kinds of answers in many logs: a column of one kind is read in another way than a mixed one.
    kinds = rng.sample(ANSWERS, rng.randint(1, len(ANSWERS)))
    found: list[dict[str, object]] = []
    for place in range(rng.randint(1, 12)):
        own = k + (rng.randint(0, 1) if ragged else 0)
        row: dict[str, object] = {
            "id": rng.choice([f"q{place}", place]),
            "gold_answer": rng.choice(GOLDS),
            "all_answers": rng.choices(kinds, k=own),
        }
        if rng.random() < 0.5:
            row["cluster"] = rng.choice(["left", "right", 3, ""])
        for name in given_lists:
            row[name] = [0, 1, 2, 3, 4, 5][:own] if name == "slots" else rng.choices(ENTRIES[name], k=own)
        found.append(row)
    return found


ROWS = made(some_rows)


def slowly(path: Path, opening: Opening) -> Record | str:
    """Read question by question."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "by_columns", lambda *_: None)
        try:
            return open_record(path, opening)
        except KeffError as error:
            return str(error)


def same(one: Record, other: Record) -> None:
    """Assert that two records hold the same votes, keys, rules, notes and questions."""
    assert (one.path, one.info, one.branches) == (other.path, other.info, other.branches)
    mine, theirs = one.ballot, other.ballot
    for name in ("cluster_ids", *(field.name for field in fields(mine.votes) if field.name != "clusters")):
        left, right = getattr(mine.votes, name), getattr(theirs.votes, name)
        assert (left is None) == (right is None), name
        if left is not None:
            np.testing.assert_array_equal(left, right, name)
    assert tuple(mine.keys) == tuple(theirs.keys)
    assert mine.notes == theirs.notes
    assert rules(one) == rules(other)
    assert [question.id for question in mine.questions] == [question.id for question in theirs.questions]
    for name in ("answers", "texts", "correct", "gold"):
        assert [getattr(question, name) for question in mine.questions] == [
            getattr(question, name) for question in theirs.questions
        ], name


def rules(record: Record) -> list[list[str | None]] | None:
    """Return the rules of a record by name."""
    coded = record.ballot.rules
    if coded is None:
        return None
    return [[None if code < 0 else coded.names[code] for code in row] for row in coded.codes.tolist()]


@pytest.mark.parametrize("space", [None, "exact", "choice", "numeric", "binary"])
@settings(max_examples=examples(40), deadline=None)
@given(rows=ROWS, trim=st.sampled_from([None, None, 1, 2]), most=st.sampled_from([1, 6, 2**22]))
def test_columns_give_what_questions_give_in_one_part_or_in_many(
    tmp_path_factory: pytest.TempPathFactory,
    space: str | None,
    rows: list[dict[str, object]],
    trim: int | None,
    most: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", 64)
        patch.setattr(reading, "PATHS_OF_A_PART", most)
        as_one_by_one(tmp_path_factory, space, rows, trim)


def as_one_by_one(
    tmp_path_factory: pytest.TempPathFactory,
    space: str | None,
    rows: list[dict[str, object]],
    trim: int | None,
) -> None:
    """Assert that a log is read by columns as it is question by question."""
    path = tmp_path_factory.mktemp("bulk") / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    opening = Opening(answer_space=space, trim=trim)
    as_expected(path, opening, slowly(path, opening))


def as_expected(path: Path, opening: Opening, expected: Record | str) -> None:
    """Assert that a log is read by columns, where it can be, as a record or a refusal says."""
    try:
        record = by_columns(path, opening)
    except KeffError as error:
        assert str(error) == expected
        return
    if record is not None:
        assert isinstance(expected, Record), expected
        same(record, expected)


@settings(max_examples=examples(60), deadline=None)
@given(
    rows=ROWS, trim=st.sampled_from([None, 1]), most=st.sampled_from([1, 6, 2**22]), shuffled=st.booleans()
)
def test_a_table_of_paths_gives_by_columns_what_its_questions_give(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, object]],
    trim: int | None,
    most: int,
    shuffled: bool,
) -> None:
    path = tmp_path_factory.mktemp("table") / "log.csv"
    names = {"answer": "all_answers", "correct": "all_correct", "tokens": "all_tokens", "key": "all_keys"}
    table: list[list[object]] = []
    for row in rows:
        lists = [cast("list[object]", row.get(name, [""] * 9)) for name in names.values()]
        once = [row["id"], row["gold_answer"], row.get("cluster", "")]
        table += [[*once, n, *(each[n] for each in lists)] for n in range(len(lists[0]))]
    if shuffled:
        table.sort(key=lambda line: str(line[3]))
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["id", "gold_answer", "cluster", "path", *names], *table])
    opening = Opening(answer_space="numeric", trim=trim)
    expected = slowly(path, opening)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "BLOCK", 3)
        patch.setattr(reading, "PATHS_OF_A_PART", most)
        as_expected(path, opening, expected)


SAID = ("The answer is {}.", "{}", "so {} it is\n\n", "I do not know", "Final answer: ({}", "")


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
@pytest.mark.parametrize("space", ["numeric", "choice", "exact"])
@settings(max_examples=examples(15), deadline=None)
@given(rows=ROWS, seed=st.integers(0, 99), trim=st.sampled_from([None, 1]), most=st.sampled_from([4, 2**22]))
def test_texts_are_read_again_by_columns_as_question_by_question(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    space: str,
    rows: list[dict[str, object]],
    seed: int,
    trim: int | None,
    most: int,
) -> None:
    path, rng = tmp_path_factory.mktemp("texts") / "log.jsonl", random.Random(seed)
    for row in rows:
        answers = cast("list[object]", row["all_answers"])
        texts = [rng.choice(SAID).format(rng.choice(["4", "B", answer])) for answer in answers]
        row["all_texts"] = rng.choice([texts] * 9 + [None])
        row["all_truncated"] = [rng.randint(0, 1) for _ in answers]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    opening = Opening(answer_space=space, trim=trim, texts=bool(seed % 2))
    if kind != "jsonl":
        path = as_file(path, kind)
    expected = slowly(path, opening)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", 64)
        patch.setattr(reading, "PATHS_OF_A_PART", most)
        as_expected(path, opening, expected)


def as_file(log: Path, kind: str) -> Path:
    """Return a log of texts as a table of paths, or as Parquet in row groups of two rows."""
    path = log.with_suffix(f".{kind}")
    rows = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    if kind == "parquet":
        arrow = pytest.importorskip("pyarrow")
        try:
            table = arrow.Table.from_pylist(rows)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError):  # values of several types
            return log
        pytest.importorskip("pyarrow.parquet").write_table(table, path, row_group_size=2)
        return path
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "gold_answer", "answer", "text"])
        for row in rows:
            texts = row["all_texts"] or [""] * len(row["all_answers"])
            for answer, text in zip(row["all_answers"], texts, strict=True):
                table.writerow([row["id"], row["gold_answer"], answer, text])
    return path


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
def test_plain_texts_are_read_again_by_columns(tmp_path: Path, kind: str) -> None:
    path, rng = tmp_path / "log.jsonl", random.Random(0)
    rows: list[dict[str, object]] = []
    for n in range(70):
        said = [str(rng.randint(0, 3)) for _ in range(4)]
        texts = [f"First {rng.random()}. The answer is {answer}." for answer in said]
        row: dict[str, object] = {"id": f"q{n}", "gold_answer": "1", "all_answers": ["x", *said[1:]]}
        rows.append(row | {"all_texts": texts, "all_keys": ["old"] * 4, "all_rules": ["old"] * 4})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    path = path if kind == "jsonl" else as_file(path, kind)
    opening = Opening(answer_space="numeric")
    record, expected = by_columns(path, opening), slowly(path, opening)
    assert record is not None
    assert isinstance(expected, Record)
    same(record, expected)
    assert rules(record) is not None
    # In any order, also of one that was passed.
    first = cast("list[str]", rows[3]["all_texts"])[0]
    for _ in range(2):
        assert record.ballot.questions[66].id == "q66"
        assert record.ballot.questions[3].answers[0] == first[-2]


def test_texts_of_a_large_row_group_are_read_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrow, rng = pytest.importorskip("pyarrow"), random.Random(0)
    texts = [[f"{rng.randbytes(2000).hex()} The answer is {n % 3}." for _ in range(4)] for n in range(2000)]
    rows = [
        {"id": f"q{n}", "gold_answer": "1", "all_answers": ["1"] * 4, "all_texts": each}
        for n, each in enumerate(texts)
    ]
    path = tmp_path / "log.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), path)
    pool, held, read_row = arrow.default_memory_pool(), list[int](), bulk.read_row

    def watched(row: Mapping[str, object], read: bulk.ReadText) -> dict[str, object]:
        held.append(pool.bytes_allocated())
        return read_row(row, read)

    monkeypatch.setattr(bulk, "read_row", watched)
    before = pool.bytes_allocated()
    record = by_columns(path, Opening(answer_space="numeric"))
    assert record is not None
    assert record.ballot.votes.correct is not None
    assert record.ballot.votes.correct.mean() == pytest.approx(1 / 3, abs=0.001)
    # A few pages of it, and what they unpack to.
    assert max(held) - before < path.stat().st_size / 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_plain_table_is_read_by_columns(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"log.{kind}"
    rows = [{"id": f"q{n // 3}", "answer": str(n % 2), "gold": "1", "latency": n} for n in range(300)]
    if kind == "csv":
        table = [[*rows[0]], *(row.values() for row in rows)]
        path.write_text("".join(",".join(map(str, line)) + "\n" for line in table))
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), path)
    record, expected = by_columns(path, Opening()), slowly(path, Opening())
    assert record is not None
    assert isinstance(expected, Record)
    same(record, expected)
    assert [note.code for note in record.ballot.notes] == ["columns"]
    assert [record.ballot.questions[row].id for row in (7, 90, 90, 3)] == ["q7", "q90", "q90", "q3"]


def test_plain_rows_are_read_by_columns(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [{"id": f"q{n}", "gold_answer": "1", "all_answers": ["1", None, "2"]} for n in range(1000)]
    path.write_text("\n\n".join(json.dumps(line) for line in lines), "utf-8")
    record = by_columns(path, Opening())
    assert record is not None and record.ballot.votes.n == 1000
    same(record, slowly(path, Opening()))  # pyright: ignore[reportArgumentType]
    assert record.ballot.questions[999].id == "q999"


@pytest.mark.parametrize(
    "line",
    [
        {"id": "q0", "all_answers": ["1", "2"]},
        {"id": "q1", "all_answers": [["1"], "2"]},
        {"id": "q1", "all_answers": [0.5, "2"]},
        {"id": "q1", "all_answers": ["1", "2"], "branches": ["x", "y"]},
        {"id": "q1", "all_answers": ["1", "2"], "all_tokens": [1, -1]},
        {"id": "q1", "all_answers": ["1", "2"], "all_tokens": ["1", "1"]},
        {"id": "q1", "all_answers": ["1", "2"], "all_correct": [1]},
        {"id": "q1", "all_answers": ["1", "2"], "model": "another"},
        {"id": "", "all_answers": ["1", "2"]},
        {"all_answers": ["1", "2"]},
        {"id": "q1"},
    ],
)
def test_rows_that_are_not_plain_are_read_one_by_one(tmp_path: Path, line: dict[str, object]) -> None:
    path = tmp_path / "log.jsonl"
    first = {"id": "q0", "gold_answer": "1", "all_answers": ["1", "2"]}
    path.write_text(json.dumps(first) + "\n" + json.dumps(line) + "\n", "utf-8")
    assert bulk.only_part(keff_jsonl.log().parts(path, ColumnOptions())) is None
    assert by_columns(path, Opening()) is None


def test_a_torn_line_is_left_to_the_reading_that_tells_it(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    row = {"id": "q0", "gold_answer": "1", "all_answers": ["1", "2"]}
    path.write_text(json.dumps(row) + "\n" + json.dumps(replace_id(row))[:20], "utf-8")
    assert by_columns(path, Opening()) is None
    assert [note.code for note in open_record(path).ballot.notes] == ["torn_line"]


def replace_id(row: dict[str, object]) -> dict[str, object]:
    """Return the row of another question."""
    return row | {"id": "q1"}


def test_questions_can_be_sliced(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [{"id": f"q{n}", "gold_answer": "1", "all_answers": ["1", "2"]} for n in range(5)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    record = by_columns(path, Opening())
    assert record is not None
    assert [question.id for question in record.ballot.questions[1:3]] == ["q1", "q2"]
    assert record.ballot.keys[-1] == ("1", "2")
    with pytest.raises(IndexError):
        record.ballot.keys[5]


@pytest.mark.parametrize("plain", [True, False])
def test_parquet_is_read_by_columns_as_row_by_row(tmp_path: Path, plain: bool) -> None:
    pytest.importorskip("pyarrow")
    source, target = tmp_path / "log.jsonl", tmp_path / "log.parquet"
    rng = np.random.default_rng(1)
    rows = [
        {
            "id": f"q{n}",
            "question": f"What is {n}?",
            "gold_answer": "1" if plain else ["1", "2"],
            "cluster": f"c{n // 3}",
            "all_answers": [None if n == 7 else str(code) for code in rng.integers(0, 3, 4)],
            "all_tokens": rng.integers(1, 9, 4).tolist(),
        }
        for n in range(50)
    ]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    export_log(source, target)
    record, expected = by_columns(target, Opening()), slowly(target, Opening())
    assert isinstance(expected, Record)
    assert (record is not None) == plain  # gold answers that are lists are packed with what has no column
    if record is not None:
        same(record, expected)
        assert record.ballot.questions[40].question == "What is 40?"


@pytest.mark.parametrize("space", [None, "choice"])
def test_tables_of_shares_merge_into_the_record_that_is_read_at_once(
    tmp_path: Path, space: str | None
) -> None:
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
    expected = by_columns(target, Opening(answer_space=space))
    assert expected is not None
    parts = list(parts_of(target, ColumnOptions(most=64)))
    how = expected.ballot.reading
    tables: list[VoteTable] = []
    for share in range(3):
        own = VoteParts(4, how)
        for part in parts_of(target, ColumnOptions(most=64, read=how.reread), (share, 3)):
            own.add(part)
        tables.append(own.table())
    merged = VoteParts(4, how)
    merged.join(pickle.loads(pickle.dumps(tables)), parts[0].question)
    same(replace(expected, ballot=merged.ballot()), expected)
    with pytest.raises(NotPlainError):  # a share that came twice
        VoteParts(4, how).join([*tables, tables[0]], parts[0].question)


@pytest.mark.slow
def test_a_record_of_more_paths_than_a_policy_may_draw_is_analysed(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    row = {"gold_answer": "1", "all_answers": ["1", "2", "1"] * 100}
    path.write_text("".join(json.dumps(row | {"id": f"q{n}"}) + "\n" for n in range(12)), "utf-8")
    assert analyze(open_record(path), Settings()).k == 300
