"""The benchmarks page: claims become rows of its summary, and what did not run is said."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

MAIN = Path(__file__).resolve().parent.parent / "benchmarks" / "__main__.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmarks_main", MAIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_claims_are_rows_and_details_follow(bench: ModuleType) -> None:
    text = "head\nclaim: speed of x | 36 x | above 10 x\nclaim: size | 3 MB\n1 2 3"
    report = bench.read("reproduce", text, "`how`, 3 s")
    assert report.claims == (("speed of x", "36 x", "above 10 x"), ("size", "3 MB", "–"))
    page = bench.page([report], "- 2 cores\n")
    summary, _, details = page.partition("## Details")
    assert "| speed of x | 36 x | above 10 x | [reproduce](#reproduce) |" in summary
    assert "Not run" not in summary
    assert "claim:" not in details
    assert "1 2 3" in details


@pytest.mark.parametrize("line", ["skipped: no data here", "exit code 1 Trouble", "not finished in 600 s"])
def test_what_did_not_run_is_listed(bench: ModuleType, line: str) -> None:
    page = bench.page([bench.read("arms", f"some\n{line}", "")], "")
    assert f"- arms: {line.removeprefix('skipped: ')}" in page.partition("## Details")[0]


def test_long_output_is_cut(bench: ModuleType) -> None:
    report = bench.read("arms", "\n".join(map(str, range(200))), "")
    assert "... 140 more lines" in report.section
    assert "\n59\n" in report.section
    assert "\n60\n" not in report.section


def test_one_benchmark_run_anew_leaves_the_others_as_they_were(bench: ModuleType) -> None:
    reports = [
        bench.read(name, f"claim: of {name} | 1 | 2\nskipped: no {name}\n### not a head", "")
        for name in ("arms", "stats")
    ]
    page = bench.page(reports, "")
    assert bench.kept(page, ["stats"]) == reports[:1]
    assert bench.page(bench.kept(page, []), "") == page


def test_every_benchmark_has_a_paragraph_about_it(bench: ModuleType) -> None:
    assert {"reproduce", "report", "arms"} <= set(bench.names())
    for name in bench.names():
        assert len(bench.about(name)) > 30, name
