"""Frames of pandas and polars in long form say what the same answers in lists say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keff
from keff.errors import KeffError, UsageError
from keff.reading.source import record_of

pytestmark = pytest.mark.slow

pytest.importorskip("narwhals", reason="frames need narwhals: pip install 'keff[frame]'")

Make = Callable[[Mapping[str, Any]], Any]
# Imported by the test that makes one: every worker imports every file.
KINDS: dict[str, Make] = {
    "pandas": lambda data: pytest.importorskip("pandas").DataFrame(data),
    "polars": lambda data: pytest.importorskip("polars").DataFrame(data),
    "lazy": lambda data: pytest.importorskip("polars").LazyFrame(data),
    "arrow types": lambda data: KINDS["pandas"](data).convert_dtypes(dtype_backend="pyarrow"),
}
frames = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)

FEW = keff.Settings(k_max=4)
"""What is read is looked at here: nothing is predicted far beyond it."""
analyzed = partial(keff.analyze, settings=FEW)

N, K = 12, 4
RIGHT = np.random.default_rng(0).random((N, K)) < 0.6
ANSWERS = [["yes" if good else "no" if place else None for place, good in enumerate(row)] for row in RIGHT]


def table() -> dict[str, list[Any]]:
    """Return one row per path, ordered by path and then by question."""
    places = [(item, path) for path in range(K) for item in range(N)]
    return {
        "question_id": [f"q{item}" for item, _ in places],
        "prediction": [ANSWERS[item][path] for item, path in places],
        "is_right": [bool(RIGHT[item][path]) for item, path in places],
        "target": ["yes" for _ in places],
        "tokens": [float(10 * item + path) for item, path in places],
        "cluster": [f"c{item // 2}" for item, _ in places],
        "model": ["small" for _ in places],
    }


def without(column: str) -> dict[str, list[Any]]:
    return {name: values for name, values in table().items() if name != column}


NAMES = {"id": "question_id", "answer": "prediction"}


@frames
def test_a_frame_says_what_the_lists_say(make: Make) -> None:
    record = record_of(make(table()), {**NAMES, "gold_answer": "target"})
    assert [question.id for question in record.ballot.questions] == [f"q{item}" for item in range(N)]
    assert [list(question.answers) for question in record.ballot.questions] == ANSWERS
    assert record.info.model == "small"
    votes = record.ballot.votes
    assert votes.correct is not None and np.array_equal(votes.correct, RIGHT)
    assert votes.tokens is not None and votes.tokens[3].tolist() == [30, 31, 32, 33]
    assert votes.n_clusters == N / 2
    tokens = [[10.0 * item + path for path in range(K)] for item in range(N)]
    clusters = [f"c{item // 2}" for item in range(N)]
    lists = analyzed(ANSWERS, gold_answer=["yes"] * N, tokens=tokens, cluster=clusters)
    assert analyzed(make(without("is_right")), **NAMES, gold_answer="target") == lists
    assert analyzed(make(without("target")), **NAMES, correct="is_right") == lists


@frames
def test_columns_are_known_by_the_names_that_a_log_s_columns_are_known_by(make: Make) -> None:
    named = analyzed(make(table()), **NAMES, gold_answer="target", correct="is_right")
    found = analyzed(make(table()))
    assert found.p == named.p and found.c == named.c
    assert "question_id as id" in next(note.message for note in found.warnings if note.code == "columns")


@frames
def test_a_frame_with_numbered_columns_has_one_row_per_question(make: Make) -> None:
    wide = {f"answer_{place + 1}": [row[place] for row in ANSWERS] for place in range(K)}
    frame = make({"id": list(range(N)), "gold_answer": ["yes"] * N, **wide})
    assert analyzed(frame).c == analyzed(ANSWERS, gold_answer=["yes"] * N).c


@frames
def test_columns_mean_what_they_mean_in_a_log(make: Make) -> None:
    data = {"id": ["a", "b", "b", "a"], "path": [1, 2, 1, 0], "answer": ["x", "z", "y", "w"]}
    frame = make(data | {"gold_answer": ["x", "y", "y", "x"], "confidence.judge": [0.1, 0.2, 0.3, 0.4]})
    ballot = record_of(frame, {}).ballot
    assert [list(question.answers) for question in ballot.questions] == [["w", "x"], ["y", "z"]]
    assert ballot.votes.named["judge"].tolist() == [[0.4, 0.1], [0.3, 0.2]]


@frames
def test_a_path_without_correctness_was_not_drawn(make: Make) -> None:
    frame = make({"id": ["a"] * 3 + ["b"] * 2, "correct": [True, None, False, True, True]})
    assert [question.correct for question in record_of(frame, {}).ballot.questions] == [(1, 0), (1, 1)]


@frames
def test_correctness_alone_and_no_labels_at_all(make: Make) -> None:
    data = table()
    scores = make({"id": data["question_id"], "correct": data["is_right"]})
    assert analyzed(scores).c == keff.c(RIGHT)
    blind = analyzed(make({"id": data["question_id"], "answer": data["prediction"]}))
    assert blind.p is None
    assert blind.agreement is not None


@frames
def test_numbers_with_gaps_are_compared_as_numbers(make: Make) -> None:
    """A missing value makes floats of whole numbers in pandas: 4.0 is the answer 4."""
    frame = make({"id": [1, 1, 2, 2], "answer": [4, None, 5, 6], "gold_answer": [4, 4, 5, 5]})
    votes = record_of(frame, {}).ballot.votes
    assert votes.correct is not None and votes.correct.tolist() == [[1, 0], [1, 0]]
    assert votes.answers is not None and votes.answers[0].tolist() == [0, -1]


@frames
def test_answers_are_read_from_whole_texts(make: Make) -> None:
    texts = ["I think the final answer is 4.", "So: #### 5"]
    frame = make({"id": ["a", "a"], "text": texts, "gold_answer": ["4", "4"]})
    assert analyzed(frame, answer_space="numeric").p == 0.5
    with pytest.raises(KeffError, match="answer-space"):
        analyzed(frame)


BAD: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        table(),
        {**NAMES, "answer": "answers"},
        "no column 'answers' .it has question_id, prediction",
    ),
    ({"row": [1], "said": ["a"]}, {}, r"no id and no answer column found .*: id=row,answer=said"),
    ({"row": [1], "said": ["a"]}, {"id": "row"}, "no answer column found .*: answer=said"),
    (
        {"id": [1], "answer": ["a"], "prediction": ["b"]},
        {},
        "answer may be answer or prediction: say which, such as answer=prediction,gold_answer=answer",
    ),
    (table() | {"model": ["a", "b"] * (N * K // 2)}, NAMES, r"several models \(a, b\)"),
    (
        table() | {"target": ["yes"] * (N * K - 1) + ["no"]},
        {**NAMES, "gold_answer": "target"},
        "row 4.: gold_answer is 'no', but 'yes' in an earlier row",
    ),
    (table(), {"id": ["q"] * N * K, "answer": "prediction"}, "id must be the name of a column"),
    (table(), {"idd": "question_id"}, "did you mean id"),
    (
        {"id": [1, 1, 2], "answer": ["a", "b", "a"], "gold_answer": ["a"] * 3},
        {},
        "questions have 1 to 2 paths",
    ),
    ({"id": [1], "correct": [2]}, {}, "the frame: row 1: all_correct must hold 0 and 1 only, not 2"),
    ({"id": [], "answer": []}, {}, "no questions"),
]


@pytest.mark.parametrize("make", [KINDS["pandas"], KINDS["polars"]], ids=["pandas", "polars"])
@pytest.mark.parametrize(("data", "how", "line"), BAD)
def test_a_frame_that_does_not_fit_is_said_in_one_line(
    make: Make, data: dict[str, Any], how: dict[str, Any], line: str
) -> None:
    with pytest.raises(KeffError, match=line) as error:
        analyzed(make(data), **how)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)


def test_what_only_looks_like_a_frame_is_refused() -> None:
    class Frame:
        columns = ("id", "answer")

    with pytest.raises(KeffError, match="not a data frame"):
        analyzed(Frame())


@pytest.mark.parametrize("column", ["judge", "prompt"])
def test_judges_of_a_frame_are_sources_as_in_its_file(tmp_path: Path, column: str) -> None:
    """A frame with a row for each verdict says what the same table says on disk, also with cells missing."""
    rng = np.random.default_rng(4)
    rows = [
        {"id": f"q{n}", column: judge, "answer": "AB"[int(rng.random() < 0.3)], "gold_answer": "A"}
        for judge in ("ada", "bo", "cy")
        for n in range(30)
    ]
    for kept in (rows, [row for row in rows if row["id"] != "q3" or row[column] == "bo"]):
        frame, file = (
            KINDS["pandas"]({name: [row[name] for row in kept] for name in rows[0]}),
            tmp_path / "judges.csv",
        )
        frame.to_csv(file, index=False)
        found = keff.noise(frame)
        assert found.sources is not None and set(found.sources.scores) == {"ada", "bo", "cy"}
        assert found == keff.noise(file)
        assert keff.combine(frame).panel == keff.combine(file).panel
    with pytest.raises(UsageError, match="3 models or prompts"):
        keff.analyze(frame)
