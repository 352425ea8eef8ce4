"""Weigh votes and prune template slots, cross-fitted.

Beside the best slot and the oracle; GLS-R with embeddings.
"""

from __future__ import annotations

from pathlib import Path

from keff.analysis.arms import open_arm
from keff.analysis.combine import Judging, combine_record, read_embeddings
from keff.analysis.results.combination import GlsR
from keff.analysis.slot_plan import slot_plan
from keff.cli import _console
from keff.cli import _options as o
from keff.cli._arms import print_slots, print_weights
from keff.reading.open import Opening
from keff.reading.several import by_column


def command(
    path: o.CombinePath,
    out: o.PlanOut = None,
    embeddings: o.Embeddings = None,
    folds: o.Folds = 5,
    format: o.Format = None,
    answer_space: o.AnswerSpaceName = None,
    answer_key: o.AnswerKey = None,
    trim: o.Trim = None,
    branches: o.BranchNames = None,
    seed: o.AnalysisSeed = 0,
    json: o.Json = False,
) -> None:
    """Judge every way of combining the paths of one record."""
    opening = Opening(format, o.reading_of(answer_space, answer_key), trim, branches=branches)
    record = by_column(open_arm(path, opening))
    array = read_embeddings(Path(path), embeddings, record.ballot.votes)
    found = combine_record(record, Judging(folds, seed), array)
    if out is not None:
        plan, notes = slot_plan(record, found)
        for note in notes:
            _console.warn(note.message)
        plan.write(out)
    if json:
        _console.print_json(found.to_dict())
        return
    _console.result_console.print(f"{path}: {found.n} items x {found.k} paths", markup=False)
    if found.slots is None:
        _console.warn("one prompt for all paths: columns mean nothing, and equal weights are the answer")
    print_slots(found.slots)
    if record.branches and not record.branches[0].startswith("column "):
        named = ", ".join(f"{place} {name}" for place, name in enumerate(record.branches))
        _console.result_console.print(f"  slots: {named}", markup=False, soft_wrap=True)
    print_weights(found.weights, found.pruning)
    if found.oracle_optimism is not None:
        line = f"  equal slots alone make the in-sample oracle look {found.oracle_optimism:+.2%} better"
        _console.result_console.print(line, markup=False)
    if found.gls_r is not None:
        _print_gls_r(found.gls_r)


def _print_gls_r(result: GlsR) -> None:
    kept = "equal weights kept" if result.ridge is None else f"ridge {result.ridge:g}"
    risks = f"{result.held_out_risk:.4g} against {result.held_out_risk_uniform:.4g}"
    line = f"  GLS-R: {kept}; held-out risk {risks} of equal weights"
    _console.result_console.print(line, markup=False)
    weights = ", ".join(f"{weight:.3f}" for weight in result.weights)
    _console.result_console.print(f"  its weights: {weights}", markup=False)
