"""Which policy answers a request: the plan's, or the one that the request asks for within its limit."""

from __future__ import annotations

import asyncio
import warnings
from collections import OrderedDict
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from keff import plugins
from keff.errors import PlanError, PolicyError, unknown
from keff.gateway.http.errors import Problem
from keff.gateway.http.request import Wish
from keff.policy import Branching, Policy, PolicyWarning, parse_policy
from keff.policy.spec import PolicySpec
from keff.stats.voting.calibration import Calibration

# What a view in a gateway carries; ``branches`` too where the plan has them.
SERVABLE = frozenset({"answers", "confidence"})

UNCALIBRATED = "needs a calibration of its confidence: keff analyze RECORD -o plan.json makes a plan with one"

# How many policies of requests are kept, and up to which cap.
#
# A client with a wish of its own does not pay for a table each time; larger ones are made anew, so that they
# fill no memory.
KEPT, KEPT_CAP = 8, 32


def policy_of_plan(
    spec: str, branches: Collection[str] = (), calibrations: Mapping[str, Calibration] | None = None
) -> Policy:
    """Return the policy of a plan with these branches; raises PlanError for one that cannot be served."""
    try:
        policy = _parsed(spec, calibrations)
    except PolicyError as error:
        raise PlanError(f"the plan's policy cannot be served: {error}") from None
    if isinstance(policy, Branching):
        missing = [name for name in policy.branches if name not in branches]
        if missing:
            raise PlanError(f"the plan's policy asks the branch {missing[0]}, which the plan does not have")
    elif "calibration" in policy.needs:
        raise PlanError(f"the plan's policy {spec} {UNCALIBRATED}")
    elif not policy.needs <= SERVABLE:
        raise PlanError(
            f"the plan's policy {spec} needs {', '.join(sorted(policy.needs - SERVABLE))}: fit it"
        )
    return policy


class Maker:
    """Makes the policies that requests ask for.

    Checked before they are made, in one thread, few of them kept.

    A table grows with the cube of its cap. A client that asks for another one with every request shares one
    thread with others that do, and stops nobody else.
    """

    def __init__(
        self, branches: Collection[str] = (), calibrations: Mapping[str, Calibration] | None = None
    ) -> None:
        self._branches, self._calibrations = branches, calibrations
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="policies")
        self._kept: OrderedDict[str, Policy] = OrderedDict()

    async def settled(self, plan: Policy, wish: Wish, most: int) -> Policy:
        """Return the policy for a request.

        Raises Problem (400) for a wrong one, or for more than ``most`` paths.
        """
        if wish.k is None and wish.policy is None and wish.cap is None:
            return plan
        try:
            spec = str(_asked(plan, wish, most))
            if spec not in self._kept:
                loop = asyncio.get_running_loop()
                policy = await loop.run_in_executor(
                    self._thread, made, spec, most, self._branches, self._calibrations
                )
                if policy.cap > KEPT_CAP:
                    return policy
                self._kept[spec] = policy
        except PolicyError as error:
            raise Problem(400, str(error), param="keff.policy", code="invalid_policy") from None
        self._kept.move_to_end(spec)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return self._kept[spec]

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def made(
    spec: str,
    most: int,
    branches: Collection[str] = (),
    calibrations: Mapping[str, Calibration] | None = None,
) -> Policy:
    """Return the policy of a spec whose size was checked; raises Problem (400) or PolicyError."""
    policy = _parsed(spec, calibrations)
    if "calibration" in policy.needs:
        raise PolicyError(f"{spec} {UNCALIBRATED}")
    if policy.cap > most:
        raise _too_many(policy.cap, most)
    asked = policy.branches if isinstance(policy, Branching) else ()
    servable = SERVABLE | {"branches"} if asked and set(asked) <= set(branches) else SERVABLE
    if not policy.needs <= servable:
        line = f"{spec} needs {', '.join(sorted(policy.needs - servable))}, which a request does not have"
        raise PolicyError(line)
    return policy


def _asked(plan: Policy, wish: Wish, most: int) -> PolicySpec:
    """Return the spec that a request asks for, its size checked: cheap, whatever its text holds."""
    if wish.k is not None:
        spec = PolicySpec("fixed", wish.k)
    else:
        spec = PolicySpec.parse("fixed:1" if wish.policy == "off" else wish.policy or plan.spec)
        if spec.name not in _names():
            raise PolicyError(unknown("policy", spec.name, sorted(_names())))
        spec = spec if wish.cap is None else spec.with_cap(wish.cap)
    for size in (spec.cap, spec.options.get("cap")):
        if isinstance(size, int | float) and size > most:
            raise _too_many(int(min(size, 1e9)), most)
    return spec


def _too_many(asked: int, most: int) -> Problem:
    line = f"{asked} paths are more than the {most} that this gateway allows"
    return Problem(400, line, param="keff", code="too_many_paths")


@cache
def _names() -> frozenset[str]:
    return frozenset(plugins.names("policy"))


def _parsed(spec: str, calibrations: Mapping[str, Calibration] | None = None) -> Policy:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PolicyWarning)
        try:
            return parse_policy(spec, calibrations)
        except (ValueError, TypeError, OverflowError) as error:
            raise PolicyError(f"policy {spec!r}: {error}") from error
