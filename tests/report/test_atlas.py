"""The atlas: its lines hold what an analysis says, are the same bytes on every run, and show no answer."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from atlas import (
    EMPTY,
    About,
    Atlas,
    AtlasEntry,
    Source,
    measure,
    read_atlas,
    to_csv,
    to_json,
    to_page,
    write_atlas,
)

from keff.analysis.decision import Aim
from keff.analysis.estimates import Settings, analyze
from keff.analysis.terms import Terms
from keff.errors import UsageError
from keff.reading.open import Opening, open_record

REPO = Path(__file__).resolve().parents[2]
ATLAS = REPO / "docs" / "atlas"
NAME = "=cmd|' /C calc'!A0 <b>|x"


def write_log(file: Path, n: int, k: int, tokens: float | None = None, seed: int = 1) -> Path:
    rng = np.random.default_rng(seed)
    with file.open("w") as out:
        for index in range(n):
            right = rng.random(k) < rng.beta(1.5, 1.0)
            answers = ["12" if good else f"secret {rng.integers(3)}" for good in right]
            row: dict[str, Any] = {"id": str(index), "gold_answer": "12", "all_answers": answers}
            if tokens is not None:
                row["all_tokens"] = [tokens] * k
            out.write(json.dumps(row) + "\n")
    return file


def line(file: Path, name: str = "own") -> AtlasEntry:
    return measure(open_record(file, Opening()), About(name, "m", "d", "T 0.7", "me"))


@pytest.mark.slow
def test_a_line_says_what_the_analysis_says(tmp_path: Path) -> None:
    file = write_log(tmp_path / "log.jsonl", 60, 40, tokens=100.0)
    entry, found = (
        line(file),
        analyze(open_record(file, Opening()), Settings(aim=Aim(slower=None), terms=Terms(now="8"))),
    )
    decision = found.decision
    assert found.c is not None
    assert found.plurality is not None
    assert (entry.p.value, entry.c) == (found.p, found.c)
    assert entry.vote is not None
    assert (entry.today, entry.vote.value) == (8, found.plurality[8])
    assert entry.k_eff.value == pytest.approx(8 / (1 + 7 * found.c.value))
    assert (entry.verdict, entry.policy) == (decision.verdict, decision.policy)
    assert (entry.mean_paths, entry.points) == (decision.expected_paths, decision.change.points)
    assert entry.mean_paths is not None
    assert entry.paths_saved is not None
    assert entry.tokens_saved is not None
    assert entry.paths_saved.value == pytest.approx(1 - entry.mean_paths.value / 8)
    # All paths cost the same here, so tokens are saved as paths are, but for the orders that were drawn.
    assert entry.tokens_saved.value == pytest.approx(entry.paths_saved.value, abs=0.01)
    assert entry.tokens_saved.lo < entry.tokens_saved.value < entry.tokens_saved.hi


@pytest.mark.slow
def test_fewer_than_eight_paths_are_their_own_reference(tmp_path: Path) -> None:
    entry = line(write_log(tmp_path / "log.jsonl", 60, 5))
    assert entry.vote is not None
    assert entry.mean_paths is not None
    assert entry.paths_saved is not None
    assert entry.today == 5
    assert entry.paths_saved.value == pytest.approx(1 - entry.mean_paths.value / 5)
    assert entry.tokens_saved is None
    page = to_page(EMPTY.added({}, [entry]))
    assert f"|{100 * entry.vote.value:.1f} (5 paths)|" in page
    assert "Of 8 paths" not in page


@pytest.mark.slow
def test_files_are_the_same_bytes_in_any_order_and_are_read_back(tmp_path: Path) -> None:
    one, two = (line(write_log(tmp_path / f"{seed}.jsonl", 40, 8, seed=seed), str(seed)) for seed in (1, 2))
    first, second = EMPTY.added({"me": Source("me")}, [one, two]), EMPTY.added({}, [two]).added({}, [one])
    second = replace(second, sources=first.sources)
    assert to_json(first) == to_json(second)
    write_atlas(first, tmp_path / "a")
    for name in ("atlas.json", "atlas.csv", "index.md"):
        assert "secret" not in (tmp_path / "a" / name).read_text("utf-8")
    again = read_atlas(tmp_path / "a" / "atlas.json")
    assert to_json(again) == to_json(first)
    write_atlas(again, tmp_path / "b")
    for name in ("atlas.json", "atlas.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert len(again.added({}, [one]).entries) == 2


@pytest.mark.slow
def test_names_are_neither_formulas_nor_markup(tmp_path: Path) -> None:
    atlas = EMPTY.added({}, [line(write_log(tmp_path / "log.jsonl", 40, 8), NAME)])
    entry = replace(atlas.entries[0], model=NAME)
    (row,) = csv.DictReader(io.StringIO(to_csv([entry])))
    assert row["model"] == f"'{NAME}"
    page = to_page(replace(atlas, entries=(entry,)))
    assert "<b>" not in page
    assert "\\|x" in page


def test_what_has_no_correlation_is_refused(tmp_path: Path) -> None:
    bare = tmp_path / "bare.jsonl"
    bare.write_text("".join(json.dumps({"id": str(i), "all_answers": ["1", "2"]}) + "\n" for i in range(3)))
    with pytest.raises(UsageError, match="needs gold answers"):
        line(bare)


def script() -> Any:
    spec = importlib.util.spec_from_file_location("write_atlas", REPO / "scripts" / "write_atlas.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def again(data: Path) -> Atlas:
    """Three lines of the published atlas that the table in the documentation has, made again."""
    pytest.importorskip("vl_convert")
    return script().collection(script().lines(data / "recorded", AGAIN))


AGAIN = [
    "faithfulcot_date_code-davinci-002_ltm40",
    "renze_arc-challenge-test-100_gpt-35-turbo_chain_of_thought",
    "renze_comprehensive-100_claude-3-opus-20240229_chain_of_thought",
]


@pytest.mark.slow
def test_what_was_measured_is_made_again_byte_for_byte(again: Atlas) -> None:
    wanted = [entry for entry in read_atlas(ATLAS / "atlas.json").entries if entry.name in AGAIN]
    columns = measured_columns(again.entries)
    assert len(columns) == 23
    for mine, published in zip(rows_of(again.entries), rows_of(wanted), strict=True):
        assert {name: mine[name] for name in columns} == {name: published[name] for name in columns}


@pytest.mark.slow
def test_what_the_rule_does_is_made_again_byte_for_byte(again: Atlas) -> None:
    published = read_atlas(ATLAS / "atlas.json")
    wanted = tuple(entry for entry in published.entries if entry.name in AGAIN)
    stale = "the recommendation changed: run scripts/write_atlas.py FOLDER, then scripts/write_readme.py"
    assert to_json(again) == to_json(replace(published, sources=again.sources, entries=wanted)), stale


def rows_of(entries: Sequence[AtlasEntry]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(entries))))


def measured_columns(entries: Sequence[AtlasEntry]) -> list[str]:
    """Return the columns that stand before the verdict."""
    names = list(rows_of(entries)[0])
    return names[: names.index("verdict")]


def test_the_published_atlas_is_whole() -> None:
    published = read_atlas(ATLAS / "atlas.json")
    assert len(published.entries) >= 50
    assert to_json(published) == (ATLAS / "atlas.json").read_text("utf-8")
    assert {entry.source for entry in published.entries} == set(published.sources)
    assert all(source.licence for source in published.sources.values())
    for entry in published.entries:
        assert entry.c.limits is not None
        assert entry.c.limits[0] <= entry.c.value <= entry.c.limits[1]
        assert math.isclose(entry.k_eff.value, 8 / (1 + 7 * entry.c.value), rel_tol=2e-3)
    names = {file.stem for file in ATLAS.iterdir()}
    assert names == {"atlas", "index"}
