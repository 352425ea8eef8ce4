"""Test whether B is better, or templates decorrelate.

The paired difference with its interval, p-value and noise; then correlation, K_eff and votes of both.

Example: keff compare a.jsonl b.jsonl --fail-if-worse
"""

from __future__ import annotations

from typing import Annotated

import typer

from keff.analysis.arms import Comparing, compare_all, open_scored
from keff.analysis.scores import worse_than
from keff.cli import _options as o
from keff.cli._console import tell
from keff.cli._groups import LogOptions
from keff.errors import UsageError
from keff.plugins import import_extra

# Exit code where B is worse, for continuous integration.
WORSE = 3

Arms = Annotated[
    list[str],
    typer.Argument(
        metavar="A B",
        help="A and what is compared with it: PATH, PATH#SLOTS (run#0) or PATH#PART. Of one log with several "
        "models: all pairs.",
        show_default=False,
    ),
]
Tolerance = Annotated[
    float, typer.Option("--tolerance", metavar="POINTS", min=0, help="B may be worse by so many points.")
]
FailIfWorse = Annotated[
    bool,
    typer.Option(
        "--fail-if-worse", help="Exit with 3 where B is worse, by more than --tolerance, beyond chance."
    ),
]


@o.grouped(without=("branches",))
def command(
    arms: Arms,
    tolerance: Tolerance = 0.0,
    fail_if_worse: FailIfWorse = False,
    report: o.EvalPage = None,
    replicates: o.Replicates = 10_000,
    *,
    log: LogOptions,
    seed: o.AnalysisSeed = 0,
    json: o.Json = False,
) -> None:
    """Compare what follows with A."""
    if (fail_if_worse or tolerance) and len(arms) < 2:
        raise UsageError("--fail-if-worse compares B with A: give two logs")
    opening = log.opening()
    how = Comparing(replicates=replicates, seed=seed)
    try:
        scored = [each for arm in arms for each in open_scored(arm, opening, one=len(arms) > 1)]
        compared = compare_all(scored, len(arms) - 1, how)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if report is not None:
        import_extra("keff.report.evals", "the page").write_comparison_page(compared, report)
    tell(compared, json=json)
    if fail_if_worse and any(worse_than(pair, tolerance) for pair in compared.pairs):
        raise typer.Exit(WORSE)
