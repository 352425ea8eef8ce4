"""Items in little memory are the items that ``select`` gives."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from keff import plugins
from keff.errors import TaskError
from keff.sampling.selection import Selection
from keff.task import Task, select


def questions(folder: Path, n: int, gold: str = "{}") -> Task:
    file = folder / "questions.jsonl"
    rows = (
        {
            "id": f"q{i}",
            "question": f"What is {i} + 1? " + "Think. " * 9,
            "answer": gold.format(i + 1),
            "level": [i],
        }
        for i in range(n)
    )
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return plugins.load("task", "jsonl", data=str(file), answer_space="numeric")


@pytest.mark.parametrize("n", [None, 1, 7, 40, 99])
def test_a_selection_is_what_select_gives(tmp_path: Path, n: int | None) -> None:
    task = questions(tmp_path, 40)
    items = select(task, n, 3)
    drawn = Selection.drawn(task, n, 3)
    assert list(drawn) == list(Selection.of(items)) == items
    assert list(drawn[1::3]) == items[1::3]
    assert [row[0] for part in drawn.parts(6) for row in part] == [item.id for item in items]


@pytest.mark.parametrize("n", [None, 40])
def test_a_gold_answer_that_fails_its_own_scorer_is_refused_with_its_line(
    tmp_path: Path, n: int | None
) -> None:
    with pytest.raises(TaskError, match=r"questions\.jsonl:\d+: the gold answer 'none"):
        Selection.drawn(questions(tmp_path, 40, "none of {}s"), n, 0)


def test_a_selection_takes_a_part_of_the_memory_of_its_items(tmp_path: Path) -> None:
    task, sizes = questions(tmp_path, 2000), list[int]()
    for draw in (select, Selection.drawn):
        tracemalloc.start()
        kept = draw(task, None, 0)
        sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert len(kept) == 2000
    assert sizes[1] < 0.6 * sizes[0]
