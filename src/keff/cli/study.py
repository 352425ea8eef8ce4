"""Sample and report a grid of models, tasks, arms, seeds.

The grid is a TOML file: run samples it, report makes tables and figures.
"""

from __future__ import annotations

import json as json_text
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from keff import plugins
from keff.cli import _console
from keff.cli import _options as o
from keff.cli._sampling import Wishes, draw
from keff.cli._tables import write_all
from keff.errors import EngineError, RunError, StoreError, UsageError
from keff.paper.reproduce import Reproducing
from keff.paper.study import report
from keff.sampling.grid import Cell, Study, cells, read_study
from keff.usercode import UNSAFE, without_code


class Actions(StrEnum):
    """What to do with a study."""

    run = "run"
    report = "report"


def command(
    action: Annotated[Actions, typer.Argument(metavar="run|report", help="Sample the study, or report it.")],
    file: o.StudyFile,
    out: o.StudyOut = None,
    runs: o.StudyRuns = None,
    replicates: o.Replicates = 10_000,
    figures: o.Figures = True,
    on: o.On = None,
    workers: o.Workers = None,
    yes: o.Yes = False,
    unsafe_exec: o.UnsafeExec = False,
    json: o.Json = False,
) -> None:
    """Sample or report a study."""
    study = read_study(file)
    if action is Actions.run:
        done = _run(
            study,
            file,
            Wishes(task="", run=Path(), engine="", on=on, workers=workers, yes=yes, unsafe_exec=unsafe_exec),
            runs,
        )
        if json:
            _console.print_json({"study": study.name, "runs": done})
        _check(done, file)
        return
    found = report(study, Reproducing(replicates), runs)
    folder = out or (runs or Path(study.runs)) / "report"
    files = write_all(found, folder, figures=figures)
    for line in (*(f"missing: {one}" for one in found.missing), *found.problems):
        _console.warn(line)
    if json:
        _console.print_json(found.numbers() | {"files": [str(one) for one in files]})
    else:
        typer.echo("\n".join(map(str, files)))


def _run(study: Study, file: Path, how: Wishes, runs: Path | None) -> list[dict[str, Any]]:
    """Draw what every run of the study still owes.

    A run that fails does not keep the others from going on.
    """
    grid = list(cells(study, runs))
    jobs = [_wishes(study, cell, file, how) for cell in grid]
    done: list[dict[str, Any]] = []
    for place, (cell, wishes) in enumerate(zip(grid, jobs, strict=True), 1):
        _console.progress_console.print(f"{place}/{len(grid)} {cell.name}", markup=False)
        row: dict[str, Any] = {"run": str(cell.folder)}
        try:
            drawn = draw(wishes.job())
            row |= {"kept_before": drawn.kept, "drawn": drawn.done, "failed": drawn.failed}
        except (EngineError, StoreError) as error:
            _console.warn(f"{cell.name}: {error}")
            row |= {"error": str(error)}
        done.append(row)
    return done


def _check(done: list[dict[str, Any]], file: Path) -> None:
    """Say what comes next, or raise RunError when a run is not whole."""
    wrong = [one for one in done if "error" in one or one["failed"]]
    if wrong:
        raise RunError(f"{len(wrong)} of {len(done)} runs are incomplete: run the same command to continue")
    _console.progress_console.print(
        f"all {len(done)} runs are complete: keff study report {file}", markup=False, soft_wrap=True
    )


def _wishes(study: Study, cell: Cell, file: Path, how: Wishes) -> Wishes:
    """Return what ``keff sample`` would be asked for this run."""
    model, task, arm = cell.model, cell.task, cell.arm
    data = None
    if task.data is not None:
        data = file.parent / task.data
        if not data.is_file():
            raise UsageError(f"{file}: task {task.name}: {data} does not exist")
    options = _trusted(file, task.name, task.options, how)
    template = options.pop("template", None)
    own = data is not None and data.suffix == ".jsonl" and not _is_benchmark(task.name)
    return replace(
        how,
        task=str(data) if own else task.name,
        run=cell.folder,
        engine=model.engine,
        model=model.model,
        base_url=model.base_url,
        engine_option=_pairs(model.options),
        n=arm.n or task.n or study.n,
        k=arm.k,
        seed=cell.seed,
        temperature=study.temperature,
        top_p=study.top_p,
        max_tokens=arm.max_tokens or task.max_tokens,
        templates=arm.templates,
        data=None if own else data,
        template=None if template is None else file.parent / str(template),
        task_option=_pairs(options),
        concurrency=study.concurrency,
    )


def _trusted(file: Path, task: str, options: dict[str, Any], how: Wishes) -> dict[str, Any]:
    """Return the options of a task; raises UsageError for code that this command line does not name."""
    named = sorted(options.keys() - without_code(options).keys())
    if named == [UNSAFE] and how.unsafe_exec:
        return dict(options)
    if named:
        flag = "add --unsafe-exec" if named == [UNSAFE] else "sample this run with keff sample --scorer"
        raise UsageError(
            f"{file}: task {task} names {', '.join(named)}, and code is trusted only from the command "
            f"line: {flag}"
        )
    return dict(options)


def _is_benchmark(name: str) -> bool:
    return name in plugins.names("task")


def _pairs(options: dict[str, Any]) -> list[str]:
    return [f"{name}={json_text.dumps(value)}" for name, value in options.items()]
