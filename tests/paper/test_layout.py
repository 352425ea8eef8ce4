"""Layout of the paper's tables and figures: its columns alone, headers of other K, few points."""

from __future__ import annotations

import random
from typing import Any

import pytest

from keff.paper.tables import LAYOUTS, printed_tables
from keff.report import figures
from keff.report.tables import latex, render


def rows(name: str, paths: int, arms: int = 1) -> list[dict[str, Any]]:
    """Return rows with every column of a table."""
    layout = LAYOUTS[name]
    columns = (*layout.printed, *layout.further)
    return [
        {column.key: place if column.style else f"{column.key}{place}" for column in columns}
        | {"arm": f"arm{place % arms}", "paths": paths, "seeds": 5}
        for place in range(4)
    ]


@pytest.mark.parametrize("name", [name for name, layout in LAYOUTS.items() if layout.further])
def test_a_table_has_the_papers_columns_and_the_further_ones_a_file_of_their_own(name: str) -> None:
    layout = LAYOUTS[name]
    table, more = printed_tables(name, rows(name, 32))
    assert [column.key for column in table.columns] == [column.key for column in layout.printed]
    assert latex(table).count(r"\begin{tabular}") == 1
    assert (table.name, more.name) == (name, f"{name}_more")
    told = [column.key for column in more.columns]
    assert {column.key for column in layout.further} | {"arm", "paths", "seeds"} <= set(told)
    # Every row can be told apart in both.
    for each in (table, more):
        texts = [tuple(column.text(row) for column in each.columns) for row in each.rows]
        assert len(set(texts)) == len(texts)
    several, _ = printed_tables(name, rows(name, 32, arms=2))
    assert {column.key for column in several.columns} - {column.key for column in layout.printed} == {"arm"}


@pytest.mark.parametrize("paths", [8, 16, 24])
def test_headers_name_the_paths_that_were_drawn(paths: int) -> None:
    table, more = printed_tables("table4", rows("table4", paths))
    for form in ("markdown", "latex"):
        text = render(table, form)  # type: ignore[arg-type]
        assert "MV@32" not in text and ("MV@K*" in text or "MV@$K^*$" in text)
    headers = [column.header for column in (*table.columns, *more.columns)]
    assert f"MV@{paths}" in headers and f"plurality@{paths}" in headers
    mixed = rows("table4", paths)
    mixed[0]["paths"] = paths + 1
    headers = [column.header for column in printed_tables("table4", mixed)[0].columns]
    assert "MV@K" in headers and "Paths" in headers


def test_names_of_points_cover_neither_names_nor_points() -> None:
    rng = random.Random(54)
    for count in (2, 3, 12, 20):
        for same in (True, False):
            points = [
                (0.0 if same else rng.uniform(0, 200), rng.uniform(0, 30), "x" * rng.randint(3, 12))
                for _ in range(count)
            ]
            # A name begins 4 points right of its point, its middle is 4 points above the returned height.
            boxes = [
                (x + 4, x + 4 + 3.5 * len(text), height + 4 - 3.5, height + 4 + 3.5)
                for (x, _, text), height in zip(points, figures.label_heights(points), strict=True)
            ]
            marks = [(x - 3, x + 3, y - 3, y + 3) for x, y, _ in points]
            for a, (left, right, low, high) in enumerate(boxes):
                for u, v, below, above in (*boxes[:a], *marks):
                    assert v <= left or right <= u or above <= low + 1e-9 or high <= below + 1e-9
    assert figures.label_heights([(0, 90, "a"), (0, 10, "b")]) == [90, 10]  # what has room stays


def test_points_of_one_number_of_paths_are_a_strip() -> None:
    def encoding(ks: tuple[int, ...]) -> Any:
        return figures.calibration(
            [{"model": m, "k": k, "observed": 0.7, "bb": 0.6, "binomial": 0.9} for m in "ab" for k in ks]
        )["layer"][0]["encoding"]

    assert encoding((8,))["x"]["field"] == "model"
    assert encoding((8, 16))["x"]["field"] == "k"
    pilot = [{"model": m, "n": 50, "c_mean": 0.5, "c_std": 0.1} for m in "ab"]
    strip, *_ = figures.sensitivity(pilot, "n", "c_mean", "c_std")["layer"]
    assert (strip["mark"], strip["encoding"]["x"]["field"]) == ("rule", "model")  # no area has one x
    one = {"benchmark": "b", "domain": "d", "diversity": 0.3, "delta_rho": -0.2}
    domain = figures.predictor([one])["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert domain[0] < -20 < domain[1]
