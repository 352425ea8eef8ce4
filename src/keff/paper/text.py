"""Numbers that the paper's text draws from its tables and figures: ranges over rows, means over domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from keff.paper import layout
from keff.result import Json

Rows = Sequence[Mapping[str, Any]]

LARGEST_K = 32
ADAPTIVE = ("repaid_after", "cost_at_1000", "net_cost", "retained")
CELL = ("MATH", "Qwen-32B")
"""The cell whose interval the paper prints."""

RANGES = {
    "choice": ("ARC-C", "MMLU", "HellaSwag", "WinoGrande"),
    "math": ("GSM8K", "MATH"),
}
"""Benchmarks over which the text gives the least and the largest change of rho."""


def from_saturation(tables: Mapping[str, Rows], figures: Mapping[str, Rows]) -> dict[str, Json]:
    """Return the ranges over Table 4 and Figure 2, where every row of them is there."""
    numbers: dict[str, Json] = {}
    rows = tables.get("table4", [])
    if len(rows) == len(layout.SERIES):
        values = {name: [row[name] for row in rows] for name in ADAPTIVE}
        numbers["adaptive_k"] = {
            **{f"{name}_least": _ends(known)[0] for name, known in values.items()},
            **{f"{name}_most": _ends(known)[1] for name, known in values.items()},
            "intervals_with_zero": sum(
                row["gap_lo"] is not None and row["gap_lo"] <= 0 <= row["gap_hi"] for row in rows
            ),
        }
    last = [row for row in figures.get("figure2", []) if row["k"] == LARGEST_K]
    if len(last) == len([series for series in layout.SERIES if series.task == "gsm8k"]):
        numbers["held_out"] = {
            f"{name}_{end}": value
            for name in ("bb_error", "binomial_error")
            for end, value in zip(("least", "most"), _ends([row[name] for row in last]), strict=True)
        }
    return numbers


def from_matrix(table3: Rows, cells: Rows) -> dict[str, Json]:
    """Return the means over domains, the ranges over benchmarks, and the cell that the text names."""
    numbers: dict[str, Json] = {}
    change = {row["benchmark"]: row["delta_rho"] for row in table3}
    for domain in ("QA", "Code"):
        own = [row["delta_rho"] for row in table3 if row["domain"] == domain]
        if len(own) == sum(about.domain == domain for about in layout.BENCHMARKS.values()):
            numbers[f"domain_{domain}"] = {"delta_rho": sum(own) / len(own)}
    for name, benchmarks in RANGES.items():
        if all(benchmark in change for benchmark in benchmarks):
            # The least change is the one nearest to zero: all of them are falls.
            most, least = _ends([change[benchmark] for benchmark in benchmarks])
            numbers[f"range_{name}"] = {"least": least, "most": most}
    for cell in cells:
        if (cell["benchmark"], cell["model"]) == CELL:
            numbers["math_qwen32b"] = {name: cell.get(name) for name in ("delta_rho", "rows_lo", "rows_hi")}
    return numbers


def _ends(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else (None, None)
