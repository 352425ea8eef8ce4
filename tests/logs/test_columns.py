"""Columns by name: given, obvious, or refused where two could be meant; in CSV, Parquet and JSONL."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from keff.errors import LogError
from keff.logs import jsonl
from keff.logs.parts.columns import lay_out
from keff.logs.parts.lines import whole_json
from keff.reading.open import Opening, Record, open_record
from keff.reading.several import open_records

ROWS = [
    {
        "question_id": f"q{i}",
        "epoch": j,
        "prediction": str(3 + (i + j) % 2),
        "target": "4",
        "output_tokens": 5 + j,
    }
    for i in range(4)
    for j in range(3)
]


def written(folder: Path, kind: str, rows: list[dict[str, Any]] = ROWS) -> Path:
    file = folder / f"table.{kind}"
    if kind == "csv":
        with file.open("w", newline="") as out:
            writer = csv.DictWriter(out, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif kind == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        pyarrow.parquet = pytest.importorskip("pyarrow.parquet")
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    return file


def check(record: Record) -> None:
    assert [question.id for question in record.ballot.questions] == ["q0", "q1", "q2", "q3"]
    assert record.ballot.votes.scored().tolist() == [[(i + j) % 2 for j in range(3)] for i in range(4)]
    assert record.ballot.votes.tokens is not None
    assert record.ballot.votes.tokens.tolist() == [[5, 6, 7]] * 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_obvious_names_are_found_and_said(tmp_path: Path, kind: str) -> None:
    record = open_record(written(tmp_path, kind))
    check(record)
    (note,) = (note for note in record.ballot.notes if note.code == "columns")
    assert "question_id as id, prediction as answer, target as gold_answer" in note.message


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_names_in_camel_case_are_those_with_underscores(tmp_path: Path, kind: str) -> None:
    called = {"question_id": "questionId", "prediction": "Model Answer", "target": "answerKey"}
    rows = [{called.get(name, name): value for name, value in row.items()} for row in ROWS]
    read = open_record(written(tmp_path, kind, rows)).ballot.votes
    plain = open_record(written(tmp_path, kind)).ballot.votes
    assert read.correct is not None and plain.correct is not None
    assert read.correct.tolist() == plain.correct.tolist()


@pytest.mark.parametrize("name", ["solution", "goldAnswers2", "true_label", "expected_value"])
def test_a_column_that_may_hold_the_gold_answers_is_named(name: str) -> None:
    found = lay_out(["id", "answer", name])
    assert not isinstance(found, str)
    assert any(f"--columns gold_answer={name}" in note.message for note in found.notes)
    assert str(lay_out(["id", name, "guess"])).endswith(f"--columns answer=guess,gold_answer={name}")


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_rows_in_the_order_of_epochs_are_gathered(tmp_path: Path, kind: str) -> None:
    check(open_record(written(tmp_path, kind, sorted(ROWS, key=lambda row: -row["epoch"]))))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_given_names_win(tmp_path: Path, kind: str) -> None:
    names = {
        "question_id": "frage",
        "epoch": "nr",
        "prediction": "antwort",
        "target": "loesung",
        "output_tokens": "n",
    }
    rows = [{names[name]: value for name, value in row.items()} for row in ROWS]
    file = written(tmp_path, kind, rows)
    with pytest.raises(LogError, match="--columns id="):
        open_record(file)
    check(open_record(file, Opening(columns="id=frage,path=nr,answer=antwort,gold_answer=loesung,tokens=n")))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_numbered_columns_with_other_names(tmp_path: Path, kind: str) -> None:
    rows = [
        {"question_id": f"q{i}", "target": "4"}
        | {f"pred_{j}": str(3 + (i + j) % 2) for j in range(3)}
        | {f"completion_tokens_{j}": 5 + j for j in range(3)}
        for i in range(4)
    ]
    check(open_record(written(tmp_path, kind, rows)))


def test_lists_in_json_lines_and_parquet(tmp_path: Path) -> None:
    rows = [
        {
            "qid": f"q{i}",
            "gold": "4",
            "prediction": [str(3 + (i + j) % 2) for j in range(3)],
            "tokens": [5, 6, 7],
        }
        for i in range(4)
    ]
    for kind in ("jsonl", "parquet"):
        opening = Opening(columns="id=qid,answer=prediction,gold_answer=gold,tokens=tokens")
        check(open_record(written(tmp_path, kind, rows), opening))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("id=nope", "it has no column 'nope'"),
        ("frage=x", "there is no 'frage'"),
        ("id", "write it as word=column"),
        ("id=a,id=b", "names id twice"),
    ],
)
def test_mappings_that_do_not_fit(tmp_path: Path, columns: str, message: str) -> None:
    with pytest.raises(LogError, match=message):
        open_record(written(tmp_path, "csv"), Opening(columns=columns))


@pytest.mark.parametrize(
    ("names", "example"),
    [
        (("question", "answrs", "gold"), "answer=answrs"),
        (("question", "run1", "run2"), "answer=run"),
        (("uuid", "sampled", "gold"), "id=uuid,answer=sampled"),
        (("id", "draw_1", "draw_2"), "answer=draw"),
        (("loesung", "frage", "antwort"), "id=loesung,answer=frage"),  # no name is like one: in their order
        (("guess", "q", "truth"), "id=q,answer=guess,gold_answer=truth"),
        (("x",), "id=x,answer=COLUMN"),
        (("id", "total_tokens", "attempt", "comment"), "answer=COLUMN"),  # counts and remarks are no answers
        (("seed", "latency", "frage", "antwort"), "id=frage,answer=antwort"),
    ],
)
def test_the_example_names_the_columns_most_likely_meant(names: tuple[str, ...], example: str) -> None:
    said = lay_out(names)
    assert isinstance(said, str) and said.endswith(f": --columns {example}")


def test_where_no_column_is_left_to_name_an_id_is_to_be_given() -> None:
    assert (
        lay_out(("answers", "gold")) == "no id column found (it has: answers, gold). Give each question an id"
    )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ("id", "answer", "prediction"),
            "answer may be answer or prediction.*--columns answer=prediction,gold_answer=answer",
        ),
        (("id", "question_id", "answer"), "id may be id or question_id"),
        (("id", "answer", "target", "reference"), "gold_answer may be target or reference"),
    ],
)
def test_nothing_decisive_is_guessed_among_several(
    tmp_path: Path, names: tuple[str, ...], message: str
) -> None:
    with pytest.raises(LogError, match=message):
        open_record(written(tmp_path, "csv", [dict.fromkeys(names, "4")]))


def test_a_gold_answer_that_changes_within_a_question_is_refused(tmp_path: Path) -> None:
    rows = [*ROWS[:-1], ROWS[-1] | {"target": "5"}]
    with pytest.raises(LogError, match=r"table\.csv:13: gold_answer is '5', but '4' in an earlier row"):
        open_record(written(tmp_path, "csv", rows))


def test_the_same_path_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"path 0 of the id 'q0' came before"):
        open_record(written(tmp_path, "csv", [*ROWS, ROWS[0]]))


def test_named_slots_are_branches(tmp_path: Path) -> None:
    rows = [
        {"id": f"q{i}", "template": t, "answer": "4"}
        for i in range(3)
        for t in ("cot", "plain")
        for _ in "ab"
    ]
    assert [record.info.model for record in open_records(written(tmp_path, "csv", rows))] == ["cot", "plain"]


def test_a_text_column_alone_is_read_by_an_answer_space(tmp_path: Path) -> None:
    rows = [
        {"id": "q", "epoch": j, "response": f"I think the answer is {j}", "target": "1"} for j in range(2)
    ]
    file = written(tmp_path, "jsonl", rows)
    with pytest.raises(LogError, match="--answer-space"):
        open_record(file)
    assert open_record(file, Opening(answer_space="numeric")).ballot.votes.scored().tolist() == [[0, 1]]


def test_frames_of_pandas_with_missing_answers(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS)
    frame["prediction"] = frame["prediction"].astype(float)
    frame.loc[0, "prediction"] = float("nan")
    frame.to_csv(tmp_path / "a.csv", index=False, na_rep="nan")
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    for kind in ("csv", "parquet", "jsonl"):
        record = open_record(tmp_path / f"a.{kind}", Opening(answer_space="numeric"))
        assert record.ballot.keys[0] == (None, "4", "3")
        assert record.ballot.votes.scored()[1:].tolist() == [
            [(i + j) % 2 for j in range(3)] for i in range(1, 4)
        ]


@pytest.mark.slow
def test_frames_of_polars(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(ROWS)
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_csv(tmp_path / "a.csv")
    frame.write_ndjson(tmp_path / "a.jsonl")
    for kind in ("csv", "parquet", "jsonl"):
        check(open_record(tmp_path / f"a.{kind}"))


def test_one_row_per_question_and_model_is_one_record_per_model(tmp_path: Path) -> None:
    rows = [
        {"id": f"q{i}", "model": model, "gold_answer": "4", "all_answers": ["4", answer]}
        for model, answer in (("a/x", "4"), ("b/y", "5"))
        for i in range(3)
    ]
    records = open_records(written(tmp_path, "jsonl", rows))
    assert [(record.info.model, record.ballot.votes.p) for record in records] == [("a/x", 1.0), ("b/y", 0.5)]


@pytest.mark.parametrize(
    "content",
    [[["4", "5"]], {"q1": {"said": ["4", "5"]}}, {"results": {"q1": "4"}}],
    ids=["bare lists", "by id", "below a name"],
)
def test_json_without_rows_says_how_rows_are_written(tmp_path: Path, content: object) -> None:
    file = tmp_path / "log.json"
    file.write_text(json.dumps(content))
    with pytest.raises(LogError, match=r"its entries are not rows\. Write an object for each question"):
        open_record(file)


TABLES: dict[str, Any] = {
    "columns": {"id": ["q1", "q2"], "answers": [["4", "5"], ["1", None]], "gold_answer": ["4", "1"]},
    "split": {
        "_type": "table",
        "columns": ["id", "answer", "gold_answer"],
        "data": [["q1", "4", "4"], ["q1", "5", "4"], ["q2", "1", "1"], ["q2", None, "1"]],
        "ncols": 3,
    },
    "by id": {"q1": ["4", "5"], "q2": ["1", None]},
    "keff's own names": {
        "id": ["q1", "q2"],
        "all_answers": [["4", "5"], ["1", None]],
        "gold_answer": ["4", "1"],
    },
    "pandas": {
        "id": {"0": "q1", "1": "q2"},
        "answers": {"0": ["4", "5"], "1": ["1", None]},
        "gold_answer": {"1": "1", "0": "4"},
    },
    "rows by id": {
        "q1": {"answers": ["4", "5"], "gold_answer": "4"},
        "q2": {"answers": ["1", None], "gold_answer": "1"},
    },
}
TABLES["rows"] = [{"id": name} | row for name, row in TABLES["rows by id"].items()]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_in_one_json_value_is_read_in_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, indent: int | None
) -> None:
    file = tmp_path / "log.json"
    file.write_text(json.dumps(TABLES[name], indent=indent))
    # The columns, the first row, whether rows stand together and the rows are one pass over the text.
    parsed: list[Path] = []
    monkeypatch.setattr(jsonl, "whole_json", lambda path: parsed.append(path) or whole_json(path))
    found = open_record(file, Opening(answer_space="exact")).ballot
    assert parsed == [file]
    assert list(found.names) == ["q1", "q2"]
    assert list(found.keys) == [("4", "5"), ("1", None)]
    assert list(found.golds) == ([None, None] if name == "by id" else ["4", "1"])
    if name != "by id":
        assert found.votes.scored().tolist() == [[1, 0], [1, 0]]


@pytest.mark.parametrize(
    "content",
    [
        {"id": ["q1", "q2"], "answers": [["4", "5"]]},
        {"columns": ["id", "answer"], "data": [["q1", "4"], ["q1"]]},
        {"q1": ["4", ["5"]]},
        {"q1": [{"text": "4"}, {"text": "5"}]},
        {"messages": [{"role": "user", "content": "4"}], "tags": ["x"]},
    ],
)
def test_a_table_that_lacks_a_cell_or_holds_other_things_is_refused(tmp_path: Path, content: object) -> None:
    file = tmp_path / "log.json"
    file.write_text(json.dumps(content))
    with pytest.raises(LogError, match=r"lacks|not rows"):
        open_record(file)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_scores_of_minus_one_are_no_verdicts(tmp_path: Path, kind: str) -> None:
    rows = [
        {"id": f"q{n}", "answer": str(n), "correct": right}
        for n in range(3)
        for right in (1, 1, -1 if n else 1)
    ]
    with pytest.raises(LogError, match=r"must hold 0 and 1 only, not '?-1'? \(a wrong path is 0\)"):
        open_record(written(tmp_path, kind, rows))


@pytest.mark.parametrize("right", [1, -1.0, "-1"])
def test_lists_of_minus_one_are_no_verdicts(tmp_path: Path, right: object) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text(json.dumps({"id": "q", "all_answers": ["1", "2"], "all_correct": [-1, right]}) + "\n")
    with pytest.raises(LogError, match=r"must hold 0 and 1 only, not -1 \(a wrong path is 0\)"):
        open_record(file)


def test_a_gold_answer_of_another_name_is_read_beside_keffs_own_lists(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    row = {"all_answers": ["4", "5", None], "all_tokens": [1, 2, 3], "reference": "4"}
    file.write_text("".join(json.dumps({"id": name} | row) + "\n" for name in "abc"))
    ballot = open_record(file).ballot
    assert ballot.votes.scored().tolist() == [[1, 0, 0]] * 3
    assert "reference as gold_answer" in str(ballot.notes)


def test_without_an_id_the_question_is_one(tmp_path: Path) -> None:
    rows = [
        {"problem": f"What is {i}?", "gt": "4", "pred": str(3 + (i + j) % 2)}
        for j in range(3)
        for i in range(4)
    ]
    record = open_record(written(tmp_path, "jsonl", rows))
    assert record.ballot.votes.scored().tolist() == [[(i + j) % 2 for j in range(3)] for i in range(4)]
    assert "problem as id" in {note.code: note.message for note in record.ballot.notes}["columns"]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", ["generations", "model_outputs", "all_responses", "completion_list"])
def test_an_answer_beside_a_list_of_texts_is_the_gold_one(tmp_path: Path, kind: str, name: str) -> None:
    rows = [
        {"problem": f"q{i}", "answer": "4", name: [f"It is {3 + (i + j) % 2}." for j in range(3)]}
        for i in range(4)
    ]
    record = open_record(written(tmp_path, kind, rows), Opening(answer_space="numeric"))
    assert record.ballot.votes.scored().tolist() == [[(i + j) % 2 for j in range(3)] for i in range(4)]
    assert "answer as gold_answer" in {note.code: note.message for note in record.ballot.notes}["columns"]


def test_an_answer_beside_a_list_and_another_gold_one_is_not_taken_for_it() -> None:
    layout = lay_out(["id", "answer", "all_preds", "gold"], {"answer": "all_preds"})
    assert not isinstance(layout, str) and layout.single["gold_answer"] == "gold"


@pytest.mark.parametrize("dump", [json.dumps, str])
def test_lists_in_cells_of_csv_are_paths(tmp_path: Path, dump: Any) -> None:
    rows = [
        {
            "id": f"q{i}",
            "gold": "4",
            "predictions": dump([str(3 + (i + j) % 2) for j in range(3)]),
            "output_tokens": dump([5, 6, 7]),
        }
        for i in range(4)
    ]
    record = open_record(written(tmp_path, "csv", rows))
    assert record.ballot.votes.scored().tolist() == [[(i + j) % 2 for j in range(3)] for i in range(4)]
    assert record.ballot.votes.tokens is not None


@pytest.mark.parametrize("cell", ["['4' '5']", '["4"\n "5"]', "[4 5]"])
def test_arrays_as_numpy_prints_them_are_refused(tmp_path: Path, cell: str) -> None:
    with pytest.raises(LogError, match="predictions holds arrays as numpy prints them: write them as JSON"):
        open_record(written(tmp_path, "csv", [{"id": "q", "gold": "4", "predictions": cell}]))


@pytest.mark.parametrize("inside", ["1 " * 60_000, "1" + " " * 120_000, " " * 120_000, "'" * 120_000])
def test_a_long_cell_that_ends_otherwise_is_read_in_one_pass(tmp_path: Path, inside: str) -> None:
    """As numpy prints arrays, but for the end: a pattern that tried all pairs of places took minutes."""
    row = {"id": "q", "gold": "4", "predictions": f"[{inside}x"}
    assert open_record(written(tmp_path, "csv", [row])).ballot.votes.k == 1


def test_a_cell_that_is_one_answer_stays_text(tmp_path: Path) -> None:
    rows = [
        {"id": "q", "answer": "[1, 2]", "gold": "[1, 2]"},
        {"id": "q", "answer": "[2, 1]", "gold": "[1, 2]"},
    ]
    assert open_record(written(tmp_path, "csv", rows)).ballot.votes.scored().tolist() == [[1, 0]]


def test_texts_beside_an_answer_are_no_paths(tmp_path: Path) -> None:
    rows = [{"id": "q", "gold": "4", "answer": a, "contexts": [{"text": "5"}, {"text": "6"}]} for a in "45"]
    assert open_record(written(tmp_path, "jsonl", rows)).ballot.questions[0].answers == ("4", "5")


def test_an_answer_beside_a_list_of_answers_may_be_their_vote(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="answer may be answer or all_preds: say which"):
        open_record(written(tmp_path, "jsonl", [{"id": "q", "answer": "4", "all_preds": ["4", "5"]}]))


def test_an_answer_beside_outputs_with_scores_is_the_gold_one(tmp_path: Path) -> None:
    rows = [{"id": "q", "answer": "4", "samples": [{"text": f"It is {n}.", "score": n} for n in (4, 5)]}]
    found = open_record(written(tmp_path, "jsonl", rows), Opening(answer_space="numeric")).ballot
    assert list(found.golds) == ["4"]
    assert found.votes.scored().tolist() == [[1, 0]]


def test_objects_in_a_list_are_the_paths_of_a_question(tmp_path: Path) -> None:
    rows = [
        {
            "id": f"q{i}",
            "answer": "4",
            "messages": [{"role": "user", "text": "2 + 2?"}],
            "samples": [
                {"id": j, "prediction": str(3 + (i + j) % 2), "output_tokens": 5 + j} for j in range(3)
            ],
        }
        for i in range(4)
    ]
    check(open_record(written(tmp_path, "jsonl", rows)))
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps({"config": {"k": 3}, "results": ROWS}))
    check(open_record(whole))


@pytest.mark.parametrize("beside", [{"label": "A"}, {"title": "A"}, {"role": "user"}])
def test_options_sources_and_turns_are_no_paths(tmp_path: Path, beside: dict[str, str]) -> None:
    row = {"id": "q", "gold": "4", "predictions": ["4", "5"], "drafts": [{"answer": "6"}]}
    assert open_record(written(tmp_path, "jsonl", [row])).ballot.questions[0].answers == ("4", "5")
    row = {"id": "q", "gold": "4", "parts": [{"text": "4"} | beside]}
    with pytest.raises(LogError, match="no answer column found"):
        open_record(written(tmp_path, "jsonl", [row]))


@pytest.mark.parametrize("head", ["id|answer|gold", "id;answer;gold"])
def test_other_delimiters(tmp_path: Path, head: str) -> None:
    mark = head[-5]
    rows = [f"q{i}{mark}{3 + (i + j) % 2}{mark}4" for i in range(4) for j in range(3)]
    file = tmp_path / "t.csv"
    file.write_text("\n".join([head, *rows, ""]))
    assert open_record(file).ballot.votes.scored()[0].tolist() == [0, 1, 0]


def test_an_object_that_is_called_eval_is_no_log_of_inspect_ai(tmp_path: Path) -> None:
    file = tmp_path / "eval_results.json"
    file.write_text(json.dumps({"date": "2024", "eval": {"q/1": [{"solution": "4", "base_status": "pass"}]}}))
    with pytest.raises(LogError, match=r"its entries are not rows\. Write an object for each question"):
        open_record(file)


@pytest.mark.parametrize("beside", [{"gold_answer": "4"}, {}])
def test_a_score_that_is_left_out_is_said_beside_gold_answers_too(
    tmp_path: Path, beside: dict[str, str]
) -> None:
    rows = [{"id": f"q{n}", "answer": "1/2", "score": 1, **beside} for n in range(3)]
    notes = open_record(written(tmp_path, "jsonl", rows)).ballot.notes
    assert "score_unread" in [note.code for note in notes]
    record = open_record(written(tmp_path, "jsonl", rows), Opening(columns="correct=score"))
    assert record.ballot.votes.p == 1
    assert "score_unread" not in [note.code for note in record.ballot.notes]


@pytest.mark.parametrize("name", ["prediction", "pred", "model_answer"])
def test_a_text_beside_a_label_is_the_question(tmp_path: Path, name: str) -> None:
    lines = [
        f"q{n},film {n} is good,{'AB'[n % 2]},{'AB'[(n + at) % 2]}" for n in range(12) for at in range(2)
    ]
    file = tmp_path / "log.csv"
    file.write_text(f"id,text,label,{name}\n" + "\n".join(lines) + "\n")
    record = open_record(file, Opening(answer_space="choice", texts=True))
    assert record.ballot.votes.scored().tolist() == [[1, 0]] * 12
    first = record.ballot.questions[0]
    assert (first.question, first.texts) == ("film 0 is good", None)


def test_a_text_beside_a_label_alone_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("id,text,label\nq1,The answer is 4,4\nq1,The answer is 5,4\n")
    with pytest.raises(LogError, match="say --columns text=text, or answer=COLUMN"):
        open_record(tmp_path / "log.csv")
    read = open_record(tmp_path / "log.csv", Opening(columns="text=text", answer_space="numeric"))
    assert read.ballot.votes.scored().tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("right", "wrong"), [("PASS", "FAIL"), ("correct", "wrong"), ("✓", "✗"), ("✅", "❌")]
)
def test_words_that_judge_are_verdicts_and_no_answers_unsaid(tmp_path: Path, right: str, wrong: str) -> None:
    rows = [f"t{i},{right if (i + j) % 3 else wrong}" for i in range(12) for j in range(3)]
    (tmp_path / "log.csv").write_text("task,result\n" + "\n".join(rows) + "\n")
    taken = open_record(tmp_path / "log.csv", Opening(columns="id=task,answer=result"))
    assert "--columns correct=NAME" in {note.code: note.message for note in taken.ballot.notes}["judgements"]
    judged = open_record(tmp_path / "log.csv", Opening(columns="id=task,correct=result")).ballot.votes
    assert judged.scored().mean() == pytest.approx(2 / 3)
