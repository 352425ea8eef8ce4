"""What noise, compare, combine and audit print for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keff.analysis.results.comparison import Better, Pruning, Slot, WeightedVote, weight_rows
from keff.analysis.results.scores import SHOWN, Audit, Noise
from keff.cli._console import say, tabled, warn_all
from keff.plugins import import_extra
from keff.records import percent
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
    say(f"{line} (95%, cluster jackknife)")


def print_weights(weights: Sequence[WeightedVote] | None, pruning: Sequence[Pruning] | None) -> None:
    """Print weighted votes and pruning beside equal weights, the best slot and the in-sample oracle."""
    if weights is None:
        return
    head, *rows = weight_rows(weights)
    tabled(head, rows, "weighted votes")
    for choice in pruning or ():
        kept = f"keep slots {list(choice.candidate)}" if choice.adopted else "keep all slots"
        line = f"  pruning, {choice.rule}: {kept} (nested gain {choice.gain:+.1%} ± {choice.se:.1%})"
        say(line)


# Columns that fit 80 characters; the JSON has all.
SHOWN_REPEATS = 5


def pages() -> Any:
    """Return what writes the pages; raises PluginError where the ``report`` extra is missing."""
    return import_extra("keff.report.evals", "the page")


def print_noise(path: str, found: Noise) -> None:
    """Print how far a score can be trusted: the score, its noise, and the table of power."""
    say(f"{found.sentence()}.", bold=True)
    clusters = f" in {found.clusters} clusters" if found.clusters < found.n else ""
    say(f"{path} · {found.n:,} questions x {found.k} repeats{clusters}")
    tabled(*_split(found.rows()))
    if found.power:
        tabled(
            *_split([line[: 1 + SHOWN_REPEATS] for line in found.power_rows()]),
            "smallest difference of two models found with 80% power: new questions (these questions)",
        )
    if found.equal_cost:
        rows = [
            [
                f"{line.questions:,} x {line.repeats}",
                f"± {found.said(1.96 * line.standard_error, points=True)}",
            ]
            for line in found.equal_cost[:SHOWN_REPEATS]
        ]
        tabled(("questions x repeats", "95%"), rows, "the same number of answers, split otherwise")
    warn_all(found.warnings)


def print_audit(found: Audit) -> None:
    """Print gold answers worth a look, the score as marked and by the agreed answers, and the ceiling."""
    say(found.line())
    if found.suspects:
        tabled(*_split(found.rows()))
    if len(found.suspects) > SHOWN:
        say(f"  and {len(found.suspects) - SHOWN} more (--json and --report have all)")
    warn_all(found.warnings)


def print_better(pairs: Sequence[Better]) -> None:
    """Print whether the second of each pair is better, by how much, and what would decide it."""
    for pair in pairs:
        say(pair.line())
    facts = [pair.facts() for pair in pairs]
    headers = (pair.versus if len(pairs) > 1 else "" for pair in pairs)
    tabled(("", *headers), [(name, *(each[name] for each in facts)) for name in facts[0]])


def _split(rows: Sequence[tuple[str, ...]]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    return rows[0], rows[1:]
