"""What keff prints of small logs stays what it was: ``make golden`` writes a meant change down."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.golden import differences, load, names, printed

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", names())
def test_what_is_printed_is_as_before(name: str, tmp_path: Path) -> None:
    changed = differences(load(name), printed(name, tmp_path))
    assert not changed, "\n".join([f"{len(changed)} fields of {name} changed (make golden):", *changed[:40]])
