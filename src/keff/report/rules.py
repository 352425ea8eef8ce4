"""What a stopping rule does, in words."""

from __future__ import annotations

from keff import plugins
from keff.errors import KeffError
from keff.policies import TablePolicy
from keff.policy import parse_policy
from keff.policy_spec import PolicySpec

MOST_DISSENT = 2


def in_words(spec: str) -> str:
    """Return what a policy does, in one sentence.

    A rule that sees only votes is told by its stops: where it ends with no vote against the leader, with one,
    with two, and its cap. Others are told by the first line of their documentation.
    """
    if spec == "fixed:1":
        return "One path, no vote."
    try:
        name = PolicySpec.parse(spec).name
        policy = parse_policy(spec)
    except KeffError:
        return ""
    if name == "fixed":
        return f"Always {policy.cap} paths, then the most frequent answer."
    if isinstance(policy, TablePolicy) and name != "curtailed":
        return _stops(policy)
    return plugins.summaries("policy").get(name, "")


def _stops(policy: TablePolicy) -> str:
    places = [f"{ahead} to {against}" for against, ahead in enumerate(leads(policy)) if ahead]
    if not places:
        return f"Draw {policy.cap} paths, then take the most frequent answer."
    shown = places[0] if len(places) == 1 else f"{', '.join(places[:-1])} or {places[-1]}"
    return f"Stop when the vote stands at {shown}; closer votes go on, up to {policy.cap} paths."


def leads(policy: TablePolicy) -> list[int]:
    """Return the fewest votes for the leader that stop against 0, 1 and 2 votes for the next; 0 for never.

    Two answers are in play and no path abstains; a stop at the cap is not counted.
    """
    found: list[int] = []
    for against in range(MOST_DISSENT + 1):
        ahead = range(against + 1, policy.cap - against)
        found.append(next((v1 for v1 in ahead if policy.stops[v1 + against, v1, against]), 0))
    return found
