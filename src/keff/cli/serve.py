"""Serve votes behind an OpenAI-compatible endpoint.

Every request that has an answer is answered by a vote, and a drift alarm watches.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import typer

from keff.answers import settle
from keff.cli import _options as o
from keff.cli._served import key_names, served_plan
from keff.errors import UsageError
from keff.plan import Plan
from keff.plugins import missing_extra
from keff.policy_spec import DEFAULT_CAP, PolicySpec
from keff.protocol.address import base_url, checked_key
from keff.sampling.cost import Price, price_of, read_prices

try:
    from keff.gateway.deployment import POLICY, Deployment
    from keff.gateway.deployment import check as check_only
    from keff.gateway.keys import read_keys
    from keff.gateway.lines import log_to_stderr
    from keff.gateway.options import Options
    from keff.gateway.plan_defaults import terms_of
    from keff.gateway.server import serve
    from keff.gateway.upstream import Address
    from keff.gateway.workers import serve_with_workers
except ImportError as error:
    raise missing_extra(error, "keff serve") from error


def command(
    upstream: o.UpstreamUrl = None,
    plan: o.PlanFile = None,
    policy: o.ServePolicy = None,
    branch: o.ServedBranches = None,
    branch_down: o.BranchDown = "skip",
    fallback: o.FallbackUrl = None,
    fallback_key_env: o.FallbackKeyEnv = None,
    host: o.Host = "127.0.0.1",
    port: o.Port = 8080,
    workers: o.ServeWorkers = 1,
    strict: o.Strict = False,
    model: o.UpstreamModel = None,
    answer_space: o.AnswerSpaceName = None,
    answer_key: o.AnswerKey = None,
    append_answer_format: o.AppendAnswerFormat = False,
    free_text: o.FreeText = "pass",
    reply: o.Reply = "shortest",
    max_paths: o.MaxPaths = 64,
    in_flight: o.InFlight = 1,
    replacements: o.Replacements = 16,
    deadline: o.Deadline = None,
    path_timeout: o.PathTimeout = 600.0,
    upstream_n: o.UpstreamN = 1,
    connections: o.Connections = 512,
    token_env: o.TokenEnv = None,
    admin_token_env: o.AdminTokenEnv = None,
    upstream_key_env: o.UpstreamKeyEnv = None,
    keys: o.Keys = None,
    spend: o.SpendFile = None,
    otlp: o.Otlp = None,
    forward_header: o.ForwardHeader = None,
    tool_ignore: o.ToolIgnore = None,
    state: o.State = None,
    shadow_budget: o.ShadowBudget = 0.02,
    cap: o.ShadowCap = None,
    vote_log: o.VoteLog = None,
    vote_log_answers: o.VoteLogAnswers = False,
    prices: o.Prices = None,
    now: o.NowPaths = None,
    cors_origin: o.CorsOrigin = None,
    config: o.ServeConfig = None,
    check: o.Check = False,
    quiet: o.Quiet = False,
) -> None:
    """Serve until told to stop."""
    del config  # Its callback has read it.
    deployed = None if plan is None else Plan.read(plan)
    if deployed is not None and policy is not None:
        raise UsageError("--policy stands without --plan: a plan brings its own policy")
    table = None if prices is None else read_prices(prices)
    if branch and (deployed is None or not deployed.branches):
        raise UsageError("--branch says how a branch of the plan is drawn: name a plan with branches")
    if deployed is not None and deployed.branches:
        deployed = served_plan(deployed, branch or (), table)
    options = Options(
        strict=strict,
        append_answer_format=append_answer_format,
        free_text=free_text,
        reply=reply,
        max_paths=max_paths,
        replacements=replacements,
        in_flight=in_flight,
        shadow_budget=shadow_budget,
        shadow_paths=cap or DEFAULT_CAP,
        deadline=deadline,
        price=_price(deployed, model, prices, table),
        branch_down=branch_down,
        forward_headers=tuple(name.lower() for name in forward_header or ()),
        tool_ignore=tuple(tool_ignore or ()),
        now=now,
        cors=tuple(cors_origin or ()),
        clients=() if keys is None else read_keys(keys),
        token=_secret(token_env, "--token-env"),
        admin_token=_secret(admin_token_env, "--admin-token-env"),
    )
    limits = Limits(connections, path_timeout)
    deployment = Deployment(
        plan=deployed,
        policy=_policy(policy, cap),
        address=_address(upstream, upstream_key_env, "--upstream", limits),
        fallback=_address(fallback, fallback_key_env, "--fallback", limits),
        keys={name: _secret(name, "the plan's branch names") for name in key_names(deployed)},
        options=options,
        host=host,
        port=port,
        model=model,
        answer_space=settle(
            o.reading_of(answer_space, answer_key), "exact" if deployed is None else deployed.space
        ),
        upstream_n=upstream_n,
        state=_state(plan, state),
        vote_log=vote_log,
        log_answers=vote_log_answers,
        spend=_spend(keys, spend),
        otlp=None if otlp is None else _collector(otlp),
    )
    if check:
        typer.echo(json.dumps(check_only(deployment, np.random.default_rng())))
        return
    log_to_stderr(quiet)
    if workers > 1:
        serve_with_workers(deployment, workers, quiet)
    else:
        serve(deployment, np.random.default_rng())


@dataclass(frozen=True, slots=True)
class Limits:
    """The most connections to a server, and the most seconds of one call."""

    connections: int
    seconds: float


def _address(url: str | None, key_env: str | None, flag: str, limits: Limits) -> Address | None:
    """Return where a server is; None where it is not named, which its key must not be then."""
    if url is None:
        if key_env is not None:
            raise UsageError(f"{flag}-key-env goes with {flag}")
        return None
    return Address(
        url=base_url(url, flag, f"{flag}-key-env"),
        key=_secret(key_env, f"{flag}-key-env"),
        connections=limits.connections,
        path_seconds=limits.seconds,
    )


def _secret(name: str | None, flag: str) -> str:
    if name is None:
        return ""
    value = checked_key(os.environ.get(name, ""), name)
    if not value:
        raise UsageError(f"{flag} {name}: the environment has no such variable, or it is empty")
    return value


def _policy(given: str | None, cap: int | None) -> str:
    spec = PolicySpec.parse(given or POLICY)
    return str(spec if cap is None else spec.with_cap(cap))


def _state(plan: Path | None, given: str | None) -> Path | None:
    if given == "none" or (given is None and plan is None):
        return None
    if plan is None:
        return Path(str(given))
    return plan.with_suffix(".drift.sqlite") if given is None else Path(given)


def _collector(url: str) -> str:
    return base_url(url, "--otlp", "OTEL_EXPORTER_OTLP_HEADERS").removesuffix("/v1")


def _spend(keys: Path | None, given: Path | None) -> Path | None:
    if keys is None:
        if given is not None:
            raise UsageError("--spend keeps what the keys of --keys spend: name that file too")
        return None
    return given or keys.with_suffix(".spend.sqlite")


def _price(
    plan: Plan | None, model: str | None, prices: Path | None, table: dict[str, Price] | None
) -> Price | None:
    if table is None or (plan is not None and plan.branches):
        return None
    name = model if plan is None else terms_of(plan, model).upstream
    if name is None:
        raise UsageError("--prices needs the model's name: set --model")
    price = price_of(name, table)
    if price is None:
        raise UsageError(f"{prices} has no price for the model {name!r}")
    return price
