"""Rows as LaTeX, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from pathlib import Path

import pytest

from keff.report.tables import Column, Span, Table, latex, render
from tests.rigs.typesetting import needs_latex, typeset

COLUMNS = (
    Column("name", "Name & more"),
    Column("p", "p", ".1%", spread="sd", latex=r"$\bar{p}$"),
    Column("d", "Δρ", "+.1f"),
)
ROWS = [
    {"name": "a_b|c", "p": 0.5, "sd": 0.0123, "d": -1.25},
    {"name": "x", "p": math.nan, "sd": None, "d": math.inf},
    {"name": "y", "p": 0.25, "sd": 0.5},
]
TABLE = Table("t1", "50% of #1", COLUMNS, ROWS, group="name")


def test_latex_has_booktabs_rules_and_escapes_text_but_not_its_own_headers() -> None:
    text = render(TABLE, "latex")
    lines = text.splitlines()
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 1
    assert r"\caption{50\% of \#1}" in lines
    assert r"\begin{tabular}{@{}lrr@{}}" in lines
    assert r"\shortstack[l]{Name\\\&\\more} & $\bar{p}$ & $\Delta$$\rho$ \\" in lines
    assert r"a\_b|c & 50.0\% $\pm$ 1.2\% & $-$1.2 \\" in lines
    assert r"x & -- & $\infty$ \\" in lines
    assert lines.count(r"\midrule") == 3


def test_markdown_aligns_numbers_and_escapes_bars() -> None:
    lines = render(TABLE, "markdown").splitlines()
    assert lines[0] == "**50% of #1**"
    assert lines[3] == "| --- | ---: | ---: |"
    assert lines[4] == r"| a_b\|c | 50.0% ± 1.2% | -1.2 |"
    assert lines[5] == "| x | – | ∞ |"
    assert lines[6] == "| y | 25.0% ± 50.0% | – |"


def test_csv_keeps_full_precision_and_leaves_undefined_cells_empty() -> None:
    rows = list(csv.DictReader(io.StringIO(render(TABLE, "csv"))))
    assert rows[0] == {"name": "a_b|c", "p": "0.5", "sd": "0.0123", "d": "-1.25"}
    assert rows[1] == {"name": "x", "p": "", "sd": "", "d": "inf"}


WIDE = Table(
    "t2",
    "wide",
    (
        Column("task", "Task"),
        Column("model", "Model"),
        *(Column(f"x{place}", f"accuracy at {place} paths", ".1%") for place in range(12)),
    ),
    [
        {"task": task, "model": model} | {f"x{place}": 0.5 for place in range(12)}
        for task in ("GSM8K (Math)", "HotpotQA (QA)")
        for model in ("Qwen2.5-7B", "Mistral-7B")
    ],
)
CLASSES = {
    "column": (r"\documentclass[conference,compsoc]{IEEEtran}", r"\documentclass[twocolumn]{article}"),
    "text": (r"\documentclass[conference,compsoc]{IEEEtran}", r"\documentclass{article}"),
}


@pytest.mark.parametrize("span", ["column", "text"])
def test_columns_that_do_not_fit_go_on_below_and_name_their_rows(span: Span) -> None:
    text = latex(WIDE, span)
    parts = text.split(r"\begin{tabular}")[1:]
    assert len(parts) > 1
    assert all("Task & Model & " in part and part.count("Mistral-7B") == 2 for part in parts)
    assert sum(part.count(r"50.0\%") for part in parts) == 4 * 12
    told = re.search(r"At most (\d+) pt wide", text)
    assert told is not None
    # The widest column of each part, by what digits and capitals of Computer Modern take at 8 points.
    assert 100 < int(told[1]) <= {"column": 229, "text": 345}[span]


@pytest.mark.slow
@needs_latex
@pytest.mark.parametrize("span", ["column", "text"])
def test_latex_sets_a_table_without_an_overfull_box(span: Span, tmp_path: Path) -> None:
    for document in CLASSES[span]:
        typeset(document, [latex(table, span) for table in (TABLE, WIDE)], tmp_path)


def test_counted_widths_are_no_less_than_those_of_times() -> None:
    """Widths of Times-Roman (thousandths of an em), in which IEEEtran is set."""
    times = {
        "M": 889,
        "i": 278,
        "s": 389,
        "t": 278,
        "r": 333,
        "a": 444,
        "l": 278,
        "-": 333,
        "7": 500,
        "B": 667,
    }
    table = Table("t", "c", [Column("model", "Model")], [{"model": "Mistral-7B"}])
    told = re.search(r"At most (\d+) pt wide", latex(table))
    assert told is not None
    assert int(told[1]) >= 8 * sum(times[letter] for letter in "Mistral-7B") / 1000


@pytest.mark.parametrize("form", ["latex", "markdown", "csv"])
def test_a_table_without_rows_is_still_a_table(form: str) -> None:
    assert render(Table("t", "none", COLUMNS, []), form).endswith("\n")  # type: ignore[arg-type]


def test_formulas_and_line_breaks_of_a_model_s_name_stay_text() -> None:
    table = Table(
        "t",
        "c",
        [Column("model", "model"), Column("p", "p", ".2f")],
        [{"model": "=HYPERLINK(1)\n| x", "p": -0.5}],
    )
    rows = list(csv.reader(io.StringIO(render(table, "csv"))))
    assert rows[1] == ["'=HYPERLINK(1)\n| x", "-0.5"]
    assert render(table, "markdown").splitlines()[4:] == [r"| =HYPERLINK(1) \| x | -0.50 |"]
