"""The charts of the page are valid Vega-Lite, and draw only from datasets that have names."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from keff.report.template import TEMPLATES

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
Charts = dict[str, dict[str, Any]]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def writer() -> Any:
    pytest.importorskip("altair")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        return importlib.import_module("write_charts")


@pytest.fixture(scope="module")
def charts() -> Charts:
    return json.loads((TEMPLATES / "charts.json").read_text("utf-8"))


def test_the_charts_of_the_page_are_those_that_the_script_makes(writer: Any) -> None:
    assert writer.FILE.read_text("utf-8") == writer.text(), "run python scripts/write_charts.py"


def test_each_chart_is_valid(charts: Charts) -> None:
    pytest.importorskip("altair")
    from altair import LayerChart
    from jsonschema import ValidationError

    assert charts
    for chart in charts.values():
        LayerChart.from_dict(chart)
    # What is wrong is looked for at length, so one chart shows that this can fail.
    broken = json.loads(json.dumps(min(charts.values(), key=lambda chart: len(json.dumps(chart)))))
    broken["layer"][0]["mark"] = {"type": "no such mark"}
    with pytest.raises(ValidationError):
        LayerChart.from_dict(broken)


def test_no_chart_carries_data_of_its_own(charts: Charts) -> None:
    for name, chart in charts.items():
        text = json.dumps(chart)
        assert len(text) < 20_000, name
        assert "datasets" not in chart and '"url"' not in text, name
