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
from keff.records import Completion, Item, Logprobs, Path, path_seed
from keff.sampling.job import save_embeddings
from keff.sampling.manifest import Config, Manifest
from keff.sampling.store import DATABASE, Run, Span
from keff.sampling.store._database import connect
from keff.sampling.store.rows import item_row
from keff.task import Judged

CONFIG = Config(
    engine={"name": "fake", "model": "m"},
    task={"name": "starter", "version": "1"},
    sampling={"temperature": 0.7, "seed": 0},
    prompt="abc",
)


def make(folder: File, **changes: object) -> Run:
    return Run.write(folder / "run", CONFIG.model_copy(update=changes), n=2, k=4)


def done(index: int, *, item: str = "a", slot: int = 0, attempt: int = 0, text: str = "42") -> Path:
    return Path(item, slot, index, attempt, path_seed(0, item, slot, index), Completion(text, tokens=3))


def failed(index: int, attempt: int = 0) -> Path:
    return Path("a", 0, index, attempt, 7, error="HTTP 500")


def test_what_was_committed_reads_back_equal(tmp_path: File) -> None:
    full = Completion(
        "the answer\0 is 3", "length", 9, 20, 8, "let me think", "I cannot", Logprobs(-0.5, -2.0, -4.5), 0.25
    )
    path = Path("a", 1, 3, 2, 11, full)
    item = Item("a", ({"role": "user", "content": "1+2?"},), ["3", "three"], "numeric", "twins", {"level": 5})
    judged = Judged("3", "3", 1, "marker")
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
        assert run.owed("a", [(0, 6)]) == [
            Span("a", 0, 2, 1, 1),
            Span("a", 0, 3, 1, 0),
            Span("a", 0, 5, 1, 0),
        ]
        run.add([done(2, attempt=1)])
        assert run.owed("a", [(0, 3)]) == []
        assert run.count()["errors"] == 1


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=15), st.integers(1, 6))
def test_drawing_what_is_owed_completes_the_run(
    tmp_path_factory: pytest.TempPathFactory, kept: list[tuple[int, int]], k: int
) -> None:
    wanted = [(slot, k) for slot in range(3)]
    with make(tmp_path_factory.mktemp("owed")) as run:
        run.add([done(index, slot=slot) for slot, index in kept])
        for span in run.owed("a", wanted):
            run.add([done(index, slot=span.slot) for index in range(span.start, span.start + span.count)])
        assert run.owed("a", wanted) == []
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


def test_resuming_under_another_configuration_shows_what_differs(tmp_path: File) -> None:
    make(tmp_path).close()
    with pytest.raises(StoreError, match=r"sampling\.temperature: 0\.7 -> 1\.0"):
        make(tmp_path, sampling={"temperature": 1.0, "seed": 0})


def test_n_k_and_policy_may_change_when_resuming(tmp_path: File) -> None:
    make(tmp_path).close()
    Run.write(tmp_path / "run", CONFIG, n=9, k=32, policy="lead_k:3").close()
    manifest = Manifest.read(tmp_path / "run")
    assert (manifest.n, manifest.k, manifest.policy) == (9, 32, "lead_k:3")
    assert manifest.fingerprint == CONFIG.fingerprint


def test_two_writers_are_refused_and_a_reader_is_not(tmp_path: File) -> None:
    with make(tmp_path) as run:
        run.add([done(0)])
        with pytest.raises(StoreError, match="another process"):
            make(tmp_path)
        with Run.open(tmp_path / "run") as reader:
            assert len(reader.kept("a")) == 1
    make(tmp_path).close()


def test_an_item_that_changed_under_its_id_is_refused(tmp_path: File) -> None:
    with make(tmp_path) as run:
        run.put_items([Item("a", ({"role": "user", "content": "1?"},))])
        run.put_items([Item("a", ({"role": "user", "content": "1?"},))])
        with pytest.raises(StoreError, match="the data changed"):
            run.put_items([Item("a", ({"role": "user", "content": "2?"},))])


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough" * 9, b"SQLite format 3\0" + b"\xff" * 900]
)
def test_a_corrupt_database_is_one_clear_line(tmp_path: File, content: bytes) -> None:
    make(tmp_path).close()
    (tmp_path / "run" / DATABASE).write_bytes(content)
    with pytest.raises(StoreError, match="is it a run of keff"):
        Run.open(tmp_path / "run")


def test_a_kill_right_after_the_database_is_made_leaves_a_folder_that_is_resumed(
    tmp_path: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(folder: File, **how: bool) -> None:
        connect(folder, **how).close()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("keff.sampling.store._run.connect", killed)
        make(tmp_path)
    with make(tmp_path) as run:
        run.add([done(0)])
        assert len(run.kept("a")) == 1


def test_a_database_of_another_program_is_refused(tmp_path: File) -> None:
    make(tmp_path).close()
    file = tmp_path / "run" / DATABASE
    file.unlink()
    other = sqlite3.connect(file)
    other.execute("create table t (x)")
    other.commit()
    other.close()
    with pytest.raises(StoreError, match="another program"):
        make(tmp_path)


@pytest.mark.parametrize(
    ("manifest", "line"),
    [(None, "no manifest.json"), ("{", "not a manifest"), ('{"schema_version": 9}', "not a manifest")],
)
def test_a_missing_or_foreign_manifest_is_one_clear_line(
    tmp_path: File, manifest: str | None, line: str
) -> None:
    make(tmp_path).close()
    file = tmp_path / "run" / "manifest.json"
    file.unlink()
    if manifest:
        file.write_text(manifest)
    with pytest.raises(StoreError, match=line):
        Run.open(tmp_path / "run")


def test_a_manifest_of_a_newer_keff_asks_for_an_upgrade(tmp_path: File) -> None:
    make(tmp_path).close()
    file = tmp_path / "run" / "manifest.json"
    file.write_text(file.read_text().replace('"schema_version": 1', '"schema_version": 99'))
    with pytest.raises(StoreError, match="upgrade keff"):
        Run.open(tmp_path / "run")


def test_a_full_disk_is_one_clear_line_and_keeps_what_was_committed(tmp_path: File) -> None:
    with make(tmp_path) as run:
        run.add([done(0)])
        run._database.execute("pragma max_page_count = 20")
        with pytest.raises(StoreError, match="disk is full"):
            run.add([done(index, text="x" * 50_000) for index in range(1, 9)])
        assert [one.path.index for one in run.kept("a")] == [0]


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
        whole = run.whole([item_row(item) for item in items], wanted)
        spoiled = {f"q{place}" for place, *_, failed in kept if failed}
        assert whole == {item.id for item in items if not run.owed(item.id, wanted)} - spoiled


def test_a_whole_item_that_changed_is_refused(tmp_path: File) -> None:
    with make(tmp_path) as run:
        run.put_items([Item("a", ({"role": "user", "content": "1?"},))])
        run.add([done(0)])
        with pytest.raises(StoreError, match="the data changed"):
            run.whole([item_row(Item("a", ({"role": "user", "content": "2?"},)))], [(0, 1)])


def test_paths_are_stale_until_they_are_scored_under_the_version(tmp_path: File) -> None:
    judged = Judged("3", "3", 1, "marker")
    with make(tmp_path) as run:
        run.put_items([Item("a", ()), Item("b", ())])
        run.add([done(0), failed(1), done(0, item="b")])
        assert run.stale("v1") == {"a", "b"}
        run.add_scores([(done(0), judged)], "v1")
        assert run.stale("v1") == {"b"}
        run.add_scores([(done(0, item="b"), judged)], "v1")
        assert run.stale("v1") == set()
        assert run.stale("v2") == {"a", "b"}
