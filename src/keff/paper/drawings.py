"""The paper's figures, and those that our analysis adds, from reproduced rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from keff.paper.reproduce import Reproduction, workers
from keff.report import figures

Rows = Sequence[Mapping[str, Any]]
Maker = Callable[[], Figure]


def draw(found: Reproduction, out: Path) -> list[Path]:
    """Write every figure that the rows allow, as PDF and SVG with the same bytes on every run.

    Figure 2 (calibration) and Figure 3 (answer diversity) of the paper; the saturation curve with its
    ceiling, the sensitivities to pilot size and epsilon, the forest of delta rho, and the correlations of
    template slots.
    """
    makers = _matrix(found) | _saturation(found)  # the slow ones first
    # Matplotlib is slow, and its figures have nothing to do with each other.
    with workers(min(os.cpu_count() or 1, 4)) as pool:
        drawn = [pool.submit(_write, make, out / name) for name, make in makers.items()]
        return [file for one in drawn for file in one.result()]


def _write(make: Maker, stem: Path) -> list[Path]:
    return figures.save(make(), stem)


def _saturation(found: Reproduction) -> dict[str, Maker]:
    makers: dict[str, Maker] = {}
    if found.figures.get("figure2"):
        makers["figure2"] = partial(figures.calibration, _named(found.figures["figure2"]))
    if found.tables.get("table2"):
        curves = {row["model"]: {"c": row["c_pilot"]} for row in _named(found.tables["table2"])}
        pilot, epsilon = _named(found.tables["table10"]), _named(found.tables["table11"])
        makers["figure_saturation"] = partial(figures.saturation, curves, 32)
        makers["figure_pilot"] = partial(figures.sensitivity, pilot, "n", "c_mean", "c_std")
        makers["figure_epsilon"] = partial(figures.sensitivity, epsilon, "epsilon", "k_star")
    return makers


def _matrix(found: Reproduction) -> dict[str, Maker]:
    makers: dict[str, Maker] = {}
    maps: dict[str, Any] = {
        f"{row['benchmark']} ({row['cells']})": row["matrix"] for row in found.figures.get("templates", [])
    }
    if maps:
        slots = [str(slot) for slot in range(len(next(iter(maps.values()))))]
        makers["figure_templates"] = partial(figures.heat_maps, maps, slots)
    rows = [_interval(cell) for cell in found.cells if cell["valid"]]
    if rows:
        makers["figure_forest"] = partial(figures.forest, rows)
    if found.figures.get("figure3"):
        fit: Any = found.headline.get("predictor")
        test = (fit["r"], fit["p"]) if fit else None
        makers["figure3"] = partial(figures.predictor, found.figures["figure3"], test)
    return makers


def _interval(cell: Mapping[str, Any]) -> dict[str, Any]:
    limits = {"lo": cell.get("rows_lo"), "hi": cell.get("rows_hi")}
    return {"name": f"{cell['benchmark']} {cell['model']}", "value": cell["delta_rho"]} | limits


def _named(rows: Rows) -> list[dict[str, Any]]:
    """Name rows by model alone, or by model and task where there are several tasks."""
    several = len({row["task"] for row in rows}) > 1
    return [{**row, "model": f"{row['model']}, {row['task']}" if several else row["model"]} for row in rows]
