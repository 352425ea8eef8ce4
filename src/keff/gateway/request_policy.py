"""Which policy answers a request: the plan's, or the one that the request asks for within its limit."""

from __future__ import annotations

import re
import warnings
from functools import cache, lru_cache

from keff import plugins
from keff.errors import PlanError, PolicyError
from keff.gateway.errors import Problem
from keff.gateway.request import Wish
from keff.policy import Policy, PolicyWarning, parse_policy

SERVABLE = frozenset({"answers", "confidence"})
"""What a view in a gateway carries."""

_CAP = re.compile(r",?\bcap=([^,]*)")
_FIXED = re.compile(r"\s*fixed:([^,=]*)(?:,|$)")


def policy_of_plan(spec: str) -> Policy:
    """Return the policy of a plan; raises PlanError for one that cannot be served."""
    try:
        policy = _parsed(spec)
    except PolicyError as error:
        raise PlanError(f"the plan's policy cannot be served: {error}") from None
    if not policy.needs <= SERVABLE:
        raise PlanError(
            f"the plan's policy {spec} needs {', '.join(sorted(policy.needs - SERVABLE))}: fit it"
        )
    return policy


def settled(plan: Policy, wish: Wish, most: int) -> Policy:
    """Return the policy for a request; raises Problem (400) for a wrong one or more than ``most`` paths."""
    if wish.k is not None:
        spec = f"fixed:{wish.k}"
    elif wish.policy is None and wish.cap is None:
        return plan
    else:
        spec = "fixed:1" if wish.policy == "off" else wish.policy or plan.spec
        spec = spec if wish.cap is None else _capped(spec, wish.cap)
    _check_size(spec, most)
    name = spec.partition(":")[0].strip()
    if name not in _names():
        line = f"there is no policy {name!r:.60}; there are {', '.join(sorted(_names()))}"
        raise Problem(400, line, param="keff.policy", code="invalid_policy")
    try:
        policy = _parsed(spec)
    except PolicyError as error:
        raise Problem(400, str(error), param="keff.policy", code="invalid_policy") from None
    if policy.cap > most:
        raise _too_many(policy.cap, most)
    if not policy.needs <= SERVABLE:
        line = f"{spec} needs {', '.join(sorted(policy.needs - SERVABLE))}, which a request does not have"
        raise Problem(400, line, param="keff.policy", code="invalid_policy")
    return policy


def _capped(spec: str, cap: int) -> str:
    fixed = _FIXED.match(spec)
    if fixed and _number(fixed[1]) is not None:
        return f"fixed:{min(int(_number(fixed[1]) or 1), cap)}"
    bare = _CAP.sub("", spec)
    head, colon, rest = bare.partition(":")
    rest = rest.strip(",")
    return f"{head}:{rest},cap={cap}" if colon and rest else f"{head}:cap={cap}"


def _check_size(spec: str, most: int) -> None:
    """Refuse a large policy before it is made: its table grows with the cube of its cap."""
    sizes = [*_CAP.findall(spec), *_FIXED.findall(spec)]
    for size in sizes:
        value = _number(size)
        if value is not None and value > most:
            raise _too_many(int(min(value, 1e9)), most)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _too_many(asked: int, most: int) -> Problem:
    line = f"{asked} paths are more than the {most} that this gateway allows"
    return Problem(400, line, param="keff", code="too_many_paths")


@cache
def _names() -> frozenset[str]:
    return frozenset(plugins.names("policy"))


@lru_cache(maxsize=8)
def _parsed(spec: str) -> Policy:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PolicyWarning)
        try:
            return parse_policy(spec)
        except (ValueError, TypeError, OverflowError) as error:
            raise PolicyError(f"policy {spec!r}: {error}") from error
