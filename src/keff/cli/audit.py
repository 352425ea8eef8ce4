"""Find gold answers that may be wrong, and how probably.

Shows where models agree on another answer than the gold one, and the upper limit of any vote.

Example: keff audit small.jsonl large.jsonl
"""

from __future__ import annotations

from typing import Annotated

import typer

from keff.analysis.arms import open_branches
from keff.analysis.audit import audit
from keff.cli import _options as o
from keff.cli._console import tell
from keff.cli._groups import LogOptions
from keff.plugins import import_extra

Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG", help="Logs of one or more models on the same questions.", show_default=False
    ),
]


@o.grouped
def command(
    logs: Logs,
    report: o.EvalPage = None,
    *,
    reading: LogOptions,
    trim: o.Trim = None,
    branches: o.BranchNames = None,
    json: o.Json = False,
) -> None:
    """Audit the gold answers of LOG."""
    opening = reading.opening(texts=report is not None, trim=trim, branches=branches)
    records = [record for log in logs for record in open_branches(log, opening)]
    found = audit(records)
    if report is not None:
        import_extra("keff.report.evals", "the page").write_audit_page(found, records, report)
    tell(found, json=json)
