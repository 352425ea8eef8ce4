"""The figure of the atlas: c against the accuracy of one path, and the share of paths saved against c."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keff.analysis.atlas import TODAY, AtlasEntry
from keff.records import Interval
from keff.report.figures import Spec, dressed, layer, quantity, series
from keff.report.vega import save

# Points on a side of each panel.
SIDE = 290


def draw_atlas(entries: Sequence[AtlasEntry], names: dict[str, str], file: Path) -> Path:
    """Write the figure as SVG, the same bytes on every run; ``names`` are the sources in the legend."""
    sources = [names.get(entry.source, entry.source) for entry in entries]
    of = list(dict.fromkeys(sources))
    left = [
        {"of": source} | _ends("x", entry.p) | _ends("y", entry.c)
        for source, entry in zip(sources, entries, strict=True)
    ]
    right = [
        {"of": source} | _ends("x", entry.c) | _ends("y", entry.paths_saved)
        for source, entry in zip(sources, entries, strict=True)
        if entry.paths_saved is not None
    ]
    saved = f"share of {TODAY} paths saved, 99% of the accuracy kept"
    panels = [
        _panel(left, of, "accuracy of one path", "c, correlation of two paths' correctness"),
        _panel(right, of, "c", saved),
    ]
    look = dressed({"hconcat": panels, "spacing": 16})
    look["config"]["legend"] |= {"columns": 3}
    return save(look, file.with_suffix(""), ("svg",))[0]


def _ends(axis: str, value: Interval) -> dict[str, Any]:
    lo, hi = value.limits or (None, None)
    return {axis: value.value, f"{axis}_lo": lo, f"{axis}_hi": hi}


def _panel(rows: Sequence[dict[str, Any]], of: Sequence[str], x_title: str, y_title: str) -> Spec:
    """Return points with their intervals both ways."""
    whole: Spec = {"scale": {"domain": [0, 1]}}
    x, y, colour = quantity("x", x_title, **whole), quantity("y", y_title, **whole), series("of", of)
    across = {"x": quantity("x_lo", x_title, **whole), "x2": {"field": "x_hi"}, "y": y, "color": colour}
    along = {"x": x, "y": quantity("y_lo", y_title, **whole), "y2": {"field": "y_hi"}, "color": colour}
    thin = {"type": "rule", "opacity": 0.4, "strokeWidth": 0.6}
    points = {"x": x, "y": y, "stroke": colour, "fill": colour, "shape": colour}
    limited = [[row for row in rows if row[f"{axis}_lo"] is not None] for axis in ("x", "y")]
    return {
        "width": SIDE,
        "height": SIDE,
        "layer": [
            layer(thin, limited[0], across),
            layer(thin, limited[1], along),
            layer({"type": "point", "filled": False, "opacity": 1}, rows, points),
        ],
    }
