"""A short run of the bench that mutates logs; ``python -m benchmarks.logs.log_fuzz`` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.logs import log_bases, log_fuzz

SLOW = {"lm_eval": 16, "run": 36}
"""Formats of which one file takes long: a task is loaded, or a folder is written."""


@pytest.mark.slow
@pytest.mark.parametrize("name", log_bases.FORMATS)
def test_mutated_logs_are_refused_or_read_as_they_were(name: str, tmp_path: Path) -> None:
    if name in log_bases.NEEDS_ARROW:
        pytest.importorskip("pyarrow")
    base = log_bases.FORMATS[name](tmp_path, log_bases.draws())
    tally = log_fuzz.fuzz(base, SLOW.get(name, 64), seed=11)
    assert tally.wrong == []
    assert 0 < tally.refused < tally.inputs


def test_the_bench_sees_a_misreading() -> None:
    whole = (("1", "2", "3"), (1, 0, 0), "1")
    assert log_fuzz.within((("1", "3"), (1, 0), "1"), whole)
    assert not log_fuzz.within((("3", "1"), (0, 1), "1"), whole)
    assert not log_fuzz.within((("1", "2", "4"), (1, 0, 0), "1"), whole)
    assert not log_fuzz.within((("1", "2", "3"), (1, 1, 0), "1"), whole)
    assert not log_fuzz.within((("1", "2", "3", "3"), (1, 0, 0, 0), "1"), whole)
