"""The reference: what is drawn today, which every change is measured against."""

from __future__ import annotations

from keff.errors import PolicyError
from keff.policy import Branching, Fittable, Policy, parse_policy
from keff.policy.spec import MAX_CAP, PolicySpec

MOST_RECORDED = 64
"""Without --now, what is drawn today are the recorded paths, but nobody votes on more than so many."""


def reference_of(now: str | None, k: int) -> Policy:
    """Return what is deployed today: a number of paths, a policy, or (None) the k recorded paths, at most 64.

    A policy that may be written without its cap gets the recorded k. Raises PolicyError for an unknown rule,
    and for one that no record of one model can replay.
    """
    if now is None:
        return parse_policy(f"fixed:{min(k, MOST_RECORDED)}")
    text = f"fixed:{now}" if now.strip().isdigit() else now
    spec = PolicySpec.parse(text)
    capless = spec.name != "fixed" and "cap" not in spec.options and not isinstance(spec.value, str)
    policy = parse_policy(spec.with_cap(min(k, MAX_CAP)) if capless else spec)
    if isinstance(policy, Branching):
        raise PolicyError(f"--now {text}: a policy over several models cannot be replayed on one of them")
    if isinstance(policy, Fittable) and not policy.fitted:
        raise PolicyError(
            f"--now {text} is fitted to a pilot: name what is deployed, such as its plan's policy"
        )
    return policy
