"""The candidate rules: one chain of about a dozen, from one path to the exact vote of the cap."""

from __future__ import annotations

import numpy as np

from keff.policy import Policy, parse_policy
from keff.policy.spec import PolicySpec

STEPS = 8
"""Boundaries between one that stops at the first lead and one that asks for half the cap unanimous: the
frontier of accuracy against paths is flat between neighbours (docs/decision-measured.md)."""

EVEN_VOTES = 8
"""``b`` of ``budget:k,b``: at caps 8, 16 and 32 no other value was better at equal paths on recorded data."""

SHORT_CAPS = (5, 6)
"""Caps of the two cheapest votes beyond best of three; shorter ones lose more than they save."""

LEADS = (2, 3, 4)
"""Leads that are said in one plain sentence stand in the chain beside the boundaries close to them."""


def chain(cap: int) -> tuple[Policy, ...]:
    """Return the candidates that draw at most ``cap`` paths, each different from the others.

    One path, best of three, two short votes, ``budget`` boundaries and fixed leads at the cap, and
    ``curtailed``: the same answer as ``fixed`` at the cap, drawn no further than needed.
    """
    specs = ["fixed:1"]
    specs += ["curtailed:cap=3"] * (cap > 3)
    specs += [f"budget:1.05,cap={short},b={EVEN_VOTES}" for short in SHORT_CAPS if short < cap]
    specs += [f"lead_k:{lead},cap={cap}" for lead in LEADS if lead * lead <= cap]
    if cap > 2:
        ks = np.geomspace(1.05, cap / 2, STEPS) if cap > 3 else np.array([1.05])
        specs += [f"budget:{k:.3g},cap={cap},b={EVEN_VOTES}" for k in ks.tolist()]
    specs += [f"curtailed:cap={cap}"] * (cap > 1)
    different: dict[bytes, Policy] = {}
    for spec in reversed(specs):  # of equal rules the last is kept, so curtailment before all others
        policy = parse_policy(spec)
        table = getattr(policy, "stops", None)
        different.setdefault(spec.encode() if table is None else table.tobytes(), policy)
    return tuple(reversed(different.values()))


def written(spec: str) -> str:
    """Write a spec with its cap, also where it is the default that is otherwise left out."""
    policy = parse_policy(spec)
    parsed = PolicySpec.parse(policy.spec)
    if parsed.name == "fixed" or "cap" in parsed.options:
        return policy.spec
    # Policies over several models have a cap in each stage, and none of their own.
    return policy.spec if isinstance(parsed.value, str) else str(parsed.with_cap(policy.cap))


def exact(reference: Policy) -> Policy:
    """Return the cheapest policy that surely gives the reference's answer: ``curtailed`` for ``fixed``."""
    if reference.spec == f"fixed:{reference.cap}" and reference.cap > 1:
        return parse_policy(f"curtailed:cap={reference.cap}")
    return reference
