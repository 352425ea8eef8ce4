"""What noise, compare and audit print for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from keff.analysis.results.noise import Noise
from keff.cli._console import result_console, say, warn

SHOWN_REPEATS = 5


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table whose first column is text and whose others are numbers."""
    drawn = Table(
        title=f"\n{title}" if title else None, title_justify="left", box=None, padding=(0, 2), pad_edge=False
    )
    for place, header in enumerate(headers):
        drawn.add_column(header, justify="right" if place else "left")
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    result_console.print(drawn)


def print_noise(path: str, found: Noise) -> None:
    """Print how far a score can be trusted: the score, its noise, and the table of power."""
    result_console.print(path, style="bold", markup=False, soft_wrap=True)
    say(
        f"{found.n:,} questions x {found.k} repeats"
        + (f" in {found.clusters} clusters" if found.clusters < found.n else "")
    )
    if found.gap_of_two_runs is not None:
        gap = found.said(found.gap_of_two_runs, points=True)
        say(f"Two runs of one model on these questions differ by chance by up to {gap} (19 of 20 times).")
    result_console.print()
    table(*_split(found.rows()))
    if found.power:
        repeats = sorted({line.repeats for line in found.power})[:SHOWN_REPEATS]
        by_place = {(line.questions, line.repeats): line for line in found.power}
        rows = [
            [
                f"{n:,}",
                *(
                    f"{found.said(by_place[n, r].difference)} ({found.said(by_place[n, r].these_questions)})"
                    for r in repeats
                ),
            ]
            for n in sorted({line.questions for line in found.power})
        ]
        headers = ("questions", *(f"{r} repeat{'s' * (r > 1)}" for r in repeats))
        table(
            headers,
            rows,
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
        table(("questions x repeats", "95%"), rows, "the same number of answers, split otherwise")
    for note in found.warnings:
        warn(note.message)


def _split(rows: Sequence[tuple[str, str]]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    return rows[0], rows[1:]
