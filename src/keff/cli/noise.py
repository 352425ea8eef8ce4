"""Measure how far to trust a score, and what it can show.

Shows how far two runs differ by chance, the smallest difference between two models that you can detect, and
how often one of k tries is right (pass@k) or all of them are (pass^k).

Example: keff noise answers.jsonl
"""

from __future__ import annotations

from keff.analysis.arms import open_scored
from keff.analysis.scores import noise
from keff.cli import _options as o
from keff.cli._console import tell_runs
from keff.cli._groups import LogOptions
from keff.plugins import import_extra


@o.grouped
def command(
    path: o.ArmPath,
    report: o.EvalPage = None,
    *,
    reading: LogOptions,
    trim: o.Trim = None,
    branches: o.BranchNames = None,
    sources: o.Sources = None,
    json: o.Json = False,
) -> None:
    """Measure the noise of the score of PATH."""
    opening = reading.opening(trim=trim, branches=branches, sources=sources)
    found = [(each.path, noise(each)) for each in open_scored(path, opening)]
    if report is not None:
        import_extra("keff.report.evals", "the page").write_noise_page(found, report)
    tell_runs(found, json=json)
