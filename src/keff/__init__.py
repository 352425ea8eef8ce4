"""keff: how many sampled answers of a language model are worth paying for.

In: recorded answers, or questions and a model. Out: how many paths pay, and a gateway that draws as many.

    print(keff.analyze("answers.csv", now=8).decision)  # columns id, answer, gold_answer: what to draw, not 8
    keff.analyze([["4", "4", "5"], ...], gold_answer=["4", ...])  # also keff.replay, keff.write_report

Names are loaded when they are first used, so ``import keff`` stays quick.
Read ``analysis.front`` (the public functions); docs/tour.md is the way through the rest.
"""

from __future__ import annotations

import importlib

# As type checkers know it; the module of that name takes as long to import as all of Python.
TYPE_CHECKING = False

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
    from keff.analysis.results.combination import Combination
    from keff.analysis.results.comparison import Comparison, ScoreComparison
    from keff.analysis.results.decision import Decision
    from keff.analysis.results.estimates import Analysis
    from keff.analysis.results.gate import Gate
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

# The names that each module gives.
_NAMES = {
    "keff.analysis.decision": "Aim",
    "keff.analysis.estimates": "Settings",
    "keff.analysis.front": "analyze audit c combine compare k_eff k_star majority mix noise plurality replay",
    "keff.analysis.mix.findings": "MixFindings",
    "keff.analysis.predict": "Prediction predict",
    "keff.analysis.results.combination": "Combination",
    "keff.analysis.results.comparison": "Comparison ScoreComparison",
    "keff.analysis.results.decision": "Decision",
    "keff.analysis.results.estimates": "Analysis",
    "keff.analysis.results.gate": "Gate",
    "keff.analysis.results.replay": "Replay",
    "keff.analysis.results.scores": "Audit Noise",
    "keff.analysis.terms": "Terms",
    "keff.analysis.wanted": "Wanted",
    "keff.errors": "KeffError",
    "keff.plan": "Plan",
    "keff.plugins": "load",
    "keff.policy": "Policy Sample Stop View parse_policy",
    "keff.reading.open": "Record open_record",
    "keff.records": "Completion Estimate Interval Item Path Sampling",
    "keff.report.write": "write_report",
    "keff.sampling.consistency": "Consensus Verdict self_consistency self_consistency_sync vote",
    "keff.sampling.job": "Job execute",
    "keff.sampling.orders": "Order",
    "keff.sampling.store": "Run",
    "keff.stats.votes": "Votes",
}
_HOME = {name: home for home, names in sorted(_NAMES.items()) for name in names.split()}

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
    "Gate",
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
    return __all__
