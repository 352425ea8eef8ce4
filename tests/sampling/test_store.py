"""Run folders: nothing lost, nothing twice, nothing changed."""

from __future__ import annotations

import sqlite3
import tracemalloc
from dataclasses import replace
from pathlib import Path as File

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.errors import StoreError
from keff.records import Completion, Item, Logprobs, Path
from keff.sampling.job import save_embeddings
from keff.sampling.store import DATABASE, OwedPaths, Run
from keff.sampling.store.rows import item_row, path_seed
from keff.task import ScoredText
from store_rig import done, failed, make


def test_what_was_committed_reads_back_equal(tmp_path: File) -> None:
    full = Completion(
        "the answer\0 is 3", "length", 9, 20, 8, "let me think", "I cannot", Logprobs(-0.5, -2.0, -4.5), 0.25
    )
    path = Path("a", 1, 3, 2, 11, full)
    item = Item("a", ({"role": "user", "content": "1+2?"},), ["3", "three"], "numeric", "twins", {"level": 5})
    judged = ScoredText("3", "3", 1, "marker")
    with make(tmp_path) as run:
        run.put_items([item])
        run.add([path])
        run.add_scores([(path, judged)], "v1")
    with Run.open(tmp_path / "run") as run:
        assert list(run.items()) == [item]
        (kept,) = run.kept("a")
        assert (kept.path, kept.completion, kept.judged, kept.version) == (path, full, judged, "v1")


def test_half_a_surrogate_pair_is_kept_as_a_replacement_mark(tmp_path: File) -> None:
    with make(tmp_path) as run:
        run.add([done(0, text="ok \ud83d")])
        assert run.kept("a")[0].completion.text.startswith("ok ")


def test_owed_is_wanted_minus_kept_and_failures_are_owed_again(tmp_path: File) -> None:
    with make(tmp_path) as run:
        run.add([done(0), done(1), failed(2), done(4)])
        assert run.owed(["a"], [(0, 6)])["a"] == [
            OwedPaths("a", 0, 2, 1, 1),
            OwedPaths("a", 0, 3, 1, 0),
            OwedPaths("a", 0, 5, 1, 0),
        ]
        run.add([done(2, attempt=1)])
        assert run.owed(["a"], [(0, 3)])["a"] == []
        assert run.count()["errors"] == 1


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=15), st.integers(1, 6))
def test_drawing_what_is_owed_completes_the_run(
    tmp_path_factory: pytest.TempPathFactory, kept: list[tuple[int, int]], k: int
) -> None:
    wanted = [(slot, k) for slot in range(3)]
    with make(tmp_path_factory.mktemp("owed")) as run:
        run.add([done(index, slot=slot) for slot, index in kept])
        for span in run.owed(["a"], wanted)["a"]:
            run.add([done(index, slot=span.slot) for index in range(span.start, span.start + span.count)])
        assert run.owed(["a"], wanted)["a"] == []
        have = {(one.path.slot, one.path.index) for one in run.kept("a")}
        assert have == set(kept) | {(slot, index) for slot, count in wanted for index in range(count)}


def test_a_second_copy_of_a_path_changes_nothing(tmp_path: File) -> None:
    with make(tmp_path) as run:
        run.add([done(0, text="first")])
        run.add([done(0, text="second")])
        assert [one.completion.text for one in run.kept("a")] == ["first"]


def test_committed_paths_can_be_neither_changed_nor_deleted(tmp_path: File) -> None:
    with make(tmp_path) as run:
        run.add([done(0)])
    database = sqlite3.connect(tmp_path / "run" / DATABASE)
    for statement in ("update paths set text = 'x'", "delete from paths"):
        with pytest.raises(sqlite3.IntegrityError, match="never change"):
            database.execute(statement)
    database.close()


def test_an_item_that_changed_under_its_id_is_refused(tmp_path: File) -> None:
    with make(tmp_path) as run:
        run.put_items([Item("a", ({"role": "user", "content": "1?"},))])
        run.put_items([Item("a", ({"role": "user", "content": "1?"},))])
        with pytest.raises(StoreError, match="the data changed"):
            run.put_items([Item("a", ({"role": "user", "content": "2?"},))])


@given(st.integers(0, 2**31), st.text(max_size=8), st.integers(0, 8), st.integers(0, 5000))
def test_neighbouring_paths_have_neighbouring_seeds(run: int, item: str, slot: int, index: int) -> None:
    seed = path_seed(run, item, slot, index)
    assert 0 <= seed < 2**31
    assert path_seed(run, item, slot, index + 1) == (seed + 1) % 2**31


def test_path_seeds_are_the_same_in_every_process() -> None:
    assert path_seed(0, "item", 0, 0) == path_seed(0, "item", 0, 0) != path_seed(1, "item", 0, 0)
    assert path_seed(0, "gsm8k-1", 2, 5) == 1592798677


def test_hidden_states_come_back_in_launch_order_for_complete_items(tmp_path: File) -> None:
    def seen(item: str, index: int, value: float) -> Path:
        vector = np.full(3, value, "<f2").tobytes()
        return Path(item, 0, index, 0, index, Completion("x", embedding=vector))

    with make(tmp_path) as run:
        assert list(run.embeddings()) == []
        run.put_items([Item("b", ()), Item("a", ()), Item("c", ())])
        run.add(
            [
                seen(item, index, value + index)
                for item, value in (("a", 10), ("b", 20))
                for index in (2, 0, 3, 1)
            ]
        )
        run.add([seen("c", 0, 1)])
        states = dict(run.embeddings())
        save_embeddings(run)
    assert list(states) == ["b", "a"]
    assert {item: vectors[:, 0].tolist() for item, vectors in states.items()} == {
        "b": [20, 21, 22, 23],
        "a": [10, 11, 12, 13],
    }
    (file,) = run.folder.glob("embeddings.npy*")
    saved = np.load(file)
    assert saved.dtype == np.float16
    assert np.array_equal(saved, np.stack(list(states.values())))


def test_hidden_states_of_a_large_run_are_in_memory_an_item_at_a_time(tmp_path: File) -> None:
    vector, items = np.zeros(4096, "<f2").tobytes(), [f"q{place}" for place in range(60)]
    with make(tmp_path) as run:
        run.put_items([Item(item, ()) for item in items])
        for item in items:
            run.add([Path(item, 0, index, 0, index, Completion("x", embedding=vector)) for index in range(4)])
        tracemalloc.start()
        shapes = {vectors.shape for _, vectors in run.embeddings()}
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert shapes == {(4, 4096)}
    assert peak < 10 * 4 * len(vector) < 60 * 4 * len(vector)


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 3), st.booleans()),
        max_size=24,
        unique_by=lambda path: path[:3],
    )
)
def test_an_item_is_whole_where_nothing_of_it_is_owed_and_nothing_failed(
    tmp_path_factory: pytest.TempPathFactory, kept: list[tuple[int, int, int, bool]]
) -> None:
    items = [Item(f"q{place}", ({"role": "user", "content": f"{place}?"},)) for place in range(4)]
    wanted = [(0, 2), (1, 1)]
    with make(tmp_path_factory.mktemp("whole")) as run:
        run.put_items(items)
        for place, slot, index, failed in kept:
            path = done(index, item=f"q{place}", slot=slot)
            run.add([replace(path, completion=None, error="HTTP 500") if failed else path])
        whole = run.complete_ids([item_row(item) for item in items], wanted)
        spoiled = {f"q{place}" for place, *_, failed in kept if failed}
        assert whole == {item.id for item in items if not run.owed([item.id], wanted)[item.id]} - spoiled


def test_a_whole_item_that_changed_is_refused(tmp_path: File) -> None:
    with make(tmp_path) as run:
        run.put_items([Item("a", ({"role": "user", "content": "1?"},))])
        run.add([done(0)])
        with pytest.raises(StoreError, match="the data changed"):
            run.complete_ids([item_row(Item("a", ({"role": "user", "content": "2?"},)))], [(0, 1)])


def test_paths_are_stale_until_they_are_scored_under_the_version(tmp_path: File) -> None:
    judged = ScoredText("3", "3", 1, "marker")
    with make(tmp_path) as run:
        run.put_items([Item("a", ()), Item("b", ())])
        run.add([done(0), failed(1), done(0, item="b")])
        assert run.stale("v1") == {"a", "b"}
        run.add_scores([(done(0), judged)], "v1")
        assert run.stale("v1") == {"b"}
        run.add_scores([(done(0, item="b"), judged)], "v1")
        assert run.stale("v1") == set()
        assert run.stale("v2") == {"a", "b"}
