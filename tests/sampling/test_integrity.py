"""Signs that paths are not what they should be."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.logs.log_bases import unsealed
from keff.records import Completion
from keff.records import Path as Row
from keff.sampling.integrity import Integrity
from keff.sampling.manifest import Config
from keff.sampling.store import Run

CONFIG = Config(engine={}, task={"name": "t"}, sampling={})


def counted(folder: Path, texts: list[str], tokens: int = 20, **fields: object) -> Integrity:
    with Run.write(folder / "run", CONFIG, n=1, k=len(texts)) as run:
        run.add(
            [Row("a", 0, i, 0, i, Completion(text, tokens=tokens, **fields)) for i, text in enumerate(texts)]  # type: ignore[arg-type]
        )
        return run.integrity()


def codes(found: Integrity, temperature: float = 0.7) -> list[str]:
    return [note.code for note in found.notes(temperature)]


@pytest.mark.parametrize(("texts", "same"), [("aaaa", 6), ("aabb", 2), ("abcd", 0), ("aaab", 3)])
def test_identical_pairs_are_counted_within_an_item(tmp_path: Path, texts: str, same: int) -> None:
    found = counted(tmp_path, list(texts))
    assert (found.pairs, found.identical) == (6, same)
    assert ("collapsed_sampling" in codes(found)) == (same > 3)


def test_texts_of_other_items_and_slots_are_no_pairs(tmp_path: Path) -> None:
    with Run.write(tmp_path / "run", CONFIG, n=2, k=4) as run:
        paths = [(item, slot, index) for index in range(2) for slot in range(2) for item in "ab"]
        run.add([Row(*path, 0, 0, Completion("so 4", tokens=20)) for path in paths])
        found = run.integrity()
    assert (found.paths, found.pairs, found.identical) == (8, 4, 4)


def test_a_text_that_is_not_utf_8_is_counted_as_any_other(tmp_path: Path) -> None:
    counted(tmp_path, list("aab"))
    unsealed(tmp_path / "run")
    with closing(sqlite3.connect(tmp_path / "run" / "paths.sqlite")) as database, database:
        database.execute("drop trigger paths_keep")
        database.execute("update paths set text = cast(x'ff' as text) where text = 'a'")
    database.close()
    with Run.open(tmp_path / "run") as run:
        assert (run.integrity().pairs, run.integrity().identical) == (3, 1)


def test_short_answers_may_be_equal(tmp_path: Path) -> None:
    assert codes(counted(tmp_path, ["yes"] * 8, tokens=1)) == []


def test_temperature_zero_is_named_as_the_cause(tmp_path: Path) -> None:
    (note,) = counted(tmp_path, ["a"] * 4).notes(0.0)
    assert "temperature 0" in note.message


def test_truncation_is_noted(tmp_path: Path) -> None:
    assert codes(counted(tmp_path, list("abcd"), finish="length")) == ["truncated"]


def test_failed_attempts_are_counted(tmp_path: Path) -> None:
    with Run.write(tmp_path / "run", CONFIG, n=1, k=2) as run:
        run.add([Row("a", 0, 0, 0, 1, error="HTTP 500"), Row("a", 0, 0, 1, 1, Completion("x"))])
        found = run.integrity()
    assert found.shares()["failed"] == 0.5
    assert codes(found) == ["failed_requests"]


def test_an_empty_run_has_no_shares(tmp_path: Path) -> None:
    assert set(counted(tmp_path, []).shares().values()) == {None}
