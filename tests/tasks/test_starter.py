"""The items that come with keff: well formed, balanced, and read by their own answer space."""

from __future__ import annotations

from collections import Counter

from keff import plugins
from keff.records import Completion
from keff.task import items, select

TASK = plugins.load("task", "starter")
ITEMS = list(items(TASK))


def test_there_are_enough_and_all_differ() -> None:
    assert len(ITEMS) >= 150
    assert len({item.messages[-1]["content"] for item in ITEMS}) == len(ITEMS)
    kinds = Counter(item.space for item in ITEMS)
    assert set(kinds) == {"numeric", "binary", "choice"}
    assert min(kinds.values()) >= 40
    levels = Counter((item.space, item.meta["level"]) for item in ITEMS)
    assert all(levels[space, level] >= 10 for space in kinds for level in (1, 2, 3))


def test_no_constant_answer_does_well() -> None:
    for space, most in (("binary", 0.6), ("choice", 0.3), ("numeric", 0.15)):
        golds = Counter(item.gold for item in ITEMS if item.space == space)
        assert max(golds.values()) <= most * golds.total()


def test_a_small_sample_has_all_kinds_of_items() -> None:
    assert {item.space for item in select(TASK, 48)} == {"numeric", "binary", "choice"}


def test_options_differ_and_the_gold_is_one_of_them() -> None:
    for item in ITEMS:
        if item.space == "choice":
            assert len(set(item.meta["options"])) == 4
            assert item.gold in item.meta["labels"]


def test_prompts_are_short_and_show_worked_examples_of_their_kind() -> None:
    for item in ITEMS:
        messages = TASK.messages(item, 0)
        assert [message["role"] for message in messages] == ["system", *["user", "assistant"] * 2, "user"]
        assert sum(len(message["content"].split()) for message in messages) < 90
        for worked in messages[2:5:2]:
            assert TASK.judge(item, Completion(worked["content"])).key is not None


def test_answers_are_read_by_the_items_own_space() -> None:
    by_space = {item.space: item for item in ITEMS}
    for space, text, key in (
        ("numeric", "3 + 4 = 7. The answer is 7.", "7"),
        ("binary", "The cat is black. The answer is yes.", "yes"),
        ("choice", "Paris is in France. The answer is C.", "C"),
    ):
        assert TASK.judge(by_space[space], Completion(text)).key == key


def test_arithmetic_golds_are_right() -> None:
    """Every item that is a bare sum is computed again."""
    sums = 0
    for item in ITEMS:
        question = item.messages[-1]["content"].split("\n")[0]
        body = question.removeprefix("What is ").removesuffix("?").replace("x", "*")
        if set(body) <= set("0123456789+-*/ ") and item.space == "numeric":
            assert eval(body) == int(item.gold), question
            sums += 1
    assert sums >= 30
