"""The benchmarks page: claims become rows of its summary, and what did not run is said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import __main__ as bench
from benchmarks.constants import __main__ as fits
from benchmarks.constants._row import in_place

REPO = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"(?<![\w/])benchmarks(?:\.\w+)+|(?<![\w/])benchmarks/[\w/.]+\w")


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


def test_no_two_benchmarks_have_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    for room in ("stats", "logs"):
        (tmp_path / "benchmarks" / room).mkdir(parents=True)
        (tmp_path / "benchmarks" / room / "twice.py").write_text("def main(): ...", "utf-8")
    with pytest.raises(ValueError, match="two benchmarks are called twice"):
        bench.modules()


def exists(name: str) -> bool:
    """Say whether a benchmark that is named somewhere is a file: by its path, its module, or a name in it."""
    if "/" in name:
        return (REPO / name).exists()
    parts = name.split(".")
    places = [REPO.joinpath(*parts[:size]) for size in range(2, len(parts) + 1)]
    return any(place.with_suffix(".py").is_file() for place in places) or places[-1].is_dir()


def test_every_benchmark_that_is_named_exists() -> None:
    """In sources, tests, pages and benchmarks: what made a constant or a figure can be run."""
    pages = [*REPO.glob("*.md")]
    for folder, ending in (("src", "py"), ("tests", "py"), ("benchmarks", "py"), ("docs", "md")):
        pages += (REPO / folder).rglob(f"*.{ending}")
    found = {(name, page) for page in pages for name in NAMED.findall(page.read_text("utf-8"))}
    assert len(found) > 50
    not_modules = ("benchmarks.md", "benchmarks.html")
    assert [(name, str(page)) for name, page in found if name not in not_modules and not exists(name)] == []
    in_short = re.compile(r"python -m benchmarks(?:\.(constants))? (\w+)")
    for page in pages:
        for constants, name in in_short.findall(page.read_text("utf-8")):
            assert name in {"NAME", *(fits.names() if constants else bench.modules())}, (name, page)


def test_a_fit_has_its_result_beside_it_and_the_package_its_constants() -> None:
    for name in fits.names():
        kept = (fits.FOLDER / f"{name}.txt").read_text("utf-8")
        assert kept.startswith(f"python -m benchmarks.constants {name}"), name
        for constant, value in re.findall(r"^\| (keff[\w.]+:[\w.]+) \|.*?\| (.*?) \|", kept, re.MULTILINE):
            assert in_place(constant) == value, constant
