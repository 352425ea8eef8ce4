"""keff: know how many reasoning paths are worth paying for, then serve exactly that many.

Names are loaded when they are first used, so ``import keff`` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keff.analysis.estimates import Settings, analyze
    from keff.errors import KeffError
    from keff.plan import Plan
    from keff.plugins import load
    from keff.policy import Sample, Stop, View, parse_policy
    from keff.reading.open import Record, open_record
    from keff.records import Completion, Estimate, Item, Path, Sampling
    from keff.sampling.job import Job, execute
    from keff.sampling.sampler import Order
    from keff.sampling.store import Run
    from keff.stats.votes import Votes

_HOME = {
    "Completion": "keff.records",
    "Estimate": "keff.records",
    "Item": "keff.records",
    "Job": "keff.sampling.job",
    "KeffError": "keff.errors",
    "Order": "keff.sampling.sampler",
    "Path": "keff.records",
    "Plan": "keff.plan",
    "Record": "keff.reading.open",
    "Run": "keff.sampling.store",
    "Sample": "keff.policy",
    "Sampling": "keff.records",
    "Settings": "keff.analysis.estimates",
    "Stop": "keff.policy",
    "View": "keff.policy",
    "Votes": "keff.stats.votes",
    "analyze": "keff.analysis.estimates",
    "execute": "keff.sampling.job",
    "load": "keff.plugins",
    "open_record": "keff.reading.open",
    "parse_policy": "keff.policy",
}

__all__ = [
    "Completion",
    "Estimate",
    "Item",
    "Job",
    "KeffError",
    "Order",
    "Path",
    "Plan",
    "Record",
    "Run",
    "Sample",
    "Sampling",
    "Settings",
    "Stop",
    "View",
    "Votes",
    "analyze",
    "execute",
    "load",
    "open_record",
    "parse_policy",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'keff' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
