"""Write src/keff/report/templates/charts.json, the charts of the report page as Vega-Lite.

python scripts/write_charts.py

Each is drawn from named datasets, so that runs share them; without data they are the same for every page.
"""

from __future__ import annotations

import json
from typing import Any

import altair as alt
import side_charts
import vote_charts
from vote_charts import BLUE, GREY, LOW, ORANGE, SHARE, TALL, data, tip

from keff.report.template import TEMPLATES


def money_charts() -> dict[str, Any]:
    """Return the charts of dollars and of time by name, without data."""
    return {"dollars": _against("dollars per question"), "times": _times()}


def _times() -> Any:
    """Draw rules by cost and 95th percentile of the time to answer, both as parts of today's."""
    x = alt.X(
        "cost:Q",
        title="cost, of today's",
        axis=alt.Axis(format="~%", tickCount=8),
        scale=alt.Scale(zero=False, nice=False, padding=12),
    )
    y = alt.Y("p95:Q", title="95th percentile of the time, of today's", axis=SHARE)
    shown = [
        tip("policy", "rule"),
        tip("cost", "cost", ".0%"),
        tip("mean", "mean time", ".0%"),
        tip("p50", "median", ".0%"),
        tip("p95", "95th percentile", ".0%"),
        tip("points", "accuracy", "+.2%"),
    ]
    others, best = data("others"), data("best")
    named = ((data("today"), GREY, "today"), (data("chosen"), ORANGE, "keff"))
    return alt.layer(
        others.mark_point(color=GREY, opacity=0.5, filled=True, size=30).encode(x=x, y=y, tooltip=shown),
        best.mark_line(color=BLUE, strokeDash=[5, 4], interpolate="step-after").encode(
            x=x, y=y, tooltip=alt.value("rules that no other rule beats")
        ),
        best.mark_point(color=BLUE, filled=True, size=60).encode(x=x, y=y, tooltip=shown),
        *[
            rule.mark_point(color=colour, opacity=1, filled=True, size=170).encode(x=x, y=y, tooltip=shown)
            for rule, colour, _ in named
        ],
        *[
            rule.mark_text(color=colour, dy=-17, fontSize=13, fontWeight="bold").encode(
                x=x, y=y, text=alt.value(text), tooltip=shown
            )
            for rule, colour, text in named
        ],
    ).properties(height=TALL - 40)


def _against(title: str) -> Any:
    """Draw fixed numbers of paths, and the recommendation with its intervals in both directions."""
    x = alt.X(
        "cost:Q",
        title=f"{title} (logarithmic)",
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(tickCount=5, format="~g"),
    )
    y = alt.Y("value:Q", title="accuracy", axis=SHARE, scale=alt.Scale(zero=False))
    fixed = [tip("what", ""), tip("value", "accuracy", ".1%"), tip("cost", title, ".3g")]
    rule = [tip("policy", "rule"), tip("value", "accuracy", ".1%"), tip("range", "95% interval")]
    rule.append(tip("cost", title, ".3g"))
    curve, chosen = data("curve"), data("chosen")
    return alt.layer(
        curve.mark_line(color=GREY, strokeWidth=2).encode(
            x=x, y=y, tooltip=alt.value("a fixed number of paths")
        ),
        curve.mark_point(color=GREY, filled=True, size=22).encode(x=x, y=y, tooltip=fixed),
        curve.mark_text(color="var(--soft)", dy=14).encode(x=x, y=y, text="mark:N", tooltip=fixed),
        chosen.mark_rule(color=ORANGE, opacity=0.6).encode(
            x=x, y=alt.Y("lo:Q", title="accuracy"), y2="hi:Q", tooltip=rule
        ),
        chosen.mark_rule(color=ORANGE, opacity=0.6).encode(
            x=alt.X("least:Q"), x2="most:Q", y=y, tooltip=rule
        ),
        chosen.mark_text(color=ORANGE, dy=-17, fontSize=13, fontWeight="bold").encode(
            x=x, y=y, text=alt.value("keff"), tooltip=rule
        ),
        chosen.mark_point(color=ORANGE, opacity=1, filled=True, size=170).encode(x=x, y=y, tooltip=rule),
    ).properties(height=TALL - 40)


# The configuration that all charts share.
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
    # A browser's type may be wider than what the drawing was measured with.
    "axisY": {"titlePadding": 14},
}


FILE = TEMPLATES / "charts.json"


def text() -> str:
    """Return the file: a chart a line."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(chart, ensure_ascii=False)}" for name, chart in specs().items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def specs() -> dict[str, dict[str, Any]]:
    """Return every chart by name, without data."""
    charts = {
        "gain": vote_charts.gain(),
        "saturation": vote_charts.saturation(),
        "worth": _worth(),
        "difficulty": _difficulty(),
        "reliability": _reliability(),
        "frontier_tokens": _frontier("mean tokens per question (logarithmic)"),
        **money_charts(),
        "frontier_paths": _frontier("mean paths per question (logarithmic)"),
        "stability": vote_charts.stability(),
        "slots": _slots(),
        **side_charts.charts(),
    }
    return {name: _finished(chart) for name, chart in charts.items()}


def _finished(chart: Any) -> dict[str, Any]:
    """Return a chart as the page draws it: what its tooltips say becomes the description of its marks.

    Dressing the dictionary spares altair its copies of the whole chart; that charts are valid is tested.
    """
    spec = chart.to_dict(validate=False)
    del spec["$schema"]
    for layer in spec["layer"]:
        layer["mark"] |= _described(layer["encoding"].pop("tooltip", None))
    view = spec["config"].get("view", {}) | {"strokeWidth": 0}
    return spec | {"config": spec["config"] | LOOKS | {"view": view}}


def _described(shown: Any) -> dict[str, Any]:
    """Return what a tooltip is as the description of marks: a text, or an expression of fields."""
    if not isinstance(shown, list):
        text = (shown or {}).get("value")
        return {"description": text} if text else {"aria": False}
    parts = list[str]()
    for line in shown:
        value, title = f"datum[{line['field']!r}]", line.get("title", line["field"])
        form = line.get("format", "" if line["type"] == "quantitative" else None)
        told = value if form is None else f"isValid({value}) ? format({value}, {form!r}) : '–'"
        parts.append(f"{title + ': ' if title else ''!r} + ({told})")
    return {"description": {"expr": " + '; ' + ".join(parts)}}


def _worth() -> Any:
    x = alt.X("k:Q", title="paths per question", scale=alt.Scale(nice=False, domainMin=1))
    y = alt.Y("value:Q", title="worth in independent paths", scale=alt.Scale(domainMin=0))
    shown = [
        tip("k", "paths"),
        tip("value", "are worth", ".2f"),
        tip("lo", "95% from", ".2f"),
        tip("hi", "to", ".2f"),
    ]
    rows = data("worth")
    ceiling = data("ceiling").encode(y=y, tooltip=[tip("value", "ceiling 1/c", ".2f"), tip("range", "95%")])
    return alt.layer(
        rows.mark_area(color=BLUE, opacity=0.14, clip=True).encode(
            x=x, y=alt.Y("lo:Q", title="worth in independent paths"), y2="hi:Q", tooltip=shown
        ),
        data("ideal")
        .mark_line(color=GREY, strokeDash=[2, 3], strokeWidth=2)
        .encode(x=x, y=y, tooltip=alt.value("independent paths: K are worth K")),
        ceiling.mark_rule(color=ORANGE, strokeDash=[6, 4], strokeWidth=2),
        rows.mark_line(color=BLUE, strokeWidth=3).encode(x=x, y=y, tooltip=alt.value("K_eff")),
        rows.mark_point(opacity=0, size=90, filled=True).encode(x=x, y=y, tooltip=shown),
    ).properties(height=LOW)


def _difficulty() -> Any:
    rows = data("difficulty")
    x = alt.X(
        "from:Q", title="share of a question's paths that are right", axis=SHARE, scale=alt.Scale(nice=False)
    )
    middle = alt.X("middle:Q", title="share of a question's paths that are right")
    count = alt.Scale(type="sqrt", domainMin=0)
    shown = [
        tip("right", "paths right"),
        tip("items", "questions"),
        tip("expected", "beta-binomial expects", ".1f"),
        tip("independent", "independence expects", ".1f"),
    ]
    return alt.layer(
        rows.mark_rect(color=BLUE, opacity=0.45).encode(
            x=x,
            x2="to:Q",
            y=alt.Y("items:Q", title="questions (square-root scale)", scale=count),
            y2=alt.datum(0),
            tooltip=shown,
        ),
        rows.mark_line(color=GREY, strokeDash=[2, 3], strokeWidth=2).encode(
            x=middle, y=alt.Y("independent:Q", scale=count), tooltip=alt.value("if paths were independent")
        ),
        rows.mark_line(color=ORANGE, strokeWidth=2).encode(
            x=middle, y=alt.Y("expected:Q", scale=count), tooltip=alt.value("fitted beta-binomial")
        ),
        rows.mark_point(color=ORANGE, filled=True, size=35).encode(
            x=middle, y=alt.Y("expected:Q", scale=count), tooltip=shown
        ),
    ).properties(height=LOW)


def _reliability() -> Any:
    shown = [
        tip("name", "confidence"),
        tip("chance", "chance by it", ".1%"),
        tip("right", "right", ".1%"),
        tip("paths", "paths"),
    ]
    x = alt.X("chance:Q", title="chance to be right, from other questions", axis=SHARE)
    y = alt.Y("right:Q", title="share of paths that are right", axis=SHARE)
    ends = alt.Scale(domain=[0, 1])
    rows, line = data("reliability"), data("diagonal")
    return alt.layer(
        line.mark_line(color=GREY, strokeDash=[2, 3], strokeWidth=2).encode(
            x=x.scale(ends), y=y.scale(ends), tooltip=alt.value("as right as said")
        ),
        rows.mark_line(color=BLUE, strokeWidth=2).encode(x=x, y=y, detail="name:N"),
        rows.mark_point(color=BLUE, filled=True, size=60).encode(x=x, y=y, tooltip=shown),
    ).properties(height=LOW)


def _frontier(title: str) -> Any:
    x = alt.X(
        "cost:Q",
        title=title,
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(tickCount=5, format="~s"),
    )
    y = alt.Y("value:Q", title="accuracy", axis=SHARE, scale=alt.Scale(zero=False))
    fixed = [tip("what", ""), tip("value", "accuracy", ".2%"), tip("cost", "mean cost", ",.1f")]
    rule = [
        tip("policy", "rule"),
        tip("value", "accuracy", ".1%"),
        tip("range", "95% interval"),
        tip("paths", "mean paths", ".2f"),
        tip("cost", "mean cost", ",.1f"),
    ]
    rules, chosen = data("rules"), data("chosen")
    return alt.layer(
        data("curve")
        .mark_line(color=GREY, strokeWidth=2)
        .encode(x=x, y=y, tooltip=alt.value("a fixed number of paths")),
        data("ahead")
        .mark_line(color=GREY, strokeWidth=2, strokeDash=[6, 4])
        .encode(x=x, y=y, tooltip=alt.value("a fixed number of paths, predicted")),
        data("curve").mark_point(color=GREY, filled=True, size=22).encode(x=x, y=y, tooltip=fixed),
        data("ahead").mark_point(color=GREY, filled=True, size=22).encode(x=x, y=y, tooltip=fixed),
        chosen.mark_rule(color=ORANGE, opacity=0.6).encode(
            x=x, y=alt.Y("lo:Q", title="accuracy"), y2="hi:Q", tooltip=rule
        ),
        rules.mark_point(color=BLUE, opacity=1, filled=True, shape="diamond", size=90).encode(
            x=x, y=y, tooltip=rule
        ),
        *[
            data(name).mark_text(color="var(--soft)", dy=14).encode(x=x, y=y, text="mark:N", tooltip=fixed)
            for name in ("curve", "ahead")
        ],
        rules.mark_text(color=BLUE, dy=-12, fontSize=13, fontWeight="bold").encode(
            x=x, y=y, text="letter:N", tooltip=rule
        ),
        # Below: the letters of rules at the same cost stand above.
        chosen.mark_text(color=ORANGE, dy=28, fontSize=13, fontWeight="bold").encode(
            x=x, y=y, text=alt.value("keff"), tooltip=rule
        ),
        chosen.mark_point(color=ORANGE, opacity=1, filled=True, size=170).encode(x=x, y=y, tooltip=rule),
    ).properties(height=TALL - 40)


def _slots() -> Any:
    rows = data("slots")
    x = alt.X("slot:N", title="template slot", axis=alt.Axis(labelAngle=0))
    shown = [
        tip("slot", "slot"),
        tip("accuracy", "accuracy of a path", ".1%"),
        tip("failures", "no answer", ".1%"),
    ]
    return alt.layer(
        rows.mark_bar(color=BLUE, opacity=0.6).encode(
            x=x, y=alt.Y("accuracy:Q", title="accuracy; ◆ no answer", axis=SHARE), tooltip=shown
        ),
        rows.mark_point(color=ORANGE, filled=True, shape="diamond", size=90).encode(
            x=x, y="failures:Q", tooltip=shown
        ),
    ).properties(height=LOW)


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
