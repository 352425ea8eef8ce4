"""The paper's tables of any record: no row speaks of paths that nobody drew."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from keff.errors import UsageError
from keff.paper.tables import tables
from keff.reading.open import Opening, open_record
from keff.report.tables import Table


def record(folder: Path, right: np.ndarray, name: str) -> Path:
    """Write a record whose right paths say 1 and whose wrong ones say 2."""
    lines = (
        {"id": f"q{i}", "gold_answer": "1", "all_answers": ["1" if one else "2" for one in row]}
        for i, row in enumerate(right)
    )
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def made(*paths: Path) -> dict[str, Table]:
    opened = [open_record(path, Opening()) for path in paths]
    return {table.name: table for table in tables(opened, 100, 0)}


def test_rows_end_at_the_paths_drawn_and_say_how_many(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    theta = rng.beta(1.0, 1.0, (60, 1))
    short, long = (record(tmp_path, rng.random((60, k)) < theta, f"k{k}") for k in (10, 40))
    found = made(short, long)
    for name in ("table1", "table4", "table11"):
        assert {row["paths"] for row in found[name].rows} == {10, 40}, name
    assert {row["K"] if "K" in row else row["k"] for row in found["table1"].rows if row["paths"] == 10} == {
        1,
        4,
        8,
    }


def test_the_summary_is_the_definition(tmp_path: Path) -> None:
    right = np.array([[1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 0], [0, 0, 1, 0]], bool)
    (row,) = made(record(tmp_path, right, "small"))["arms"].rows
    assert (row["n"], row["paths"], row["p"]) == (4, 4, 0.5)
    # Between questions .3333 over 4 paths, within .125: c = (MSB - MSW) / (MSB + 3 MSW).
    between, within = 4 * np.var([1, 0, 0.75, 0.25], ddof=1), (0.75 + 0.75) / 12
    assert row["c"] == pytest.approx((between - within) / (between + 3 * within))
    assert row["k_eff"] == pytest.approx(4 / (1 + 3 * row["c"]))
    assert row["majority"] == pytest.approx(0.5)


def test_k_star_is_empty_where_paths_do_not_correlate(tmp_path: Path) -> None:
    right = np.array([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]] * 4, bool)
    (row,) = made(record(tmp_path, right, "against"))["arms"].rows
    assert row["k_star"] is None


def test_records_without_labels_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bare.jsonl"
    path.write_text('{"id": "a", "all_answers": ["1", "2"]}\n{"id": "b", "all_answers": ["1", "1"]}\n')
    with pytest.raises(UsageError, match="no gold answers"):
        made(path)
