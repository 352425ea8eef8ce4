"""Options of ``keff serve`` in groups: the plan, its servers, clients and state."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import ValidationError
from typer import Context, Option

from keff import narrow
from keff.answers import settle
from keff.cli import _options as o
from keff.cli import _sample_options as s
from keff.cli._sample_options import name_value_pairs
from keff.errors import UsageError, unknown
from keff.files import toml_of
from keff.gateway.options import ServeSettings
from keff.plan import BranchPlan, Plan
from keff.policy.spec import MAX_CAP
from keff.protocol.server import base_url
from keff.records import frozen
from keff.sampling.cost import Price, price_of
from keff.sampling.price_table import read_prices

NAMES = tuple(ServeSettings.model_fields)

SetPairs = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help=f"Less common settings: {', '.join(NAMES)}; repeatable."),
]


# What serve no longer takes, and what does the same.
REMOVED = {
    "workers": "--workers was removed: start several gateways behind a load balancer (docs/deploy.md)",
    "spend": "spend was removed: keys count in memory (docs/gateway.md), and LiteLLM in front keeps budgets",
    "redis": "redis was removed: for limits over several gateways put LiteLLM in front (examples/deploy)",
}


def check_kept(name: str) -> None:
    """Raise UsageError for an option of earlier versions, with what does the same now."""
    if name in REMOVED:
        raise UsageError(REMOVED[name])


def in_file(file: Path) -> dict[str, object]:
    """Return a TOML file's values, names with underscores; raises UsageError for invalid TOML."""
    return {name.replace("-", "_"): value for name, value in toml_of(file).items()}


def read_settings(pairs: Iterable[str], config: Path | None) -> ServeSettings:
    """Return the settings: command line over environment over file.

    Raises UsageError for a name or a value that does not fit.
    """
    file = {} if config is None else in_file(config)
    for name in (*file, *(each for each in REMOVED if f"KEFF_{each.upper()}" in os.environ)):
        check_kept(name)
    told = {name: value for name, value in file.items() if name in NAMES}
    for name in NAMES:
        if (text := os.environ.get(f"KEFF_{name.upper()}")) is not None:
            told[name] = text.split() if _is_list(name) else text
    said: dict[str, list[str]] = {}
    for name, value in name_value_pairs(pairs, "--set"):
        check_kept(name)
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


def take_defaults(context: Context, file: Path | None) -> Path | None:
    """Set a command's defaults from a TOML file; raises UsageError for unknown options."""
    if file is None:
        return None
    given = in_file(file)
    names = [str(parameter.name) for parameter in context.command.params if parameter.name != "config"]
    for name in given:
        check_kept(name)
        if name not in (*names, *NAMES):
            raise UsageError(f"{file}: {unknown('option', name, [*names, *NAMES])}")
    several = {
        parameter.name for parameter in context.command.params if getattr(parameter, "multiple", False)
    }
    named = {
        name: [value] if name in several and isinstance(value, str) else value
        for name, value in given.items()
        if name not in NAMES
    }
    context.default_map = {**(context.default_map or {}), **named}
    return file


server_option = o.panel("The servers")
kept_option = o.panel("What is kept")
client_option = o.panel("Who may ask")
PlanFile = Annotated[
    Path | None,
    Option(
        "--plan",
        help="The plan to deploy (keff analyze -o plan.json). Without one, --policy answers every request.",
        show_default="none",
    ),
]
ServePolicy = Annotated[
    str | None, Option("--policy", help="Stopping policy where there is no plan.", show_default="lead_k:3")
]
UpstreamUrls = Annotated[
    list[str] | None,
    Option(
        "--upstream",
        metavar="URL",
        help="Base URL of your model's server. Repeat it for several servers of the same models.",
        show_default="none: every branch of the plan names its own",
    ),
]
ServedBranches = Annotated[
    list[Path] | None,
    server_option(
        "--branch", help="TOML file of one branch of the plan (server, model, prompt); repeatable."
    ),
]
FallbackUrl = Annotated[
    str | None,
    server_option(
        "--fallback", help="Base URL of a second server of the same models, for when the first fails."
    ),
]
Host = Annotated[str, Option("--host", help="Address to listen on.")]
Port = Annotated[int, Option("--port", min=0, max=65535, help="Port (0: any).")]
Workers = Annotated[str | None, Option("--workers", hidden=True)]
UpstreamModel = Annotated[
    str | None,
    server_option("--model", help="Model name at the upstream.", show_default="the plan's, or the request's"),
]
TokenEnv = Annotated[
    str | None,
    client_option(
        "--token-env",
        metavar="NAME",
        help="Environment variable with the bearer token that clients must send.",
    ),
]
Keys = Annotated[
    Path | None,
    client_option(
        "--keys",
        help="TOML file of clients' keys with names and limits (requests a minute, dollars a day).",
        show_default="none",
    ),
]
Check = Annotated[bool, Option("--check", help="Check all options, and do not serve.")]
ServeConfig = Annotated[
    Path | None,
    Option(
        "--config",
        is_eager=True,
        callback=take_defaults,
        help="TOML file with options by name. The command line and KEFF_... variables override it.",
    ),
]
NowServed = Annotated[
    str | None,
    Option(
        "--now",
        metavar="K|POLICY",
        help="What you run today, for example 8. Savings are measured against it.",
        show_default="what the plan is compared with",
    ),
]
UpstreamKeyEnv = Annotated[
    str | None,
    server_option(
        "--upstream-key-env", metavar="NAME", help="Environment variable with the API key of the upstream."
    ),
]
State = Annotated[
    str | None,
    kept_option(
        "--state",
        help="File that keeps the drift alarm over restarts; 'none' keeps none.",
        show_default="beside the plan",
    ),
]
ShadowCap = Annotated[
    int | None,
    kept_option(
        "--cap",
        min=1,
        max=MAX_CAP,
        help="K_max: the most paths of a shadow request and, without a plan, of any request.",
        show_default="32",
    ),
]


@frozen
class ServeOptions:
    """Options on the plan, upstream servers, clients, address and stored files."""

    upstream: UpstreamUrls = None
    upstream_key_env: UpstreamKeyEnv = None
    fallback: FallbackUrl = None
    plan: PlanFile = None
    policy: ServePolicy = None
    branch: ServedBranches = None
    model: UpstreamModel = None
    answer_space: o.AnswerSpaceName = None
    answer_key: o.AnswerKey = None
    verifier: s.VerifierFunction = None
    verifier_url: s.VerifierUrl = None
    prices: o.Prices = None
    now: NowServed = None
    token_env: TokenEnv = None
    keys: Keys = None
    state: State = None
    cap: ShadowCap = None
    host: Host = "127.0.0.1"
    port: Port = 8080

    def read(self) -> tuple[Plan | None, dict[str, Price] | None]:
        """Return the plan, completed by its branches' files, and the prices."""
        plan = None if self.plan is None else Plan.read(self.plan)
        if plan is not None and self.policy is not None:
            raise UsageError("--policy is for serving without a plan: a plan has its own policy")
        prices = None if self.prices is None else read_prices(self.prices)
        if self.branch and (plan is None or not plan.branches):
            raise UsageError("--branch says how a branch of the plan is drawn: name a plan with branches")
        if plan is not None and plan.branches:
            plan = served_plan(plan, self.branch or (), prices)
        return plan, prices

    def space(self, plan: Plan | None) -> str | None:
        """Return the requested answer space, with the user's own key function if given."""
        own = o.reading_of(self.answer_space, self.answer_key)
        return settle(own, "exact" if plan is None else plan.space)


# Fields of a branch file that a plan calls the same; what else a pilot sets says nothing about serving.
SAME = ("model", "key_env", "system", "template", "temperature", "top_p", "max_tokens", "reasoning_effort")


def served_plan(plan: Plan, files: Sequence[Path], prices: Mapping[str, Price] | None) -> Plan:
    """Return the plan with its branches' files and prices merged in.

    A file may be of a branch that was compared and is not in the plan. Raises UsageError for a file of any
    other branch, for fields that do not fit, and where the table lacks a branch.
    """
    told = dict(map(_read, files))
    known = [branch.name for branch in plan.branches] + _compared_names(plan)
    strange = [name for name in told if name not in known]
    if strange:
        shown = ", ".join(dict.fromkeys(known)) or "none"
        raise UsageError(f"--branch: the plan knows no branch {strange[0]}; its branches are {shown}")
    branches = tuple(
        _with_price(_with_fields(branch, told.get(branch.name, {})), prices) for branch in plan.branches
    )
    return plan.model_copy(update={"branches": branches})


def _compared_names(plan: Plan) -> list[str]:
    """Return the names of branches in the plan's estimates, also those not used or dropped."""
    lines = [line for what in ("branches", "dropped") for line in narrow.entries(plan.estimates.get(what))]
    return [str(line["name"]) for line in lines if "name" in line]


def key_names(plan: Plan | None) -> list[str]:
    """Return the environment variables with the keys of a plan's branches."""
    branches = () if plan is None else plan.branches
    return list(dict.fromkeys(branch.key_env for branch in branches if branch.key_env is not None))


def _read(file: Path) -> tuple[str, dict[str, object]]:
    given = toml_of(file)
    fields = {name: given[name] for name in SAME if name in given}
    if isinstance(url := given.get("base_url"), str):
        fields["upstream"] = base_url(url, f"{file}: base_url", "key_env")
    options = narrow.fields(given.get("engine_option"))
    if "api_key_env" in options:
        fields.setdefault("key_env", options["api_key_env"])
    return str(given.get("name", file.stem)), fields


def _with_fields(branch: BranchPlan, fields: Mapping[str, object]) -> BranchPlan:
    try:
        return BranchPlan.model_validate(branch.model_dump() | dict(fields))
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"branch {branch.name}: {first['loc'][0]}: {first['msg']}") from None


def _with_price(branch: BranchPlan, prices: Mapping[str, Price] | None) -> BranchPlan:
    if prices is None:
        return branch
    price = price_of(branch.name, prices) or price_of(branch.model or branch.name, prices)
    if price is None:
        raise UsageError(f"the price table has no price for branch {branch.name}: give one for every branch")
    if not price.prompt and not price.output:
        return branch  # Priced by the path or the second, which a gateway does not count.
    return branch.model_copy(update={"prompt_price": price.prompt, "output_price": price.output})
