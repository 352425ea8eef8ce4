"""The charts of the pages of ``keff mix``, ``noise``, ``compare`` and ``audit``: plans, intervals, power."""

from __future__ import annotations

from typing import Any

import altair as alt
from vote_charts import BLUE, GREY, HALO, INK, SHARE, TALL, data, labels, tip

# A row of text, such as a plan in one line, which is worked out beside the data.
TOLD = [tip("told", "")]
# Pixels of a name with its interval below.
ROW = 58
# The unit of an axis, by the kind of scores.
UNITS = {"shares": "points", "scores": "on the scale of the scores"}
# Colours that are data: those of branches, as the legend beside the chart has them.
OWN = alt.Color("colour:N", scale=None, legend=None)


def plans() -> Any:
    """Draw each branch's plans as a curve, the frontier as steps with its joint plans, and the choice."""
    x = _costs("cost:Q", "cost per question (logarithmic)")
    y = alt.Y("value:Q", title="accuracy", axis=SHARE, scale=alt.Scale(zero=False))
    curve, chosen = data("curve"), data("chosen")
    return alt.layer(
        data("frontier")
        .mark_line(color=GREY, strokeDash=[5, 4], interpolate="step-after")
        .encode(x=x, y=y, tooltip=alt.value("the frontier of all plans")),
        curve.mark_line(strokeWidth=2.5).encode(x=x, y=y, color=OWN, detail="branch:N", tooltip=["branch:N"]),
        curve.mark_point(opacity=1, filled=True, size=40).encode(x=x, y=y, color=OWN, tooltip=TOLD),
        data("joint")
        .mark_point(color=GREY, opacity=1, filled=True, shape="diamond", size=90)
        .encode(x=x, y=y, tooltip=TOLD),
        chosen.mark_point(color=INK, opacity=1, strokeWidth=3, size=320).encode(x=x, y=y, tooltip=TOLD),
        *labels("chosen", x, y, dy=-22, color=INK),
    ).properties(height=TALL)


def worths() -> Any:
    """Draw the accuracy of the plan that each worth of a right answer asks for, and where the choice pays."""
    x = _costs("from:Q", "what a right answer is worth (logarithmic)")
    y = alt.Y("value:Q", title="adjusted accuracy", axis=SHARE, scale=alt.Scale(zero=False))
    pays = alt.X("worth:Q")
    return alt.layer(
        *[
            data(name)
            .mark_rule(color=colour, strokeWidth=6, strokeCap="round")
            .encode(x=x, x2="to:Q", y=y, tooltip=TOLD)
            for name, colour in (("others", GREY), ("chosen", BLUE))
        ],
        data("pays").mark_rule(color=INK, strokeWidth=1.5, strokeDash=[3, 4]).encode(x=pays),
        *labels("pays", pays, alt.value("height"), dy=-10, color=INK),
    ).properties(height=TALL - 40)


def forest(form: str) -> Any:
    """Draw intervals in rows, each below its name, over how far chance alone reaches to both sides of 0."""
    y = alt.Y("place:O", axis=None)
    x = alt.X(
        "value:Q", title=UNITS[form], axis=_numbers(form), scale=alt.Scale(zero=False, nice=False, padding=12)
    )
    rows = data("rows")
    return alt.layer(
        data("chance")
        .mark_rule(color=GREY, strokeWidth=16, opacity=0.35)
        .encode(y=y, x=alt.X("from:Q"), x2="to:Q", tooltip=alt.value("repeats alone")),
        data("zero").mark_rule(color="var(--soft)").encode(x="zero:Q", tooltip=alt.value("no difference")),
        rows.mark_rule(color=BLUE, strokeWidth=3).encode(y=y, x=alt.X("lo:Q"), x2="hi:Q", tooltip=TOLD),
        rows.mark_point(color=BLUE, opacity=1, filled=True, size=80).encode(y=y, x=x, tooltip=TOLD),
        *[
            rows.mark_text(align="left", dy=-20, fontSize=13, **look).encode(
                y=y, x=alt.value(0), text="name:N"
            )
            for look in (HALO, {"color": INK})
        ],
    ).properties(height=alt.Step(ROW))


def power(form: str) -> Any:
    """Draw the smallest difference that can be detected, by the number of questions."""
    # With a count of ticks Vega would leave out every other of these.
    sizes = {"values": [50, 100, 200, 500, 1000, 2000], "tickCount": alt.Undefined, "labelOverlap": False}
    x = _costs("questions:Q", "questions (logarithmic)", **sizes)
    y = alt.Y("difference:Q", title=f"smallest difference, {UNITS[form]}", axis=_numbers(form))
    rows = data("power")
    return alt.layer(
        rows.mark_line(strokeWidth=2.5, color=BLUE).encode(x=x, y=y),
        rows.mark_point(opacity=1, filled=True, size=40, color=BLUE).encode(x=x, y=y, tooltip=TOLD),
    ).properties(height=TALL)


def charts() -> dict[str, Any]:
    """Return every chart by name, without data; those of shares have their axis in points."""
    several = {f"{draw.__name__}_{form}": draw(form) for draw in (forest, power) for form in UNITS}
    return {"plans": plans(), "worths": worths(), **several}


def _numbers(form: str) -> Any:
    factor = 100 if form == "shares" else 1
    return alt.Axis(tickCount=5, labelExpr=f"format({factor} * datum.value, '.3~g')")


def _costs(field: str, title: str, **ticks: Any) -> Any:
    scale = alt.Scale(type="log", nice=False, padding=12)
    return alt.X(field, title=title, scale=scale, axis=alt.Axis(**{"tickCount": 4, "format": ",~g"} | ticks))
