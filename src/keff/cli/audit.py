"""Find gold answers that may be wrong, and how probably.

Where branches agree on another answer: whether it equals the gold one, and the score that no vote passes.
"""

from __future__ import annotations

from typing import Annotated

import typer

from keff.analysis.arms import open_branches
from keff.analysis.audit import audit
from keff.cli import _options as o
from keff.cli._console import print_json
from keff.cli._groups import LogOptions

Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG...", help="Logs of one or more models on the same questions.", show_default=False
    ),
]


@o.grouped()
def command(logs: Logs, report: o.EvalPage = None, *, reading: LogOptions, json: o.Json = False) -> None:
    """Audit the gold answers of LOG."""
    opening = reading.opening()
    found = audit([record for log in logs for record in open_branches(log, opening)])
    if report is not None:
        from keff.cli._evals import pages

        pages().write_audit_page(found, report)
    if json:
        print_json(found.to_dict())
        return
    from keff.cli._evals import print_audit

    print_audit(found)
