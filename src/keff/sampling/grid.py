"""Study files: a grid of models x tasks x arms x seeds, in TOML."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from keff.errors import KeffError, UsageError
from keff.files import toml_of
from keff.policy import parse_policy
from keff.records import frozen

# Names are folders: letters, digits and . _ + -, and not dots alone, which would lead out of the runs.
NAME = r"^\.*[\w+-][\w.+-]*$"

# Tables that belong together, as ``tables`` of an arm may name them.
GROUPS = {
    "saturation": ("table1", "table2", "table4", "table10", "table11"),
    "adaptive_k": ("table4",),
    "reasoning": ("table9",),
    "matrix": ("table3", "table8"),
}

TABLES = tuple(dict.fromkeys(table for tables in GROUPS.values() for table in tables))
# Tables of a comparison: they need an arm that is compared with another.
PAIRED = GROUPS["matrix"]


class _FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelEntry(_FrozenModel):
    """One model: a short ``name`` for folders, a ``label`` for tables, and the engine that serves it."""

    name: str = Field(pattern=NAME)
    label: str | None = None
    engine: str = "openai"
    model: str | None = None
    base_url: str | None = None
    options: dict[str, object] = Field(default_factory=dict)


class TaskEntry(_FrozenModel):
    """One task: a benchmark's name, or a file of your own questions in ``data``.

    A relative path starts at the study file.

    ``label``, ``domain`` and ``space`` are its labels in Table 3; ``models`` limits it to some of the models.
    """

    name: str = Field(pattern=NAME)
    label: str | None = None
    domain: str = "Own"
    space: str = ""
    data: str | None = None
    n: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    options: dict[str, object] = Field(default_factory=dict)
    models: tuple[str, ...] | None = None


class ArmEntry(_FrozenModel):
    """One arm: ``templates`` as of ``keff sample`` (none, all, 1,3,5) and ``k`` paths per question.

    ``against`` names the arm that it is compared with, on every model and task that both have. ``tables``
    are those that it enters: names such as ``table4``, or saturation, adaptive_k, reasoning, matrix; by
    default matrix with ``against``, else saturation under one prompt. ``models``, ``tasks`` and ``seeds``
    limit it to some of them; the others replace what the study says.
    """

    name: str = Field(pattern=NAME)
    templates: str = "none"
    k: int = Field(default=8, ge=1)
    against: str | None = None
    tables: tuple[str, ...] | None = None
    n: int | None = Field(default=None, ge=1)
    models: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    seeds: tuple[int, ...] | None = None
    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    thinking: int | None = Field(default=None, ge=0)
    policy: str | None = None

    @field_validator("tables")
    @classmethod
    def _known(cls, tables: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for name in tables or ():
            if name not in GROUPS and name not in TABLES:
                known = ", ".join((*GROUPS, *TABLES))
                raise ValueError(f"there is no table {name!r}: write some of {known}")
        return tables

    @field_validator("policy")
    @classmethod
    def _readable(cls, policy: str | None) -> str | None:
        if policy is not None:
            try:
                parse_policy(policy)
            except KeffError as error:
                raise ValueError(str(error)) from None
        return policy

    @property
    def enters(self) -> frozenset[str]:
        """The tables that this arm enters, one by one."""
        named = self.tables
        if named is None and self.policy is None:
            named = ("matrix",) if self.against else ("saturation",) if self.templates == "none" else ()
        return frozenset(table for name in named or () for table in GROUPS.get(name, (name,)))


class RecordEntry(_FrozenModel):
    """A run or log that exists already, as a cell of the study: it is read, and never drawn into.

    Without ``seed`` it stands for all seeds of its arm. A relative path starts at the study file.
    """

    model: str
    task: str
    arm: str
    path: str
    seed: int | None = None


class TableEntry(_FrozenModel):
    """Which models and tasks a table shows (default: all that its arms have)."""

    models: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None


class Study(_FrozenModel):
    """A study: ``runs`` is where its run folders go (below the current folder, or absolute).

    ``truncated_wrong`` scores every path that was cut at the token limit as wrong, as the paper does; else
    one that had stated its answer before keeps it. ``same_questions`` asks every seed the questions of the
    study's first seed; else each seed draws its own.
    """

    name: str
    runs: str
    n: int = Field(default=100, ge=1)
    seeds: tuple[int, ...] = Field(default=(42,), min_length=1)
    temperature: float = Field(default=0.7, ge=0)
    top_p: float = Field(default=0.95, gt=0, le=1)
    thinking: int | None = Field(default=None, ge=0)
    concurrency: int | None = Field(default=None, ge=1)
    same_questions: bool = False
    truncated_wrong: bool = True
    models: tuple[ModelEntry, ...] = Field(min_length=1)
    tasks: tuple[TaskEntry, ...] = Field(min_length=1)
    arms: tuple[ArmEntry, ...] = Field(min_length=1)
    records: tuple[RecordEntry, ...] = ()
    tables: dict[str, TableEntry] = Field(default_factory=dict[str, TableEntry])

    @model_validator(mode="after")
    def _consistent(self) -> Study:
        models = _names("model", self.models)
        tasks = _names("task", self.tasks)
        arms = _names("arm", self.arms)
        for task in self.tasks:
            _refer(f"task {task.name}", "model", task.models, models)
        for arm in self.arms:
            where = f"arm {arm.name}"
            _refer(where, "model", arm.models, models)
            _refer(where, "task", arm.tasks, tasks)
            _refer(where, "arm", arm.against and [arm.against], [name for name in arms if name != arm.name])
            if arm.enters & set(PAIRED) and arm.against is None:
                raise ValueError(f'{where}: Tables 3 and 8 compare two arms: say against = "ARM"')
        for name, table in self.tables.items():
            _refer("tables", "table", [name], TABLES)
            _refer(f"tables.{name}", "model", table.models, models)
            _refer(f"tables.{name}", "task", table.tasks, tasks)
        for record in self.records:
            for kind, name, known in (
                ("model", record.model, models), ("task", record.task, tasks), ("arm", record.arm, arms)
            ):  # fmt: skip
                _refer(f"record {record.path}", kind, [name], known)
        self._check_cells()
        return self

    def _check_cells(self) -> None:
        """Refuse arms and records without a cell, comparisons without a pair, and repeated folders."""
        grid = list(cells(self))
        places = {arm.name: {_place(cell) for cell in grid if cell.arm.name == arm.name} for arm in self.arms}
        for arm in self.arms:
            if not places[arm.name]:
                raise ValueError(f"arm {arm.name} has no cell: no model and task fit it")
            if arm.against and not places[arm.name] & places[arm.against]:
                raise ValueError(f"arm {arm.name} has no model and task in common with {arm.against}")
        for record in self.records:
            if not any(cell.record == record.path for cell in grid):
                raise ValueError(
                    f"record {record.path} is not a cell: arm {record.arm} does not have its model, task "
                    "and seed"
                )
        folders: dict[str, str] = {}
        for cell in grid:
            # Some file systems take names that differ in case for one.
            folder = os.path.normpath(cell.folder).casefold()
            if folder in folders:
                raise ValueError(f"{folders[folder]} and {cell.name} have one folder, {cell.folder}")
            folders[folder] = cell.name


@frozen
class Cell:
    """One run of a study: its model, task, arm and seed, and the folder it goes to.

    ``record`` is the run or log that is the cell, where the study names one.
    """

    model: ModelEntry
    task: TaskEntry
    arm: ArmEntry
    seed: int
    folder: Path
    record: str | None = None

    @property
    def name(self) -> str:
        """Model, task, arm and seed in one text."""
        return f"{self.model.name} {self.task.name} {self.arm.name} seed {self.seed}"


def read_study(file: Path) -> Study:
    """Return the study of a TOML file; raises UsageError that names a wrong field."""
    try:
        study = Study.model_validate(toml_of(file))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        more = f" ({error.error_count() - 1} more)" if error.error_count() > 1 else ""
        message = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{file}: {where + ': ' if where else ''}{message}{more}") from None
    placed = tuple(
        entry.model_copy(update={"path": str(file.parent / entry.path)}) for entry in study.records
    )
    return study.model_copy(update={"records": placed})


def cells(study: Study, runs: Path | None = None) -> Iterator[Cell]:
    """Yield the runs of a study, model by model, so that a local model is loaded in one stretch."""
    root = runs or Path(study.runs)
    records = {(entry.model, entry.task, entry.arm, entry.seed): entry.path for entry in study.records}
    for model, task, arm in product(study.models, study.tasks, study.arms):
        allowed = (
            (task.models, model.name),
            (arm.models, model.name),
            (arm.tasks, task.name),
        )
        if any(names is not None and name not in names for names, name in allowed):
            continue
        names = model.name, task.name, arm.name
        whole = records.get((*names, None))
        seeds = arm.seeds or study.seeds
        for seed in seeds[:1] if whole else seeds:
            record = whole or records.get((*names, seed))
            folder = Path(record) if record else root / model.name / task.name / f"{arm.name}-{seed}"
            yield Cell(model, task, arm, seed, folder, record)


def _place(cell: Cell) -> tuple[str, str]:
    return cell.model.name, cell.task.name


def _names(kind: str, entries: Sequence[ModelEntry | TaskEntry | ArmEntry]) -> list[str]:
    names = [entry.name for entry in entries]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the {kind} {twice[0]!r} is listed twice")
    return names


def _refer(where: str, kind: str, named: Sequence[str] | None, known: Sequence[str]) -> None:
    """Raise UsageError for names that are not defined, listing those that are."""
    for name in named or ():
        if name not in known:
            raise ValueError(f"{where} names {name!r}, which is not listed ({kind}s: {', '.join(known)})")


def choose(grid: Sequence[Cell], only: Sequence[str]) -> list[Cell]:
    """Return the cells selected by ``--only``: ``model=a,task=b``; repeated keys are alternatives.

    Keys are model, task, arm and seed. Raises UsageError for another key, or for a value that no cell has.
    """
    wanted: dict[str, set[str]] = {}
    for pair in (part for text in only for part in text.split(",")):
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or key not in _KEYS:
            raise UsageError(f"--only {pair!r}: write model=, task=, arm= or seed= and a name")
        known = sorted({_KEYS[key](cell) for cell in grid})
        if value not in known:
            raise UsageError(f"--only {pair}: the study has no such {key}; it has {', '.join(known)}")
        wanted.setdefault(key, set()).add(value)
    return [cell for cell in grid if all(_KEYS[key](cell) in values for key, values in wanted.items())]


_KEYS: dict[str, Callable[[Cell], str]] = {
    "model": lambda cell: cell.model.name,
    "task": lambda cell: cell.task.name,
    "arm": lambda cell: cell.arm.name,
    "seed": lambda cell: str(cell.seed),
}
