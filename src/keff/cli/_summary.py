"""The summary that analyze, pilot and demo print for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from keff.cli._console import result_console, warn
from keff.reader import Record

SHOWN = (1, 2, 4, 8, 16, 32, 64, 128)
BARS = "▁▂▃▄▅▆▇█"


def percent(value: float | None) -> str:
    """Format a share, or a dash where it is unknown."""
    return "–" if value is None or value != value else f"{100 * value:.1f}%"


def with_range(found: Mapping[str, Any] | None, style: str = ".2f") -> str:
    """Format a value with its interval, such as ``0.42 [0.31, 0.54]``."""
    if found is None or found["value"] is None or found["value"] != found["value"]:
        return "–"

    def one(value: float | None) -> str:
        return "–" if value is None else "∞" if value == float("inf") else format(value, style)

    return f"{one(found['value'])} [{one(found['lo'])}, {one(found['hi'])}]"


def sparkline(values: list[float]) -> str:
    """Draw a curve in one line of blocks, from its least to its greatest value."""
    low, high = min(values), max(values)
    span = high - low or 1.0
    return "".join(BARS[min(int((value - low) / span * len(BARS)), len(BARS) - 1)] for value in values)


def print_summary(record: Record, estimates: Mapping[str, Any]) -> None:
    """Print the recommendation first, then what it rests on."""
    out = result_console
    out.print(f"[bold]{record.path}[/bold]", markup=True)
    about = " · ".join(part for part in (record.info.task, record.info.model) if part)
    size = f"{estimates['n']} items x {estimates['k']} paths"
    out.print(f"  {about + ' · ' if about else ''}{size}", markup=False)
    _recommendation(estimates)
    _correlation(estimates)
    out.print(_table(estimates))
    _curve(estimates)
    for warning in estimates["warnings"]:
        warn(warning["message"])


def _recommendation(estimates: Mapping[str, Any]) -> None:
    advice = estimates.get("recommendation")
    if advice is None:
        return
    what = f" with {advice['policy']}" if advice["policy"] else ""
    result_console.print(f"\n  [bold]{advice['verdict']}[/bold]{what}", soft_wrap=True)
    result_console.print(f"  {advice['because']}\n", markup=False, soft_wrap=True)


def _correlation(estimates: Mapping[str, Any]) -> None:
    c = estimates["c"]
    if c is None:
        return
    k, star = estimates["k"], estimates["k_star"]
    lines = [
        f"one path is right {percent(estimates['p'])} of the time; "
        f"the correctness of two paths correlates with c = {with_range(c)}",
        f"{k} paths are worth {with_range(estimates['k_eff'])} independent ones; "
        f"no number of paths is worth more than {with_range(estimates['ceiling'])}",
        f"K* = {star['paper']} by the paper's rule (interval {star['lo']} to {star['hi']}, "
        f"conservative {star['conservative']}, at most {star['k_max']})",
    ]
    for line in lines:
        result_console.print("  " + line, markup=False, soft_wrap=True)


def _table(estimates: Mapping[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 2), title_justify="left")
    cap = estimates["k_star"]["k_max"] if estimates["k_star"] else estimates["k"]
    headers = (
        "paths",
        "plurality",
        "predicted plurality",
        "majority",
        "predicted majority",
        f"cost against {cap}",
    )
    for header in headers:
        table.add_column(header, justify="right")
    for k in SHOWN:
        if k <= max(cap, 1):
            table.add_row(str(k), *_row(estimates, str(k)), f"{k / cap:.0%}")
    return table


def _row(estimates: Mapping[str, Any], k: str) -> list[str]:
    predicted = estimates["predicted"] or {}
    return [
        percent((estimates["plurality"] or {}).get(k)),
        _predicted((predicted.get("plurality") or {}).get(k)),
        percent((estimates["majority"] or {}).get(k)),
        _predicted((predicted.get("beta_binomial") or {}).get(k)),
    ]


def _predicted(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "–"
    if found["lo"] is None:
        return percent(found["value"])
    return f"{percent(found['value'])} [{100 * found['lo']:.0f}, {100 * found['hi']:.0f}]"


def _curve(estimates: Mapping[str, Any]) -> None:
    if estimates["plurality"] and len(estimates["plurality"]) > 1:
        values = list(estimates["plurality"].values())
        line = f"  plurality at 1 to {len(values)} paths  {sparkline(values)}  {percent(values[0])} to {percent(values[-1])}"
        result_console.print(line, markup=False, soft_wrap=True)
