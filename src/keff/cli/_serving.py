"""From the options of ``keff serve`` to a deployment; needs the extra ``serve``."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

from keff.cli._serve_options import ServeOptions, ServeSettings, key_names
from keff.errors import UsageError
from keff.gateway.deployment import check as check_only
from keff.gateway.keys import read_keys
from keff.gateway.options import POLICY, Deployment, Options
from keff.gateway.server import log_to_stderr, serve
from keff.gateway.upstream.answer import Address
from keff.gateway.vote.request_policy import terms_of
from keff.plan import Plan
from keff.policy.spec import DEFAULT_CAP, PolicySpec
from keff.protocol.server import base_url, secret
from keff.sampling.cost import Price
from keff.sampling.cost import price_of as listed_price
from keff.sampling.verifier import verifier_of

__all__ = ["check_only", "deployment_of", "log_to_stderr", "serve"]


def deployment_of(served: ServeOptions, settings: ServeSettings) -> Deployment:
    """Return the deployment of the options; raises UsageError and PlanError for contradictions."""
    plan, prices = served.read()
    return Deployment(
        plan=plan,
        policy=policy_of(served.policy, served.cap, served.now),
        address=address_of(served.upstream, served.upstream_key_env, "--upstream", settings),
        fallback=address_of(
            served.fallback and [served.fallback], settings.fallback_key_env, "--fallback", settings
        ),
        keys={name: secret(name, "the plan's branch names") for name in key_names(plan)},
        options=options_of(served, settings, checked_prices(plan, served, prices or {})),
        host=served.host,
        port=served.port,
        model=served.model,
        answer_space=served.space(plan),
        verifier=verifier_of(served.verifier, served.verifier_url),
        state=state_of(served.plan, served.state),
    )


def options_of(served: ServeOptions, settings: ServeSettings, prices: dict[str, Price]) -> Options:
    """Return the options on how requests are answered."""
    collector = settings.otlp and base_url(settings.otlp, "otlp", "OTEL_EXPORTER_OTLP_HEADERS")
    kept = {"otlp": collector and collector.removesuffix("/v1")}
    return Options(
        **dict(settings.model_copy(update=kept)),
        now=served.now,
        shadow_paths=served.cap or DEFAULT_CAP,
        prices=prices,
        client_keys=() if served.keys is None else read_keys(served.keys),
        token=secret(served.token_env, "--token-env"),
        admin_token=secret(settings.admin_token_env, "admin_token_env"),
    )


def address_of(
    urls: Sequence[str] | None, key_env: str | None, flag: str, settings: ServeSettings
) -> Address | None:
    """Return the address of servers; None where none is named."""
    if not urls:
        if key_env is not None:
            raise UsageError(f"the variable of an API key needs {flag}")
        return None
    url, *more = dict.fromkeys(base_url(each, flag, f"{flag}-key-env") for each in urls)
    return Address(
        url=url,
        more=tuple(more),
        key=secret(key_env, f"{flag}-key-env"),
        connections=settings.connections,
        path_seconds=settings.path_timeout,
        ca_file="" if settings.ca_file is None else certificates_in(settings.ca_file),
    )


def certificates_in(file: Path) -> str:
    """Return the path of a CA file; raises UsageError where it holds no certificate."""
    try:
        ssl.create_default_context().load_verify_locations(file)
    except (OSError, ValueError) as error:
        raise UsageError(f"ca_file {file} holds no certificates in PEM form ({error})") from None
    return str(file)


def policy_of(given: str | None, cap: int | None, now: str | None = None) -> str:
    """Return the policy without a plan: the given one, else one exact for today's answers.

    Who draws K paths today (``--now K``) gets the rule that stops when no completion changes the answer.
    """
    if given is None and now is not None and now.strip().isdigit() and int(now) > 1:
        k = int(now)
        given = f"curtailed:cap={k},in_flight={k},order=arrival"
    spec = PolicySpec.parse(given or POLICY)
    return str(spec if cap is None else spec.with_cap(cap))


def state_of(plan: Path | None, given: str | None) -> Path | None:
    if given == "none" or (given is None and plan is None):
        return None
    if plan is None:
        return Path(str(given))
    return plan.with_suffix(".drift.sqlite") if given is None else Path(given)


def checked_prices(plan: Plan | None, served: ServeOptions, table: dict[str, Price]) -> dict[str, Price]:
    """Return the prices; raises UsageError where the only served model has none."""
    name = served.model if plan is None else None if plan.branches else terms_of(plan, served.model).upstream
    if table and name is not None and listed_price(name, table) is None:
        raise UsageError(f"{served.prices} has no price for the model {name!r}")
    return table
