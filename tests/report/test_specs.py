"""The charts of the page are valid Vega-Lite, and draw only from datasets that have names."""

from __future__ import annotations

import json

import pytest

alt = pytest.importorskip("altair")

from jsonschema import ValidationError  # noqa: E402

from keff.report.specs import specs  # noqa: E402

CHARTS = specs()


@pytest.mark.parametrize("name", CHARTS)
def test_each_chart_is_valid(name: str) -> None:
    alt.LayerChart.from_dict(CHARTS[name])
    broken = json.loads(json.dumps(CHARTS[name]))
    broken["layer"][0]["mark"] = {"type": "no such mark"}
    with pytest.raises(ValidationError):
        alt.LayerChart.from_dict(broken)


@pytest.mark.parametrize("name", CHARTS)
def test_no_chart_carries_data_of_its_own_beyond_a_zero_line(name: str) -> None:
    text = json.dumps(CHARTS[name])
    assert len(text) < 20_000
    assert '"url"' not in text
