"""Plan: what an analysis found and a gateway deploys (JSON, versioned, with its fingerprint)."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, NonNegativeInt, ValidationError, model_validator

from keff.errors import PlanError
from keff.stats.patterns import patterns

SCHEMA = 1


class Profile(BaseModel):
    """Label-free picture of the pilot's votes that the drift alarm compares traffic with.

    ``paths`` is how many paths of each item were looked at, ``table`` counts the items that show each
    pattern, in the order of ``stats.patterns.patterns(paths)``.
    """

    model_config = ConfigDict(frozen=True)

    paths: int = Field(ge=2, le=16)
    table: tuple[NonNegativeInt, ...]

    @model_validator(mode="after")
    def _fits(self) -> Profile:
        if len(self.table) != len(patterns(self.paths)) or not any(self.table):
            raise ValueError(f"a profile of {self.paths} paths holds {len(patterns(self.paths))} counts")
        return self


class Plan(BaseModel):
    """What ``keff analyze -o`` writes and ``keff serve`` deploys.

    ``policy`` is a policy string; ``task`` names the task with its options (the extractor), ``space`` its
    answer space; ``config`` is what the measurement belongs to (None when it came from a log that does not
    say) and ``fingerprint`` its hash; ``estimates`` is the object of ``keff analyze --json``.
    """

    model_config = ConfigDict(frozen=True)

    schema_version: int = SCHEMA
    keff_version: str = Field(default_factory=lambda: version("keff"))
    policy: str
    space: str = "exact"
    task: dict[str, Any] | None = None
    config: dict[str, Any] | None = None
    fingerprint: str | None = None
    estimates: dict[str, JsonValue]
    profile: Profile | None = None

    def write(self, file: Path) -> None:
        """Write the plan as JSON."""
        file.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> Plan:
        """Read a plan; raises PlanError when the file is missing, not a plan, or newer than this keff."""
        try:
            plan = cls.model_validate_json(file.read_text("utf-8"))
        except OSError as error:
            raise PlanError(f"{file}: {error.strerror}; keff analyze -o {file} writes one") from None
        except (ValidationError, UnicodeDecodeError) as error:
            raise PlanError(f"{file} is not a plan of keff: {str(error).splitlines()[0]}") from None
        if plan.schema_version > SCHEMA:
            raise PlanError(f"{file} was written by keff {plan.keff_version}: upgrade keff to read it")
        return plan
