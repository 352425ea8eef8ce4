"""Where the confidence of a path comes from in a gateway: a verifier, or the log-probabilities of a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from keff.errors import PlanError
from keff.gateway.traffic.metrics import Metrics
from keff.narrow import fields
from keff.plan import Plan
from keff.policy import Policy, calibrated, confidence_of
from keff.policy.log_odds import LOGPROBS
from keff.protocol.values import Object
from keff.sampling.verifier import Verifier
from keff.stats.votes import CONFIDENCE
from keff.usercode import VERIFIER, VERIFIER_FLAGS, Stamp, settle_verifier


def reads_verifier(policy: Policy, verifier: Verifier | None) -> bool:
    """Return whether a policy reads the verifier's confidence."""
    name = confidence_of(policy)
    return verifier is not None and name is not None and name not in LOGPROBS


def reads_logprobs(policy: Policy, verifier: Verifier | None) -> bool:
    """Return whether a policy reads log-probabilities, which the upstream has to be asked for."""
    return confidence_of(policy) is not None and not reads_verifier(policy, verifier)


async def ratings(
    verifier: Verifier, talk: Sequence[Object], choices: Sequence[Object], metrics: Metrics
) -> Sequence[float]:
    """Return the verifier's confidence in each path, NaN where it fails, and count what became of them."""
    texts = [str(fields(choice.get("message")).get("content") or "") for choice in choices]
    found = await asyncio.gather(*(verifier.rate(talk, text) for text in texts))
    failed = sum(value != value for value, _ in found)
    metrics.count("keff_verifier_paths_total", len(found) - failed, became="rated")
    metrics.count("keff_verifier_paths_total", failed, became="failed")
    metrics.count("keff_verifier_seconds_total", sum(seconds for _, seconds in found))
    return [value for value, _ in found]


def check_rated(plan: Plan, policy: Policy, verifier: Verifier | None) -> None:
    """Raise PlanError or UsageError where nothing gives the confidence that the plan's policy was judged on.

    A run of keff says what rated its paths. Of another record nobody knows what its column is: without a
    verifier it passes for a log-probability only where no number of it is above 0.
    """
    name = confidence_of(policy)
    if name is None or name in LOGPROBS:
        return
    code = fields(fields((plan.task or {}).get("code")).get(VERIFIER))
    recorded = Stamp(str(code["name"]), str(code["sha256"])) if code else None
    settle_verifier("the plan", recorded, None if verifier is None else verifier.stamp)
    held = calibrated(policy)
    if verifier is not None or held is None or held.calibration is None:
        return
    above = held.calibration.informs and held.calibration.confidences[-1] > 0
    if name != CONFIDENCE or above:
        raise PlanError(
            f"the plan's policy {policy.spec} reads a confidence of its record that is no log-probability: "
            f"name what rates paths with {VERIFIER_FLAGS}"
        )
