"""Selection of items by content hash, and the errors of a task's rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keff.errors import TaskError
from keff.records import Completion, Item, stable_hash
from keff.task import LocatedRow, Row, ScoredText, Task, items, select


class Numbers(Task):
    """A task over given ids; an id that begins with ! does not fit, one with ? has a gold that fails."""

    name = "numbers"
    version = "1"
    space = "exact"

    def __init__(self, ids: list[str], *, repeats: bool = False) -> None:
        self.ids = ids
        self.repeats = repeats  # type: ignore[misc]
        self.read = 0

    def rows(self) -> Iterator[Row]:
        for identity in self.ids:
            self.read += 1
            yield {"id": identity}

    def to_item(self, row: Row) -> Item:
        if row["id"].startswith("!"):
            raise TaskError("no column 'question' (found: id)")
        return Item(row["id"], ({"role": "user", "content": row["id"]},), "gold")

    def extract(self, text: str, *, truncated: bool = False) -> str | None:
        return None if truncated else text

    def key(self, answer: str) -> str | None:
        return answer

    def correct(self, answer: str, gold: Any) -> bool:
        return answer == gold

    def judge(self, item: Item, completion: Completion) -> ScoredText:
        del item
        return ScoredText(completion.text, completion.text, None, "whole")

    def accepts_gold(self, item: Item) -> bool:
        return not item.id.startswith("?")


IDS = st.lists(st.text("abcdefgh", min_size=1, max_size=4), min_size=1, max_size=60, unique=True)


@given(IDS, st.integers(1, 70), st.integers(0, 5), st.randoms())
def test_raising_n_keeps_what_is_there_in_any_order_of_the_data(ids, n, seed, random) -> None:
    fewer = select(Numbers(ids), n, seed)
    random.shuffle(ids)
    more = select(Numbers(ids), n + 1, seed)
    assert more[: len(fewer)] == fewer
    assert len(more) == min(n + 1, len(ids))
    assert select(Numbers(ids), None, seed)[: n + 1] == more


@given(IDS, st.integers(0, 5))
def test_the_order_is_the_documented_hash(ids, seed) -> None:
    assert [item.id for item in select(Numbers(ids), seed=seed)] == sorted(
        ids, key=lambda identity: stable_hash(seed, identity)
    )


def test_the_selection_is_the_same_on_every_machine() -> None:
    ids = [f"q{i}" for i in range(1000)]
    assert [item.id for item in select(Numbers(ids), 5, seed=42)] == ["q293", "q424", "q579", "q462", "q994"]


def test_every_item_is_as_likely_as_any_other() -> None:
    """Over 4000 seeds each of 10 items is among the first 3 about 1200 times (binomial, 6 sigma)."""
    ids = [str(i) for i in range(10)]
    counts = dict.fromkeys(ids, 0)
    for seed in range(4000):
        for identity in sorted(ids, key=lambda each: stable_hash(seed, each))[:3]:
            counts[identity] += 1
    sigma = (4000 * 0.3 * 0.7) ** 0.5
    assert all(abs(count - 1200) < 6 * sigma for count in counts.values())


def test_rows_are_streamed() -> None:
    task = Numbers([f"q{i}" for i in range(100)])
    next(items(task))
    assert task.read == 1


def test_an_id_that_comes_twice_is_refused_or_numbered() -> None:
    with pytest.raises(TaskError, match="row 3: duplicate id 'a'"):
        select(Numbers(["a", "b", "a"]))
    numbered = list(items(Numbers(["a", "b", "a", "a"], repeats=True)))
    assert [(item.id, item.cluster or item.id) for item in numbered] == [
        ("a", "a"),
        ("b", "b"),
        ("a#2", "a"),
        ("a#3", "a"),
    ]


def test_what_does_not_fit_is_named_with_its_place() -> None:
    with pytest.raises(TaskError, match=r"^numbers: row 2: no column 'question'"):
        select(Numbers(["a", "!b"]))
    with pytest.raises(TaskError, match="numbers: there are no rows"):
        select(Numbers([]))
    with pytest.raises(TaskError, match="n must be at least 1, not 0"):
        select(Numbers(["a"]), 0)
    with pytest.raises(TaskError, match=r"row 2: the gold answer 'gold' of item \?b fails its own scorer"):
        select(Numbers(["a", "?b"]))


def test_a_located_row_is_a_dict_that_knows_its_place() -> None:
    row = LocatedRow.at("file.jsonl:7", {"id": "!a"})
    assert row == {"id": "!a"}
    assert row.where == "file.jsonl:7"
