"""Serve a plan behind an OpenAI-compatible endpoint.

Every request is answered by a vote, and a drift alarm watches.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from keff.cli import _options as o
from keff.errors import UsageError
from keff.plan import Plan
from keff.plugins import missing_extra
from keff.sampling.cost import Price, price_of, read_prices

try:
    from keff.gateway.options import Options
    from keff.gateway.plan_defaults import terms_of
    from keff.gateway.server import Deployment, serve
    from keff.gateway.upstream import Address, base_url
except ImportError as error:
    raise missing_extra(error, "keff serve") from error


def command(
    plan: Annotated[Path, typer.Option("--plan", help="The plan to deploy (keff analyze -o plan.json).")],
    upstream: Annotated[str, typer.Option("--upstream", help="Server that draws the paths: its base URL.")],
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port (0: any).")] = 8080,
    strict: Annotated[
        bool, typer.Option("--strict/--allow-mismatch", help="Refuse requests that differ from the plan.")
    ] = False,
    model: Annotated[
        str | None, typer.Option("--model", help="Model name at the upstream (default: the plan's).")
    ] = None,
    answer_space: o.AnswerSpaceName = None,
    append_answer_format: Annotated[
        bool, typer.Option("--append-answer-format", help="Add the answer contract to the last message.")
    ] = False,
    free_text: Annotated[
        Literal["pass", "refuse", "draw"],
        typer.Option("--free-text", help="No answer in the first round: pass the text, refuse, or draw on."),
    ] = "pass",
    reply: Annotated[
        Literal["shortest", "first"],
        typer.Option("--reply", help="Which path that holds the answer is sent."),
    ] = "shortest",
    max_paths: Annotated[
        int, typer.Option("--max-paths", help="Most paths that a request may ask for.")
    ] = 64,
    in_flight: Annotated[
        int, typer.Option("--in-flight", help="Keep as many paths running; what is not needed is cancelled.")
    ] = 1,
    replacements: Annotated[
        int, typer.Option("--replacements", min=0, help="Failed upstream calls a request makes up for.")
    ] = 16,
    deadline: Annotated[
        float | None,
        typer.Option("--deadline", help="Seconds after which a request answers with what it has."),
    ] = None,
    path_timeout: Annotated[
        float, typer.Option("--path-timeout", min=0.1, help="Seconds that one upstream call may take.")
    ] = 600.0,
    upstream_n: Annotated[
        int, typer.Option("--upstream-n", min=1, help="Most paths in one upstream call (lowered if refused).")
    ] = 1,
    connections: Annotated[
        int, typer.Option("--connections", min=1, help="Most upstream connections at once.")
    ] = 512,
    token_env: Annotated[
        str | None,
        typer.Option("--token-env", metavar="NAME", help="Variable with the bearer token clients must show."),
    ] = None,
    upstream_key_env: Annotated[
        str | None,
        typer.Option("--upstream-key-env", metavar="NAME", help="Variable with the key for the upstream."),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option("--state", help="File of the drift alarm (default: beside the plan; none: not kept)."),
    ] = None,
    shadow_rate: Annotated[
        float, typer.Option("--shadow-rate", help="Share of requests drawn on to --k-max after the reply.")
    ] = 0.0,
    k_max: o.KMax = 32,
    vote_log: Annotated[
        Path | None, typer.Option("--vote-log", help="Append each request's votes here, redacted.")
    ] = None,
    vote_log_answers: Annotated[
        bool, typer.Option("--vote-log-answers", help="Write the answers themselves into the vote log.")
    ] = False,
    prices: o.Prices = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log warnings only.")] = False,
) -> None:
    """Serve until told to stop."""
    found = Plan.read(plan)
    options = Options(
        strict=strict,
        append_answer_format=append_answer_format,
        free_text=free_text,
        reply=reply,
        max_paths=max_paths,
        replacements=replacements,
        in_flight=in_flight,
        shadow_rate=shadow_rate,
        shadow_paths=k_max,
        deadline=deadline,
        price=_price(found, model, prices),
        token=_secret(token_env, "--token-env"),
    )
    address = Address(
        url=base_url(upstream),
        key=_secret(upstream_key_env, "--upstream-key-env"),
        connections=connections,
        path_seconds=path_timeout,
    )
    deployment = Deployment(
        plan=found,
        address=address,
        options=options,
        host=host,
        port=port,
        model=model,
        answer_space=answer_space,
        upstream_n=upstream_n,
        state=_state(plan, state),
        vote_log=vote_log,
        log_answers=vote_log_answers,
    )
    _log_to_stderr(quiet)
    serve(deployment, np.random.default_rng())


def _secret(name: str | None, flag: str) -> str:
    if name is None:
        return ""
    value = os.environ.get(name, "")
    if not value:
        raise UsageError(f"{flag} {name}: the environment has no such variable, or it is empty")
    return value


def _state(plan: Path, given: str | None) -> Path | None:
    if given == "none":
        return None
    return plan.with_suffix(".drift.sqlite") if given is None else Path(given)


def _price(plan: Plan, model: str | None, prices: Path | None) -> Price | None:
    if prices is None:
        return None
    name = terms_of(plan, model).upstream
    price = price_of(name, read_prices(prices))
    if price is None:
        raise UsageError(f"{prices} has no price for the model {name!r}")
    return price


def _log_to_stderr(quiet: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    for name in ("keff.gateway", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.propagate = False
    logging.getLogger("keff.gateway").setLevel(logging.WARNING if quiet else logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
