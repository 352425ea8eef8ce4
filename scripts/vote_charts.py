"""The charts of votes by the number of paths, and the colours, axes and tooltips that all charts share."""

from __future__ import annotations

from typing import Any

import altair as alt

from keff.report.series import INDEPENDENT, MAJORITY, MAJORITY_MODEL, PLURALITY, PLURALITY_AHEAD, SERIES

# Colours are CSS variables: the page turns dark, or to print, without drawing anything again.
BLUE, ORANGE, GREY, INK = "var(--blue)", "var(--orange)", "var(--grey)", "var(--ink)"
# Paths are compared by factors, so their axis is logarithmic; 1,024 is far beyond what is recorded.
POWERS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
PATHS_SCALE = alt.Scale(type="log", base=2, nice=False, padding=6)
PATHS = alt.X(
    "k:Q",
    title="paths per question",
    scale=PATHS_SCALE,
    axis=alt.Axis(values=POWERS),
)
SHARE = alt.Axis(format=".1~%")
# Pixels; the width is that of the page.
TALL, LOW = 340, 240


def data(name: str) -> Any:
    """Return a chart of a named dataset."""
    return alt.Chart(alt.NamedData(name=name))


# Fields of the datasets that hold texts.
TEXTS = ("series", "what", "policy", "right", "range", "change", "slot", "letter", "branch", "told")


def tip(field: str, title: str, form: str = "") -> Any:
    """Return one line of a tooltip."""
    kind = "N" if field in TEXTS else "Q"
    more = {"format": form} if form else {}
    return alt.Tooltip(f"{field}:{kind}", title=title, **more)


COLOURS = {
    PLURALITY: BLUE,
    PLURALITY_AHEAD: BLUE,
    MAJORITY: ORANGE,
    MAJORITY_MODEL: ORANGE,
    INDEPENDENT: GREY,
}
# Measured lines are solid and predicted ones dashed, so that they differ without colour too.
DASHES = {
    PLURALITY: [1, 0],
    PLURALITY_AHEAD: [6, 4],
    MAJORITY: [1, 0],
    MAJORITY_MODEL: [6, 4],
    INDEPENDENT: [2, 3],
}


def gain() -> Any:
    """Draw the vote that users get, with the recommendation."""
    accuracy = alt.Y("value:Q", title="accuracy of the vote", axis=SHARE, scale=alt.Scale(zero=False))
    low = alt.Y("lo:Q", title="accuracy of the vote")
    shown = [tip("k", "paths"), tip("value", "accuracy", ".1%"), tip("range", "95% interval")]
    advice = [tip("policy", "rule"), tip("paths", "mean paths", ".2f"), *shown[1:]]
    seen, ahead, chosen = data("seen"), data("ahead"), data("chosen")
    at = alt.X("paths:Q", scale=PATHS_SCALE, title="paths per question")
    return alt.layer(
        seen.mark_area(color=BLUE, opacity=0.14).encode(x=PATHS, y=low, y2="hi:Q", tooltip=alt.value(None)),
        ahead.mark_area(color=BLUE, opacity=0.07).encode(x=PATHS, y=low, y2="hi:Q", tooltip=alt.value(None)),
        ahead.mark_line(color=BLUE, strokeWidth=2, strokeDash=[6, 4]).encode(
            x=PATHS, y=accuracy, tooltip=alt.value("predicted beyond the recorded paths")
        ),
        seen.mark_line(color=BLUE, strokeWidth=3).encode(x=PATHS, y=accuracy, tooltip=alt.value("measured")),
        *[
            rows.mark_point(opacity=0, size=160, filled=True, color=BLUE).encode(
                x=PATHS, y=accuracy, tooltip=shown
            )
            for rows in (ahead, seen)
        ],
        chosen.mark_rule(color=ORANGE, strokeWidth=2, opacity=0.7).encode(
            x=at, y=low, y2="hi:Q", tooltip=advice
        ),
        chosen.mark_point(color=ORANGE, opacity=1, filled=True, size=170).encode(
            x=at, y=accuracy, tooltip=advice
        ),
        *labels("ends", PATHS, accuracy, dy=24, color=BLUE),
        *labels("chosen", at, accuracy, dy=-26, color=ORANGE),
    ).properties(height=TALL)


# How a label is aligned with its point so that it stays inside the chart, and moved sideways.
SIDES = {"first": ("left", 2), "middle": ("center", 0), "last": ("right", -2)}


# Drawn below a text so that no line strikes it through.
HALO = {"color": "var(--bg)", "stroke": "var(--bg)", "strokeWidth": 4}


def labels(name: str, x: Any, y: Any, dy: int, color: str) -> list[Any]:
    """Return the labels of a dataset's rows, aligned by their ``side``; a halo keeps them readable."""
    return [
        data(name)
        .transform_filter(f"datum.side == '{side}'")
        .mark_text(align=align, dx=dx, dy=dy, fontSize=13, fontWeight="bold", **look)
        .encode(x=x, y=y, text="label:N", tooltip=alt.value(None))
        for side, (align, dx) in SIDES.items()
        for look in (HALO, {"color": color})
    ]


def saturation() -> Any:
    """Draw the paper's view: majority, its models and K*."""
    colours = alt.Scale(domain=list(SERIES), range=[COLOURS[name] for name in SERIES])
    dashes = alt.Scale(domain=list(SERIES), range=[DASHES[name] for name in SERIES])
    colour = alt.Color("series:N", scale=colours, legend=None)
    dash = alt.StrokeDash("series:N", scale=dashes, legend=None)
    accuracy = alt.Y("value:Q", title="accuracy", axis=SHARE, scale=alt.Scale(zero=False))
    shown = [tip("series", ""), tip("k", "paths"), tip("value", "accuracy", ".1%")]
    limits = [*shown, tip("lo", "95% from", ".1%"), tip("hi", "to", ".1%")]
    band = [tip("lo", "accuracy from", ".1%"), tip("hi", "to", ".1%")]
    seen, model = data("seen"), data("model")
    return alt.layer(
        data("star")
        .mark_rect(color=INK, opacity=0.07, clip=True)
        .encode(x="from:Q", x2="to:Q", tooltip=[tip("lo", "K* from"), tip("hi", "K* to")]),
        data("limit")
        .mark_rule(color=ORANGE, strokeDash=[1, 4], strokeWidth=1.5)
        .encode(y=accuracy, tooltip=[tip("value", "majority as K grows without bound", ".1%")]),
        seen.mark_area(opacity=0.14).encode(
            x=PATHS, y=alt.Y("lo:Q", title="accuracy"), y2="hi:Q", color=colour, tooltip=["series:N"]
        ),
        data("bounds")
        .mark_rule(color=ORANGE, strokeWidth=5, opacity=0.25)
        .encode(
            x=PATHS,
            y=alt.Y("lo:Q", title="accuracy"),
            y2="hi:Q",
            tooltip=[alt.Tooltip("k:Q", title="bounds of majority at"), *band],
        ),
        data("whisker")
        .mark_rule(color=BLUE, strokeWidth=1.5)
        .encode(x=PATHS, y=alt.Y("lo:Q", title="accuracy"), y2="hi:Q", tooltip=limits),
        model.mark_line(strokeWidth=2).encode(
            x=PATHS, y=accuracy, color=colour, strokeDash=dash, tooltip=["series:N"]
        ),
        seen.mark_line(strokeWidth=3).encode(x=PATHS, y=accuracy, color=colour, tooltip=["series:N"]),
        model.mark_point(opacity=0, size=90, filled=True).encode(
            x=PATHS, y=accuracy, color=colour, tooltip=shown
        ),
        seen.mark_point(opacity=0, size=90, filled=True).encode(
            x=PATHS, y=accuracy, color=colour, tooltip=limits
        ),
    ).properties(height=TALL)


def stability() -> Any:
    """Draw how often fewer paths give the answer of all."""
    y = alt.Y("value:Q", title="same answer as all paths", axis=SHARE, scale=alt.Scale(zero=False))
    rows = data("same")
    at = alt.X("paths:Q", scale=PATHS_SCALE, title="paths per question")
    shown = [tip("k", "paths"), tip("value", "same answer", ".1%")]
    return alt.layer(
        rows.mark_line(color=BLUE, strokeWidth=3).encode(
            x=PATHS, y=y, tooltip=alt.value("same answer as all paths")
        ),
        rows.mark_point(color=BLUE, filled=True, size=40).encode(x=PATHS, y=y, tooltip=shown),
        data("chosen")
        .mark_point(color=ORANGE, opacity=1, filled=True, size=170)
        .encode(x=at, y=y, tooltip=[tip("paths", "mean paths", ".2f"), *shown[1:]]),
        *labels("chosen", at, y, dy=-24, color=ORANGE),
    ).properties(height=TALL - 40)
