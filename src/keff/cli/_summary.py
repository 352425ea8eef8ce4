"""The summary that analyze, pilot and demo print for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from keff.cli._console import result_console, warn
from keff.reading.open import Record
from keff.report.headline import SAFE
from keff.report.rules import in_words
from keff.stats.diversity import k_eff

Estimates = Mapping[str, Any]
SHOWN = (1, 2, 4, 8, 16, 32, 64, 128)
BARS = "▁▂▃▄▅▆▇█"


def percent(value: float | None) -> str:
    """Format a share, or a dash where it is unknown."""
    return "–" if value is None or value != value else f"{100 * value:.1f}%"


def with_range(found: Estimates | None, style: str = ".2f") -> str:
    """Format a value with its interval, such as ``0.42 [0.31, 0.54]``."""
    if found is None or found["value"] is None or found["value"] != found["value"]:
        return "–"

    def one(value: float | None) -> str:
        return "–" if value is None else "∞" if value == float("inf") else format(value, style)

    if found["lo"] is None and found["hi"] is None:
        return one(found["value"])
    return f"{one(found['value'])} [{one(found['lo'])}, {one(found['hi'])}]"


def sparkline(values: list[float]) -> str:
    """Draw a curve in one line of blocks, from its least to its greatest value."""
    low, high = min(values), max(values)
    span = high - low or 1.0
    return "".join(BARS[min(int((value - low) / span * len(BARS)), len(BARS) - 1)] for value in values)


def print_summary(record: Record, estimates: Estimates) -> None:
    """Print the recommendation first, then what it rests on."""
    out = result_console
    out.print(f"[bold]{record.path}[/bold]", markup=True)
    about = " · ".join(part for part in (record.info.task, record.info.model) if part)
    size = f"{estimates['n']} items x {estimates['k']} paths"
    out.print(f"  {about + ' · ' if about else ''}{size}", markup=False)
    _recommendation(estimates)
    out.print(_table(estimates))
    _curve(estimates)
    _correlation(estimates)
    for warning in estimates["warnings"]:
        warn(warning["message"])


def _recommendation(estimates: Estimates) -> None:
    advice = estimates.get("recommendation")
    if advice is None:
        return
    result_console.print(f"\n  {_verdict(advice)}", soft_wrap=True)
    result_console.print(f"  {in_words(advice['policy'])}", markup=False, soft_wrap=True)
    result_console.print(f"  {_in_numbers(estimates)}", markup=False, soft_wrap=True)
    result_console.print(f"  {advice['because']}\n", markup=False, soft_wrap=True)


def _verdict(advice: Estimates) -> str:
    """Say the verdict and the policy that goes with it."""
    verdict, policy = advice["verdict"], advice["policy"]
    if verdict == "pilot too small":
        what = "safe default" if policy.startswith(SAFE) else "best for your aim"
        return f"[bold]pilot too small to choose[/bold]; {what}: {policy}"
    return f"[bold]{verdict}[/bold] with {policy}"


def _in_numbers(estimates: Estimates) -> str:
    """Say what the policy is expected to keep and to save."""
    advice = estimates["recommendation"]
    expected, paths = advice["expected_plurality"], advice["expected_paths"]
    parts = [] if expected is None else [f"accuracy {_predicted(expected)} expected"]
    if paths is not None:
        cap = _cap(estimates)
        parts.append(f"{paths:.1f} paths a question instead of {cap}: {max(1 - paths / cap, 0):.0%} saved")
    return "; ".join(parts) or "nothing can be expected of it yet"


def _cap(estimates: Estimates) -> int:
    return int(estimates["k_star"]["k_max"]) if estimates["k_star"] else 32


def _correlation(estimates: Estimates) -> None:
    c = estimates["c"]
    if c is None:
        return
    k, star = estimates["k"], estimates["k_star"]
    lines = [
        "",
        f"one path is right {percent(estimates['p'])} of the time; "
        f"the correctness of two paths correlates with c = {with_range(c)}",
        f"{k} paths are worth {with_range(estimates['k_eff'])} independent ones; "
        f"no number of paths is worth more than {with_range(estimates['ceiling'])}",
        f"K* = {star['paper']} by the paper's rule (interval {star['lo']} to {star['hi']}, "
        f"conservative {star['conservative']}, at most {star['k_max']})",
        "In brackets: 95% intervals, over questions like these.",
    ]
    for line in lines:
        result_console.print("  " + line, markup=False, soft_wrap=True)


def _table(estimates: Estimates) -> Table:
    cap = int(estimates["k_star"]["k_max"]) if estimates["k_star"] else int(estimates["k"])
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    headers = (
        "  \npaths",
        "\nworth",
        "plurality\nseen",
        "\npredicted",
        "majority\nseen",
        "\npredicted",
        "\ncost",
    )
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    for k in SHOWN:
        if k <= cap:
            table.add_row(str(k), *_row(estimates, str(k)), f"{k / cap:.0%}")
    return table


def _row(estimates: Estimates, k: str) -> list[str]:
    predicted: Estimates = estimates["predicted"] or {}
    plurality: Estimates = estimates["plurality"] or {}
    majority: Estimates = estimates["majority"] or {}
    by_answers: Estimates = predicted.get("plurality") or {}
    by_beta_binomial: Estimates = predicted.get("beta_binomial") or {}
    return [
        _worth(estimates, int(k)),
        percent(plurality.get(k)),
        _predicted(by_answers.get(k)),
        percent(majority.get(k)),
        _predicted(by_beta_binomial.get(k)),
    ]


def _worth(estimates: Estimates, k: int) -> str:
    c = estimates["c"]["value"] if estimates["c"] else None
    return "–" if c is None or c != c else f"{float(k_eff(k, c)):.2f}"


def _predicted(found: Estimates | None) -> str:
    if found is None:
        return "–"
    if found["lo"] is None:
        return percent(found["value"])
    return f"{percent(found['value'])} [{100 * found['lo']:.0f}, {100 * found['hi']:.0f}]"


def _curve(estimates: Estimates) -> None:
    if estimates["plurality"] and len(estimates["plurality"]) > 1:
        values = list(estimates["plurality"].values())
        line = f"  plurality at 1 to {len(values)} paths  {sparkline(values)}  {percent(values[0])} to {percent(values[-1])}"
        result_console.print(line, markup=False, soft_wrap=True)
