"""Vega-Lite specifications of figures for papers; ``vega`` renders them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keff.analysis.results.replay import ReplayRow
from keff.stats.votes import FloatArray

Row = Mapping[str, Any]
Spec = dict[str, Any]

# Widths of a column and of the text in PDF points, 72 for 72.27 of TeX: those of IEEEtran's compsoc
# layout, its narrowest and the paper's: 243.9 and 505.9 of TeX. Unscaled figures keep their size of type.
COLUMN, PAGE = 243, 504

# Points across and up that the axes and the legend leave of a figure with a legend of one line.
PLOT = 205, 130

# Sizes in points of titles, and of labels: a caption of IEEEtran is set in 8, its footnotes in 8.
TYPE, SMALL = 8, 7

# A palette that colour-blind readers can tell apart (Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "triangle-right")
GREY = "#777777"

# A point's radius; how far right of its point and above it a name is written; and how far from the middle of
# a name a point may be that it just does not touch.
RADIUS, ASIDE = 3, 4
NEAR = SMALL / 2 + RADIUS

CONFIG: Spec = {
    # The one font that vl-convert brings along: others are there on some machines only, or not drawn at all.
    "font": "Liberation Sans",
    "background": "white",
    "view": {"stroke": None},
    "range": {"category": list(COLOURS), "symbol": list(SHAPES)},
    "axis": {
        "labelFontSize": SMALL,
        "titleFontSize": TYPE,
        "titleFontWeight": "normal",
        "titlePadding": 4,
        "gridWidth": 0.4,
        "domainWidth": 0.6,
        "tickWidth": 0.6,
        "tickSize": 3,
        "labelLimit": 0,
    },
    "legend": {
        "title": None,
        "labelFontSize": SMALL,
        "labelLimit": 0,
        "titleFontSize": SMALL,
        "titleFontWeight": "normal",
        "symbolSize": 30,
        "symbolOpacity": 1,
        "symbolStrokeWidth": 1.2,
        "orient": "bottom",
        "direction": "vertical",
        "offset": 4,
        "rowPadding": 1,
    },
    "title": {"fontSize": TYPE, "fontWeight": "normal", "anchor": "end", "offset": 4},
    "header": {"labelFontSize": TYPE, "title": None, "labelPadding": 2},
    "line": {"strokeWidth": 1.2},
    "point": {"filled": True, "size": 22, "opacity": 1},
    "rule": {"strokeWidth": 0.8},
    "text": {"fontSize": SMALL},
}


def saturation(curves: Mapping[str, Row], k_max: int) -> Spec:
    """Return K_eff = K/(1+(K-1)c) with ceiling 1/c, a line per name -> {"c"}, up to ``k_max``.

    ``points`` of a name are (K, K_eff) as observed, drawn as marks.
    """
    names = {name: f"{name}, c = {row['c']:.2f}" for name, row in curves.items()}
    lines = [
        {"of": names[name], "k": k, "k_eff": k / (1 + (k - 1) * row["c"])}
        for name, row in curves.items()
        for k in range(1, k_max + 1)
    ]
    ceilings = [{"of": names[name], "k_eff": 1 / row["c"]} for name, row in curves.items() if row["c"] > 0]
    points = [
        {"of": names[name], "k": k, "k_eff": value}
        for name, row in curves.items()
        for k, value in row.get("points") or ()
    ]
    y, colour = quantity("k_eff", "effective paths"), series("of", names.values())
    at = {"x": quantity("k", "paths K", scale={"domain": [1, k_max]}), "y": y, "color": colour}
    return figure(
        [
            layer("line", lines, at),
            layer({"type": "rule", "strokeDash": [1, 2]}, ceilings, {"y": y, "color": colour}),
            layer("point", points, at | {"shape": series("of", names.values())}),
        ]
    )


def calibration(rows: Sequence[Row]) -> Spec:
    """Return observed and predicted majority votes by K; rows: model, k, observed, bb, binomial.

    Where all rows are of one K, models stand side by side.
    """
    kinds = {"observed": "observed", "bb": "beta-binomial", "binomial": "independent"}
    models = list(dict.fromkeys(row["model"] for row in rows))
    values = [
        {"model": row["model"], "k": row["k"], "kind": text, "value": 100 * row[key]}
        for row in rows
        for key, text in kinds.items()
        if row[key] is not None
    ]
    ks = sorted({row["k"] for row in rows})
    vote = quantity("value", "majority vote (%)", scale={"zero": False})
    if len(ks) == 1:
        kind = series("kind", kinds.values())
        x = _side_by_side(models, f"{ks[0]} paths")
        return figure([layer("point", values, {"x": x, "y": vote, "color": kind, "shape": kind})])
    at = {
        "x": quantity("k", "paths K", scale=_log(2), axis={"values": ks}),
        "y": vote,
        "color": series("model", models),
    }
    dashes = {"domain": list(kinds.values()), "range": [[1, 0], [5, 2], [1, 2]]}
    # A legend's line is long enough to tell a dashed one from a whole one.
    kind = {"field": "kind", "type": "nominal", "scale": dashes, "legend": {"symbolSize": 250}}
    return figure(
        [
            layer("line", values, at | {"strokeDash": kind}),
            layer("point", values, at | {"shape": series("model", models), "detail": {"field": "kind"}}),
        ],
        height=190,
    )


def predictor(rows: Sequence[Row], fit: tuple[float, float] | None = None) -> Spec:
    """Return delta rho against answer diversity; rows: benchmark, domain, diversity, delta_rho.

    ``fit`` is r, p. A name that would lie on another one or on a point stands below it.
    """
    domains = list(dict.fromkeys(row["domain"] for row in rows))
    values = [{**row, "change": 100 * row["delta_rho"]} for row in rows]
    # Room on the right for the name of the rightmost point.
    right = 1.25 * max(row["diversity"] for row in rows)
    low, high = (end(row["change"] for row in values) for end in (min, max))
    margin = 0.08 * (high - low) or 1.0
    low, high = low - margin, high + margin
    # Points of the plot that the figure's edges leave: names are placed by them.
    names = label_heights(
        [
            (PLOT[0] * row["diversity"] / right, PLOT[1] * row["change"] / (high - low), row["benchmark"])
            for row in values
        ]
    )
    placed = [{**row, "name_at": y * (high - low) / PLOT[1]} for row, y in zip(values, names, strict=True)]
    low = min(low, *(row["name_at"] - margin for row in placed))
    y = quantity("change", "Δρ (%)", scale={"domain": [low, high], "nice": False})
    x = quantity("diversity", "answer diversity under one prompt", scale={"domain": [0, right]})
    named = {"type": "text", "align": "left", "dx": ASIDE, "dy": -ASIDE}
    legend = {"legend": {"columns": 3}}
    kinds = {"color": series("domain", domains) | legend, "shape": series("domain", domains) | legend}
    return figure(
        [
            layer("point", values, {"x": x, "y": y} | kinds),
            layer(named, placed, {"x": x, "y": y | {"field": "name_at"}, "text": {"field": "benchmark"}}),
        ],
        height=190,
        title=None if fit is None else f"r = {fit[0]:.2f}, p = {fit[1]:.3g}",
    )


def label_heights(labels: Sequence[tuple[float, float, str]]) -> list[float]:
    """Return the heights of labels of x, y (points, upwards) and text, each to the right of its point.

    They are moved down until none covers another label or point. A letter is taken to be half as wide as it
    is high.
    """
    heights = [y for _, y, _ in labels]
    # What is in the way: from where to where, and between which heights a label would lie on it.
    taken = [(x - RADIUS, x + RADIUS, y - ASIDE - NEAR, y - ASIDE + NEAR) for x, y, _ in labels]
    for place in sorted(range(len(labels)), key=lambda place: -labels[place][1]):
        x, y, text = labels[place]
        start, end = x + ASIDE, x + ASIDE + SMALL * len(text) / 2
        for left, right, low, high in sorted(taken, key=lambda other: -other[2]):
            if start < right and left < end and low < y < high:
                y = low
        heights[place] = y
        taken.append((start, end, y - SMALL, y + SMALL))
    return heights


def heat_maps(matrices: Mapping[str, Sequence[Sequence[float]]], names: Sequence[str]) -> Spec:
    """Return correlation matrices of template slots on one scale; a single one with values."""
    values = [
        {"map": title, "first": names[row], "second": names[column], "value": value}
        for title, matrix in matrices.items()
        for row, line in enumerate(matrix)
        for column, value in enumerate(line)
    ]
    single = len(matrices) == 1
    columns, side = (1, COLUMN - 20) if single else (4, 112)
    axis: Spec = {"title": None, "labelAngle": 0, "domain": False, "ticks": False}
    at = {
        "x": {"field": "second", "type": "nominal", "sort": list(names), "axis": axis},
        "y": {"field": "first", "type": "nominal", "sort": list(names), "axis": axis},
    }
    colour = {
        "field": "value",
        "type": "quantitative",
        "scale": {"domain": [-1, 1], "scheme": "redblue", "reverse": True},
        "legend": {"title": "correlation of two slots", "direction": "horizontal"},
    }
    unknown = {"condition": {"test": "!isValid(datum.value)", "value": "#cccccc"}} | colour
    layers: list[Spec] = [{"mark": {"type": "rect", "invalid": "show"}, "encoding": at | {"color": unknown}}]
    if single:
        ink = {"condition": {"test": "abs(datum.value) > 0.6", "value": "white"}, "value": "black"}
        shown = {"test": "isValid(datum.value)", "field": "value", "type": "quantitative", "format": ".2f"}
        text = {"condition": shown, "value": "–"}
        layers.append({"mark": "text", "encoding": at | {"text": text, "color": ink}})
    facet = {"field": "map", "type": "nominal", "sort": list(matrices)}
    return with_style(
        {
            "data": {"values": values},
            "facet": facet,
            "columns": columns,
            "spacing": 8,
            "spec": {"width": side, "height": side, "layer": layers},
        }
    )


def forest(rows: Sequence[Row]) -> Spec:
    """Return a forest plot of delta rho; rows: name, value, lo, hi (shares), top first."""
    values = [
        {"name": str(row["name"])}
        | {key: None if row[key] is None else 100 * row[key] for key in ("value", "lo", "hi")}
        for row in rows
    ]
    y = {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": {"grid": True}}
    blue = {"value": COLOURS[0]}
    zero = layer({"type": "rule", "color": GREY}, [{"zero": 0}], {"x": quantity("zero", "Δρ (%)")})
    whiskers = {"y": y, "x": quantity("lo", "Δρ (%)"), "x2": {"field": "hi"}, "color": blue}
    limited = [row for row in values if row["lo"] is not None and row["hi"] is not None]
    points = layer("point", values, {"y": y, "x": quantity("value", "Δρ (%)"), "color": blue})
    return figure([zero, layer("rule", limited, whiskers), points], height=40 + 10 * len(rows))


# Axis titles of the numbers of Tables 10 and 11.
TITLES = {"n": "questions in the pilot", "c_mean": "c, mean ± sd", "epsilon": "ε", "k_star": "K*"}


def sensitivity(rows: Sequence[Row], x: str, y: str, spread: str | None = None) -> Spec:
    """Return ``y`` over ``x`` (log scale), a line per model, with a band of ± ``spread``.

    Pilot size, epsilon. Where all rows are of one ``x``, models stand side by side.
    """
    models = list(dict.fromkeys(row["model"] for row in rows))
    wide = [0.0 if spread is None else row[spread] or 0.0 for row in rows]
    values = [
        {"model": row["model"], "x": row[x], "y": row[y], "lo": row[y] - half, "hi": row[y] + half}
        for row, half in zip(rows, wide, strict=True)
        if row[y] is not None
    ]
    ticks = sorted({row[x] for row in rows})
    title, single = TITLES[y], len(ticks) == 1
    at = {
        "x": _side_by_side(models, f"{TITLES[x]}: {ticks[0]:g}")
        if single
        else quantity("x", TITLES[x], scale=_log(10), axis={"values": ticks, "format": "~g"}),
        "y": quantity("y", title, scale={"zero": False}),
        "color": series("model", models),
    }
    band = at | {"y": quantity("lo", title, scale={"zero": False}), "y2": {"field": "hi"}}
    strip: str | Spec = "rule" if single else {"type": "area", "opacity": 0.15}
    layers = [] if spread is None else [layer(strip, values, band)]
    layers += [layer("line", values, at), layer("point", values, at | {"shape": series("model", models)})]
    return figure(layers)


def policies(rows: Sequence[ReplayRow], fixed: FloatArray) -> Spec:
    """Return accuracy kept (%) against mean paths: the fixed-K curve and replayed policies.

    ``fixed`` [cap] is the plurality accuracy after 1..cap paths, the last of which is all that can be kept.
    Bars are 95% paired intervals. Policies that no other beats in cost and accuracy are filled.
    """
    values: list[dict[str, Any]] = [
        {
            "policy": row.policy,
            "paths": row.mean_paths,
            "kept": 100 * row.kept.value,
            "lo": None if row.kept.limits is None else 100 * row.kept.limits[0],
            "hi": None if row.kept.limits is None else 100 * row.kept.limits[1],
            "frontier": row.frontier,
        }
        for row in rows
        if row.kept is not None
    ]
    names = list(dict.fromkeys(row["policy"] for row in values))
    curve = [{"paths": k, "kept": min(float(100 * each / fixed[-1]), 100)} for k, each in enumerate(fixed, 1)]
    title = f"accuracy kept (% of plurality@{len(fixed)})"
    x = quantity("paths", "mean paths per question")
    y, colour = quantity("kept", title, scale={"zero": False}), series("policy", names)
    low = quantity("lo", title, scale={"zero": False})
    limited = [row for row in values if row["lo"] is not None]
    filled = {"condition": {"test": "datum.frontier", **colour}, "value": "white"}
    points = {"x": x, "y": y, "stroke": colour, "fill": filled, "shape": series("policy", names)}
    return figure(
        [
            layer({"type": "line", "color": GREY}, curve, {"x": x, "y": y}),
            layer("rule", limited, {"x": x, "y": low, "y2": {"field": "hi"}, "color": colour}),
            layer({"type": "point", "filled": False}, values, points),
        ],
        width=PAGE,
        height=220,
        orient="right",
    )


def figure(
    layers: Sequence[Spec],
    width: int = COLUMN,
    height: int = 170,
    title: str | None = None,
    orient: str = "bottom",
) -> Spec:
    """Return a figure of layers on common axes, ``width`` x ``height`` points including text."""
    spec: Spec = {
        "width": width,
        "height": height,
        "autosize": {"type": "fit", "contains": "padding"},
        "layer": list(layers),
    }
    return with_style(spec | ({"title": title} if title else {}), orient)


def layer(mark: str | Spec, values: Sequence[Mapping[str, Any]], encoding: Spec) -> Spec:
    """Return one layer with its own data."""
    return {"mark": mark, "data": {"values": values}, "encoding": encoding}


def quantity(field: str, title: str, **more: Spec) -> Spec:
    """Return a numeric position channel."""
    return {"field": field, "type": "quantitative", "title": title, **more}


def series(field: str, names: Iterable[str]) -> Spec:
    """Return colour and shape channels of ordered names, with one legend."""
    return {"field": field, "type": "nominal", "scale": {"domain": list(names)}}


def _side_by_side(models: Sequence[str], title: str) -> Spec:
    """Return a position channel of models, where they share the one number that ``title`` says."""
    axis = {"labelAngle": 0, "grid": True}
    return {"field": "model", "type": "nominal", "sort": list(models), "title": title, "axis": axis}


def _log(base: int) -> Spec:
    return {"type": "log", "base": base, "nice": False, "padding": 6}


def with_style(spec: Spec, orient: str = "bottom") -> Spec:
    """Return a specification in the common style."""
    config = CONFIG | {"legend": CONFIG["legend"] | {"orient": orient}}
    return {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", **spec, "config": config}
