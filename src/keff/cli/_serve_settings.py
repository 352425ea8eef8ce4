"""Settings of the gateway that few deployments change, each declared once: name, default, range, meaning."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from keff.cli._sample_options import named
from keff.errors import UsageError, unknown


class ServeSettings(BaseModel):
    """What ``--set NAME=VALUE``, a variable ``KEFF_NAME`` or a line of the file of ``--config`` may say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    admin_token_env: str | None = Field(
        None, description="Variable with the operator's token for /keff and /keff/plan."
    )
    append_answer_format: bool = Field(
        False, description="Add the answer contract to the last message of a request."
    )
    branch_down: Literal["skip", "fail"] = Field(
        "skip", description="A branch that is down is skipped, or fails the request."
    )
    ca_file: Path | None = Field(
        None, description="PEM file of certificates that upstreams may show, beside those of the system."
    )
    connections: int = Field(512, ge=1, description="Most upstream connections at once.")
    cors_origin: tuple[str, ...] = Field((), description="Origins of web pages that may ask.")
    deadline: float | None = Field(
        None, description="Seconds after which a request is answered with the paths drawn so far."
    )
    fallback_key_env: str | None = Field(None, description="Variable with the API key of the fallback.")
    forward_header: tuple[str, ...] = Field(
        (), description="Headers of clients that go up, such as x-tenant."
    )
    free_text: Literal["pass", "refuse", "draw"] = Field(
        "pass", description="When the first round holds no answer: pass the text on, refuse, or keep drawing."
    )
    max_paths: int = Field(64, description="Most paths that a request may ask for.")
    otlp: str | None = Field(None, description="URL of the collector that gets traces (extra otel).")
    path_timeout: float = Field(600.0, ge=0.1, description="Seconds that one upstream call may take.")
    quiet: bool = Field(False, description="Log warnings only.")
    redis: str | None = Field(
        None, description="URL of a Redis in which several hosts share limits, spend and drift (extra redis)."
    )
    replacements: int = Field(
        16, ge=0, description="Failed upstream calls that are replaced, for each request."
    )
    reply: Literal["shortest", "first"] = Field(
        "shortest", description="Which of the paths with the winning answer is sent."
    )
    shadow_budget: float = Field(
        0.02, description="Share of the paths spent again on drawing requests on after their reply, to --cap."
    )
    spend: Path | None = Field(
        None, description="SQLite file of what each key spent (default: beside the key file)."
    )
    strict: bool = Field(False, description="Refuse requests that differ from the plan.")
    tool_ignore: tuple[str, ...] = Field(
        (), description="Arguments of tool calls that do not count in a vote, such as a timestamp."
    )
    upstream_n: int = Field(1, ge=1, description="Most paths in one upstream call (lowered if refused).")
    vote_log: Path | None = Field(None, description="Append each request's votes to this file, redacted.")
    vote_log_answers: bool = Field(False, description="Write the answers themselves into the vote log.")


NAMES = tuple(ServeSettings.model_fields)

SetPairs = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help=f"What few deployments change: {', '.join(NAMES)}; repeatable.",
    ),
]


def in_file(file: Path) -> dict[str, object]:
    """Return what a TOML file says, by names with underscores; raises UsageError for what is no TOML."""
    try:
        given = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}") from None
    return {name.replace("-", "_"): value for name, value in given.items()}


def read_settings(pairs: Iterable[str], config: Path | None) -> ServeSettings:
    """Return the settings: pairs of the command line win over variables, and these over the file.

    Raises UsageError for a name or a value that does not fit.
    """
    file = {} if config is None else in_file(config)
    told = {name: value for name, value in file.items() if name in NAMES}
    for name in NAMES:
        if (text := os.environ.get(f"KEFF_{name.upper()}")) is not None:
            told[name] = text.split() if _is_list(name) else text
    said: dict[str, list[str]] = {}
    for name, value in named(pairs, "--set"):
        if name not in NAMES:
            raise UsageError(f"--set: {unknown('setting', name, NAMES)}")
        said.setdefault(name, []).append(value)
    told |= {name: values if _is_list(name) else values[-1] for name, values in said.items()}
    try:
        return ServeSettings.model_validate(told)
    except ValidationError as error:
        first = error.errors()[0]
        name = first["loc"][0]
        raise UsageError(f"{name}: {first['msg']}, not {first['input']!r}") from None


def _is_list(name: str) -> bool:
    return isinstance(ServeSettings.model_fields[name].default, tuple)
