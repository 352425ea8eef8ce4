"""What ``keff serve`` can be told, checked: what is deployed, and how requests are answered."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from keff.errors import UsageError
from keff.gateway.accounts.accounts import Account
from keff.gateway.upstream.answer import Address
from keff.plan import Plan
from keff.sampling.cost import Price
from keff.sampling.verifier import Verifier

HEADER = re.compile(r"x-[a-z0-9-]+")

FreeText = Literal["pass", "refuse", "draw"]
Reply = Literal["shortest", "first"]
BranchDown = Literal["skip", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How requests are served.

    ``strict`` refuses what differs from the plan. ``free_text``: when no path of the first round holds an
    answer, ``pass`` replies with the first path, ``refuse`` with an error, ``draw`` goes on to the policy's
    end. ``reply`` picks among the paths that hold the winning answer. ``max_paths`` bounds what a request may
    ask for, ``max_requests`` how many are served at once, ``replacements`` the failed upstream calls that one
    request makes up for. Some requests are drawn on to ``shadow_paths`` after their
    reply: on average that adds ``shadow_budget`` of the paths that the replies cost. Seconds: ``deadline`` of
    a vote (None: none), ``body_seconds`` to receive a body, ``quiet_seconds`` of a stream before its first
    comment, ``comment_seconds`` between comments. ``forward_headers`` are those of a client, in lower case,
    that the upstream gets too. ``tool_ignore`` are arguments of tool calls that do not count in a vote.
    ``now`` is what the operator does without the gateway, a policy or a number of paths (None: what the
    plan's figures are against). ``branch_down``: a branch that is down is skipped, or fails the request.
    ``prices`` are those of models, ``accounts`` the named keys; ``admin_token`` opens the operator's pages.
    Web pages of the ``cors`` origins may ask.
    """

    strict: bool = False
    append_answer_format: bool = False
    free_text: FreeText = "pass"
    reply: Reply = "shortest"
    max_paths: int = 64
    max_requests: int = 2048
    max_body: int = 8 * 2**20
    replacements: int = 16
    shadow_budget: float = 0.0
    shadow_paths: int = 32
    deadline: float | None = None
    body_seconds: float = 30.0
    quiet_seconds: float = 1.0
    comment_seconds: float = 5.0
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    branch_down: BranchDown = "skip"
    forward_headers: tuple[str, ...] = ()
    tool_ignore: tuple[str, ...] = ()
    now: str | None = None
    cors: tuple[str, ...] = ()
    accounts: tuple[Account, ...] = ()
    token: str = field(default="", repr=False)
    admin_token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.shadow_budget <= 1:
            raise UsageError(f"the shadow budget is a share from 0 to 1, not {self.shadow_budget:g}")
        if self.deadline is not None and not 0 < self.deadline < math.inf:
            raise UsageError("the deadline must be above 0 seconds")
        if not 1 <= self.max_paths <= 256:
            raise UsageError("the most paths must lie between 1 and 256")
        for name in self.forward_headers:
            if not HEADER.fullmatch(name) or name == "x-api-key" or name.startswith("x-keff"):
                raise UsageError(f"forward_header {name!r}: name a header of your own, such as x-tenant")
        for origin in self.cors:
            if not re.fullmatch(r"https?://[^/*\s]+", origin):
                raise UsageError(f"cors_origin {origin!r}: write an origin such as https://app.example.com")


# What answers where no plan is: on recorded workloads a quarter of the paths keeps 99% of the plurality.
POLICY = "lead_k:3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What is served, where, and what is kept.

    A plan, or None: then ``policy`` answers every request, with the answer found per request. ``address`` is
    that of the upstream (None: every branch of the plan has its own), ``fallback`` that of a second one, and
    ``keys`` are those of the environment variables that branches name.

    ``model`` is the model's name upstream (default: the plan's), ``answer_space`` reads answers otherwise
    than the plan, ``verifier`` rates paths, ``upstream_n`` is the most paths that one upstream call asks for.
    ``state`` is the file of the drift alarm (None: not kept), ``spend`` that of what each key spent, ``otlp``
    the collector of traces, ``redis`` holds both for several hosts.
    """

    plan: Plan | None = None
    policy: str = POLICY
    address: Address | None
    fallback: Address | None = None
    keys: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    options: Options = field(default_factory=Options)
    host: str = "127.0.0.1"
    port: int = 8080
    model: str | None = None
    answer_space: str | None = None
    verifier: Verifier | None = None
    upstream_n: int = 1
    state: Path | None = None
    vote_log: Path | None = None
    log_answers: bool = False
    spend: Path | None = None
    redis: str | None = field(default=None, repr=False)
    otlp: str | None = None
