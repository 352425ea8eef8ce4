"""Compare two arms: do prompt templates decorrelate?

Delta rho, delta K_eff and accuracy, with paired intervals.
"""

from __future__ import annotations

from rich.table import Table

from keff.analysis.arms import Comparing, compare, open_arm
from keff.analysis.results.comparison import Comparison
from keff.cli import _aim_options as a
from keff.cli import _console
from keff.cli import _read_options as r
from keff.cli import _write_options as w
from keff.cli._arms import print_slots, print_weights
from keff.cli._grouped import grouped
from keff.cli._groups import LogOptions
from keff.cli._json import print_json
from keff.errors import UsageError
from keff.reading.several import one_model


@grouped(without=("columns", "branches"))
def command(
    first: r.FirstArm,
    second: r.SecondArm,
    replicates: a.Replicates = 10_000,
    unpaired_rows: a.UnpairedRows = False,
    *,
    log: LogOptions,
    seed: a.AnalysisSeed = 0,
    json: w.Json = False,
) -> None:
    """Compare the second arm with the first."""
    opening = log.opening()
    how = Comparing(replicates=replicates, design="rows" if unpaired_rows else "paired", seed=seed)
    try:
        first_arm, second_arm = (one_model(open_arm(arm, opening)) for arm in (first, second))
        compared = compare(first_arm, second_arm, how)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if json:
        print_json(compared.to_dict())
    else:
        _show(compared)


def _show(compared: Comparison) -> None:
    out = _console.result_console
    first, second = compared.arms
    out.print(f"{second.path} against {first.path}", style="bold", markup=False)
    out.print(f"  {compared.shared_items} shared items, {first.k} paths each\n", markup=False)
    table = Table(box=None, padding=(0, 2), pad_edge=False)
    for header in ("", "first", "second", "change"):
        table.add_column(header, justify="left" if not header else "right", no_wrap=True)
    for row in compared.rows()[1:]:
        table.add_row(*row)
    out.print(table)
    if second.slots is not None:
        print_slots(second.slots)
        print_weights(second.weights, second.pruning)
    for warning in compared.warnings:
        _console.warn(warning.message)
