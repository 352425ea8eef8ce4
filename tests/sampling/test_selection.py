"""Items in little memory are the items that ``select`` gives."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pytest

from benchmarks.logs.log_bases import unsealed
from keff import plugins
from keff.errors import StoreError, TaskError
from keff.records import Sampling
from keff.sampling.job import Job, execute
from keff.sampling.orders import Order
from keff.sampling.selection import NOTE, Selection
from keff.task import Task, select
from keff.tasks.jsonl import Jsonl


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


@pytest.mark.slow
def test_a_selection_takes_a_part_of_the_memory_of_its_items(tmp_path: Path) -> None:
    task, sizes = questions(tmp_path, 2000), list[int]()
    for draw in (select, Selection.drawn):
        tracemalloc.start()
        kept = draw(task, None, 0)
        sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert len(kept) == 2000
    assert sizes[1] < 0.6 * sizes[0]


def job(task: Task, folder: Path, k: int = 2, n: int | None = None) -> Job:
    return Job(task, plugins.load("engine", "fake"), folder / "run", Order(Sampling(), k), n)


def unread(_: Task) -> NoReturn:
    raise AssertionError("the data were read")


def test_a_run_of_the_same_data_is_resumed_without_reading_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = questions(tmp_path, 30)
    items = select(task)
    asyncio.run(execute(job(task, tmp_path)))
    monkeypatch.setattr(Jsonl, "rows", unread)
    again = asyncio.run(execute(job(task, tmp_path)))
    assert (again.items, again.kept, again.done) == (30, 60, 0)
    more = job(task, tmp_path, k=3)
    assert list(more.items()) == items
    assert asyncio.run(execute(more)).done == 30


@pytest.mark.parametrize("n", [10, 31])
def test_another_draw_of_items_reads_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    task = questions(tmp_path, 40)
    asyncio.run(execute(job(task, tmp_path, n=30)))
    with monkeypatch.context() as patch, pytest.raises(AssertionError, match="the data were read"):
        patch.setattr(Jsonl, "rows", unread)
        asyncio.run(execute(job(task, tmp_path, n=n)))
    assert asyncio.run(execute(job(task, tmp_path, n=n))).done == 2 * max(0, n - 30)


def test_data_that_changed_are_refused(tmp_path: Path) -> None:
    asyncio.run(execute(job(questions(tmp_path, 30), tmp_path)))
    with pytest.raises(StoreError, match="the data changed"):
        asyncio.run(execute(job(questions(tmp_path, 30, "{}.5"), tmp_path)))


@pytest.mark.parametrize("note", ["", "[]", '{"key": 3}', "null"])
def test_a_note_that_is_damaged_is_no_note(tmp_path: Path, note: str) -> None:
    asyncio.run(execute(job(questions(tmp_path, 30), tmp_path)))
    (tmp_path / "run" / NOTE).write_text(note)
    assert asyncio.run(execute(job(questions(tmp_path, 30), tmp_path))).kept == 60


def test_a_damaged_question_of_a_resumed_run_is_named(tmp_path: Path) -> None:
    task, run = questions(tmp_path, 30), tmp_path / "run"
    asyncio.run(execute(job(task, tmp_path)))
    unsealed(run)
    with closing(sqlite3.connect(run / "paths.sqlite")) as database, database:
        database.execute("update items set meta = '[{' where rowid = 7")
    held = job(task, tmp_path, k=3).items()
    said = rf"{re.escape(str(run))}: item '.*' is damaged .*restore"
    with pytest.raises(StoreError, match=said):
        list(held[5:9])
    with pytest.raises(StoreError, match=said):
        asyncio.run(execute(job(task, tmp_path, k=3)))
