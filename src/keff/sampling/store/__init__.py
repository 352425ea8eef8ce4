"""Run: a folder with ``manifest.json`` and ``paths.sqlite`` that loses nothing and repeats nothing."""

from __future__ import annotations

from keff.sampling.store._database import ANSWER, DATABASE
from keff.sampling.store._reads import OwedPaths, Tables
from keff.sampling.store._run import Run
from keff.sampling.store.rows import Scored

__all__ = ["ANSWER", "DATABASE", "OwedPaths", "Run", "Scored", "Tables"]
