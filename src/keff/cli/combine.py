"""Weigh votes of judges, prompts or models.

Says whether a panel beats the best one, how far judges agree, how many independent ones they are worth, who
is redundant, and whom to ask. Weights are fitted on other questions than they are judged on. Without gold
answers you learn the agreement only. With embeddings of the paths (--embeddings) it adds the paper's GLS-R.

Example: keff combine judges.csv
"""

from __future__ import annotations

from pathlib import Path

from keff.analysis.arms import open_arm
from keff.analysis.combine import combine_record, read_embeddings, run_embeddings
from keff.analysis.plans import slot_plan
from keff.cli import _options as o
from keff.cli._console import tell, warn_all
from keff.cli._groups import LogOptions
from keff.reading.several import by_column


@o.grouped
def command(
    path: o.ArmPath,
    out: o.PlanOut = None,
    embeddings: o.Embeddings = None,
    *,
    log: LogOptions,
    trim: o.Trim = None,
    branches: o.BranchNames = None,
    seed: o.AnalysisSeed = 0,
    json: o.Json = False,
) -> None:
    """Judge every way of combining the paths of one record."""
    record = by_column(open_arm(path, log.opening(trim=trim, branches=branches, gaps=True)))
    source = embeddings or run_embeddings(Path(path))
    array = None if source is None else read_embeddings(source, record)
    combined = combine_record(record, seed, array)
    if out is not None:
        plan, notes = slot_plan(record, combined)
        warn_all(notes)
        plan.write(out)
    tell(combined, json=json)
