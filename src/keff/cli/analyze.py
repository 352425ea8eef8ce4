"""Estimate how many paths pay off: c, K_eff, K*, what to deploy.

Reads runs of keff and recorded logs.
"""

from __future__ import annotations

from pathlib import Path

from keff.analysis.estimates import Settings, analyze, make_plan
from keff.analysis.recommend import Aim
from keff.analysis.results.estimates import Analysis
from keff.analysis.rounds import Haste
from keff.cli import _console
from keff.cli import _options as o
from keff.cli._money import make_terms
from keff.cli._summary import print_branches, print_summary
from keff.errors import UsageError
from keff.policy_spec import MAX_CAP
from keff.reading.open import Opening, Record
from keff.reading.several import open_records, pool_records


def command(
    paths: o.Paths,
    out: o.PlanOut = None,
    pool: o.Pool = False,
    format: o.Format = None,
    answer_space: o.AnswerSpaceName = None,
    answer_key: o.AnswerKey = None,
    trim: o.Trim = None,
    part: o.Part = None,
    columns: o.Columns = None,
    scorer: o.LogScorer = None,
    threshold: o.Threshold = None,
    branches: o.BranchNames = None,
    epsilon: o.Epsilon = 0.025,
    cap: o.CapOr32 = None,
    now: o.Now = None,
    prices: o.PriceTable = None,
    volume: o.Volume = None,
    pace: o.PaceText = None,
    max_rounds: o.MaxRounds = None,
    p95: o.P95 = None,
    retain: o.Retain = None,
    confidence: o.Confidence = None,
    budget: o.Budget = None,
    budget_mean: o.BudgetMean = None,
    budget_dollars: o.BudgetDollars = None,
    value_per_correct: o.ValuePerCorrect = None,
    cost_per_path: o.CostPerPath = None,
    seed: o.AnalysisSeed = 0,
    json: o.Json = False,
) -> None:
    """Analyse every PATH."""
    if not 0 < epsilon < float("inf"):
        raise UsageError(f"--epsilon must be above 0, not {epsilon:g}")
    if cap is not None and cap > MAX_CAP:
        raise UsageError(f"--cap can be at most {MAX_CAP}, not {cap}")
    settings = Settings(
        epsilon=epsilon,
        k_max=cap or 32,
        seed=seed,
        aim=make_aim(
            retain=retain,
            confidence=confidence,
            budget=budget,
            budget_mean=budget_mean,
            value_per_correct=value_per_correct,
            cost_per_path=cost_per_path,
        ),
        terms=make_terms(
            now,
            cap,
            prices,
            volume=volume,
            budget_dollars=budget_dollars,
            pace=pace,
            haste=Haste(max_rounds, p95),
        ),
    )
    opening = Opening(
        format,
        o.reading_of(answer_space, answer_key),
        trim,
        part=part,
        columns=columns,
        scorer=scorer,
        threshold=threshold,
        branches=branches,
    )
    records = [record for path in paths for record in open_records(path, opening)]
    if pool and len(records) > 1:
        records = [pool_records(records, trim)]
    analyze_records(records, settings, out, json=json)


def analyze_records(
    records: list[Record], settings: Settings, out: Path | None, *, json: bool
) -> list[tuple[Record, Analysis]]:
    """Analyse records, write the plan where asked, print what was found, and return it."""
    if out is not None and len(records) > 1:
        several = ", ".join(record.path for record in records[:4])
        raise UsageError(
            f"-o writes one plan, and there are {len(records)} records ({several}"
            f"{', ...' if len(records) > 4 else ''}): give one PATH or one --part, or --pool"
        )
    found = [(record, analyze(record, settings)) for record in records]
    if out is not None:
        make_plan(*found[0]).write(out)
    show(found, json=json)
    return found


def make_aim(
    *,
    retain: float | None = None,
    confidence: float | None = None,
    budget: float | None = None,
    budget_mean: float | None = None,
    value_per_correct: float | None = None,
    cost_per_path: float | None = None,
) -> Aim:
    """Make the aim of the recommendation; raises UsageError when two are stated."""
    if (value_per_correct is None) != (cost_per_path is None):
        raise UsageError("--value-per-correct and --cost-per-path go together")
    aims = (retain, budget, budget_mean, value_per_correct)
    if sum(aim is not None for aim in aims) > 1:
        raise UsageError(
            "state one aim: --retain, --budget, --budget-mean, or --value-per-correct with --cost-per-path"
        )
    if confidence is not None and any(aim is not None for aim in aims[1:]):
        raise UsageError("--confidence goes with --retain: how sure to be that the share is kept")
    if confidence is not None and not 0 < confidence < 1:
        raise UsageError(f"--confidence must be above 0 and below 1, not {confidence:g}")
    return Aim(
        retain=retain,
        confidence=confidence,
        budget=budget,
        budget_mean=budget_mean,
        value_per_correct=value_per_correct,
        cost_per_path=cost_per_path,
    )


def show(found: list[tuple[Record, Analysis]], *, json: bool) -> None:
    """Print analyses: one JSON object, or a summary for people."""
    if not json and len(found) > 1 and all(analysis.k == 1 for _, analysis in found):
        print_branches(found)
    elif not json:
        for record, analysis in found:
            print_summary(record, analysis)
    elif len(found) == 1:
        _console.print_json(found[0][1].to_dict())
    else:
        runs = [{"path": record.path, **analysis.to_dict()} for record, analysis in found]
        _console.print_json({"runs": runs})
