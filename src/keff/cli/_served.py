"""The plan as it is served: what branch files and prices say of its branches, and the keys they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from keff import narrow
from keff.errors import UsageError
from keff.files import toml_of
from keff.plan import BranchPlan, Plan
from keff.protocol.server import base_url
from keff.sampling.cost import Price, price_of

# Fields of a branch file that a plan calls the same; what else a pilot sets says nothing about serving.
SAME = ("model", "key_env", "system", "template", "temperature", "top_p", "max_tokens", "reasoning_effort")


def served_plan(plan: Plan, files: Sequence[Path], prices: Mapping[str, Price] | None) -> Plan:
    """Return the plan with what the files of its branches say, and with the prices of a table.

    A file may be of a branch that was compared and is not in the plan. Raises UsageError for a file of any
    other branch, for fields that do not fit, and where the table lacks a branch.
    """
    told = dict(map(_read, files))
    known = [branch.name for branch in plan.branches] + _compared(plan)
    strange = [name for name in told if name not in known]
    if strange:
        shown = ", ".join(dict.fromkeys(known)) or "none"
        raise UsageError(f"--branch: the plan knows no branch {strange[0]}; its branches are {shown}")
    branches = tuple(_priced(_told(branch, told.get(branch.name, {})), prices) for branch in plan.branches)
    return plan.model_copy(update={"branches": branches})


def _compared(plan: Plan) -> list[str]:
    """Return the branches that the plan's estimates compare, in the plan or not, or dropped by its pilot."""
    lines = [line for what in ("branches", "dropped") for line in narrow.entries(plan.estimates.get(what))]
    return [str(line["name"]) for line in lines if "name" in line]


def key_names(plan: Plan | None) -> list[str]:
    """Return the environment variables that the branches of a plan name."""
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


def _told(branch: BranchPlan, fields: Mapping[str, object]) -> BranchPlan:
    try:
        return BranchPlan.model_validate(branch.model_dump() | dict(fields))
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"branch {branch.name}: {first['loc'][0]}: {first['msg']}") from None


def _priced(branch: BranchPlan, prices: Mapping[str, Price] | None) -> BranchPlan:
    if prices is None:
        return branch
    price = price_of(branch.name, prices) or price_of(branch.model or branch.name, prices)
    if price is None:
        raise UsageError(f"the price table has no price for branch {branch.name}: give one for every branch")
    if not price.prompt and not price.output:
        return branch  # Priced by the path or the second, which a gateway does not count.
    return branch.model_copy(update={"prompt_price": price.prompt, "output_price": price.output})
