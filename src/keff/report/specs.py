"""The charts of the report page as Vega-Lite: each drawn from named datasets, so that runs share them."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import altair as alt

from keff.report.series import INDEPENDENT, MAJORITY, MAJORITY_MODEL, PLURALITY, PLURALITY_AHEAD, SERIES

# Colours are CSS variables: the page turns dark, or to print, without drawing anything again.
BLUE, ORANGE, GREY, INK = "var(--blue)", "var(--orange)", "var(--grey)", "var(--ink)"
COLOURS = {
    PLURALITY: BLUE,
    PLURALITY_AHEAD: BLUE,
    MAJORITY: ORANGE,
    MAJORITY_MODEL: ORANGE,
    INDEPENDENT: GREY,
}
DASHES = {
    PLURALITY: [1, 0],
    PLURALITY_AHEAD: [6, 4],
    MAJORITY: [1, 0],
    MAJORITY_MODEL: [6, 4],
    INDEPENDENT: [2, 3],
}
POWERS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
PATHS = alt.X(
    "k:Q",
    title="paths per question",
    scale=alt.Scale(type="log", base=2, nice=False),
    axis=alt.Axis(values=POWERS),
)
SHARE = alt.Axis(format=".1~%")
TALL, LOW = 340, 240
LOOKS = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "padding": 4,
    "autosize": {"type": "fit-x", "contains": "padding"},
    "axis": {
        "labelColor": "var(--soft)",
        "titleColor": "var(--soft)",
        "gridColor": "var(--line)",
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
}
"""The configuration that all charts share."""


def specs() -> dict[str, dict[str, Any]]:
    """Return every chart by name, without data."""
    charts = {
        "saturation": _saturation(),
        "worth": _worth(),
        "difficulty": _difficulty(),
        "frontier_tokens": _frontier("mean tokens per question (logarithmic)"),
        "frontier_paths": _frontier("mean paths per question (logarithmic)"),
        "stability": _stability(),
        "changes": _changes(),
        "slots": _slots(),
    }
    return {name: _finished(chart) for name, chart in charts.items()}


def _finished(chart: Any) -> dict[str, Any]:
    """Return a chart as the page embeds it.

    Dressing the dictionary spares altair its copies of the whole chart; that charts are valid is tested.
    """
    spec = chart.to_dict(validate=False)
    del spec["$schema"]
    view = spec["config"].get("view", {}) | {"strokeWidth": 0}
    return spec | {"width": "container", "config": spec["config"] | LOOKS | {"view": view}}


def _data(name: str) -> Any:
    return alt.Chart(alt.NamedData(name=name))


def _saturation() -> Any:
    colour = alt.Color(
        "series:N", scale=alt.Scale(domain=list(SERIES), range=[COLOURS[one] for one in SERIES]), legend=None
    )
    dash = alt.StrokeDash(
        "series:N", scale=alt.Scale(domain=list(SERIES), range=[DASHES[one] for one in SERIES]), legend=None
    )
    accuracy = alt.Y("value:Q", title="accuracy", axis=SHARE, scale=alt.Scale(zero=False))
    tip = [_tip("series", ""), _tip("k", "paths"), _tip("value", "accuracy", ".1%")]
    limits = [*tip, _tip("lo", "95% from", ".1%"), _tip("hi", "to", ".1%")]
    band = [
        alt.Tooltip("lo:Q", title="accuracy from", format=".1%"),
        alt.Tooltip("hi:Q", title="to", format=".1%"),
    ]
    seen, model = _data("seen"), _data("model")
    return alt.layer(
        _data("star")
        .mark_rect(color=INK, opacity=0.07, clip=True)
        .encode(x="from:Q", x2="to:Q", tooltip=[_tip("lo", "K* from"), _tip("hi", "K* to")]),
        _data("limit")
        .mark_rule(color=ORANGE, strokeDash=[1, 4], strokeWidth=1.5)
        .encode(y=accuracy, tooltip=[_tip("value", "majority vote of endless paths", ".1%")]),
        seen.mark_area(opacity=0.14).encode(
            x=PATHS, y=alt.Y("lo:Q", title="accuracy"), y2="hi:Q", color=colour, tooltip=["series:N"]
        ),
        _data("bounds")
        .mark_rule(color=ORANGE, strokeWidth=5, opacity=0.25)
        .encode(
            x=PATHS,
            y=alt.Y("lo:Q", title="accuracy"),
            y2="hi:Q",
            tooltip=[alt.Tooltip("k:Q", title="bounds of majority at"), *band],
        ),
        _data("whisker")
        .mark_rule(color=BLUE, strokeWidth=1.5)
        .encode(x=PATHS, y=alt.Y("lo:Q", title="accuracy"), y2="hi:Q", tooltip=limits),
        model.mark_line(strokeWidth=2).encode(
            x=PATHS, y=accuracy, color=colour, strokeDash=dash, tooltip=["series:N"]
        ),
        seen.mark_line(strokeWidth=3).encode(x=PATHS, y=accuracy, color=colour, tooltip=["series:N"]),
        model.mark_point(opacity=0, size=90, filled=True).encode(
            x=PATHS, y=accuracy, color=colour, tooltip=tip
        ),
        seen.mark_point(opacity=0, size=90, filled=True).encode(
            x=PATHS, y=accuracy, color=colour, tooltip=limits
        ),
    ).properties(height=TALL)


def _tip(field: str, title: str, form: str = "") -> Any:
    kind = "N" if field in ("series", "what", "policy", "right", "range", "change", "slot") else "Q"
    more = {"format": form} if form else {}
    return alt.Tooltip(f"{field}:{kind}", title=title, **more)


def _worth() -> Any:
    x = alt.X("k:Q", title="paths per question", scale=alt.Scale(nice=False, domainMin=1))
    y = alt.Y("value:Q", title="worth in independent paths", scale=alt.Scale(domainMin=0))
    tip = [
        _tip("k", "paths"),
        _tip("value", "are worth", ".2f"),
        _tip("lo", "95% from", ".2f"),
        _tip("hi", "to", ".2f"),
    ]
    rows = _data("worth")
    ceiling = _data("ceiling").encode(
        y=y, tooltip=[_tip("value", "ceiling 1/c", ".2f"), _tip("range", "95%")]
    )
    return alt.layer(
        rows.mark_area(color=BLUE, opacity=0.14, clip=True).encode(
            x=x, y=alt.Y("lo:Q", title="worth in independent paths"), y2="hi:Q", tooltip=tip
        ),
        _data("ideal")
        .mark_line(color=GREY, strokeDash=[2, 3], strokeWidth=2)
        .encode(x=x, y=y, tooltip=alt.value("independent paths: K are worth K")),
        ceiling.mark_rule(color=ORANGE, strokeDash=[6, 4], strokeWidth=2),
        rows.mark_line(color=BLUE, strokeWidth=3).encode(x=x, y=y, tooltip=alt.value("K_eff")),
        rows.mark_point(opacity=0, size=90, filled=True).encode(x=x, y=y, tooltip=tip),
    ).properties(height=LOW)


def _difficulty() -> Any:
    rows = _data("difficulty")
    x = alt.X(
        "from:Q", title="share of a question's paths that are right", axis=SHARE, scale=alt.Scale(nice=False)
    )
    middle = alt.X("middle:Q", title="share of a question's paths that are right")
    count = alt.Scale(type="sqrt", domainMin=0)
    tip = [
        _tip("right", "paths right"),
        _tip("items", "questions"),
        _tip("expected", "beta-binomial expects", ".1f"),
        _tip("independent", "independence expects", ".1f"),
    ]
    return alt.layer(
        rows.mark_rect(color=BLUE, opacity=0.45).encode(
            x=x,
            x2="to:Q",
            y=alt.Y("items:Q", title="questions (square-root scale)", scale=count),
            y2=alt.datum(0),
            tooltip=tip,
        ),
        rows.mark_line(color=GREY, strokeDash=[2, 3], strokeWidth=2).encode(
            x=middle, y=alt.Y("independent:Q", scale=count), tooltip=alt.value("if paths were independent")
        ),
        rows.mark_line(color=ORANGE, strokeWidth=2).encode(
            x=middle, y=alt.Y("expected:Q", scale=count), tooltip=alt.value("fitted beta-binomial")
        ),
        rows.mark_point(color=ORANGE, filled=True, size=35).encode(
            x=middle, y=alt.Y("expected:Q", scale=count), tooltip=tip
        ),
    ).properties(height=LOW)


def _frontier(title: str) -> Any:
    x = alt.X(
        "cost:Q",
        title=title,
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(tickCount=5, format="~s"),
    )
    y = alt.Y("value:Q", title="accuracy", axis=SHARE, scale=alt.Scale(zero=False))
    fixed = [_tip("what", ""), _tip("value", "accuracy", ".2%"), _tip("cost", "mean cost", ",.1f")]
    rule = [
        _tip("policy", ""),
        _tip("value", "accuracy", ".2%"),
        _tip("lo", "95% from", ".1%"),
        _tip("hi", "to", ".1%"),
        _tip("paths", "mean paths", ".2f"),
        _tip("cost", "mean cost", ",.1f"),
    ]
    rules = _data("rules")
    chosen = rules.transform_filter("datum.chosen")
    return alt.layer(
        _data("curve")
        .mark_line(color=GREY, strokeWidth=2)
        .encode(x=x, y=y, tooltip=alt.value("a fixed number of paths")),
        _data("ahead")
        .mark_line(color=GREY, strokeWidth=2, strokeDash=[6, 4])
        .encode(x=x, y=y, tooltip=alt.value("predicted")),
        _data("curve").mark_point(color=GREY, filled=True, size=22).encode(x=x, y=y, tooltip=fixed),
        _data("ahead").mark_point(color=GREY, filled=True, size=22).encode(x=x, y=y, tooltip=fixed),
        chosen.mark_rule(color=ORANGE, opacity=0.6).encode(
            x=x, y=alt.Y("lo:Q", title="accuracy"), y2="hi:Q", tooltip=rule
        ),
        rules.transform_filter("!datum.chosen")
        .mark_point(color=BLUE, opacity=1, filled=True, shape="diamond", size=90)
        .encode(x=x, y=y, tooltip=rule),
        *[
            _data(name).mark_text(color="var(--soft)", dy=14).encode(x=x, y=y, text="mark:N", tooltip=fixed)
            for name in ("curve", "ahead")
        ],
        chosen.mark_text(color=ORANGE, dy=-16, fontWeight="bold").encode(
            x=x, y=y, text="policy:N", tooltip=rule
        ),
        chosen.mark_point(color=ORANGE, opacity=1, filled=True, size=170).encode(x=x, y=y, tooltip=rule),
    ).properties(height=TALL - 40)


def _stability() -> Any:
    y = alt.Y("value:Q", title="same answer as all paths", axis=SHARE, scale=alt.Scale(zero=False))
    rows = _data("same")
    tip = [_tip("k", "paths"), _tip("value", "same answer", ".1%")]
    return alt.layer(
        rows.mark_line(color=BLUE, strokeWidth=3).encode(
            x=PATHS, y=y, tooltip=alt.value("same answer as all paths")
        ),
        rows.mark_point(color=BLUE, filled=True, size=40).encode(x=PATHS, y=y, tooltip=tip),
    ).properties(height=TALL - 40)


def _changes() -> Any:
    rows = _data("changes")
    y = alt.Y("change:N", title=None, sort=None, axis=alt.Axis(labelLimit=220))
    x = alt.X("value:Q", title="change from the first arm to the second", axis=alt.Axis(format="+.0%"))
    tip = [
        _tip("change", ""),
        _tip("value", "change", "+.1%"),
        _tip("lo", "95% from", "+.1%"),
        _tip("hi", "to", "+.1%"),
    ]
    zero = (
        alt.Chart(alt.InlineData(values=[{"zero": 0}]))
        .mark_rule(color=GREY)
        .encode(x="zero:Q", tooltip=alt.value("no change"))
    )
    return alt.layer(
        zero,
        rows.mark_rule(color=BLUE, strokeWidth=2).encode(
            y=y, x=alt.X("lo:Q", title=None), x2="hi:Q", tooltip=tip
        ),
        rows.mark_point(color=BLUE, filled=True, size=90).encode(y=y, x=x, tooltip=tip),
    ).properties(height=140)


def _slots() -> Any:
    rows = _data("slots")
    x = alt.X("slot:N", title="template slot", axis=alt.Axis(labelAngle=0))
    tip = [
        _tip("slot", "slot"),
        _tip("accuracy", "accuracy of a path", ".1%"),
        _tip("failures", "no answer", ".1%"),
    ]
    return alt.layer(
        rows.mark_bar(color=BLUE, opacity=0.6).encode(
            x=x, y=alt.Y("accuracy:Q", title="accuracy; ◆ no answer", axis=SHARE), tooltip=tip
        ),
        rows.mark_point(color=ORANGE, filled=True, shape="diamond", size=90).encode(
            x=x, y="failures:Q", tooltip=tip
        ),
    ).properties(height=LOW)
