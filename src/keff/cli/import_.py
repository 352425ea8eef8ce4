"""Turn a recorded log into a run folder.

Once; every other command then reads the run.
"""

from __future__ import annotations

from keff.cli import _console
from keff.cli import _options as o
from keff.cli import _sample_options as s
from keff.cli._console import print_json
from keff.cli._groups import COPY, LogOptions
from keff.cli._options import grouped
from keff.reading.open import named_part
from keff.reading.transfer import import_log


@grouped(without=COPY)
def command(log: o.LogFile, run: s.RunFolder, *, reading: LogOptions, json: o.Json = False) -> None:
    """Import the log."""
    log, opening = named_part(log, reading.opening())
    done = import_log(log, run, opening)
    for note in done.notes:
        _console.warn(note.message)
    if json:
        print_json({"run": str(run), "items": done.questions, "paths": done.paths})
    else:
        line = f"{run}: {done.questions} questions and {done.paths} paths from {log}"
        _console.note(line)
