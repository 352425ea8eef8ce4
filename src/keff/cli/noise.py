"""Estimate the noise and power of a score, and pass^k.

Run-to-run noise, the smallest difference that can be found, pass@k and pass^k with intervals.
"""

from __future__ import annotations

from typing import Annotated

import typer

from keff.analysis.arms import open_scored
from keff.analysis.results.scores import Noise
from keff.analysis.scores import noise
from keff.cli import _options as o
from keff.cli._console import print_json
from keff.cli._groups import LogOptions

Log = Annotated[
    str, typer.Argument(metavar="LOG", help="A run or log with repeats; PATH#SLOTS or PATH#PART.")
]


@o.grouped()
def command(log: Log, report: o.EvalPage = None, *, reading: LogOptions, json: o.Json = False) -> None:
    """Measure the noise of the score of LOG."""
    found = [(each.path, noise(each)) for each in open_scored(log, reading.opening())]
    if report is not None:
        from keff.cli._evals import pages

        pages().write_noise_page(found, report)
    if not json:
        _show(found)
    elif len(found) == 1:
        print_json(found[0][1].to_dict())
    else:
        print_json({"runs": [{"path": path, **result.to_dict()} for path, result in found]})


def _show(found: list[tuple[str, Noise]]) -> None:
    from keff.cli._evals import print_noise

    for path, result in found:
        print_noise(path, result)
