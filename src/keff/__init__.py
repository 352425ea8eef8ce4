"""keff: know how many reasoning paths are worth paying for, then serve exactly that many.

Names are loaded when they are first used, so ``import keff`` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keff.analysis.decision import Aim
    from keff.analysis.estimates import Settings
    from keff.analysis.front import (
        analyze,
        audit,
        c,
        combine,
        compare,
        k_eff,
        k_star,
        majority,
        mix,
        noise,
        plurality,
        replay,
    )
    from keff.analysis.mix.findings import MixFindings
    from keff.analysis.predict import Prediction, predict
    from keff.analysis.results.comparison import Combination, Comparison, ScoreComparison
    from keff.analysis.results.decision import Decision, Recommendation
    from keff.analysis.results.estimates import Analysis
    from keff.analysis.results.replay import Replay
    from keff.analysis.results.scores import Audit, Noise
    from keff.analysis.terms import Terms
    from keff.analysis.wanted import Wanted
    from keff.errors import KeffError
    from keff.plan import Plan
    from keff.plugins import load
    from keff.policy import Policy, Sample, Stop, View, parse_policy
    from keff.reading.open import Record, open_record
    from keff.records import Completion, Estimate, Interval, Item, Path, Sampling
    from keff.report.write import write_report
    from keff.sampling.consistency import Consensus, Verdict, self_consistency, self_consistency_sync, vote
    from keff.sampling.job import Job, execute
    from keff.sampling.orders import Order
    from keff.sampling.store import Run
    from keff.stats.votes import Votes

_HOME = {
    "Aim": "keff.analysis.decision",
    "Analysis": "keff.analysis.results.estimates",
    "Audit": "keff.analysis.results.scores",
    "Combination": "keff.analysis.results.comparison",
    "Comparison": "keff.analysis.results.comparison",
    "Completion": "keff.records",
    "Consensus": "keff.sampling.consistency",
    "Decision": "keff.analysis.results.decision",
    "Estimate": "keff.records",
    "Interval": "keff.records",
    "Item": "keff.records",
    "Job": "keff.sampling.job",
    "KeffError": "keff.errors",
    "MixFindings": "keff.analysis.mix.findings",
    "Noise": "keff.analysis.results.scores",
    "Order": "keff.sampling.orders",
    "Path": "keff.records",
    "Plan": "keff.plan",
    "Policy": "keff.policy",
    "Prediction": "keff.analysis.predict",
    "Recommendation": "keff.analysis.results.decision",
    "Record": "keff.reading.open",
    "Replay": "keff.analysis.results.replay",
    "Run": "keff.sampling.store",
    "Sample": "keff.policy",
    "Sampling": "keff.records",
    "ScoreComparison": "keff.analysis.results.comparison",
    "Settings": "keff.analysis.estimates",
    "Stop": "keff.policy",
    "Terms": "keff.analysis.terms",
    "Verdict": "keff.sampling.consistency",
    "View": "keff.policy",
    "Votes": "keff.stats.votes",
    "Wanted": "keff.analysis.wanted",
    "analyze": "keff.analysis.front",
    "audit": "keff.analysis.front",
    "c": "keff.analysis.front",
    "combine": "keff.analysis.front",
    "compare": "keff.analysis.front",
    "execute": "keff.sampling.job",
    "k_eff": "keff.analysis.front",
    "k_star": "keff.analysis.front",
    "load": "keff.plugins",
    "majority": "keff.analysis.front",
    "mix": "keff.analysis.front",
    "noise": "keff.analysis.front",
    "open_record": "keff.reading.open",
    "parse_policy": "keff.policy",
    "plurality": "keff.analysis.front",
    "predict": "keff.analysis.predict",
    "replay": "keff.analysis.front",
    "self_consistency": "keff.sampling.consistency",
    "self_consistency_sync": "keff.sampling.consistency",
    "vote": "keff.sampling.consistency",
    "write_report": "keff.report.write",
}

__all__ = [
    "Aim",
    "Analysis",
    "Audit",
    "Combination",
    "Comparison",
    "Completion",
    "Consensus",
    "Decision",
    "Estimate",
    "Interval",
    "Item",
    "Job",
    "KeffError",
    "MixFindings",
    "Noise",
    "Order",
    "Path",
    "Plan",
    "Policy",
    "Prediction",
    "Recommendation",
    "Record",
    "Replay",
    "Run",
    "Sample",
    "Sampling",
    "ScoreComparison",
    "Settings",
    "Stop",
    "Terms",
    "Verdict",
    "View",
    "Votes",
    "Wanted",
    "analyze",
    "audit",
    "c",
    "combine",
    "compare",
    "execute",
    "k_eff",
    "k_star",
    "load",
    "majority",
    "mix",
    "noise",
    "open_record",
    "parse_policy",
    "plurality",
    "predict",
    "replay",
    "self_consistency",
    "self_consistency_sync",
    "vote",
    "write_report",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'keff' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
