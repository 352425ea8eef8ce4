"""Manifest of a run: its configuration and fingerprint."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Self, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from keff.errors import StoreError
from keff.files import write_text
from keff.narrow import Object, is_object
from keff.records import stable_hash
from keff.sampling import RUN_FILE
from keff.usercode import FLAGS, UNSAFE, Stamp, without_code

# Raised when an older keff could not read what a newer one writes.
SCHEMA = 1

# Begins the name of the engine of an imported run; the format of the log follows.
IMPORTED = "log "


class Config(BaseModel):
    """Configuration that a measurement depends on; a run resumes only under an equal one.

    ``engine`` is the engine's identity, ``task`` its name, version and options, ``prompt`` a hash of the
    first item's messages under every slot, ``templates`` the slots in the order in which paths cycle
    through them. n, K, policy and package version are not part of it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine: Object
    task: Object
    sampling: Object
    templates: tuple[int, ...] = (0,)
    prompt: str = ""

    @property
    def imported(self) -> bool:
        """Whether the paths come from a recorded log."""
        return str(self.engine.get("engine")).startswith(IMPORTED)

    @property
    def fingerprint(self) -> str:
        """Return a stable hash of the configuration."""
        return stable_hash(self.model_dump(mode="json"))

    def differences(self, other: Config) -> list[str]:
        """Return ``field: mine -> theirs`` for every field that differs."""
        mine, theirs = _leaves(self.model_dump(mode="json")), _leaves(other.model_dump(mode="json"))
        return [
            f"{name}: {mine.get(name)!r} -> {theirs.get(name)!r}"
            for name in sorted(mine | theirs)
            if mine.get(name) != theirs.get(name)
        ]


def _leaves(value: object, prefix: str = "") -> Object:
    if not is_object(value):
        return {prefix: value}
    leaves: Object = {}
    for name, inner in value.items():
        leaves |= _leaves(inner, f"{prefix}.{name}" if prefix else name)
    return leaves


class Manifest(BaseModel):
    """The ``manifest.json`` of a run folder; ``task_options`` make the task again for scoring.

    ``calibration`` is the hash of what the plan's calibration says, where the policy reads one.
    ``parameters`` are what the server taught about the fields of a request: the name under which it takes
    each (None: it takes none). ``seal`` is the hash of this file and of the database, as they were when the
    run was closed; a run that is open, or whose process was killed, has none.

    A run folder may come from anybody: ``task_options`` never name code. ``code`` records which code of the
    user was used, and ``unsafe_exec`` that programs ran without the sandbox; neither causes anything to run.
    """

    model_config = ConfigDict(frozen=True)

    schema_version: int = SCHEMA
    keff_version: str = Field(default_factory=lambda: version("keff"))
    config: Config
    fingerprint: str = ""
    n: int
    k: int
    policy: str | None = None
    calibration: str | None = None
    task_options: Object = Field(default_factory=dict)
    code: dict[str, Stamp] = Field(default_factory=dict[str, Stamp])
    unsafe_exec: bool = False
    parameters: dict[str, str | None] = Field(default_factory=dict[str, str | None])
    seal: str | None = None

    @model_validator(mode="after")
    def _take_no_code(self) -> Self:
        """Move options that name code (older runs) to the recorded stamps, which are never run."""
        named = {
            kind: Stamp(str(value), "")
            for kind in FLAGS
            if (value := self.task_options.get(kind)) is not None and kind not in self.code
        }
        unsafe = self.unsafe_exec or bool(self.task_options.get(UNSAFE))
        object.__setattr__(self, "task_options", without_code(self.task_options))
        object.__setattr__(self, "code", self.code | named)
        object.__setattr__(self, "unsafe_exec", unsafe)
        return self

    def with_code_of(self, other: Manifest) -> Manifest:
        """Return the manifest with another's code stamps and parameters that this call did not name."""
        return self.model_copy(
            update={
                "code": other.code | self.code,
                "unsafe_exec": self.unsafe_exec or other.unsafe_exec,
                "parameters": other.parameters | self.parameters,
            }
        )

    def scored_by(self, scorer: Stamp, version: str) -> Manifest:
        """Return the manifest with another scorer's task version."""
        config = self.config.model_copy(update={"task": self.config.task | {"version": version}})
        return self.model_copy(update={"config": config, "code": self.code | {"scorer": scorer}})

    def write(self, folder: Path, database: str | None = None) -> None:
        """Write the manifest atomically: a crash leaves the old or the new one.

        ``database`` is the hash of the closed database; without it the run is open, and has no seal.
        """
        stamped = self.model_copy(update={"fingerprint": self.config.fingerprint, "seal": None})
        if database is not None:
            seal = sealed(stamped.model_dump_json(), database)
            stamped = stamped.model_copy(update={"seal": seal})
        write_text(folder / RUN_FILE, stamped.model_dump_json(indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Return a run folder's manifest; raises StoreError where missing, foreign or of another schema."""
        try:
            manifest = cls.model_validate_json((folder / RUN_FILE).read_text("utf-8"))
        except FileNotFoundError:
            raise StoreError(f"{folder} is not a run folder: it has no {RUN_FILE}") from None
        except (ValidationError, UnicodeDecodeError) as error:
            raise StoreError(
                f"{folder / RUN_FILE} is not a manifest of keff ({_reason(error)}): restore the folder from "
                "a copy, or name another one"
            ) from None
        if manifest.schema_version != SCHEMA:
            newer = manifest.schema_version > SCHEMA
            raise StoreError(
                f"{folder} was written by keff {manifest.keff_version} with schema "
                f"{manifest.schema_version}; this keff reads schema {SCHEMA}: "
                + ("upgrade keff" if newer else "restore the folder from a copy")
            )
        return manifest


def _reason(error: ValidationError | UnicodeDecodeError) -> str:
    """Return what is wrong first, in one line."""
    if isinstance(error, UnicodeDecodeError):
        return str(error)
    first = error.errors(include_url=False)[0]
    return ": ".join([*map(str, first["loc"]), " ".join(first["msg"].split())])


def sealed(manifest: str, database: str) -> str:
    """Return the seal of a manifest's JSON and its database's hash; white space and a seal do not count."""
    held = cast("Object", json.loads(manifest))
    return stable_hash({name: value for name, value in held.items() if name != "seal"}, database)
