"""The whole reproduction on records in the published layout: complete, in part, and broken."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from keff.errors import LogError
from keff.paper import claims
from keff.paper import records as published
from keff.paper.reproduce import Reproducing, Reproduction, reproduce, workers
from keff.paper.reproduce import write as write_results
from keff.paper.saturation import costs
from published_records import TRUTHS, matrix_rows, series_rows, write

pytestmark = pytest.mark.slow

QUICK = Reproducing(replicates=200, processes=1)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every saturation file with short traces, and the matrix files of two models."""
    root = tmp_path_factory.mktemp("records")
    for place, series in enumerate((*published.SERIES, published.REASONING)):
        truth = replace(TRUTHS[series.name], trace=5)
        write(root / series.file, series_rows(series, truth, np.random.default_rng(place)))
    for place, (file, model, tasks) in enumerate(published.matrix_files()):
        if model in ("qwen7b", "llama8b"):
            rng = np.random.default_rng([7, place])
            sizes = {task: published.PARTIAL.get((model, task), (250, 250)) for task in tasks}
            rows = (row for task in tasks for row in matrix_rows(task, sizes[task], (0.75, 0.5), rng))
            write(root / file, rows)
    return root


@pytest.fixture(scope="module")
def found(records: Path) -> Reproduction:
    return reproduce(records, QUICK)


def test_all_tables_and_figures_come_out_and_the_truth_comes_back(
    found: Reproduction, tmp_path: Path
) -> None:
    assert sorted(found.tables) == sorted(claims.PRINTED)
    assert sorted(found.figures) == ["figure2", "figure3", "saturation", "templates"]
    assert [len(row["matrix"]) for row in found.figures["templates"]] == [8] * 12
    assert found.problems == []
    assert len(found.missing) == 33 + 1
    assert (found.headline["cells"], len(found.tables["table3"])) == (24, 12)
    for row, name in zip(found.tables["table4"], (series.name for series in published.SERIES), strict=True):
        assert row["c_corrected"] == pytest.approx(TRUTHS[name].c, abs=0.16)
    assert found.headline["reasoning"]["truncated"] == pytest.approx(0.02 * 0.07, abs=0.002)
    held = {(one.row, one.column) for one in found.checks if one.table == "text"}
    assert held >= {
        ("reasoning", "truncated"),
        ("precision.rho.iqr", "1"),
        ("block", "cells"),
        ("cells", "valid"),
    }
    assert len(held) > 30
    assert found.headline["reasoning"]["p"] == pytest.approx(0.93, abs=0.06)
    files = write_results(found, tmp_path)
    assert {file.suffix for file in files} == {".json", ".tex", ".md"}
    assert json.loads((tmp_path / "numbers.json").read_text())["tables"]["table1"][1]["k"] == 4
    text = (tmp_path / "differences.md").read_text()
    assert "## K_eff block over K_eff vote" in text
    assert "Not in Figure 3: MBPP (scores only, no answers), CruxEval (scores only, no answers)." in text


def test_every_figure_is_drawn_with_the_same_bytes(found: Reproduction, tmp_path: Path) -> None:
    drawings = pytest.importorskip("keff.paper.drawings", reason="pip install keff[report]")
    first, second = [], []
    for name, files in (("one", first), ("two", second)):
        with drawings.vega.converter() as save_all:
            files += drawings.draw(save_all, found, tmp_path / name)
    names = {"figure2", "figure3", "figure_saturation", "figure_pilot", "figure_epsilon", "figure_forest"}
    assert {file.stem for file in first} == names | {"figure_templates"}
    assert len(first) == 2 * 7
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes(), one.name


def test_several_processes_give_the_same_bytes(records: Path, tmp_path: Path) -> None:
    some = tmp_path / "some"
    for file in (
        published.SERIES[4].file,
        "capability_matrix/qwen7b_capgated_arc.jsonl",
        "capability_matrix/llama8b_capgated_qa.jsonl",
    ):
        (some / file).parent.mkdir(parents=True, exist_ok=True)
        (some / file).write_bytes((records / file).read_bytes())
    for name, processes in (("one", 1), ("two", 2)):
        write_results(reproduce(some, replace(QUICK, processes=processes)), tmp_path / name)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes(), file.name


def test_one_file_is_enough_and_the_rest_is_listed(records: Path, tmp_path: Path) -> None:
    series = published.SERIES[4]
    target = tmp_path / series.file
    target.parent.mkdir(parents=True)
    target.write_bytes((records / series.file).read_bytes())
    found = reproduce(tmp_path, QUICK)
    assert sorted(found.tables) == ["table4"]
    assert len(found.missing) == 5 + 55 + 1


def test_nothing_usable_is_an_error_that_says_what_was_wanted(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"wanted files such as sc_records/qwen7b_sc_kvar_v2_gsm8k\.jsonl"):
        reproduce(tmp_path, QUICK)
    with pytest.raises(LogError, match="not a folder"):
        reproduce(tmp_path / "nowhere", QUICK)


def test_all_problems_are_listed_at_once(records: Path, tmp_path: Path) -> None:
    good, bad, wrong = published.SERIES[0], published.SERIES[1], published.SERIES[2]
    (tmp_path / "sc_records").mkdir()
    (tmp_path / good.file).write_bytes((records / good.file).read_bytes())
    lines = (records / bad.file).read_text().splitlines()
    lines[3], lines[7] = "{bad", lines[7].replace('"K": 32', '"K": 31')
    (tmp_path / bad.file).write_text("\n".join(lines) + "\n")
    text = (records / wrong.file).read_text().replace('"max_new_tokens": 1024', '"max_new_tokens": 512')
    (tmp_path / wrong.file).write_text(text.replace('"seed": 42,', '"seed": 43,'))
    problems = "\n".join(reproduce(tmp_path, QUICK).problems)
    for part in (
        "llama8b_sc_kvar_v2_gsm8k.jsonl:4: not JSON",
        "llama8b_sc_kvar_v2_gsm8k.jsonl:8: all_answers has 32 entries, K is 31",
        "not used, because it has bad lines",
        "provenance says max_new_tokens 512, the paper used 1024",
        "has the seeds [43, 123, 456, 789, 1024]",
    ):
        assert part in problems, part


def test_printed_numbers_are_checked_to_their_last_digit() -> None:
    row = {"k": 4, "mv": 0.9584, "bb_error": 0.0075, "binomial_error": 0.0286}
    checks = {one.column: one.agrees for one in claims.check("table9", [row])}
    assert checks == {"mv": True, "bb_error": True, "binomial_error": False}


def test_numbers_of_the_text_are_checked_where_they_are() -> None:
    headline = {"reduced": 55, "range_delta_rho": [-0.814, 0.1], "block": {"mean": None}}
    checks = {(one.row, one.column): one.agrees for one in claims.check_headline(headline)}
    assert checks == {
        ("cells", "reduced"): True,
        ("range_delta_rho", "0"): True,
        ("range_delta_rho", "1"): False,
    }


def test_the_printed_tables_are_whole() -> None:
    for name, (header, text) in claims.PRINTED.items():
        assert {len(line.split()) for line in text.splitlines()} == {len(header.replace("|", " ").split())}, (
            name
        )


def test_a_torn_last_line_costs_one_question_only(records: Path, tmp_path: Path) -> None:
    series = published.SERIES[0]
    (tmp_path / "sc_records").mkdir()
    (tmp_path / series.file).write_bytes((records / series.file).read_bytes()[:-50])
    found = reproduce(tmp_path, QUICK)
    assert "table1" in found.tables
    assert any("the last line is incomplete; skipped" in one for one in found.problems)


def test_records_in_which_no_path_is_right_are_reported(records: Path, tmp_path: Path) -> None:
    series = published.SERIES[0]
    (tmp_path / "sc_records").mkdir()
    text = (records / series.file).read_text().replace('"gold_answer": "18"', '"gold_answer": "0"')
    (tmp_path / series.file).write_text(text)
    found = reproduce(tmp_path, QUICK)
    assert found.tables["table4"][0]["mv"] == 0
    write_results(found, tmp_path / "out")
    # Of 0% nothing can be kept: the page leaves the comparison out.
    assert "from the first paths" not in (tmp_path / "out" / "differences.md").read_text()


def test_an_interruption_begins_no_work_that_waits(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), workers(1) as pool:
        pool.submit(time.sleep, 0.5)
        for number in range(30):
            pool.submit((tmp_path / str(number)).touch)
        raise KeyboardInterrupt
    assert len(list(tmp_path.iterdir())) < 30


def test_a_plurality_is_never_below_the_majority_of_the_same_paths(records: Path, tmp_path: Path) -> None:
    """Cut paths count as wrong and have no vote: one way for both. A tenth of all paths is cut here."""
    series = published.SERIES[0]
    source = (records / series.file).read_text("utf-8").splitlines()
    rng = np.random.default_rng(1)
    lines = []
    for line in map(json.loads, source):
        line["truncated"] = (rng.random(len(line["truncated"])) < 0.1).tolist()
        lines.append(json.dumps(line))
    file = tmp_path / series.file
    file.parent.mkdir(parents=True)
    file.write_text("\n".join(lines) + "\n", "utf-8")
    (row,) = reproduce(tmp_path, QUICK).tables["table4"]
    assert row["plurality"] >= row["average"] - 1e-12
    assert row["plurality_star"] >= row["average_star"] - 1e-12


def test_the_reference_file_is_held_against_the_records(records: Path, tmp_path: Path) -> None:
    series = published.SERIES[0]
    file = tmp_path / series.file
    file.parent.mkdir(parents=True)
    file.write_bytes((records / series.file).read_bytes())
    found = reproduce(tmp_path, QUICK)
    rows = {row["k"]: row for row in found.tables["table1"]}
    reference = tmp_path / published.REFERENCE
    reference.parent.mkdir()
    lines = ["model,task,K,c_hat,K_eff,colour", f"qwen7b,gsm8k,8,{rows[8]['c']!r},{rows[8]['k_eff']:.2f},red"]
    lines += [f"qwen7b,gsm8k,4,{rows[4]['c'] + 0.01:.3f},,", "other,gsm8k,4,0.5,,", "qwen7b,gsm8k,16,x,,"]
    reference.write_text("\n".join(lines) + "\n")
    found = reproduce(tmp_path, QUICK)
    checks = [(c.row, c.column, c.agrees) for c in found.checks if c.table == "reference"]
    assert checks == [
        ("qwen7b gsm8k 8", "c", True), ("qwen7b gsm8k 8", "k_eff", True), ("qwen7b gsm8k 4", "c", False)
    ]  # fmt: skip
    said = "\n".join(found.problems)
    assert "columns not compared: colour" in said
    assert "no records of other on gsm8k at K = 4" in said
    assert "c_hat is 'x', not a number" in said
    reference.write_text("name,value\na,1\n")
    assert "not used, because it has no column model" in "\n".join(reproduce(tmp_path, QUICK).problems)


def test_ranges_of_the_text_are_those_of_the_papers_own_table() -> None:
    """The printed Table 4 gives the text's 15-19 queries and 13.8-32.5%; a bound is a bound."""
    stars = [6, 8, 10, 6, 4]
    rows = [
        {
            **costs(star, 32),
            "retained": 1.0,
            "gap_lo": -0.01,
            "gap_hi": 0.01,
        }
        for star in stars
    ]
    headline = claims.from_saturation({"table4": rows}, {}) | {"mann_whitney": {"share_below_0.001": 0.98}}
    checks = {(c.row, c.column): c.agrees for c in claims.check_headline(headline)}
    right = {name: agrees for name, agrees in checks.items() if "retained" not in name[1]}
    assert right.pop(("mann_whitney", "share_below_0.001")) is False
    assert all(right.values())
    assert len(right) == 7
    assert claims.from_saturation({"table4": rows[:4]}, {}) == {}
