"""A short run of the bench that mutates logs; ``python -m benchmarks.log_fuzz`` is the long one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks import log_fuzz

FORMATS = (
    "keff_jsonl",
    "jsonl",
    "csv",
    "lm_eval",
    "published",
    "evalscope",
    "inspect_json",
    "inspect_eval",
    "parquet",
)


@pytest.mark.parametrize("name", FORMATS)
def test_mutated_logs_are_refused_or_read_as_they_were(name: str, tmp_path: Path) -> None:
    if name == "parquet":
        pytest.importorskip("pyarrow")
    base, mutations = log_fuzz.bases(tmp_path)[name]
    tally = log_fuzz.fuzz(name, base, mutations, 12 if name == "lm_eval" else 60, seed=11)
    assert tally.wrong == []
    assert 0 < tally.refused < tally.inputs


def test_the_bench_sees_a_misreading() -> None:
    whole = (("1", "2", "3"), (1, 0, 0), "1")
    assert log_fuzz.within((("1", "3"), (1, 0), "1"), whole)
    assert not log_fuzz.within((("3", "1"), (0, 1), "1"), whole)
    assert not log_fuzz.within((("1", "2", "4"), (1, 0, 0), "1"), whole)
    assert not log_fuzz.within((("1", "2", "3"), (1, 1, 0), "1"), whole)
    assert not log_fuzz.within((("1", "2", "3", "3"), (1, 0, 0, 0), "1"), whole)
