"""Estimate how many paths pay off: c, K_eff, K*, what to deploy.

Reads runs of keff and recorded logs.
"""

from __future__ import annotations

from pathlib import Path

from keff.analysis.estimates import Settings, analyze
from keff.analysis.results.estimates import Analysis
from keff.cli import _aim_options as a
from keff.cli import _read_options as r
from keff.cli import _write_options as w
from keff.cli._console import print_json
from keff.cli._grouped import grouped
from keff.cli._groups import AimOptions, LogOptions, MoneyOptions
from keff.errors import UsageError
from keff.policy.spec import MAX_CAP
from keff.reading.open import Record
from keff.reading.several import open_records, pool_records


@grouped()
def command(
    paths: r.Paths,
    out: w.PlanOut = None,
    pool: r.Pool = False,
    *,
    log: LogOptions,
    epsilon: a.Epsilon = 0.025,
    cap: a.DecisionCap = None,
    money: MoneyOptions,
    goal: AimOptions,
    seed: a.AnalysisSeed = 0,
    verbose: w.Verbose = False,
    json: w.Json = False,
) -> None:
    """Analyse every PATH."""
    if not 0 < epsilon < float("inf"):
        raise UsageError(f"--epsilon must be above 0, not {epsilon:g}")
    if cap is not None and cap > MAX_CAP:
        raise UsageError(f"--cap can be at most {MAX_CAP}, not {cap}")
    settings = Settings(
        epsilon=epsilon,
        k_max=cap or 32,
        cap=cap,
        seed=seed,
        aim=goal.aim(),
        terms=money.terms(goal.budget_dollars),
    )
    opening = log.opening()
    records = [record for path in paths for record in open_records(path, opening)]
    if pool and len(records) > 1:
        records = [pool_records(records, log.trim)]
    analyze_records(records, settings, out, verbose=verbose, json=json)


def analyze_records(
    records: list[Record], settings: Settings, out: Path | None, *, verbose: bool = False, json: bool
) -> list[tuple[Record, Analysis]]:
    """Analyse records, write the plan where asked, print what was found, and return it."""
    if out is not None and len(records) > 1:
        several = ", ".join(record.path for record in records[:4])
        raise UsageError(
            f"-o writes one plan, and there are {len(records)} records ({several}"
            f"{', ...' if len(records) > 4 else ''}): give one PATH or PATH#PART, or --pool"
        )
    analyses = [(record, analyze(record, settings)) for record in records]
    if out is not None:
        from keff.analysis.plans import make_plan

        make_plan(*analyses[0]).write(out)
    show(analyses, verbose=verbose, json=json)
    return analyses


def show(analyses: list[tuple[Record, Analysis]], *, verbose: bool = False, json: bool) -> None:
    """Print analyses: one JSON object, or a summary for people."""
    if not json:
        _show_people(analyses, verbose=verbose)
    elif len(analyses) == 1:
        print_json(analyses[0][1].to_dict())
    else:
        runs = [{"path": record.path, **analysis.to_dict()} for record, analysis in analyses]
        print_json({"runs": runs})


def _show_people(analyses: list[tuple[Record, Analysis]], *, verbose: bool) -> None:
    # What draws tables, or writes a plan, is imported where it is asked for: it takes as long as an analysis.
    from keff.cli._summary import print_branches, print_summary

    if len(analyses) > 1 and all(analysis.k == 1 for _, analysis in analyses):
        print_branches(analyses)
        return
    for record, analysis in analyses:
        print_summary(record, analysis, verbose=verbose)
