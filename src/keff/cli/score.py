"""Score the stored texts of a run again; draws nothing.

Answers and scores follow the current version of the task.

Example: keff score pilot
"""

from __future__ import annotations

from pathlib import Path

from keff import plugins
from keff.cli import _options as o
from keff.cli import _sample_options as s
from keff.cli._console import note, print_json
from keff.errors import UsageError
from keff.sampling.job import score
from keff.sampling.manifest import Manifest
from keff.sampling.store import Run
from keff.usercode import UNSAFE, Stamp, UserCode, require_same_code


def command(
    run: o.RunArgument,
    data: s.Data = None,
    answer_key: o.AnswerKey = None,
    scorer: s.Scorer = None,
    changed: o.Changed = False,
    unsafe_exec: s.UnsafeExec = False,
    json: o.Json = False,
) -> None:
    """Score every stored path again."""
    o.reading_of(None, answer_key)
    manifest = Manifest.read(run)
    code = _scorer_of_run(run, manifest.code.get("scorer"), scorer, changed=changed)
    # Code comes from this command line only, which said that it is trusted.
    given = {"data": data and str(data), "scorer": scorer, UNSAFE: unsafe_exec or None}
    options = manifest.task_options | {name: value for name, value in given.items() if value is not None}
    with Run.edit(run) as opened:
        task = plugins.load("task", str(options.pop("name", manifest.config.task["name"])), **options)
        total = score(opened, task, everything=True)
        if changed and code is not None:
            opened.replace_manifest(manifest.scored_by(code.stamp, task.version))
    if json:
        print_json({"run": str(run), "scored": total, "task": task.name, "version": task.version})
    else:
        line = f"{run}: {total} paths scored under {task.name} version {task.version}; nothing was drawn"
        note(line)


def _scorer_of_run(
    run: Path, recorded: Stamp | None, scorer: str | None, *, changed: bool
) -> UserCode | None:
    """Return the scorer named on this command line, if it is the run's own."""
    code = None if scorer is None else UserCode.parse(scorer, "scorer")
    if code is not None and recorded is None:
        raise UsageError(
            f"{run} was made without a scorer: sample into another folder with keff sample --scorer"
        )
    if not changed or code is None:
        require_same_code(
            f"the run {run}",
            "scorer",
            recorded,
            code and code.stamp,
            otherwise="add --changed to score with the new one",
        )
    return code
