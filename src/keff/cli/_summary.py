"""The summary that analyze, pilot and demo print for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from keff.analysis.matching import told
from keff.analysis.results.estimates import Analysis
from keff.analysis.results.summary import percent, statements
from keff.cli._console import result_console, say, warn
from keff.reading.open import Record


def print_summary(record: Record, analysis: Analysis, *, verbose: bool = False) -> None:
    """Print the decision first, then what it rests on."""
    result_console.print(record.path, style="bold", markup=False, soft_wrap=True)
    about = (record.info.task, record.info.model, f"{analysis.n:,} questions x {analysis.k} paths")
    say(" · ".join(part for part in about if part))
    result_console.print()
    first, *rest = statements(analysis, verbose=verbose)
    say(first, style="bold")
    for statement in rest:
        say(statement)
    for line in told(analysis.matching) if verbose else ():
        say(f"{line[0].upper()}{line[1:]}.")
    for warning in analysis.warnings:
        warn(warning.message)


def print_branches(branches: Sequence[tuple[Record, Analysis]]) -> None:
    """Print branches of one path per question: there is nothing to vote on within one, so a table."""
    result_console.print(
        f"{len(branches)} records of one path per question: nothing to vote on within one", markup=False
    )
    table = Table(box=None, pad_edge=False)
    for header in ("accuracy", "questions", "record"):
        table.add_column(header, justify="left" if header == "record" else "right", no_wrap=True)
    ranked = sorted(branches, key=lambda pair: -math.inf if pair[1].p is None else pair[1].p, reverse=True)
    for record, analysis in ranked:
        name = record.info.model or record.path
        table.add_row(percent(analysis.p), str(analysis.n), Text(name))
    result_console.print(table)
    first, *others = (dict.fromkeys(note.message for note in analysis.warnings) for _, analysis in branches)
    for text in first:
        if all(text in other for other in others):
            warn(text)
