"""The benchmarks page: claims become rows of its summary, and what did not run is said."""

from __future__ import annotations

import pytest

from benchmarks import __main__ as bench


def test_claims_with_an_aim_are_rows() -> None:
    text = "head\nclaim: speed of x | 36 x | above 10 x\nclaim: size | 3 MB\n1 2 3"
    report = bench.read("reproduce", text, "`how`, 3 s")
    assert report.claims == (("speed of x", "36 x", "above 10 x"),)
    page = bench.page([report], "- 2 cores\n")
    assert "|reproduce|speed of x|36 x|above 10 x|" in page
    assert "- **reproduce**: `how`, 3 s." in page
    assert "claim:" not in page and "1 2 3" not in page


@pytest.mark.parametrize("line", ["skipped: no data here", "exit code 1 Trouble", "not finished in 600 s"])
def test_what_did_not_run_is_said(line: str) -> None:
    page = bench.page([bench.read("arms", f"some\n{line}", "0.3.0")], "")
    assert f"- **arms**: 0.3.0. {line.removeprefix('skipped: ')}." in page


def test_one_benchmark_run_anew_leaves_the_others_as_they_were() -> None:
    reports = [
        bench.read(name, f"claim: of {name} | 1 | 2\nclaim: more | 3 | 4\nskipped: no {name}", "0.3.0")
        for name in ("arms", "stats")
    ]
    page = bench.page(reports, "")
    assert [(one.name, one.claims) for one in bench.kept(page, ["stats"])] == [("arms", reports[0].claims)]
    assert bench.page(bench.kept(page, []), "") == page


def test_every_file_with_a_main_is_a_benchmark() -> None:
    assert {"reproduce", "report", "arms"} <= set(bench.modules())
