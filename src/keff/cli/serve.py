"""Serve votes behind an OpenAI-compatible endpoint.

It answers requests by a vote, passes on what has no answer to vote on, and watches for drift.

Example: keff serve --plan plan.json --upstream http://127.0.0.1:8000/v1
"""

from __future__ import annotations

import json

import numpy as np
import typer

from keff.cli import _options as o
from keff.cli import _serve_options as options
from keff.cli._serve_options import SetPairs, check_kept, read_settings
from keff.plugins import missing_extra


@o.grouped
def command(
    served: options.ServeOptions,
    set: SetPairs = None,
    workers: options.Workers = None,
    config: options.ServeConfig = None,
    check: options.Check = False,
) -> None:
    """Serve until told to stop."""
    try:
        from keff.cli import _serving as g
    except ImportError as error:
        raise missing_extra(error, "keff serve") from error
    if workers is not None:
        check_kept("workers")
    settings = read_settings(set or (), config)
    deployment = g.deployment_of(served, settings)
    if check:
        typer.echo(json.dumps(g.check_only(deployment, np.random.default_rng())))
        return
    g.log_to_stderr(settings.quiet)
    g.serve(deployment, np.random.default_rng())
