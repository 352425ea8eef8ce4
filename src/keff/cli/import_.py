"""Turn a recorded log into a run folder.

Once; every other command then reads the run.

Example: keff import samples_gsm8k.jsonl --run gsm8k
"""

from __future__ import annotations

from keff.cli import _options as o
from keff.cli import _sample_options as s
from keff.cli._console import note, print_json, warn_all
from keff.cli._groups import LogOptions
from keff.reading.open import named_part
from keff.reading.transfer import import_log


@o.grouped
def command(log: o.LogFile, run: s.RunFolder, *, reading: LogOptions, json: o.Json = False) -> None:
    """Import the log."""
    log, opening = named_part(log, reading.opening())
    done = import_log(log, run, opening)
    warn_all(done.notes)
    if json:
        print_json({"run": str(run), "items": done.questions, "paths": done.paths})
    else:
        line = f"{run}: {done.questions} questions and {done.paths} paths from {log}"
        note(line)
