"""Candidate rules: about a dozen, from one path to the exact vote of the cap."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from keff.policy import Policy, parse_policy
from keff.policy.drawing import ORDERS, in_flight
from keff.policy.spec import PolicySpec

# Boundaries between one that stops at the first lead and one that asks for half the cap unanimous: the
# frontier of accuracy against paths is flat between neighbours (docs/which-policy-measured.md).
STEPS = 8

# ``b`` of ``budget:k,b``: at caps 8, 16 and 32 no other value was better at equal paths on recorded data.
EVEN_VOTES = 8

# Caps of the two cheapest votes beyond best of three; shorter ones lose more than they save.
SHORT_CAPS = (5, 6)

# Leads that are said in one plain sentence stand in the chain beside the boundaries close to them.
LEADS = (2, 3, 4)

# ``k`` of ``budget:k,b`` on arrival, whose lead falls as the paths run out. Of 1.2, 1.54 and 2 it is the one
# that saves most whichever family of recorded workloads is left out (docs/in-flight.md).
FALLING = 1.2

# Paths in flight of a vote that may go on to the cap. One in flight is never better than rounds, which draw
# the fewest votes that could stop the rule: the same answers and paths, sooner.
WIDTHS = (2, 3, 4, 6, 8, 16)

# Caps of votes whose paths all start at once, in eighths of the cap: no such vote takes longer than today's,
# and a shorter one saves more tokens than a smaller lead (docs/in-flight.md).
EIGHTHS = range(2, 9)


# A rule is made once, in however many ways its paths are kept in flight.
_rule = lru_cache(maxsize=256)(parse_policy)


@lru_cache(maxsize=64)
def candidate_rules(cap: int) -> tuple[Policy, ...]:
    """Return the distinct candidate rules that draw at most ``cap`` paths.

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
        policy = _rule(spec)
        table = getattr(policy, "stops", None)
        different.setdefault(spec.encode() if table is None else table.tobytes(), policy)
    return tuple(reversed(different.values()))


@lru_cache(maxsize=64)
def in_flight_rules(cap: int) -> tuple[Policy, ...]:
    """Return candidate rules with paths in flight: short votes launched whole, longer ones in parts.

    Leads whose stop differs from the unbeatable lead, on arrival and in launch order; one that falls with the
    paths left, and the unbeatable lead, whose answer is the same and comes sooner, on arrival only.
    """
    caps = sorted({round(cap * eighths / 8) for eighths in EIGHTHS} - {0, 1, 2}, reverse=True)
    shapes = [(short, short) for short in caps] + [(cap, width) for width in WIDTHS if width < cap]
    rules: list[Policy] = []
    for short, width in shapes:
        rules.append(in_flight(_rule(f"curtailed:cap={short}"), width, "arrival"))
        if 3 < short <= 2 * width:  # where fewer run it saves nothing more
            falling = _rule(f"budget:{FALLING},cap={short},b={EVEN_VOTES}")
            rules.append(in_flight(falling, width, "arrival"))
        for lead in LEADS:
            if 2 * lead <= short and lead * lead < 2 * short:
                rule = _rule(f"lead_k:{lead},cap={short}")
                rules += [in_flight(rule, width, order) for order in ORDERS]
    return tuple(rules)


@lru_cache(maxsize=256)
def full_spec(spec: str) -> str:
    """Return a policy's spec with its cap written out, default or not."""
    parsed = PolicySpec.parse(spec)
    # Policies over several models have a cap in each stage, and none of their own.
    if parsed.name == "fixed" or "cap" in parsed.options or isinstance(parsed.value, str):
        return spec
    return str(parsed.with_cap(parse_policy(spec).cap))
