"""Find how many answers are worth paying for, and which rule to run.

Reads runs of keff and recorded logs: CSV with the columns id, answer and gold_answer, JSONL, and many others.

Example: keff analyze answers.csv --now 8 -o plan.json
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keff.analysis.estimates import Settings, analyze
from keff.analysis.matching import agreement_sentences
from keff.analysis.results.estimates import Analysis
from keff.analysis.results.words import plural
from keff.cli import _options as o
from keff.cli._console import note, print_table, say, say_all, tell_runs, warn, warn_all
from keff.cli._groups import LogOptions, WantedOptions
from keff.errors import UsageError
from keff.narrow import fields
from keff.reading.several import open_records, pool_records
from keff.records import percent

if TYPE_CHECKING:
    from keff.plan import Plan
    from keff.reading.open import Record


@o.grouped
def command(
    paths: o.Paths,
    out: o.PlanOut = None,
    pool: o.Pool = False,
    *,
    log: LogOptions,
    trim: o.Trim = None,
    branches: o.BranchNames = None,
    sources: o.Sources = None,
    on: o.CountOn = None,
    wanted: WantedOptions,
    prices: o.Prices = None,
    seed: o.AnalysisSeed = 0,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> None:
    """Analyse every PATH."""
    settings = wanted.settings(prices, seed)
    opening = log.opening(on=on, trim=trim, branches=branches, sources=sources)
    records = [record for path in paths for record in open_records(path, opening)]
    if pool and len(records) > 1:
        records = [pool_records(records, trim)]
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
    if out is not None and records[0].branches:
        raise UsageError(
            f"-o: a plan asks one model, and {records[0].path} has paths of {len(records[0].branches)}: name "
            "one as PATH#NAME, or see keff combine -o and keff mix"
        )
    analyses = [(record, analyze(record, settings)) for record in records]
    plan = None
    if out is not None:
        from keff.analysis.plans import make_plan

        plan = make_plan(*analyses[0])
        plan.write(out)
    show(analyses, verbose=verbose, json=json)
    if plan is not None and out is not None:
        note(_plan_note(plan, out))
    return analyses


def _plan_note(plan: Plan, file: Path) -> str:
    """Return what a plan holds, what it lacks, and the line that serves it."""
    model = fields(fields(plan.config).get("engine")).get("model")
    of_model = f" and the model {model} with its prompt and sampling" if model else ""
    told = f"{file} holds the rule {plan.policy}{of_model}."
    line = f"keff serve --plan {file} --upstream URL"
    if not (model or plan.branches):
        told += " It does not name the model."
        line += " --model NAME"
    if not plan.reads_texts:
        told += " It was made from ready answers, so say how to find the answer in a reply."
        line += " --answer-space numeric (or choice, json, ...)"
    return f"{told} To serve it: {line}"


def show(analyses: list[tuple[Record, Analysis]], *, verbose: bool = False, json: bool) -> None:
    """Print analyses: one JSON object, or a summary for people."""
    if json:
        tell_runs([(record.path, analysis) for record, analysis in analyses], json=True)
        return
    if len(analyses) > 1 and all(1 in (analysis.n, analysis.k) for _, analysis in analyses):
        _print_few(analyses)
        return
    for record, analysis in analyses:
        if len(analyses) > 1:
            say(record.path, bold=True)
        _print_summary(record, analysis, verbose=verbose)


def _print_summary(record: Record, analysis: Analysis, *, verbose: bool = False) -> None:
    """Print the decision first, then what it rests on."""
    say_all(analysis.statements(verbose=verbose))
    for line in agreement_sentences(analysis.matching) if verbose else ():
        say(f"{line[0].upper()}{line[1:]}.")
    size = f"{analysis.n:,} questions x {plural(analysis.k, 'path')}"
    say(" · ".join(part for part in (record.path, record.info.task, record.info.model, size) if part))
    warn_all(analysis.warnings)


def _print_few(branches: Sequence[tuple[Record, Analysis]]) -> None:
    """Print a table of records that have one question, or one path of each, and so decide nothing."""
    few = "path per question" if all(analysis.k == 1 for _, analysis in branches) else "question"
    text = "there is nothing to vote on (--pool joins those of one model)"
    say(f"Each of the {len(branches)} records has one {few}, so {text}.")
    ranked = sorted(branches, key=lambda pair: -math.inf if pair[1].p is None else pair[1].p, reverse=True)
    rows = [("record", "accuracy", "questions")]
    for record, analysis in ranked:
        rows.append((record.info.model or record.path, percent(analysis.p), f"{analysis.n:,}"))
    print_table(rows)
    first, *others = (dict.fromkeys(note.message for note in analysis.warnings) for _, analysis in branches)
    for text in first:
        if all(text in other for other in others):
            warn(text)
