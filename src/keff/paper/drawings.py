"""The paper's figures, and additional ones of ours, from reproduced rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keff.paper.reproduce import Reproduction
from keff.report import figures, vega

TableRows = Sequence[Mapping[str, Any]]

# Lines that a legend of a column's width can name.
MOST_LINES = 6


def draw(save_all: vega.SaveAll, reproduction: Reproduction, out: Path) -> list[Path]:
    """Write every possible figure as PDF and SVG, reproducible to the byte.

    Figure 2 (calibration) and Figure 3 (answer diversity) of the paper; the saturation curve with its
    ceiling, the sensitivities to pilot size and epsilon, the forest of delta rho, and the correlations of
    template slots.
    """
    specs = _saturation(reproduction) | _matrix(reproduction)
    return save_all({out / name: spec for name, spec in specs.items()})


def _saturation(reproduction: Reproduction) -> dict[str, figures.Spec]:
    specs: dict[str, figures.Spec] = {}
    for name, rows in _parts("figure2", reproduction.figures.get("figure2", [])):
        specs[name] = figures.calibration(rows)
    for name, rows in _parts("figure_saturation", reproduction.figures.get("saturation", [])):
        curves: dict[str, Any] = {
            row["model"]: {"c": row["c"], "points": []} for row in rows if row["c"] is not None
        }
        for row in rows:
            if row["model"] in curves and row.get("k") is not None:
                curves[row["model"]]["points"].append((row["k"], row["k_eff"]))
        specs[name] = figures.saturation(curves, 32)
    for name, rows in _parts("figure_pilot", reproduction.tables.get("table10", [])):
        specs[name] = figures.sensitivity(rows, "n", "c_mean", "c_std")
    for name, rows in _parts("figure_epsilon", reproduction.tables.get("table11", [])):
        specs[name] = figures.sensitivity(rows, "epsilon", "k_star")
    return specs


def _parts(name: str, rows: TableRows) -> list[tuple[str, TableRows]]:
    """Return figures split so that each has at most so many lines."""
    rows = _named(rows)
    names = list(dict.fromkeys(row["model"] for row in rows))
    parts = [names[start : start + MOST_LINES] for start in range(0, len(names), MOST_LINES)]
    return [
        (f"{name}_{number}" if number > 1 else name, [row for row in rows if row["model"] in part])
        for number, part in enumerate(parts, 1)
    ]


def _matrix(reproduction: Reproduction) -> dict[str, figures.Spec]:
    """Return the figures of each comparison of arms."""
    specs: dict[str, figures.Spec] = {}
    pairs = list(dict.fromkeys(_pair(cell) for cell in reproduction.cells))
    tests: Any = reproduction.headline.get("comparisons") or {}
    for pair in pairs:
        ending = f"_{pair[0]}_against_{pair[1]}" if len(pairs) > 1 else ""
        head: Any = tests.get(f"{pair[0]} against {pair[1]}", reproduction.headline)
        maps: dict[str, Any] = {
            f"{row['benchmark']} ({row['cells']})": row["matrix"]
            for row in reproduction.figures.get("templates", [])
            if _pair(row) == pair
        }
        if maps:
            slots = [str(slot) for slot in range(len(next(iter(maps.values()))))]
            specs[f"figure_templates{ending}"] = figures.heat_maps(maps, slots)
        rows = [
            {
                "name": f"{cell['benchmark']} {cell['model']}",
                "value": cell["delta_rho"],
                "lo": cell["rho_lo"],
                "hi": cell["rho_hi"],
            }
            for cell in reproduction.cells
            if cell["valid"] and _pair(cell) == pair
        ]
        if rows:
            specs[f"figure_forest{ending}"] = figures.forest(rows)
        points = [row for row in reproduction.figures.get("figure3", []) if _pair(row) == pair]
        if points:
            fit: Any = head.get("predictor")
            test = (fit["r"], fit["p"]) if fit else None
            specs[f"figure3{ending}"] = figures.predictor(points, test)
    return specs


def _pair(row: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return a row's compared arms; the paper's own have no names."""
    return row.get("arm"), row.get("against")


def _named(rows: TableRows) -> list[dict[str, Any]]:
    """Return rows named by the fields that distinguish them: model, task, arm."""
    several = [key for key in ("task", "arm") if len({row.get(key) for row in rows}) > 1]
    return [{**row, "model": ", ".join(str(row[key]) for key in ("model", *several))} for row in rows]
