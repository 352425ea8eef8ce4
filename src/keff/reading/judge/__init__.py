"""Prose: an engine says whether two answers mean the same, and clusters of such answers are the votes.

Never by default, never by likeness of words, and never in the gateway: opt-in, cached, costed, with its error
measured on labelled pairs.
"""

from __future__ import annotations

from keff.reading.judge.jury import (
    Clustered,
    JudgeCost,
    Jury,
    Pair,
    Reliability,
    cluster,
    read_pairs,
    reliability,
)
from keff.reading.judge.record import JudgedRecord, judge_record

__all__ = [
    "Clustered",
    "JudgeCost",
    "JudgedRecord",
    "Jury",
    "Pair",
    "Reliability",
    "cluster",
    "judge_record",
    "read_pairs",
    "reliability",
]
