"""Where the project lies, and the shared records beside it (or where ``KEFF_SHARED`` says)."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("KEFF_SHARED", ROOT.parent / "shared"))
RECORDED = SHARED / "data" / "recorded"
QUESTIONS = SHARED / "data" / "benchmarks"
RIGS = ROOT / "tests" / "rigs"
"""Servers and records that tests use, which some benchmarks share."""
