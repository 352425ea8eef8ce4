"""What the charts of the report page share: colours, axes, tooltips."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import altair as alt

# Colours are CSS variables: the page turns dark, or to print, without drawing anything again.
BLUE, ORANGE, GREY, INK = "var(--blue)", "var(--orange)", "var(--grey)", "var(--ink)"
POWERS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
PATHS_SCALE = alt.Scale(type="log", base=2, nice=False, padding=6)
PATHS = alt.X(
    "k:Q",
    title="paths per question",
    scale=PATHS_SCALE,
    axis=alt.Axis(values=POWERS),
)
SHARE = alt.Axis(format=".1~%")
TALL, LOW = 340, 240


def data(name: str) -> Any:
    """Return a chart of a named dataset."""
    return alt.Chart(alt.NamedData(name=name))


def tip(field: str, title: str, form: str = "") -> Any:
    """Return one line of a tooltip."""
    kind = "N" if field in ("series", "what", "policy", "right", "range", "change", "slot", "letter") else "Q"
    more = {"format": form} if form else {}
    return alt.Tooltip(f"{field}:{kind}", title=title, **more)
