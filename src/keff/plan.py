"""Plan: what an analysis found and a gateway deploys (JSON, versioned, with its fingerprint)."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from keff import files
from keff.errors import PlanError
from keff.stats.voting.calibration import Calibration

# 2 added branches; plans of schema 1 are read as plans without.
SCHEMA = 2


class Profile(BaseModel):
    """Label-free profile of a pilot's votes, with which the drift alarm compares traffic.

    ``paths`` is how many paths of each item were looked at. ``votes`` holds for each item the votes of its
    answers, largest first, without the paths that abstained.
    """

    model_config = ConfigDict(frozen=True)

    paths: int = Field(ge=2, le=16)
    votes: tuple[tuple[PositiveInt, ...], ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _fits(self) -> Profile:
        if any(sum(row) > self.paths for row in self.votes):
            raise ValueError("a profile holds at most as many votes of an item as there are paths")
        return self


class BranchPlan(BaseModel):
    """One branch of a plan: its model, prompt, sampling and prices.

    ``name`` is the one in the policy string. ``model`` is asked of ``upstream``, with the API key in the
    environment variable ``key_env`` (all None: given when the plan is served). ``system`` and ``template``
    replace the request's prompt (a template that holds ``{question}`` is the whole message, any other stands
    before it); ``temperature``, ``top_p``, ``max_tokens`` and ``reasoning_effort`` replace its sampling.
    ``prompt_price`` and ``output_price`` are dollars per million tokens; ``cost_per_path`` is the mean on the
    pilot.
    """

    model_config = ConfigDict(frozen=True)

    name: str = Field(pattern=r"^[\w.-]+$")
    model: str | None = None
    upstream: str | None = None
    key_env: str | None = None
    system: str | None = None
    template: str | None = None
    temperature: NonNegativeFloat | None = None
    top_p: NonNegativeFloat | None = None
    max_tokens: PositiveInt | None = None
    reasoning_effort: str | None = None
    prompt_price: NonNegativeFloat | None = None
    output_price: NonNegativeFloat | None = None
    cost_per_path: NonNegativeFloat | None = None


class Plan(BaseModel):
    """A deployable plan, written by ``keff analyze -o`` and ``keff mix -o`` and served by ``keff serve``.

    ``policy`` is a policy string; ``task`` names the task with its options (the extractor), ``space`` its
    answer space; ``config`` is what the measurement belongs to (None when it came from a log that does
    not say) and ``fingerprint`` its hash; ``estimates`` is the object of ``keff analyze --json`` or of
    ``keff mix --json``. ``branches`` are those that the policy asks (none: the policy draws from one
    model), with their costs in ``cost_unit``; under a policy that names no branch they are prompt
    templates, named ``slot-N``, that paths take in turn. ``calibrations`` are those of the record's
    confidences, by name. ``parameters`` are what the pilot's server taught: the name under which it takes
    a field of a request (None: it takes none).
    """

    model_config = ConfigDict(frozen=True)

    schema_version: int = SCHEMA
    keff_version: str = Field(default_factory=lambda: version("keff"))
    policy: str
    space: str = "exact"
    task: dict[str, object] | None = None
    config: dict[str, object] | None = None
    fingerprint: str | None = None
    estimates: dict[str, JsonValue]
    profile: Profile | None = None
    branches: tuple[BranchPlan, ...] = ()
    cost_unit: Literal["dollars", "tokens", "paths"] | None = None
    calibrations: dict[str, Calibration] = {}
    parameters: dict[str, str | None] = {}

    @model_validator(mode="after")
    def _names_differ(self) -> Plan:
        names = [branch.name for branch in self.branches]
        if len(set(names)) < len(names):
            raise ValueError("two branches of the plan have the same name")
        return self

    @property
    def slots(self) -> tuple[int, ...]:
        """The prompt templates that paths take in turn, by number; none where branches are models."""
        found = [branch.name.removeprefix("slot-") for branch in self.branches]
        named = all(branch.name.startswith("slot-") for branch in self.branches)
        return tuple(map(int, found)) if named and all(map(str.isdigit, found)) else ()

    @property
    def reads_texts(self) -> bool:
        """Whether the plan says how an answer is read from a text; one made from ready answers does not."""
        recorded = self.task is None or str(self.task.get("version", "")).startswith("recorded by ")
        return not (recorded and self.space == "exact")

    def write(self, file: str | Path) -> None:
        """Write the plan as JSON."""
        files.write_text(Path(file), self.model_dump_json(indent=2) + "\n")

    @classmethod
    def read(cls, file: str | Path) -> Plan:
        """Return the plan of a file; raises PlanError where missing, no plan, or newer than this keff."""
        try:
            plan = cls.model_validate_json(Path(file).read_text("utf-8"))
        except OSError as error:
            raise PlanError(f"{file}: {error.strerror}; keff analyze -o {file} writes one") from None
        except (ValidationError, UnicodeDecodeError) as error:
            raise PlanError(f"{file} is not a plan of keff: {str(error).splitlines()[0]}") from None
        if plan.schema_version > SCHEMA:
            raise PlanError(f"{file} was written by keff {plan.keff_version}: upgrade keff to read it")
        return plan
