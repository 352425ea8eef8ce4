"""Run folders that are damaged, foreign, newer, locked or on a full disk."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path as File

import pytest

from benchmarks.hostile._runs import DAMAGES, Damage
from benchmarks.logs.log_bases import unsealed
from keff.errors import StoreError
from keff.policy import parse_policy
from keff.records import Item
from keff.sampling.manifest import Manifest
from keff.sampling.store import DATABASE, Run
from keff.sampling.store._database import connect
from keff.task import ScoredText
from store_rig import CONFIG, done, make


def test_resuming_under_another_configuration_shows_what_differs(tmp_path: File) -> None:
    make(tmp_path).close()
    with pytest.raises(StoreError, match=r"sampling\.temperature: 0\.7 -> 1\.0"):
        make(tmp_path, sampling={"temperature": 1.0, "seed": 0})


def test_n_k_and_policy_may_change_when_resuming(tmp_path: File) -> None:
    make(tmp_path).close()
    Run.write(tmp_path / "run", CONFIG, n=9, k=32, policy=parse_policy("lead_k:3")).close()
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


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough" * 9, b"SQLite format 3\0" + b"\xff" * 900]
)
def test_a_corrupt_database_is_one_clear_line(tmp_path: File, content: bytes) -> None:
    make(tmp_path).close()
    unsealed(tmp_path / "run")
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


def test_a_run_whose_tables_found_no_room_on_the_disk_is_read_as_empty(tmp_path: File) -> None:
    make(tmp_path).close()
    unsealed(tmp_path / "run")
    (tmp_path / "run" / DATABASE).write_bytes(b"")
    with Run.open(tmp_path / "run") as reader:
        assert (reader.count()["paths"], reader.kept("a"), reader.integrity().paths) == (0, [], 0)
    with make(tmp_path) as run:
        run.add([done(0)])
        assert len(run.kept("a")) == 1


def test_a_database_of_another_program_is_refused(tmp_path: File) -> None:
    make(tmp_path).close()
    unsealed(tmp_path / "run")
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


@pytest.mark.parametrize(("number", "remedy"), [(99, "upgrade keff"), (0, "restore the folder from a copy")])
def test_a_manifest_of_another_schema_is_refused(tmp_path: File, number: int, remedy: str) -> None:
    make(tmp_path).close()
    file = tmp_path / "run" / "manifest.json"
    file.write_text(file.read_text().replace('"schema_version": 1', f'"schema_version": {number}'))
    with pytest.raises(StoreError, match=remedy):
        Run.open(tmp_path / "run")


@pytest.mark.parametrize("damage", sorted(set(DAMAGES), key=repr), ids=lambda damage: damage.__name__)
def test_a_closed_run_that_changed_is_neither_read_nor_gone_on_with(tmp_path: File, damage: Damage) -> None:
    with make(tmp_path) as run:
        run.put_items([Item("a", ()), Item("b", ())])
        run.add([done(0), done(1), done(0, item="b")])
        run.add_scores([(done(index), ScoredText("3", "3", 1, "marker")) for index in range(2)], "v1")
    damage(tmp_path / "run", random.Random(3))
    for opened in (lambda: Run.open(tmp_path / "run"), lambda: make(tmp_path)):
        with pytest.raises(StoreError, match=r"no longer match\.|restore the folder|upgrade"):
            opened()


def test_the_seal_of_a_run_that_is_copied_or_gone_on_with_holds(tmp_path: File) -> None:
    for index in range(3):
        with make(tmp_path) as run:
            run.add([done(index)])
            assert Manifest.read(run.folder).seal is None
            with Run.open(run.folder) as beside:
                assert len(beside.kept("a")) == index + 1
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    with Run.open(tmp_path / "copy") as copy:
        assert copy.manifest.seal is not None
        assert len(copy.kept("a")) == 3


def test_a_reader_that_keeps_the_log_leaves_a_run_unsealed_and_whole(tmp_path: File) -> None:
    make(tmp_path).close()
    with make(tmp_path) as run, Run.open(tmp_path / "run") as reader:
        run._database.execute("pragma busy_timeout = 0")
        reader._database.execute("begin")
        assert reader.count_items() == 0
        run.put_items([Item("a", ())])
        run.close()
        assert Manifest.read(run.folder).seal is None
    with Run.open(tmp_path / "run") as again:
        assert again.count_items() == 1


def test_a_full_disk_is_one_clear_line_and_keeps_what_was_committed(tmp_path: File) -> None:
    with make(tmp_path) as run:
        run.add([done(0)])
        run._database.execute("pragma max_page_count = 20")
        with pytest.raises(StoreError, match="disk is full"):
            run.add([done(index, text="x" * 50_000) for index in range(1, 9)])
        assert [one.path.index for one in run.kept("a")] == [0]
