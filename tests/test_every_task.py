"""The contract that every task keeps, checked on real rows and on the examples that the task itself gives."""

from __future__ import annotations

import json
import pickle
import re
from itertools import islice
from pathlib import Path

import pytest

import keff.tasks
from keff import plugins
from keff.errors import TaskError
from keff.paper.records import BENCHMARKS as ABOUT
from keff.records import Completion
from keff.task import Task, items, select
from keff.tasks._base import Benchmark

BENCHMARKS = sorted(
    file.stem
    for file in Path(keff.tasks.__file__).parent.glob("*.py")
    if "Benchmark)" in file.read_text("utf-8")
)
"""Tasks that read a published data set; the others bring their rows."""

OTHERS = sorted(set(plugins.names("task")) - {*BENCHMARKS, "jsonl"})
NAMES = [*BENCHMARKS, *OTHERS, "jsonl"]
FILES = {"math": "math500"}
FEW = {"mbpp": 2, "math": 12}
"""Tasks whose scorer starts processes are checked on the first few rows only."""


def lines(data: Path, name: str) -> list[dict]:
    file = data / "benchmarks" / f"{FILES.get(name, name)}.jsonl"
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()][: FEW.get(name)]


def write(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


@pytest.fixture(params=NAMES)
def task(request: pytest.FixtureRequest, tmp_path: Path) -> Task:
    """Every task, on real rows where it is a benchmark."""
    name = request.param
    if name in OTHERS:
        return plugins.load("task", name)
    if name == "jsonl":
        rows = [{"id": i, "question": f"What is {i} + {i}?", "answer": 2 * i} for i in range(20)]
        return plugins.load("task", name, data=write(tmp_path / "own.jsonl", rows))
    rows = lines(request.getfixturevalue("data"), name)
    return plugins.load("task", name, data=write(tmp_path / f"{name}.jsonl", rows))


def stated(task: Task, item, answer: str) -> Completion:
    """A completion that obeys the item's final-answer instruction."""
    contract = task.reader(item).contract
    line = re.search(r'"(.+)"', contract)
    return Completion(
        "Some reasoning first.\n\n" + re.sub(r"<[^<>]+>", lambda _: answer, line[1] if line else answer)
    )


def test_it_says_what_it_is(task: Task) -> None:
    assert task.name
    assert task.version
    assert task.max_tokens >= 16
    summary = plugins.summaries("task")[task.name.partition(":")[0]]
    assert summary.endswith(".")
    assert len(summary) < 120


def test_its_own_examples_hold(task: Task) -> None:
    if not task.name.startswith("jsonl"):
        assert any(example.answer is not None for example in task.EXAMPLES)
        assert any(example.truncated and example.answer is None for example in task.EXAMPLES)
    for example in task.EXAMPLES:
        assert task.extract(example.text, truncated=example.truncated) == example.answer, example.text


def test_every_gold_passes_its_own_scorer(task: Task) -> None:
    found = list(items(task))
    assert len({item.id for item in found}) == len(found)
    for item in found:
        assert item.gold is not None
        assert task.accepts_gold(item), item


# Gold answers of MBPP are tests, not texts: tests/tasks/test_mbpp.py.
@pytest.mark.parametrize("task", [name for name in NAMES if name != "mbpp"], indirect=True)
def test_a_stated_gold_is_right_and_another_items_gold_is_wrong(task: Task) -> None:
    judged: dict[tuple, str] = {}
    for item in items(task):
        golds = item.gold if isinstance(item.gold, list) else [item.gold]
        for gold in golds[:3]:
            verdict = task.judge(item, stated(task, item, str(gold)))
            assert verdict.correct == 1, (item, verdict)
            assert task.reader(item).key(verdict.key) == verdict.key
        judged[(item.space, verdict.key)] = str(golds[0])
    wrong = 0
    for item in islice(items(task), 40):
        others = [gold for (space, _), gold in judged.items() if space == item.space]
        verdicts = [task.judge(item, stated(task, item, other)) for other in others[:8]]
        wrong += any(verdict.correct == 0 and verdict.key is not None for verdict in verdicts)
    assert wrong >= min(10, len(judged) - 1)


def test_what_is_no_answer_abstains_and_is_not_correct(task: Task) -> None:
    item = next(items(task))
    for completion, rule in (
        (Completion("", refusal="I cannot help with that."), "refusal"),
        (Completion("Final answer: 5", finish="content_filter"), "refusal"),
        (Completion("", finish="length"), "truncated"),
        (Completion("Well, let us see what we have here and", finish="length"), "truncated"),
        (Completion("<think>Final answer: yes", finish="length"), "truncated"),
        (Completion(""), "no answer"),
    ):
        judged = task.judge(item, completion)
        assert (judged.answer, judged.key, judged.correct, judged.rule) == (None, None, 0, rule)


def test_messages_of_every_slot(task: Task) -> None:
    for item in islice(items(task), 5):
        drawn = [task.messages(item, slot) for slot in range(len(task.templates))]
        contents = {json.dumps(each) for each in drawn}
        assert len(contents) == len(drawn)
        for messages in drawn:
            assert messages[-1]["role"] == "user"
            assert all(message["content"].strip() for message in messages)
            assert item.messages[-1]["content"] in messages[-1]["content"]
        with pytest.raises(TaskError, match=f"slots 0 to {len(task.templates) - 1}"):
            task.messages(item, len(task.templates))
    if task.name in (*BENCHMARKS, "starter"):
        assert len(task.templates) == 8


@pytest.mark.parametrize(
    ("name", "column", "swapped"),
    [
        ("arc_challenge", "answerKey", {"A": "B", "B": "C", "C": "D", "D": "A"}),
        ("mmlu", "answer", {0: 1, 1: 2, 2: 3, 3: 0}),
        ("hellaswag", "label", {"0": "1", "1": "2", "2": "3", "3": "0"}),
        ("winogrande", "answer", {"1": "2", "2": "1"}),
        ("boolq", "answer", {True: False, False: True}),
    ],
)
def test_the_label_changes_the_gold_and_not_the_prompt(
    name: str, column: str, swapped: dict, data: Path
) -> None:
    task = plugins.load("task", name)
    for row in lines(data, name)[:20]:
        if row[column] in swapped:
            one, two = task.to_item(row), task.to_item({**row, column: swapped[row[column]]})
            assert one.gold != two.gold
            assert (one.id, one.messages) == (two.id, two.messages)


def test_pickling_changes_nothing(task: Task) -> None:
    twin = pickle.loads(pickle.dumps(task))
    ours, theirs = list(islice(items(task), 5)), list(islice(items(twin), 5))
    assert ours == theirs
    assert pickle.loads(pickle.dumps(ours)) == ours
    assert [task.messages(each, 1 % len(task.templates)) for each in ours] == [
        twin.messages(each, 1 % len(twin.templates)) for each in theirs
    ]
    assert json.loads(json.dumps([dict(each.meta) for each in ours])) == [dict(each.meta) for each in ours]


@pytest.mark.slow
def test_selections_are_nested_and_do_not_depend_on_order(task: Task, tmp_path: Path) -> None:
    whole = [item.id for item in select(task, seed=3)]
    assert sorted(whole) == sorted(item.id for item in items(task))
    for n in (1, 2, min(7, len(whole)), len(whole), len(whole) + 5):
        assert [item.id for item in select(task, n, seed=3)] == whole[:n]
    if len(whole) > 5:
        assert [item.id for item in select(task, seed=4)] != whole
    if isinstance(task, Benchmark) and not task.repeats:
        rows = [dict(row) for row in task.rows()]
        shuffled = type(task)(data=write(tmp_path / "reversed.jsonl", rows[::-1]))
        assert [item.id for item in select(shuffled, seed=3)] == whole


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_missing_column_is_named_with_its_line(name: str, data: Path, tmp_path: Path) -> None:
    rows = lines(data, name)[:2]
    needed = plugins.load("task", name, data="unread.jsonl").data_set.columns
    for column in needed:
        broken = [rows[0], {key: value for key, value in rows[1].items() if key != column}]
        file = write(tmp_path / "broken.jsonl", broken)
        with pytest.raises(
            TaskError, match=rf"broken\.jsonl:2: .*needs the column {column} \(found: "
        ) as caught:
            list(items(plugins.load("task", name, data=file)))
        assert all(other in str(caught.value) for other in needed if other != column)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_column_of_the_wrong_form_is_one_line(name: str, data: Path, tmp_path: Path) -> None:
    row = lines(data, name)[0]
    columns = plugins.load("task", name, data="unread.jsonl").data_set.columns
    refused = 0
    for column in columns:
        for value in (None, 7, "", [], {}):
            file = write(tmp_path / "odd.jsonl", [{**row, column: value}])
            try:
                list(items(plugins.load("task", name, data=file)))
            except TaskError as error:
                refused += 1
                assert "odd.jsonl:1: " in str(error)
                assert "\n" not in str(error)
    assert refused >= 4


@pytest.mark.parametrize("name", BENCHMARKS)
def test_wrong_splits_and_empty_data(name: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=f"{name} has no labelled split 'exam'; there are: "):
        plugins.load("task", name, split="exam")
    with pytest.raises(TaskError, match="there are no rows"):
        select(plugins.load("task", name, data=write(tmp_path / "empty.jsonl", [])))
    with pytest.raises(TaskError, match=r"gone\.jsonl: no such file"):
        select(plugins.load("task", name, data=str(tmp_path / "gone.jsonl")))


def test_domains_and_answer_spaces_are_those_of_the_papers_table() -> None:
    seen = json.loads((Path(__file__).parent / "data" / "paper.json").read_text("utf-8"))["tasks"]
    # Its table writes one domain shorter.
    known = {name: [about.domain.replace("Sci/", "Science/"), about.space] for name, about in ABOUT.items()}
    assert known == seen
    assert len(seen) == 12
