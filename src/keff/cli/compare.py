"""Compare two arms: do prompt templates decorrelate?

Delta rho, delta K_eff and accuracy, with paired intervals.
"""

from __future__ import annotations

from rich.table import Table

from keff.analysis.arms import Comparing, compare, open_arm
from keff.analysis.results.comparison import Comparison
from keff.cli import _console
from keff.cli import _options as o
from keff.cli._arms import print_slots, print_weights
from keff.errors import UsageError
from keff.reading.open import Opening
from keff.reading.several import one_model


def command(
    first: o.FirstArm,
    second: o.SecondArm,
    replicates: o.Replicates = 10_000,
    unpaired_rows: o.UnpairedRows = False,
    format: o.Format = None,
    answer_space: o.AnswerSpaceName = None,
    answer_key: o.AnswerKey = None,
    trim: o.Trim = None,
    seed: o.AnalysisSeed = 0,
    json: o.Json = False,
) -> None:
    """Compare the second arm with the first."""
    opening = Opening(format, o.reading_of(answer_space, answer_key), trim)
    how = Comparing(replicates=replicates, design="rows" if unpaired_rows else "paired", seed=seed)
    try:
        one, other = (one_model(open_arm(arm, opening)) for arm in (first, second))
        found = compare(one, other, how)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if json:
        _console.print_json(found.to_dict())
    else:
        _show(found)


def _show(found: Comparison) -> None:
    out = _console.result_console
    first, second = found.arms
    out.print(f"{second.path} against {first.path}", style="bold", markup=False)
    out.print(f"  {found.shared_items} shared items, {first.k} paths each\n", markup=False)
    table = Table(box=None, padding=(0, 2), pad_edge=False)
    for header in ("", "first", "second", "change"):
        table.add_column(header, justify="left" if not header else "right", no_wrap=True)
    for row in found.rows()[1:]:
        table.add_row(*row)
    out.print(table)
    if second.slots is not None:
        print_slots(second.slots)
        print_weights(second.weights, second.pruning)
    for warning in found.warnings:
        _console.warn(warning.message)
