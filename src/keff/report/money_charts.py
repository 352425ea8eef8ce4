"""The curve of accuracy against dollars and against seconds, where prices and times are known."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import altair as alt

from keff.report.chart import GREY, ORANGE, SHARE, TALL, data, tip

UNITS = {"dollars": "dollars per question", "seconds": "seconds to the answer, 95% of questions"}


def money_charts() -> dict[str, Any]:
    """Return both charts by name, without data."""
    return {name: _against(title) for name, title in UNITS.items()}


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
