# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
"""Figures for papers: vector PDF and SVG with the same bytes on every run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from keff.analysis.results.replay import ReplayRow
from keff.stats.votes import FloatArray

Row = Mapping[str, Any]

STYLE: Any = {
    "svg.hashsalt": "keff",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "figure.dpi": 72,
    # Times-like, as most papers are set; and a PDF takes its part of it in a third of DejaVu's time.
    "font.family": "STIXGeneral",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.3,
    "grid.alpha": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""A palette that colour-blind readers can tell apart (Okabe and Ito)."""
MARKS = "osD^vPX"


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write ``stem.pdf`` and ``stem.svg`` without dates; returns both files."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = [stem.with_name(f"{stem.name}.pdf"), stem.with_name(f"{stem.name}.svg")]
    # The backends are asked directly: savefig would draw everything once more before it writes.
    with mpl.rc_context(STYLE):
        FigureCanvasPdf(figure).print_pdf(
            files[0], metadata={"CreationDate": None, "ModDate": None, "Producer": None, "Creator": None}
        )
        FigureCanvasSVG(figure).print_svg(files[1], metadata={"Date": None, "Creator": None})
    return files


def saturation(curves: Mapping[str, Row], k_max: int) -> Figure:
    """Draw K_eff = K/(1+(K-1)c) with its ceiling 1/c, one line for each name -> {"c"}, up to ``k_max``.

    ``points`` of a name are (K, K_eff) as observed, drawn as marks.
    """
    ks = np.arange(1, k_max + 1)

    def draw(axes: Axes) -> None:
        for place, (name, row) in enumerate(curves.items()):
            c = float(row["c"])
            axes.plot(ks, ks / (1 + (ks - 1) * c), color=_colour(place), label=f"{name}, c = {c:.2f}")
            if c > 0:
                axes.axhline(1 / c, color=_colour(place), linewidth=0.6, linestyle=":")
            if row.get("points"):
                at, observed = zip(*row["points"], strict=True)
                axes.plot(at, observed, _mark(place), color=_colour(place), markersize=3)
        axes.set(xlabel="paths K", ylabel="effective paths", xlim=(1, k_max))
        _legend(axes, len(curves), "lower right")

    return _figure(draw)


def calibration(rows: Sequence[Row]) -> Figure:
    """Draw observed and predicted majority votes by K: rows of model, k, observed, bb, binomial."""
    models = list(dict.fromkeys(row["model"] for row in rows))

    def draw(axes: Axes) -> None:
        for place, model in enumerate(models):
            own = [row for row in rows if row["model"] == model]
            ks = [row["k"] for row in own]
            for key, line in (("observed", "-"), ("bb", "--"), ("binomial", ":")):
                values = [100 * row[key] for row in own]
                label = model if key == "observed" else None
                axes.plot(ks, values, line, marker=_mark(place), color=_colour(place), label=label)
        for line, text in (("-", "observed"), ("--", "beta-binomial"), (":", "independent")):
            axes.plot([], [], line, color="0.4", label=text)
        axes.set_xscale("log", base=2)
        axes.set_xticks(
            sorted({row["k"] for row in rows}), [str(k) for k in sorted({row["k"] for row in rows})]
        )
        axes.set(xlabel="paths K", ylabel="majority vote (%)")
        axes.legend(ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))

    return _figure(draw)


def predictor(rows: Sequence[Row], fit: tuple[float, float] | None = None) -> Figure:
    """Draw delta rho against answer diversity: rows of benchmark, domain, diversity, delta_rho.

    ``fit`` is r, p.
    """
    domains = list(dict.fromkeys(row["domain"] for row in rows))

    def draw(axes: Axes) -> None:
        for place, domain in enumerate(domains):
            own = [row for row in rows if row["domain"] == domain]
            x, y = [row["diversity"] for row in own], [100 * row["delta_rho"] for row in own]
            axes.plot(x, y, _mark(place), color=_colour(place), label=domain)
        for row in rows:
            place = (row["diversity"], 100 * row["delta_rho"])
            axes.annotate(row["benchmark"], place, (3, 3), textcoords="offset points", fontsize=6)
        if fit is not None:
            axes.set_title(f"r = {fit[0]:.2f}, p = {fit[1]:.3g}", loc="right", fontsize=8)
        axes.set(xlabel="answer diversity under one prompt", ylabel="Δρ (%)")
        axes.legend(loc="best", fontsize=6)

    return _figure(draw)


def heat_maps(matrices: Mapping[str, Sequence[Sequence[float]]], names: Sequence[str]) -> Figure:
    """Draw correlation matrices of template slots side by side on one scale; a single one with its values.

    All stand in one system of axes: one for each would take several times as long to lay out.
    """
    values = [np.asarray(matrix, float) for matrix in matrices.values()]
    columns = min(len(values), 4)
    side, step = len(names), len(names) + 2
    corners = [(place % columns * step, place // columns * step) for place in range(len(values))]

    def draw(axes: Axes) -> None:
        axes.grid(False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, labelsize=6)
        colours = mpl.colormaps["RdBu_r"].with_extremes(bad="0.8")
        edges = np.arange(side + 1) - 0.5
        for (left, top), title, matrix in zip(corners, matrices, values, strict=True):
            shown = np.ma.masked_invalid(matrix)
            axes.pcolormesh(left + edges, top + edges, shown, vmin=-1, vmax=1, cmap=colours)
            axes.text(left + side / 2 - 0.5, top - 0.7, title, ha="center", va="bottom")
            if len(values) == 1:
                _write_values(axes, matrix)
        lefts, tops = (sorted({corner[axis] for corner in corners}) for axis in (0, 1))
        slots = np.arange(side)
        axes.set_xticks(np.concatenate([left + slots for left in lefts]), [*names] * len(lefts))
        axes.set_yticks(np.concatenate([top + slots for top in tops]), [*names] * len(tops))
        axes.set(aspect="equal", xlim=(-0.6, lefts[-1] + side - 0.4), ylim=(tops[-1] + side - 0.4, -2))
        axes.figure.colorbar(axes.collections[0], ax=axes, shrink=0.5, label="correlation of two slots")

    width = 3.4 if columns == 1 else 1.7 * columns
    return _figure(draw, (width + 0.6, width / columns * (corners[-1][1] / step + 1)))


def _write_values(axes: Axes, matrix: FloatArray) -> None:
    for row, column in np.ndindex(*matrix.shape):
        value = matrix[row, column]
        text, colour = ("–" if np.isnan(value) else f"{value:.2f}"), "w" if abs(value) > 0.6 else "k"
        axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=6)


def forest(rows: Sequence[Row]) -> Figure:
    """Draw intervals of delta rho: rows of name, value, lo, hi (shares), the first on top."""

    def draw(axes: Axes) -> None:
        places = np.arange(len(rows), 0, -1)
        limits = np.array([[row["lo"], row["value"], row["hi"]] for row in rows], float)
        low, value, high = 100 * limits.T
        axes.hlines(places, low, high, color=_colour(0), linewidth=1)
        axes.plot(value, places, "o", color=_colour(0), markersize=3)
        axes.axvline(0, color="0.4", linewidth=0.6)
        axes.set_yticks(places, [str(row["name"]) for row in rows])
        axes.set(xlabel="Δρ (%)", ylim=(0, len(rows) + 1))

    return _figure(draw, (3.4, 0.5 + 0.14 * max(len(rows), 8)))


def sensitivity(rows: Sequence[Row], x: str, y: str, spread: str | None = None) -> Figure:
    """Draw one line a model of ``y`` over ``x`` (logarithmic), with a band of ± ``spread``.

    Pilot size, epsilon.
    """
    models = list(dict.fromkeys(row["model"] for row in rows))

    def draw(axes: Axes) -> None:
        for place, model in enumerate(models):
            own = [row for row in rows if row["model"] == model]
            at, values = [row[x] for row in own], np.array([row[y] for row in own])
            axes.plot(at, values, marker=_mark(place), color=_colour(place), label=model)
            if spread is not None:
                wide = np.array([row[spread] for row in own])
                axes.fill_between(
                    at, values - wide, values + wide, color=_colour(place), alpha=0.15, linewidth=0
                )
        axes.set_xscale("log")
        ticks = sorted({row[x] for row in rows})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set(xlabel=x.replace("_", " "), ylabel=y.replace("_", " "))
        _legend(axes, len(models), "best")

    return _figure(draw)


def policies(rows: Sequence[ReplayRow], fixed: FloatArray) -> Figure:
    """Draw the share of accuracy kept (%) over mean paths: the curve of fixed K, and rows of a replay.

    ``fixed`` [cap] is the plurality accuracy after 1..cap paths, the last of which is all that can be kept.
    Bars are 95% paired intervals. Policies that no other beats in cost and accuracy are filled.
    """

    def draw(axes: Axes) -> None:
        axes.plot(np.arange(1, len(fixed) + 1), 100 * fixed / fixed[-1], color="0.6", label="fixed K")
        for place, row in enumerate(rows):
            if row.kept is None:
                continue
            x, colour = row.mean_paths, _colour(place)
            if row.kept.limits is not None:
                lo, hi = row.kept.limits
                axes.plot([x, x], [100 * lo, 100 * hi], color=colour, linewidth=0.6)
            axes.plot(
                [x],
                [100 * row.kept.value],
                _mark(place + place // len(COLOURS)),
                color=colour,
                markerfacecolor=colour if row.frontier else "white",
                label=row.policy,
            )
        title = f"accuracy kept (% of plurality@{len(fixed)})"
        axes.set(xlabel="mean paths per question", ylabel=title)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))

    return _figure(draw, (5.6, 2.8))


def _figure(draw: Callable[[Axes], None], size: tuple[float, float] = (3.4, 2.4)) -> Figure:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.add_subplot())
        return _settled(figure)


def _settled(figure: Figure) -> Figure:
    """Lay the figure out once and for all: saving would do it again for every file."""
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.execute(figure)
    figure.set_layout_engine("none")
    return figure


def _legend(axes: Axes, lines: int, place: Literal["best", "lower right"]) -> None:
    """Name a few lines inside the axes, and more of them below, where they hide nothing."""
    if lines <= 3:
        axes.legend(loc=place)
    else:
        axes.legend(ncols=1, loc="upper center", bbox_to_anchor=(0.5, -0.2))


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _mark(place: int) -> str:
    return MARKS[place % len(MARKS)]
