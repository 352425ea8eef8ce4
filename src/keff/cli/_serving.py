"""What ``keff serve`` makes of its options: needs the extra ``serve``, which its help does not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from keff.errors import UsageError
from keff.gateway.deployment import POLICY, Deployment
from keff.gateway.deployment import check as check_only
from keff.gateway.keys import read_keys
from keff.gateway.lines import log_to_stderr
from keff.gateway.options import Options
from keff.gateway.plan_defaults import terms_of
from keff.gateway.server import serve
from keff.gateway.upstream import Address
from keff.gateway.workers import serve_with_workers
from keff.plan import Plan
from keff.policy_spec import PolicySpec
from keff.protocol.address import base_url, checked_key
from keff.sampling.cost import Price
from keff.sampling.cost import price_of as listed_price

__all__ = ["Deployment", "Options", "check_only", "log_to_stderr", "read_keys", "serve", "serve_with_workers"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The most connections to a server, and the most seconds of one call."""

    connections: int
    seconds: float


def address_of(url: str | None, key_env: str | None, flag: str, limits: Limits) -> Address | None:
    """Return where a server is; None where it is not named, which its key must not be then."""
    if url is None:
        if key_env is not None:
            raise UsageError(f"{flag}-key-env goes with {flag}")
        return None
    return Address(
        url=base_url(url, flag, f"{flag}-key-env"),
        key=secret(key_env, f"{flag}-key-env"),
        connections=limits.connections,
        path_seconds=limits.seconds,
    )


def secret(name: str | None, flag: str) -> str:
    if name is None:
        return ""
    value = checked_key(os.environ.get(name, ""), name)
    if not value:
        raise UsageError(f"{flag} {name}: the environment has no such variable, or it is empty")
    return value


def policy_of(given: str | None, cap: int | None) -> str:
    spec = PolicySpec.parse(given or POLICY)
    return str(spec if cap is None else spec.with_cap(cap))


def state_of(plan: Path | None, given: str | None) -> Path | None:
    if given == "none" or (given is None and plan is None):
        return None
    if plan is None:
        return Path(str(given))
    return plan.with_suffix(".drift.sqlite") if given is None else Path(given)


def collector_of(url: str) -> str:
    return base_url(url, "--otlp", "OTEL_EXPORTER_OTLP_HEADERS").removesuffix("/v1")


def spend_of(keys: Path | None, given: Path | None) -> Path | None:
    if keys is None:
        if given is not None:
            raise UsageError("--spend keeps what the keys of --keys spend: name that file too")
        return None
    return given or keys.with_suffix(".spend.sqlite")


def price_of(
    plan: Plan | None, model: str | None, prices: Path | None, table: dict[str, Price] | None
) -> Price | None:
    if table is None or (plan is not None and plan.branches):
        return None
    name = model if plan is None else terms_of(plan, model).upstream
    if name is None:
        raise UsageError("--prices needs the model's name: set --model")
    price = listed_price(name, table)
    if price is None:
        raise UsageError(f"{prices} has no price for the model {name!r}")
    return price
