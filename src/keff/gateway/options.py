"""Options of ``keff serve``, validated: the deployment, and how requests are answered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from keff.gateway.keys import ClientKey
from keff.gateway.upstream.answer import Address
from keff.plan import Plan
from keff.sampling.cost import Price
from keff.sampling.verifier import Verifier

HEADER = re.compile(r"x-[a-z0-9-]+")


class ServeSettings(BaseModel):
    """Settings accepted from ``--set NAME=VALUE``, variables ``KEFF_NAME`` and the ``--config`` file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    admin_token_env: str | None = Field(
        None, description="Variable with the operator's token for /keff and /keff/plan."
    )
    append_answer_format: bool = Field(
        False, description="Add how to end an answer to the last message of a request."
    )
    branch_down: Literal["skip", "fail"] = Field(
        "skip", description="What keff does about a branch that is down: skip it, or fail the request."
    )
    ca_file: Path | None = Field(
        None, description="PEM file of certificates that upstreams may show, beside those of the system."
    )
    connections: int = Field(512, ge=1, description="Most upstream connections at once.")
    cors_origin: tuple[str, ...] = Field((), description="Origins of web pages that may send requests.")
    deadline: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Seconds after which keff answers a request with the paths drawn so far.",
    )
    fallback_key_env: str | None = Field(None, description="Variable with the API key of the fallback.")
    forward_header: tuple[str, ...] = Field(
        (), description="Client headers that keff passes to the upstream, such as x-tenant."
    )
    free_text: Literal["pass", "refuse", "draw"] = Field(
        "pass", description="When the first round holds no answer: pass the text on, refuse, or keep drawing."
    )
    max_paths: int = Field(64, ge=1, le=256, description="Most paths that a request may ask for.")
    otlp: str | None = Field(None, description="URL of the collector that gets traces (extra otel).")
    path_timeout: float = Field(600.0, ge=0.1, description="Seconds that one upstream call may take.")
    quiet: bool = Field(False, description="Log warnings only.")
    reading_seconds: float = Field(
        10.0, gt=0, description="Seconds that a request waits in all for answers that take long to parse."
    )
    replacements: int = Field(
        4, ge=0, description="How often keff draws a failed path again while no path of its request comes."
    )
    reply: Literal["shortest", "first"] = Field(
        "shortest", description="Which of the paths with the winning answer the client gets."
    )
    shadow_budget: float = Field(
        0.02,
        ge=0,
        le=1,
        description="Share of extra paths that keff draws after replies, for the drift alarm and savings.",
    )
    strict: bool = Field(
        False,
        description="Refuse requests that differ from the plan, and votes that unread answers could change.",
    )
    tool_ignore: tuple[str, ...] = Field(
        (), description="Arguments of tool calls that a vote ignores, such as a timestamp."
    )
    upstream_n: int = Field(
        1, ge=1, description="Most paths in one upstream call; keff lowers it if refused."
    )
    vote_log: Path | None = Field(None, description="Append each request's votes to this file, redacted.")
    vote_log_answers: bool = Field(False, description="Write the answers themselves into the vote log.")

    @field_validator("forward_header")
    @classmethod
    def _are_of_clients(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return header names in lower case; raises ValueError for names that the gateway uses itself."""
        names = tuple(map(str.lower, names))
        if any(not HEADER.fullmatch(name) or name.startswith(("x-keff", "x-api-key")) for name in names):
            raise ValueError("name headers of your own, such as x-tenant")
        return names

    @field_validator("cors_origin")
    @classmethod
    def _are_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        if not all(re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/*\s]+", origin) for origin in origins):
            raise ValueError("write origins such as https://app.example.com")
        return origins


class Options(ServeSettings):
    """How requests are served: the settings, with loaded prices and keys.

    ``free_text`` decides what happens when no path of the first round holds an answer: ``pass`` replies
    with the first path, ``refuse`` with an error, ``draw`` goes on to the policy's end. ``max_requests``
    limits the requests served at once, ``max_body`` the bytes of one. keff draws on to ``shadow_paths``
    after some replies. In seconds: ``body_seconds`` to receive a body, ``quiet_seconds`` of a stream
    before its first comment, ``comment_seconds`` between comments. ``now`` is what the operator runs
    without the gateway, a policy or a number of paths (None: the plan's reference). ``prices`` are those
    of models; ``admin_token`` opens the operator's pages.
    """

    max_requests: int = 2048
    max_body: int = 8 * 2**20
    shadow_paths: int = 32
    body_seconds: float = 30.0
    quiet_seconds: float = 1.0
    comment_seconds: float = 5.0
    prices: Mapping[str, Price] = {}
    now: str | None = None
    client_keys: tuple[ClientKey, ...] = ()
    token: str = Field("", repr=False)
    admin_token: str = Field("", repr=False)


# What answers where no plan is: on recorded workloads a quarter of the paths keeps 99% of the plurality.
POLICY = "lead_k:3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One deployment: the plan, its address, files and options.

    Without a plan, ``policy`` answers every request, and keff finds the kind of answer for each.
    ``address`` is the upstream's (None: every branch of the plan has its own), ``fallback`` that of a
    second one, and ``keys`` are those of the environment variables that branches name. ``model`` is the
    model's name upstream (default: the plan's), ``answer_space`` replaces the plan's, ``verifier`` rates
    paths. ``state`` is the file of the drift alarm (None: not kept).
    """

    plan: Plan | None = None
    policy: str = POLICY
    address: Address | None
    fallback: Address | None = None
    keys: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    options: Options
    host: str = "127.0.0.1"
    port: int = 8080
    model: str | None = None
    answer_space: str | None = None
    verifier: Verifier | None = None
    state: Path | None = None
