"""Progress of a study's cells, from their run folders alone: no data are read, no engine starts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Literal, TypedDict

from keff.errors import StoreError, UsageError
from keff.files import write_text
from keff.narrow import Object, fields, number
from keff.records import frozen
from keff.sampling import RUN_FILE
from keff.sampling.grid import Cell, Study
from keff.sampling.manifest import Manifest
from keff.sampling.store import Run

# What a study drew into a run folder, and whether all of it is there.
NOTE = "cell.json"

CellStage = Literal["complete", "begun", "missing", "record", "unreadable"]

# Settings that may change in a run that has paths: it is drawn on.
MAY_GROW = ("n", "k", "policy")


@frozen
class CellState:
    """One cell's progress: questions ``n`` and paths ``k`` wanted, paths and tokens stored.

    ``stage`` is complete, begun or missing, record for a run or log that the study only reads, or unreadable
    for a folder that holds something else, with ``error``.
    """

    cell: Cell
    stage: CellStage
    n: int
    k: int
    paths: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    error: str | None = None

    @property
    def owed(self) -> int:
        """Return how many paths remain to be drawn; under a policy, at most."""
        return 0 if self.stage in ("complete", "record") else max(self.n * self.k - self.paths, 0)


class CellSettings(TypedDict):
    """Every setting of a cell; None where it is left to the task or engine."""

    n: int
    k: int
    policy: str | None
    seed: int
    temperature: float
    top_p: float
    max_tokens: int | None
    thinking: int | None
    templates: str
    same_questions: int | None
    engine: str
    model: str | None
    engine_options: Object
    task: str
    data: str | None
    task_options: Object


def settings(study: Study, cell: Cell) -> CellSettings:
    """Return a cell's settings from its study; None where left to the task or engine."""
    model, task, arm = cell.model, cell.task, cell.arm
    thinking = study.thinking if arm.thinking is None else arm.thinking
    return {
        "n": arm.n or task.n or study.n,
        "k": arm.k,
        "policy": arm.policy,
        "seed": cell.seed,
        "temperature": study.temperature if arm.temperature is None else arm.temperature,
        "top_p": study.top_p if arm.top_p is None else arm.top_p,
        "max_tokens": arm.max_tokens or task.max_tokens,
        "thinking": thinking,
        "templates": arm.templates,
        "same_questions": study.seeds[0] if study.same_questions else None,
        "engine": model.engine,
        "model": model.model,
        "engine_options": model.options,
        "task": task.name,
        "data": task.data,
        "task_options": task.options,
    }


def state(study: Study, cell: Cell) -> CellState:
    """Return a cell's progress."""
    wanted = settings(study, cell)
    n, k = wanted["n"], wanted["k"]
    if cell.record:
        return CellState(cell, "record", n, k)
    if not (cell.folder / RUN_FILE).exists():
        return CellState(cell, "missing", n, k)
    try:
        if not (cell.folder / "paths.sqlite").exists() and Manifest.read(cell.folder):
            return CellState(cell, "missing", n, k)
        with Run.open(cell.folder) as run:
            held = run.count()
    except StoreError as error:
        return CellState(cell, "unreadable", 0, 0, error=str(error))
    note = read_note(cell.folder)
    whole = bool(note.get("complete")) and _is_complete(fields(note.get("settings")), wanted)
    whole = whole and held["items"] >= n and (bool(wanted["policy"]) or held["paths"] >= n * k)
    return CellState(
        cell, "complete" if whole else "begun", n, k, held["paths"], held["tokens"], held["prompt_tokens"]
    )


def _is_complete(drawn: Object, wanted: CellSettings) -> bool:
    """Return whether the stored paths are all that is wanted, under the same settings and version."""
    if drawn.get("keff") != _version("keff") or drawn.get("policy") != wanted["policy"]:
        return False
    same = all(drawn.get(name) == value for name, value in wanted.items() if name not in MAY_GROW)
    n, k = number(drawn.get("n")) or 0, number(drawn.get("k")) or 0
    return same and n >= wanted["n"] and k >= wanted["k"]


# Read once: a study asks for that of every cell.
_version = cache(version)


def read_note(folder: Path) -> Object:
    """Return a cell's stored note; empty where none can be read."""
    try:
        note = json.loads((folder / NOTE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return fields(note)


def write_note(study: Study, cell: Cell, *, complete: bool) -> None:
    """Store a cell's settings and whether it is complete, atomically."""
    note = {"complete": complete, "settings": {**settings(study, cell), "keff": _version("keff")}}
    write_text(cell.folder / NOTE, json.dumps(note, indent=1) + "\n")


def refuse_changes(study: Study, grid: Iterable[Cell]) -> None:
    """Raise UsageError that names cells whose stored paths have other settings, and which.

    Only what the study states itself is compared here; the run folder compares the rest when it is opened.
    """
    changed = {cell.name: changes for cell in grid if (changes := _changes(study, cell))}
    if changed:
        lines = [f"{name}: {', '.join(changes)}" for name, changes in list(changed.items())[:5]]
        more = f"; and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise UsageError(
            f"{len(changed)} cells have paths drawn under other settings ({'; '.join(lines)}{more}): "
            "restore the settings, or give the arm another name"
        )


def _changes(study: Study, cell: Cell) -> list[str]:
    """Return ``setting: drawn -> wanted`` for every setting that differs from the stored one."""
    if cell.record or not (cell.folder / RUN_FILE).exists():
        return []
    if not (cell.folder / "paths.sqlite").exists():
        return []
    try:
        drawn = dict(Manifest.read(cell.folder).config.sampling)
    except StoreError:  # it fails on its own, later, and stops no other cell
        return []
    wanted = dict(settings(study, cell))
    note = fields(read_note(cell.folder).get("settings"))
    drawn |= {
        name: note[name]
        for name in ("engine", "model", "templates", "same_questions", "task")
        if name in note
    }
    stated = ("temperature", "top_p", "max_tokens", "thinking", "engine", "model", "templates", "task")
    if wanted["max_tokens"] is None:
        stated = tuple(name for name in stated if name != "max_tokens")
    return [
        f"{name} {drawn[name]!r} -> {wanted[name]!r}"
        for name in (*stated, "same_questions")
        if name in drawn and drawn[name] != wanted[name]
    ]
