"""Figures: the same bytes on every run, what they show, and that they fit a column in readable type."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from keff.report import figures

vega = pytest.importorskip("keff.report.vega", reason="pip install keff[report]")

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
PILOT = [{"model": "a", "n": n, "c_mean": 0.5, "sd": 1 / n} for n in (25, 50, 100)]
# Controls, marks of direction, and what is no text at all.
HOSTILE = "x\x1b]0;y\x07\x00\x9b\u202eevil\u2066\u200f\ufffe\uffff\ud800<b>&"
SLOTS = [[1.0, 0.5], [0.5, float("nan")]]
FIGURES: dict[str, figures.Spec] = {
    "saturation": figures.saturation({"a": {"c": 0.5}, "b": {"c": 0.0, "points": [(4, 4.0)]}}, 32),
    "calibration": figures.calibration(BB),
    "predictor": figures.predictor(POINTS, (-0.62, 0.032)),
    "heat_maps": figures.heat_maps({"GSM8K": SLOTS, "MATH": SLOTS}, ["0", "1"]),
    "heat_map": figures.heat_maps({"GSM8K": SLOTS}, ["0", "1"]),
    "forest": figures.forest(FOREST),
    "sensitivity": figures.sensitivity(PILOT, "n", "c_mean", "sd"),
    "hostile": figures.forest([{"name": HOSTILE, "value": 0.1, "lo": 0.0, "hi": 0.2}]),
}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, bytes]]:
    """Every figure as SVG and PDF, drawn in a process of their own."""
    folder = tmp_path_factory.mktemp("figures")
    with vega.converter() as save_all:
        files = save_all({folder / name: spec for name, spec in FIGURES.items()})
    assert [file.name for file in files] == [f"{name}.{kind}" for name in FIGURES for kind in ("pdf", "svg")]
    return {
        name: ((folder / f"{name}.svg").read_text("utf-8"), (folder / f"{name}.pdf").read_bytes())
        for name in FIGURES
    }


def test_a_renderer_that_nobody_asks_ends_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LookupError), vega.converter():
        raise LookupError
    assert capfd.readouterr() == ("", "")


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def test_a_hostile_name_is_drawn_as_the_text_that_it_holds(drawn: dict[str, tuple[str, bytes]]) -> None:
    svg, pdf = drawn["hostile"]
    assert "x]0;yevil&lt;b&gt;&amp;" in texts(svg)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", svg)
    assert pdf.startswith(b"%PDF")


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_bytes_do_not_change_from_run_to_run(
    name: str, drawn: dict[str, tuple[str, bytes]], tmp_path: Path
) -> None:
    pdf, svg = (file.read_bytes() for file in vega.save(FIGURES[name], tmp_path / name))
    assert (svg.decode("utf-8"), pdf) == drawn[name]
    assert pdf.startswith(b"%PDF")
    assert b"Date" not in pdf
    # Every object stands where the table at the end says.
    for number, offset in enumerate(re.findall(rb"(\d{10}) 00000 n", pdf), 1):
        assert pdf[int(offset) :].startswith(f"{number} 0 obj".encode())


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_fits_its_column_unscaled_with_type_of_seven_points(
    name: str, drawn: dict[str, tuple[str, bytes]]
) -> None:
    svg, pdf = drawn[name]
    box = re.search(rb"/MediaBox \[0 0 (\S+) (\S+)\]", pdf)
    assert box is not None
    # \\columnwidth and \\textwidth of IEEEtran's [conference,compsoc], printed by LaTeX, in its points.
    room = 505.89 if name == "heat_maps" else 243.9113
    assert float(box[1]) * 72.27 / 72 <= room
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)px"', svg)]
    assert sizes
    assert min(sizes) >= figures.SMALL
    assert b"LiberationSans" in pdf


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_every_specification_is_valid_vega_lite(name: str) -> None:
    alt = pytest.importorskip("altair")
    alt.Chart.from_dict({key: value for key, value in FIGURES[name].items() if key != "$schema"})


def test_the_saturation_curve_is_the_formula_under_its_ceiling() -> None:
    curve, ceiling, points = (values(one) for one in figures.saturation({"a": {"c": 0.5}}, 4)["layer"])
    assert [row["k_eff"] for row in curve] == pytest.approx([1, 2 / 1.5, 3 / 2, 4 / 2.5])
    assert [row["k_eff"] for row in ceiling] == [2.0]
    assert points == []


def test_the_forest_draws_no_interval_where_there_is_none() -> None:
    zero, limits, points = (values(one) for one in FIGURES["forest"]["layer"])
    assert zero == [{"zero": 0}]
    assert limits == [{"name": "x", "value": -20.0, "lo": -30.0, "hi": pytest.approx(-10.0)}]
    assert [row["name"] for row in points] == ["x", "y"]


@pytest.mark.slow
def test_names_tests_and_values_are_written(drawn: dict[str, tuple[str, bytes]]) -> None:
    assert {"GSM8K", "TriviaQA", "MATH", "r = -0.62, p = 0.032"} <= set(texts(drawn["predictor"][0]))
    assert [text for text in texts(drawn["heat_map"][0]) if text in ("1.00", "0.50", "–")] == [
        "1.00", "0.50", "0.50", "–"
    ]  # fmt: skip
    order = [text for text in texts(drawn["forest"][0]) if text in "xy"]
    assert order == ["x", "y"]
    assert {"observed", "beta-binomial", "independent", "a", "b"} <= set(texts(drawn["calibration"][0]))


def values(layer: figures.Spec) -> list[dict[str, Any]]:
    return layer["data"]["values"]
