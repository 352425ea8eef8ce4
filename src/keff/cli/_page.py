"""Write the report page beside a result, where its extra is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from keff.analysis.results.estimates import Analysis
from keff.cli._console import progress_console
from keff.errors import PluginError
from keff.reading.open import Record
from keff.report.write import write_runs


def write_report_if_possible(runs: Sequence[tuple[Record, Analysis]], file: Path) -> bool:
    """Write the page, or say which extra it needs and return False."""
    try:
        write_runs(runs, file)
    except PluginError as error:
        progress_console.print(f"No report page: {error}", markup=False, soft_wrap=True)
        return False
    return True
