"""Figures: the same bytes on every run, and what they show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from keff.report import figures

pytestmark = pytest.mark.slow

BB = [
    {"model": model, "k": k, "observed": 0.8, "bb": 0.79, "binomial": 0.99}
    for model in ("a", "b")
    for k in (8, 16, 32)
]
POINTS = [
    {"benchmark": name, "domain": domain, "diversity": 0.1 * place, "delta_rho": -0.1 * place}
    for place, (name, domain) in enumerate([("GSM8K", "Math"), ("TriviaQA", "QA"), ("MATH", "Math")])
]
FOREST = [
    {"name": "x", "value": -0.2, "lo": -0.3, "hi": -0.1},
    {"name": "y", "value": 0.1, "lo": None, "hi": None},
]
PILOT = [{"model": "a", "n": n, "c": 0.5, "sd": 1 / n} for n in (25, 50, 100)]
SLOTS = [[1.0, 0.5], [0.5, float("nan")]]
MAKERS: dict[str, Callable[[], Figure]] = {
    "saturation": lambda: figures.saturation({"a": {"c": 0.5}, "b": {"c": 0.0}}, 32),
    "calibration": lambda: figures.calibration(BB),
    "predictor": lambda: figures.predictor(POINTS, (-0.62, 0.032)),
    "heat_maps": lambda: figures.heat_maps({"GSM8K": SLOTS, "MATH": SLOTS}, ["0", "1"]),
    "forest": lambda: figures.forest(FOREST),
    "sensitivity": lambda: figures.sensitivity(PILOT, "n", "c", "sd"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_bytes_do_not_change_from_run_to_run(name: str, tmp_path: Path) -> None:
    first = [file.read_bytes() for file in figures.save(MAKERS[name](), tmp_path / "a" / name)]
    second = [file.read_bytes() for file in figures.save(MAKERS[name](), tmp_path / "b" / name)]
    assert first == second
    assert first[0].startswith(b"%PDF")
    assert b"<svg" in first[1]
    assert b"Date" not in first[0]
    assert b"<dc:date>" not in first[1]


def test_the_saturation_curve_is_the_formula_under_its_ceiling() -> None:
    (axes,) = figures.saturation({"a": {"c": 0.5}}, 4).axes
    curve, ceiling = axes.lines
    assert curve.get_ydata().tolist() == pytest.approx([1, 2 / 1.5, 3 / 2, 4 / 2.5])  # type: ignore[union-attr]
    assert ceiling.get_ydata() == [2.0, 2.0]


def test_the_forest_lists_cells_from_the_top_and_draws_no_interval_where_there_is_none() -> None:
    (axes,) = figures.forest(FOREST).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["x", "y"]
    points, zero = axes.lines
    assert points.get_ydata().tolist() == [2, 1]  # type: ignore[union-attr]
    assert zero.get_xdata() == [0, 0]
    drawn = [path.vertices for path in axes.collections[0].get_paths() if np.isfinite(path.vertices).all()]
    assert np.array(drawn)[:, :, 1].tolist() == [[2, 2]]


def test_the_predictor_shows_every_benchmark_and_the_test() -> None:
    (axes,) = figures.predictor(POINTS, (-0.62, 0.032)).axes
    assert [text.get_text() for text in axes.texts] == ["GSM8K", "TriviaQA", "MATH"]
    assert axes.get_title(loc="right") == "r = -0.62, p = 0.032"


def test_a_heat_map_writes_its_values_and_several_share_a_scale() -> None:
    alone, scale = figures.heat_maps({"GSM8K": SLOTS}, ["0", "1"]).axes
    assert [text.get_text() for text in alone.texts] == ["GSM8K", "1.00", "0.50", "0.50", "–"]
    assert scale.get_ylim() == (-1, 1)
    several, _ = figures.heat_maps({str(place): SLOTS for place in range(5)}, ["0", "1"]).axes
    assert [text.get_text() for text in several.texts] == ["0", "1", "2", "3", "4"]
    assert len(several.collections) == 5
