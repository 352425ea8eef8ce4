"""Tables of template slots and of weighted votes, for compare and combine."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from keff.analysis.results.combination import Pruning, Slot, WeightedVote
from keff.cli._console import result_console
from keff.cli._summary import percent
from keff.stats.branches.covariance import BlockCorrelation


def _table(title: str, headers: Sequence[str]) -> Table:
    table = Table(title=f"\n{title}", title_justify="left", box=None, padding=(0, 2), pad_edge=False)
    for header in headers:
        table.add_column(header, justify="left" if header in ("rule", "weights") else "right")
    return table


def print_slots(slots: Sequence[Slot] | None) -> None:
    """Print the accuracy and the extraction failures of each template slot."""
    if slots is None:
        return
    table = _table("template slots", ("slot", "accuracy", "no answer"))
    for slot in slots:
        table.add_row(str(slot.slot), percent(slot.accuracy), percent(slot.extraction_failures))
    result_console.print(table)


def print_blocks(blocks: BlockCorrelation | None) -> None:
    """Print c within and between templates, and what they say one template more is worth."""
    if blocks is None:
        return
    within = f"{blocks.within.text()} within a template, " if max(blocks.paths) > 1 else ""
    line = f"  c {within}{blocks.between.text()} between templates"
    if within:
        line += f"; difference {blocks.difference.text('+.2f')}"
    result_console.print(f"{line} (95%, cluster jackknife)", markup=False)


def print_weights(weights: Sequence[WeightedVote] | None, pruning: Sequence[Pruning] | None) -> None:
    """Print weighted votes and pruning beside equal weights, the best slot and the in-sample oracle."""
    if weights is None:
        return
    headers = ("rule", "weights", "uniform", "cross-fitted", "gain", "best slot", "in-sample oracle")
    table = _table("weighted votes", headers)
    for row in weights:
        gain = f"{row.gain:+.1%} ± {row.se:.1%}"
        shares = percent(row.uniform), percent(row.cross_fitted)
        ends = percent(row.best_slot), percent(row.in_sample)
        table.add_row(row.rule, row.scheme.replace("_", " "), *shares, gain, *ends)
    result_console.print(table)
    for choice in pruning or ():
        kept = f"keep slots {list(choice.candidate)}" if choice.adopted else "keep all slots"
        line = f"  pruning, {choice.rule}: {kept} (nested gain {choice.gain:+.1%} ± {choice.se:.1%})"
        result_console.print(line, markup=False)
