"""Write the report page where its extra is installed."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keff.analysis.replay import replay
from keff.analysis.results.comparison import Comparison
from keff.analysis.results.estimates import Analysis
from keff.analysis.results.replay import Replay
from keff.cli._console import progress_console
from keff.errors import PluginError, PolicyError
from keff.plugins import missing_extra
from keff.reading.open import Record
from keff.stats.votes import Votes

REPLAYED = ("fixed:8", "curtailed", "lead_k:2", "lead_k:3", "adaptive_consistency:0.95", "budget:4")
"""Rules that need no second pass over the votes: the page should be there in seconds."""
CAP = 32


def write_report(
    runs: Sequence[tuple[Record, Analysis]], file: Path, comparison: Comparison | None = None, seed: int = 0
) -> None:
    """Write the page; raises PluginError with the install line where the ``report`` extra is missing."""
    try:
        page = importlib.import_module("keff.report.page")
    except ImportError as error:
        raise missing_extra(error, "the report page") from error
    with page.bundle_beside() as bundle:
        replays = [replayed(record.ballot.votes, found, seed) for record, found in runs]
        page.write_page(runs, file, replays=replays, comparison=comparison, bundle=bundle)


def write_report_if_possible(runs: Sequence[tuple[Record, Analysis]], file: Path) -> bool:
    """Write the page, or say which extra it needs and return False."""
    try:
        write_report(runs, file)
    except PluginError as error:
        progress_console.print(f"No report page: {error}", markup=False, soft_wrap=True)
        return False
    return True


def replayed(votes: Votes, found: Analysis, seed: int) -> Replay | None:
    """Replay the recommended policy and some others, or None where too few paths were recorded for that."""
    chosen = found.recommendation.policy
    if votes.k < CAP or votes.answers is None or votes.correct is None:
        return None
    try:
        return replay(votes, list(dict.fromkeys(("fixed:1", *REPLAYED, chosen))), np.random.default_rng(seed))
    except PolicyError:
        return None  # template slots, which are not exchangeable
