"""Serve votes behind an OpenAI-compatible endpoint.

Every request that has an answer is answered by a vote, and a drift alarm watches.
"""

from __future__ import annotations

import json

import numpy as np
import typer

from keff.answers import settle
from keff.cli import _read_options as r
from keff.cli import _sample_options as s
from keff.cli import _serve_options as o
from keff.cli._served import key_names, served_plan
from keff.errors import UsageError
from keff.plan import Plan
from keff.plugins import missing_extra
from keff.policy_spec import DEFAULT_CAP
from keff.sampling.cost import read_prices


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
    answer_space: r.AnswerSpaceName = None,
    answer_key: r.AnswerKey = None,
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
    prices: s.Prices = None,
    now: o.NowPaths = None,
    cors_origin: o.CorsOrigin = None,
    config: o.ServeConfig = None,
    check: o.Check = False,
    quiet: o.Quiet = False,
) -> None:
    """Serve until told to stop."""
    del config  # Its callback has read it.
    try:
        from keff.cli import _serving as g
    except ImportError as error:
        raise missing_extra(error, "keff serve") from error
    deployed = None if plan is None else Plan.read(plan)
    if deployed is not None and policy is not None:
        raise UsageError("--policy stands without --plan: a plan brings its own policy")
    table = None if prices is None else read_prices(prices)
    if branch and (deployed is None or not deployed.branches):
        raise UsageError("--branch says how a branch of the plan is drawn: name a plan with branches")
    if deployed is not None and deployed.branches:
        deployed = served_plan(deployed, branch or (), table)
    options = g.Options(
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
        price=g.price_of(deployed, model, prices, table),
        branch_down=branch_down,
        forward_headers=tuple(name.lower() for name in forward_header or ()),
        tool_ignore=tuple(tool_ignore or ()),
        now=now,
        cors=tuple(cors_origin or ()),
        clients=() if keys is None else g.read_keys(keys),
        token=g.secret(token_env, "--token-env"),
        admin_token=g.secret(admin_token_env, "--admin-token-env"),
    )
    limits = g.Limits(connections, path_timeout)
    deployment = g.Deployment(
        plan=deployed,
        policy=g.policy_of(policy, cap),
        address=g.address_of(upstream, upstream_key_env, "--upstream", limits),
        fallback=g.address_of(fallback, fallback_key_env, "--fallback", limits),
        keys={name: g.secret(name, "the plan's branch names") for name in key_names(deployed)},
        options=options,
        host=host,
        port=port,
        model=model,
        answer_space=settle(
            r.reading_of(answer_space, answer_key), "exact" if deployed is None else deployed.space
        ),
        upstream_n=upstream_n,
        state=g.state_of(plan, state),
        vote_log=vote_log,
        log_answers=vote_log_answers,
        spend=g.spend_of(keys, spend),
        otlp=None if otlp is None else g.collector_of(otlp),
    )
    if check:
        typer.echo(json.dumps(g.check_only(deployment, np.random.default_rng())))
        return
    g.log_to_stderr(quiet)
    if workers > 1:
        g.serve_with_workers(deployment, workers, quiet)
    else:
        g.serve(deployment, np.random.default_rng())
