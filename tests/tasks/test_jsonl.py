"""The user's own questions: forms of a line, answer spaces, expressions and scorers."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keff import plugins
from keff.errors import TaskError, UsageError
from keff.records import Completion
from keff.task import items, select
from keff.tasks.jsonl import infer_space


def load(folder: Path, *rows: dict, **options: object):
    file = folder / "own.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return plugins.load("task", "jsonl", data=str(file), **options)


def scorer(folder: Path, body: str) -> str:
    (folder / "mine.py").write_text("def score(text, gold):\n    " + body + "\n")
    return f"{folder / 'mine.py'}:score"


@pytest.mark.parametrize(
    ("golds", "space"),
    [
        (["4", "-1,000.5", 7, "$3", "1/2", "50%"], "numeric"),
        (["yes", "No", True], "binary"),
        (["A", "c", "B"], "text"),
        (["A", "C", "E"], "choice"),
        (["A", "J"], "choice"),
        (["A", "K"], "text"),
        (["Paris", "4"], "text"),
        ([["4", "four"], "5"], "text"),
        ([None, None], "text"),
        ([None, "4"], "numeric"),
        ([], "text"),
    ],
)
def test_the_answer_space_is_inferred_from_all_golds(golds: list, space: str) -> None:
    assert infer_space([gold for gold in golds if gold is not None]) == space


@given(
    st.lists(
        st.one_of(st.integers(), st.decimals(allow_nan=False, allow_infinity=False, places=3)), min_size=1
    )
)
def test_numbers_are_numeric(golds: list) -> None:
    assert infer_space([str(gold) for gold in golds]) == "numeric"


def test_a_question_gets_the_contract_and_messages_stay_as_they_are(tmp_path: Path) -> None:
    turns = [{"role": "system", "content": "Rhyme."}, {"role": "user", "content": "Two and two?"}]
    task = load(
        tmp_path,
        {"id": 1, "question": "What is 2 + 2?", "answer": 4, "topic": "sums", "cluster": "c"},
        {"id": "b", "messages": turns, "answer": "4"},
    )
    one, two = items(task)
    assert task.space == "numeric"
    assert (one.id, one.gold, one.cluster, one.meta["topic"]) == ("1", "4", "c", "sums")
    assert task.messages(one, 0)[0]["content"].startswith("What is 2 + 2?\n\nEnd with a line")
    assert list(task.messages(two, 0)) == turns


def test_system_and_template(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('templates = ["Be brief.", "Q: {question} A:"]')
    task = load(
        tmp_path, {"question": "What is 2 + 2?"}, system="You add.", template=str(tmp_path / "t.toml")
    )
    (item,) = items(task)
    system, user = task.messages(item, 0)
    assert system == {"role": "system", "content": "You add."}
    assert user["content"].startswith("Be brief.\n\nWhat is 2 + 2?\n\n")
    assert task.messages(item, 1)[1]["content"] == "Q: What is 2 + 2? A:"


def test_without_golds_votes_are_keyed_and_nothing_is_scored(tmp_path: Path) -> None:
    task = load(tmp_path, {"question": "Who?"}, {"question": "Where?"})
    item = next(items(task))
    judged = task.judge(item, Completion("Final answer: The Queen"))
    assert (judged.key, judged.correct) == ("queen", None)
    assert task.judge(item, Completion("")).correct is None


def test_ids_are_content_hashes_where_they_are_absent(tmp_path: Path) -> None:
    first = [item.id for item in items(load(tmp_path, {"question": "a?"}, {"question": "b?"}))]
    again = [item.id for item in items(load(tmp_path, {"question": "b?"}, {"question": "a?", "answer": "x"}))]
    assert first == again[::-1]
    with pytest.raises(TaskError, match=r"own\.jsonl:2: duplicate id '7': .* so must questions"):
        list(items(load(tmp_path, {"id": 7, "question": "a?"}, {"id": "7", "question": "b?"})))


@pytest.mark.parametrize(
    ("row", "gold"),
    [({"gold_answer": 7}, "7"), ({"gold_answer": 7, "answer": "8"}, "8"), ({"answer": None}, None)],
)
def test_a_gold_answer_may_be_called_as_logs_call_it(tmp_path: Path, row: dict, gold: str | None) -> None:
    task = load(tmp_path, {"question": "a?"} | row)
    assert [item.gold for item in items(task)] == [gold]
    assert task.space == ("text" if gold is None else "numeric")


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"id": "b", "prompt": "x"}, 'no "question" and no "messages" \\(found: id, prompt\\)'),
        ({"question": 5}, "question is 5: expected a text"),
        ({"question": "  "}, "question is '  ': expected a text that is not blank"),
        ({"messages": []}, "not a list of messages"),
        ({"messages": ["hi"]}, "malformed message: expected"),
        ({"messages": [{"role": "user", "content": None}]}, "the content of the last message"),
        ({"question": "a", "answer": []}, '"answer" is'),
        ({"question": "a", "id": [1]}, '"id" is'),
    ],
)
def test_a_line_that_does_not_fit_is_named(row: dict, says: str, tmp_path: Path) -> None:
    task = load(tmp_path, {"question": "fine?"}, row)
    with pytest.raises(TaskError, match=rf"own\.jsonl:2: .*{says}"):
        list(items(task))


def test_a_gold_that_its_own_scorer_rejects_is_named(tmp_path: Path) -> None:
    task = load(
        tmp_path,
        {"question": "a?", "answer": "4"},
        {"question": "b?", "answer": "many"},
        answer_space="numeric",
    )
    with pytest.raises(
        TaskError, match=r"own\.jsonl:2: the gold answer 'many' of item \w+ fails its own scorer"
    ):
        select(task)


def test_the_last_match_of_the_expression_counts(tmp_path: Path) -> None:
    task = load(tmp_path, {"question": "a?", "answer": "12"}, answer_regex=r"result=(\d+)")
    (item,) = items(task)
    judged = task.judge(item, Completion("result=3, no: result=12. Final answer: 7"))
    assert (judged.answer, judged.correct, judged.rule) == ("12", 1, "regex")
    assert task.judge(item, Completion("Final answer: 12")).rule == "the expression does not match"
    assert (
        task.judge(item, Completion("<think>result=12</think>none")).rule == "the expression does not match"
    )
    assert task.judge(item, Completion("result=5 or result=12", "length")).answer == "5"
    assert task.messages(item, 0)[0]["content"] == "a?"
    whole = load(tmp_path, {"question": "a?", "answer": "12"}, answer_regex=r"\d+")
    assert whole.extract("3 and 12") == "12"
    with pytest.raises(TaskError, match="is not valid"):
        load(tmp_path, {"question": "a?"}, answer_regex="(")


def test_a_scorer_that_returns_answers(tmp_path: Path) -> None:
    task = load(
        tmp_path,
        {"question": "a?", "answer": {"min": 3}},
        answer_space="exact",
        scorer=scorer(tmp_path, 'return (text.split()[-1] if text else None, len(text) >= gold["min"])'),
    )
    (item,) = select(task)
    assert item.gold == {"min": 3}
    assert task.judge(item, Completion("<think>x</think>I say blue")).key == "blue"
    judged = task.judge(item, Completion("no"))
    assert (judged.key, judged.correct, judged.rule) == ("no", 0, "scorer")
    assert task.judge(item, Completion("")).key is None
    twin = pickle.loads(pickle.dumps(task))
    assert twin.judge(item, Completion("I say blue")) == task.judge(item, Completion("I say blue"))


def test_a_scorer_that_returns_only_right_or_wrong(tmp_path: Path) -> None:
    task = load(tmp_path, {"question": "a?", "answer": "x"}, scorer=scorer(tmp_path, "return gold in text"))
    (item,) = items(task)
    judged = task.judge(item, Completion("Final answer: x and y"))
    assert (judged.key, judged.correct) == ("x and y", 1)


@pytest.mark.parametrize("body", ["return 1 / 0", "return 'yes'", "return (1, True)", "return None"])
def test_a_scorer_that_fails_is_named(body: str, tmp_path: Path) -> None:
    task = load(tmp_path, {"question": "a?", "answer": "x"}, scorer=scorer(tmp_path, body))
    with pytest.raises(TaskError, match=r"mine\.py:score (fails|returned)"):
        task.judge(next(items(task)), Completion("x"))


def test_scorers_that_cannot_be_loaded(tmp_path: Path) -> None:
    for wrong in ("mine.py", "mine.txt:f", "gone.py:f", scorer(tmp_path, "return True") + "s"):
        with pytest.raises(UsageError):
            load(tmp_path, {"question": "a?"}, scorer=wrong)
    (tmp_path / "broken.py").write_text("import nothing_of_that_name")
    with pytest.raises(UsageError, match="fails to run: ModuleNotFoundError"):
        load(tmp_path, {"question": "a?"}, scorer=f"{tmp_path / 'broken.py'}:f")


def test_the_version_changes_with_whatever_scores(tmp_path: Path) -> None:
    row = {"question": "a?", "answer": "4"}
    versions = [
        load(tmp_path, row).version,
        load(tmp_path, row, answer_space="text").version,
        load(tmp_path, row, answer_regex=r"(\d)").version,
        load(tmp_path, row, scorer=scorer(tmp_path, "return True")).version,
        load(tmp_path, row, scorer=scorer(tmp_path, "return False")).version,
    ]
    assert len(set(versions)) == 5
    assert load(tmp_path, row).version == versions[0]
    with pytest.raises(TaskError, match="unknown answer space 'colour'"):
        load(tmp_path, row, answer_space="colour")


def test_letters_reach_as_far_as_the_golds(tmp_path: Path) -> None:
    rows = [{"question": f"{letter}?", "answer": letter, "options": "any field"} for letter in "AH"]
    task = load(tmp_path, *rows)
    assert task.space == "choice"
    for item in select(task):
        assert task.judge(item, Completion(f"Final answer: ({item.gold})")).correct == 1
    assert task.extract("Final answer: (J)") is None
