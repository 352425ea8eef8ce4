"""Which policy answers a request: the plan's, or the one that the request asks for within its limit."""

from __future__ import annotations

import warnings
from functools import cache, lru_cache

from keff import plugins
from keff.errors import PlanError, PolicyError, unknown
from keff.gateway.errors import Problem
from keff.gateway.request import Wish
from keff.policy import Policy, PolicyWarning, parse_policy
from keff.policy_spec import PolicySpec

SERVABLE = frozenset({"answers", "confidence"})
"""What a view in a gateway carries."""


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
    if wish.k is None and wish.policy is None and wish.cap is None:
        return plan
    try:
        spec = _asked(plan, wish)
        _check_size(spec, most)
        policy = _parsed(str(spec))
    except PolicyError as error:
        raise Problem(400, str(error), param="keff.policy", code="invalid_policy") from None
    if policy.cap > most:
        raise _too_many(policy.cap, most)
    if not policy.needs <= SERVABLE:
        line = f"{spec} needs {', '.join(sorted(policy.needs - SERVABLE))}, which a request does not have"
        raise Problem(400, line, param="keff.policy", code="invalid_policy")
    return policy


def _asked(plan: Policy, wish: Wish) -> PolicySpec:
    """Return the spec that a request asks for: cheap, whatever its text holds."""
    if wish.k is not None:
        return PolicySpec("fixed", wish.k)
    spec = PolicySpec.parse("fixed:1" if wish.policy == "off" else wish.policy or plan.spec)
    if spec.name not in _names():
        raise PolicyError(unknown("policy", spec.name, sorted(_names())))
    return spec if wish.cap is None else spec.with_cap(wish.cap)


def _check_size(spec: PolicySpec, most: int) -> None:
    """Refuse a large policy before it is made: its table grows with the cube of its cap."""
    for size in (spec.cap, spec.options.get("cap")):
        if isinstance(size, int | float) and size > most:
            raise _too_many(int(min(size, 1e9)), most)


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
