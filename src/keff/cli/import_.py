"""Turn a recorded log into a run folder.

Once; every other command then reads the run.
"""

from __future__ import annotations

from keff.cli import _console
from keff.cli import _options as o
from keff.cli import _sample_options as s
from keff.reading.open import Opening
from keff.reading.transfer import import_log


def command(
    log: o.LogFile,
    run: s.RunFolder,
    format: o.Format = None,
    answer_space: o.AnswerSpaceName = None,
    answer_key: o.AnswerKey = None,
    part: o.Part = None,
    columns: o.Columns = None,
    scorer: o.LogScorer = None,
    threshold: o.Threshold = None,
    json: o.Json = False,
) -> None:
    """Import the log."""
    opening = Opening(
        format,
        o.reading_of(answer_space, answer_key),
        part=part,
        columns=columns,
        scorer=scorer,
        threshold=threshold,
    )
    done = import_log(log, run, opening)
    for note in done.notes:
        _console.warn(note.message)
    if json:
        _console.print_json({"run": str(run), "items": done.questions, "paths": done.paths})
    else:
        line = f"{run}: {done.questions} items and {done.paths} paths from {log}"
        _console.progress_console.print(line, markup=False, soft_wrap=True)
