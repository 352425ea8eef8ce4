"""Score the stored texts of a run again; draws nothing.

Answers and scores follow the current version of the task.
"""

from __future__ import annotations

from keff import plugins
from keff.cli import _console
from keff.cli import _options as o
from keff.sampling.job import score
from keff.sampling.store import Run


def command(
    run: o.RunArgument,
    data: o.Data = None,
    answer_key: o.AnswerKey = None,
    unsafe_exec: o.UnsafeExec = False,
    json: o.Json = False,
) -> None:
    """Score every stored path again."""
    o.reading_of(None, answer_key)
    with Run.edit(run) as opened:
        options = dict(opened.manifest.task_options)
        name = options.pop("name", opened.manifest.config.task["name"])
        if data is not None:
            options["data"] = str(data)
        if unsafe_exec:
            options["unsafe_exec"] = True
        task = plugins.load("task", name, **options)
        total = score(opened, task, everything=True)
    if json:
        _console.print_json({"run": str(run), "scored": total, "task": task.name, "version": task.version})
    else:
        line = f"{run}: {total} paths scored under {task.name} version {task.version}; nothing was drawn"
        _console.progress_console.print(line, markup=False, soft_wrap=True)
