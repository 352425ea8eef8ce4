"""A small study on a stub server of known law: all its tables once more by plain loops."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.paper.study_tables import SMALL, compared

pytestmark = pytest.mark.slow


def test_every_cell_is_what_plain_loops_over_the_replies_say(tmp_path: Path) -> None:
    told = compared(tmp_path, SMALL)
    assert told.differ == []
    assert told.agree > 500 and told.files == 34
    held, intervals = told.covered
    assert held >= intervals - 1
