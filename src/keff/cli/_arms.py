"""Tables of template slots and of weighted votes, for compare and combine."""

from __future__ import annotations

from collections.abc import Sequence

from keff.analysis.results.combination import Pruning, Slot, WeightedVote, weight_rows
from keff.analysis.results.summary import percent
from keff.cli._console import result_console, tabled
from keff.stats.branches.covariance import BlockCorrelation


def print_slots(slots: Sequence[Slot] | None) -> None:
    """Print the accuracy and the extraction failures of each template slot."""
    if slots is None:
        return
    rows = [(str(slot.slot), percent(slot.accuracy), percent(slot.extraction_failures)) for slot in slots]
    tabled(("slot", "accuracy", "no answer"), rows, "template slots")


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
    head, *rows = weight_rows(weights)
    tabled(head, rows, "weighted votes")
    for choice in pruning or ():
        kept = f"keep slots {list(choice.candidate)}" if choice.adopted else "keep all slots"
        line = f"  pruning, {choice.rule}: {kept} (nested gain {choice.gain:+.1%} ± {choice.se:.1%})"
        result_console.print(line, markup=False)
