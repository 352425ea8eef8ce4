"""Weigh votes and prune template slots, cross-fitted.

Beside the best slot and the oracle; GLS-R with embeddings.
"""

from __future__ import annotations

from pathlib import Path

from keff.analysis.arms import open_arm
from keff.analysis.combine import combine_record, read_embeddings
from keff.analysis.plans import slot_plan
from keff.analysis.results.comparison import GlsR
from keff.cli import _options as o
from keff.cli._console import print_json, say, warn, warn_all
from keff.cli._evals import print_slots, print_weights
from keff.cli._groups import LogOptions
from keff.reading.several import by_column


@o.grouped()
def command(
    path: o.CombinePath,
    out: o.PlanOut = None,
    *,
    log: LogOptions,
    seed: o.AnalysisSeed = 0,
    json: o.Json = False,
) -> None:
    """Judge every way of combining the paths of one record."""
    record = by_column(open_arm(path, log.opening()))
    array = read_embeddings(Path(path), record.ballot.votes)
    combined = combine_record(record, seed, array)
    if out is not None:
        plan, notes = slot_plan(record, combined)
        warn_all(notes)
        plan.write(out)
    if json:
        print_json(combined.to_dict())
        return
    say(f"{path}: {combined.n} questions x {combined.k} paths")
    if combined.slots is None:
        rated = any(row.scheme.startswith(("confidence", "log odds of")) for row in combined.weights)
        what = "weigh paths by confidence, or equally" if rated else "equal weights are the answer"
        warn(f"one prompt for all paths: weights of columns mean nothing, {what}")
    print_slots(combined.slots)
    if record.branches and not record.branches[0].startswith("column "):
        named = ", ".join(f"{place} {name}" for place, name in enumerate(record.branches))
        say(f"  slots: {named}")
    print_weights(combined.weights, combined.pruning if combined.slots else ())
    for found in combined.k_eff:
        line = f"  K_eff of {combined.k} paths, {found.votes}: {found.k_eff.text()} (by deflection)"
        say(line)
    if combined.oracle_optimism is not None:
        line = f"  equal slots alone make the in-sample oracle look {combined.oracle_optimism:+.2%} better"
        say(line)
    if combined.gls_r is not None:
        _print_gls_r(combined.gls_r)


def _print_gls_r(result: GlsR) -> None:
    kept = "equal weights kept" if result.ridge is None else f"ridge {result.ridge:g}"
    risks = f"{result.held_out_risk:.4g} against {result.held_out_risk_uniform:.4g}"
    line = f"  GLS-R: {kept}; held-out risk {risks} of equal weights"
    say(line)
    weights = ", ".join(f"{weight:.3f}" for weight in result.weights)
    negative = " (a negative one has no vote)" if min(result.weights) < 0 else ""
    say(f"  its weights: {weights}{negative}")
