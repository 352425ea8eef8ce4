"""Redo the paper's tables and figures from its records.

Our own estimates stand beside them.

Example: keff reproduce RECORDS -o out
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from keff.cli import _options as o
from keff.cli._console import note, print_json, say, warn
from keff.errors import UsageError
from keff.paper.reproduce import GET, Reproducing, Reproduction, reproduce, write
from keff.plugins import import_extra

# A screenful: a folder that is not the published one misses everything.
SHOWN = 20

Draw = Callable[[Reproduction, Path], list[Path]]


@contextmanager
def drawing(*, figures: bool) -> Generator[Draw]:
    """Start the figure process beside the computation; raises PluginError with the extra to install."""
    if not figures:
        yield lambda _reproduction, _out: []
        return
    drawings = import_extra("keff.paper.drawings", "drawing figures (or give --no-figures)")
    with drawings.vega.converter() as save_all:
        yield partial(drawings.draw, save_all)


def write_all(reproduction: Reproduction, out: Path, draw: Draw) -> list[Path]:
    """Write tables, numbers and figures; raises UsageError where the folder cannot be written."""
    try:
        return write(reproduction, out) + draw(reproduction, out)
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror or error}: name another folder with -o") from None


def command(
    folder: o.PublishedFolder,
    out: o.ReproduceOut,
    replicates: o.Replicates = 10_000,
    figures: o.Figures = True,
    seed: o.AnalysisSeed = 0,
    json: o.Json = False,
) -> None:
    """Reproduce what the records allow."""
    with drawing(figures=figures) as draw:
        reproduction = reproduce(folder, Reproducing(replicates, seed))
        files = write_all(reproduction, out, draw)
    if json:
        print_json(reproduction.numbers() | {"files": [str(file) for file in files]})
        return
    for name in files:
        say(str(name))
    # What is wrong comes first: where most files are missing, that list would hide it.
    for line in (*reproduction.problems, *(f"missing: {file}" for file in reproduction.missing))[:SHOWN]:
        warn(line)
    more = len(reproduction.missing) + len(reproduction.problems) - SHOWN
    if more > 0:
        warn(f"{more} more are listed in {out / 'differences.md'}")
    if reproduction.missing:
        warn(f"{len(reproduction.missing)} files are missing: {GET}")
    agree = sum(check.agrees for check in reproduction.checks)
    line = f"{agree} of {len(reproduction.checks)} printed numbers agree; see {out / 'differences.md'}"
    note(line)
