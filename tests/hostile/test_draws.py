"""A small draw of each suite of benchmarks/hostile that needs no server; the chaos test runs all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.hostile._otherwise import written_otherwise
from benchmarks.hostile._runs import damaged_runs
from benchmarks.hostile._tally import Tally
from benchmarks.hostile._writes import failing_writes

DRAWS = {written_otherwise: 44, damaged_runs: 20, failing_writes: 6}


@pytest.mark.slow
@pytest.mark.parametrize("suite", DRAWS, ids=lambda suite: suite.__name__)
def test_a_draw_of_the_suite_holds(suite: Callable[[Path, int, int], Tally], tmp_path: Path) -> None:
    tally = suite(tmp_path, DRAWS[suite], 7)
    assert tally.failures == []
    assert tally.inputs > 0
