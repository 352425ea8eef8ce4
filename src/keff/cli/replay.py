"""Compare stopping rules on recorded paths.

Shows what each rule would have cost and kept, compared with what you run today (--now).

Example: keff replay answers.jsonl lead_k:3,cap=8 fixed:8
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from keff.analysis.arms import open_arm
from keff.analysis.replay import at_cap, markdown, replay
from keff.analysis.results.replay import Replay
from keff.analysis.walks import reference_of
from keff.analysis.wanted import replaying_of
from keff.cli import _options as o
from keff.cli._console import tell
from keff.cli._groups import LogOptions
from keff.console import harmless
from keff.errors import UsageError
from keff.files import write_text
from keff.plugins import import_extra
from keff.reading.several import one_model
from keff.report import figures
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.plurality import plurality_at_k

DEFAULTS = (
    "fixed:8",
    "fixed:32",
    "curtailed",
    "lead_k:3",
    "lead_k:4",
    "adaptive_consistency:0.9",
    "adaptive_consistency:0.95",
    "esc:5",
    "budget:4",
)
# Fitted on other questions than it is judged on, so it needs two that differ.
FITTED = "pilot_budget:0.98"


@o.grouped
def command(
    path: o.ArmPath,
    policies: o.Policies = None,
    policy: o.PoliciesByName = None,
    cap: o.ReplayCap = None,
    *,
    now: o.Now = None,
    prices: o.Prices = None,
    pace: o.PaceText = None,
    random_slots: o.RandomSlots = False,
    retain: o.Retain = None,
    slower: o.Slower = "1",
    out: o.ReplayOut = None,
    log: LogOptions,
    trim: o.Trim = None,
    on: o.CountOn = None,
    seed: o.AnalysisSeed = 0,
    json: o.Json = False,
) -> None:
    """Replay policies over the recorded paths of PATH."""
    if out is not None and out.suffix not in (".md", ".svg", ".pdf"):
        raise UsageError(f"--out {out}: name a .md, .svg or .pdf file")
    record = one_model(open_arm(path, log.opening(on=on, trim=trim)))
    votes = record.ballot.votes
    if votes.correct is None and out is not None and out.suffix != ".md":
        raise UsageError(f"{path} has no gold answers, and the figure shows accuracy: name a .md file")
    top = min(cap or reference_of(now, votes.k).cap, votes.k)
    fixed = None if out is None or out.suffix == ".md" else _fixed_curve(votes, top)
    words = {"now": now, "cap": cap, "retain": retain, "slower": slower, "prices": prices, "pace": pace}
    how = replaying_of(words | {"random_slots": random_slots, "seed": seed}, record.info.model)
    usual = at_cap(DEFAULTS if votes.n_clusters < 2 else (*DEFAULTS, FITTED), top)
    named = [*(policies or ()), *(policy or ())]
    replayed = replay(votes, named or usual, np.random.default_rng(seed), how)
    replayed = replace(replayed, warnings=(*record.ballot.notes, *replayed.warnings))
    if out is not None:
        _write(out, replayed, fixed)
    tell(replayed, json=json)


def _fixed_curve(votes: Votes, top: int) -> FloatArray | None:
    """Return the accuracy of fixed K = 1..top, the figure's baseline."""
    if votes.answers is None:
        return None
    fixed = plurality_at_k(votes)[:top]
    if fixed[-1] == 0:
        raise UsageError(
            f"the plurality of {top} paths is never right: no share kept can be drawn (name a .md file)"
        )
    return fixed


def _write(out: Path, replayed: Replay, fixed: FloatArray | None) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    if fixed is None:
        write_text(out, harmless(markdown(replayed)))
        return
    vega = import_extra("keff.report.vega", "drawing the figure (or name a .md file)")
    vega.save(figures.policies(replayed.policies, fixed), out.with_suffix(""))
