"""The paper's figures, and those that our analysis adds, from reproduced rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from keff.paper.reproduce import Reproduction, workers
from keff.paper.saturation import KS
from keff.report import figures

Rows = Sequence[Mapping[str, Any]]
Maker = Callable[[], Figure]

MOST_LINES = 6
"""Lines that a legend of a column's width can name."""


def draw(reproduction: Reproduction, out: Path) -> list[Path]:
    """Write every figure that the rows allow, as PDF and SVG with the same bytes on every run.

    Figure 2 (calibration) and Figure 3 (answer diversity) of the paper; the saturation curve with its
    ceiling, the sensitivities to pilot size and epsilon, the forest of delta rho, and the correlations of
    template slots.
    """
    makers = _matrix(reproduction) | _saturation(reproduction)  # the slow ones first
    # Matplotlib is slow, and its figures have nothing to do with each other.
    with workers(min(os.cpu_count() or 1, 4)) as pool:
        drawn = [pool.submit(_write, make, out / name) for name, make in makers.items()]
        return [file for drawing in drawn for file in drawing.result()]


def _write(make: Maker, stem: Path) -> list[Path]:
    return figures.save(make(), stem)


def _saturation(reproduction: Reproduction) -> dict[str, Maker]:
    makers: dict[str, Maker] = {}
    for name, rows in _parts("figure2", _named(reproduction.figures.get("figure2", []))):
        makers[name] = partial(figures.calibration, rows)
    for name, rows in _parts("figure_saturation", _named(_curves(reproduction))):
        curves: dict[str, Any] = {
            row["model"]: {"c": row["c"], "points": []} for row in rows if row["c"] is not None
        }
        for row in rows:
            if row["model"] in curves and row.get("k") is not None:
                curves[row["model"]]["points"].append((row["k"], row["k_eff"]))
        makers[name] = partial(figures.saturation, curves, 32)
    for name, rows in _parts("figure_pilot", _named(reproduction.tables.get("table10", []))):
        makers[name] = partial(figures.sensitivity, rows, "n", "c_mean", "c_std")
    for name, rows in _parts("figure_epsilon", _named(reproduction.tables.get("table11", []))):
        makers[name] = partial(figures.sensitivity, rows, "epsilon", "k_star")
    return makers


def _curves(reproduction: Reproduction) -> Rows:
    """Return K_eff as observed where it is known by K, else c of Table 2 alone."""
    if reproduction.figures.get("saturation"):
        return reproduction.figures["saturation"]
    return [
        {"model": row["model"], "task": row["task"], "c": row["c_pilot"], "k": k, "k_eff": row[f"k_eff_{k}"]}
        for row in reproduction.tables.get("table2", [])
        for k in KS
        if f"k_eff_{k}" in row
    ]


def _parts(name: str, rows: Rows) -> list[tuple[str, Rows]]:
    """Return figures of at most so many lines as a legend can name; the first keeps the plain name."""
    names = list(dict.fromkeys(row["model"] for row in rows))
    parts = [names[start : start + MOST_LINES] for start in range(0, len(names), MOST_LINES)]
    return [
        (f"{name}_{number}" if number > 1 else name, [row for row in rows if row["model"] in part])
        for number, part in enumerate(parts, 1)
    ]


def _matrix(reproduction: Reproduction) -> dict[str, Maker]:
    """Return the figures of each comparison of arms, which never share one."""
    makers: dict[str, Maker] = {}
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
            makers[f"figure_templates{ending}"] = partial(figures.heat_maps, maps, slots)
        rows = [_interval(cell) for cell in reproduction.cells if cell["valid"] and _pair(cell) == pair]
        if rows:
            makers[f"figure_forest{ending}"] = partial(figures.forest, rows)
        points = [row for row in reproduction.figures.get("figure3", []) if _pair(row) == pair]
        if points:
            fit: Any = head.get("predictor")
            test = (fit["r"], fit["p"]) if fit else None
            makers[f"figure3{ending}"] = partial(figures.predictor, points, test)
    return makers


def _pair(row: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the arms that a row compares; the paper's own have no names."""
    return row.get("arm"), row.get("against")


def _interval(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return one line of the forest: rows resampled in the paper's records, questions in a user's study."""
    how = "paired_rho" if "against" in cell else "rows"
    limits = {"lo": cell.get(f"{how}_lo"), "hi": cell.get(f"{how}_hi")}
    return {"name": f"{cell['benchmark']} {cell['model']}", "value": cell["delta_rho"]} | limits


def _named(rows: Rows) -> list[dict[str, Any]]:
    """Name rows by what tells them apart: the model, and the task and the arm where there are several."""
    several = [key for key in ("task", "arm") if len({row.get(key) for row in rows}) > 1]
    return [{**row, "model": ", ".join(str(row[key]) for key in ("model", *several))} for row in rows]
