"""The paper's figures, and those that our analysis adds, from reproduced rows."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from keff.paper.reproduce import Reproduction
from keff.report import figures


def draw(found: Reproduction, out: Path) -> list[Path]:
    """Write Figures 2 and 3, the saturation curve, the pilot and epsilon sensitivities and the forest plot."""
    drawn: dict[str, Figure] = {}
    if found.figures.get("figure2"):
        drawn["figure2"] = figures.calibration(found.figures["figure2"])
    if found.figures.get("figure3"):
        fit = found.headline.get("predictor")
        test = (fit["r"], fit["p"]) if fit else None
        drawn["figure3"] = figures.predictor(found.figures["figure3"], test)
    if found.tables.get("table2"):
        curves = {row["model"]: {"c": row["c_pilot"]} for row in found.tables["table2"]}
        drawn["figure_saturation"] = figures.saturation(curves, 32)
        drawn["figure_pilot"] = figures.sensitivity(found.tables["table10"], "n", "c_mean", "c_std")
        drawn["figure_epsilon"] = figures.sensitivity(found.tables["table11"], "epsilon", "k_star")
    rows = [
        {
            "name": f"{cell['benchmark']} {cell['model']}",
            "value": cell["delta_rho"],
            "lo": cell.get("rows_lo"),
            "hi": cell.get("rows_hi"),
        }
        for cell in found.cells
        if cell["valid"]
    ]
    if rows:
        drawn["figure_forest"] = figures.forest(rows)
    return [file for name, figure in drawn.items() for file in figures.save(figure, out / name)]
