# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
"""The figure of the atlas: c against the accuracy of one path, and the share of paths saved against c."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from keff.analysis.atlas import AtlasEntry
from keff.records import Interval
from keff.report.figures import COLOURS, MARKS, STYLE


def draw_atlas(entries: Sequence[AtlasEntry], names: dict[str, str], file: Path) -> Path:
    """Write the figure as SVG, the same bytes on every run; ``names`` are the sources as the legend has them.

    A filled mark was replayed on recorded paths, an open one is predicted from fewer than 32.
    """
    look: Any = {**STYLE, "font.family": "DejaVu Sans", "font.size": 9, "svg.hashsalt": "keff atlas"}
    with mpl.rc_context(look):
        figure = Figure(figsize=(9.4, 4.3), layout="constrained", facecolor="white")
        left, right = figure.subplots(1, 2)
        for place, source in enumerate(dict.fromkeys(entry.source for entry in entries)):
            own = [entry for entry in entries if entry.source == source]
            label, colour, mark = names.get(source, source), COLOURS[place % 7], MARKS[place % 7]
            for entry in own:
                _point(left, entry.p, entry.c, colour, mark, filled=True, label=label)
                if entry.paths_saved is not None:
                    filled = entry.basis == "replayed"
                    _point(right, entry.c, entry.paths_saved, colour, mark, filled=filled, label=label)
                label = "_nolegend_"
        left.set(xlabel="accuracy of one path", ylabel="c, correlation of two paths' correctness")
        left.set(xlim=(0, 1), ylim=(0, 1))
        right.set(xlabel="c", ylabel="share of 32 paths saved, 99% of the accuracy kept", ylim=(0, 1.02))
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        file.parent.mkdir(parents=True, exist_ok=True)
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None})
    return file


def _point(axes: Axes, x: Interval, y: Interval, colour: str, mark: str, *, filled: bool, label: str) -> None:
    for across, value in ((True, x), (False, y)):
        if value.limits is not None:
            ends = list(value.limits)
            line = (ends, [y.value] * 2) if across else ([x.value] * 2, ends)
            axes.plot(*line, color=colour, linewidth=0.6, alpha=0.4)
    face = colour if filled else "white"
    axes.plot(
        [x.value],
        [y.value],
        mark,
        color=colour,
        markerfacecolor=face,
        markersize=5,
        linestyle="",
        label=label,
    )
