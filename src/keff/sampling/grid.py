"""Study files: a grid of models x tasks x arms x seeds, in TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from keff.errors import UsageError


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelEntry(_Entry):
    """One model: a short ``name`` for folders, a ``label`` for tables, and the engine that serves it."""

    name: str = Field(pattern=r"^[\w.+-]+$")
    label: str | None = None
    engine: str = "openai"
    model: str | None = None
    base_url: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)


class TaskEntry(_Entry):
    """One task: a benchmark's name, or a file of your own questions in ``data``.

    A relative path starts at the study file.

    ``label``, ``domain`` and ``space`` are its labels in Table 3; ``models`` limits it to some of the models.
    """

    name: str = Field(pattern=r"^[\w.+-]+$")
    label: str | None = None
    domain: str = "Own"
    space: str = ""
    data: str | None = None
    n: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)
    models: tuple[str, ...] | None = None


class ArmEntry(_Entry):
    """One arm: ``templates`` as of ``keff sample`` (none, all, 1,3,5) and ``k`` paths per question.

    ``models``, ``tasks`` and ``seeds`` limit it to some of them.
    """

    name: str = Field(pattern=r"^[\w.+-]+$")
    templates: str = "none"
    k: int = Field(default=8, ge=1)
    n: int | None = Field(default=None, ge=1)
    models: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    seeds: tuple[int, ...] | None = None
    max_tokens: int | None = Field(default=None, ge=1)


class Study(_Entry):
    """A study: ``runs`` is where its run folders go (below the current folder, or absolute).

    ``truncated_wrong`` scores every path that was cut at the token limit as wrong, as the paper does; else
    one that had stated its answer before keeps it.
    """

    name: str
    runs: str
    n: int = Field(default=100, ge=1)
    seeds: tuple[int, ...] = (42,)
    temperature: float = Field(default=0.7, ge=0)
    top_p: float = Field(default=0.95, gt=0, le=1)
    concurrency: int | None = Field(default=None, ge=1)
    truncated_wrong: bool = True
    models: tuple[ModelEntry, ...] = Field(min_length=1)
    tasks: tuple[TaskEntry, ...] = Field(min_length=1)
    arms: tuple[ArmEntry, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names(self) -> Study:
        for kind, entries in (("model", self.models), ("task", self.tasks), ("arm", self.arms)):
            names = [entry.name for entry in entries]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"the {kind} {twice[0]!r} is listed twice")
        known = {entry.name for entry in self.models}, {entry.name for entry in self.tasks}
        for entry in (*self.tasks, *self.arms):
            asked = set(entry.models or ()) - known[0]
            asked |= set(entry.tasks or ()) - known[1] if isinstance(entry, ArmEntry) else set()
            if asked:
                raise ValueError(f"{entry.name} names {sorted(asked)[0]!r}, which is not listed")
        return self


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a study: its model, task, arm and seed, and the folder it goes to."""

    model: ModelEntry
    task: TaskEntry
    arm: ArmEntry
    seed: int
    folder: Path

    @property
    def name(self) -> str:
        """Model, task, arm and seed in one text."""
        return f"{self.model.name} {self.task.name} {self.arm.name} seed {self.seed}"


def read_study(file: Path) -> Study:
    """Read a study file; raises UsageError that names the field that does not fit."""
    try:
        found = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not TOML ({error})") from None
    try:
        return Study.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        more = f" ({error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise UsageError(f"{file}: {where + ': ' if where else ''}{first['msg']}{more}") from None


def cells(study: Study, runs: Path | None = None) -> Iterator[Cell]:
    """Yield the runs of a study, model by model, so that a local model is loaded in one stretch."""
    root = runs or Path(study.runs)
    for model, task, arm in product(study.models, study.tasks, study.arms):
        allowed = (
            (task.models, model.name),
            (arm.models, model.name),
            (arm.tasks, task.name),
        )
        if any(names is not None and name not in names for names, name in allowed):
            continue
        for seed in arm.seeds or study.seeds:
            yield Cell(model, task, arm, seed, root / model.name / task.name / f"{arm.name}-{seed}")
