"""Run folders: ``manifest.json`` and ``paths.sqlite``, crash-safe and without repeated paths.

In: paths and scores. Out: what a run holds, and what it still owes.
Read ``_run`` (writing), then ``_reads`` (queries).
"""

from __future__ import annotations

from keff.sampling.store._database import ANSWER, DATABASE
from keff.sampling.store._reads import OwedPaths, Tables
from keff.sampling.store._run import Run
from keff.sampling.store.rows import ScoredPath

__all__ = ["ANSWER", "DATABASE", "OwedPaths", "Run", "ScoredPath", "Tables"]
