"""Tables of template slots and of weighted votes, for compare and combine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from keff.cli._console import result_console
from keff.cli._summary import percent


def _table(title: str, headers: Sequence[str]) -> Table:
    table = Table(title=f"\n{title}", title_justify="left", box=None, padding=(0, 2), pad_edge=False)
    for header in headers:
        table.add_column(header, justify="left" if header in ("rule", "weights") else "right")
    return table


def print_slots(slots: Sequence[Mapping[str, Any]] | None) -> None:
    """Print the accuracy and the extraction failures of each template slot."""
    if slots is None:
        return
    table = _table("template slots", ("slot", "accuracy", "no answer"))
    for one in slots:
        table.add_row(str(one["slot"]), percent(one["accuracy"]), percent(one["extraction_failures"]))
    result_console.print(table)


def print_weights(found: Mapping[str, Any]) -> None:
    """Print weighted votes and pruning beside equal weights, the best slot and the in-sample oracle."""
    if found["weights"] is None:
        return
    headers = ("rule", "weights", "uniform", "cross-fitted", "gain", "best slot", "in-sample oracle")
    table = _table("weighted votes", headers)
    for one in found["weights"]:
        names = one["rule"], one["scheme"].replace("_", " ")
        gain = f"{one['gain']:+.1%} ± {one['se']:.1%}"
        values = (percent(one[name]) for name in ("uniform", "cross_fitted"))
        table.add_row(*names, *values, gain, percent(one["best_slot"]), percent(one["in_sample"]))
    result_console.print(table)
    for one in found["pruning"]:
        verdict = f"keep slots {one['candidate']}" if one["adopted"] else "keep all slots"
        line = f"  pruning, {one['rule']}: {verdict} (nested gain {one['gain']:+.1%} ± {one['se']:.1%})"
        result_console.print(line, markup=False)
