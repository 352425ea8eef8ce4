"""What a stopping rule does, in words that are true for any number of answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keff import plugins
from keff.errors import KeffError
from keff.policies import TablePolicy
from keff.policies._table import legal
from keff.policy import InFlight, InWaves, LogOddsVote, Policy, in_flight_of, parse_policy
from keff.policy.in_flight import LEAST_VOTES
from keff.policy.spec import PolicySpec

# Rules are put in words for leads against at most so many other votes: more would not be read.
MOST_DISSENT = 2


def in_words(spec: str) -> str:
    """Return what a policy does, in one plain sentence that ends with the most paths it draws.

    A rule that sees only votes is told by the lead at which it stops, where that says it all, else by the
    votes at which it stops (``boundaries`` has the rest). Others are told by the first line of their
    documentation.
    """
    return _told(spec, finer=False)


def boundaries(spec: str) -> str:
    """Return all that there is to say of where a policy stops: as ``in_words`` where that says it all."""
    return _told(spec, finer=True)


def _told(spec: str, *, finer: bool) -> str:
    if spec == "fixed:1":
        return "One path, no vote."
    try:
        name = PolicySpec.parse(spec).name
        policy = parse_policy(spec)
    except KeffError:
        return ""
    if around := _around(policy, finer=finer):
        return around
    if name == "fixed":
        return f"Always {policy.cap} paths, then the most frequent answer."
    if name == "curtailed":
        return f"Stop when no other answer can catch up; at most {policy.cap} paths."
    if isinstance(policy, TablePolicy):
        stops = Stops.of(policy)
        by_lead = _by_lead(policy)
        if by_lead:
            return by_lead
        if stops is not None:
            return stops.sentence() if finer else stops.short()
    return plugins.summaries("policy").get(name, "")


def _around(policy: Policy, *, finer: bool) -> str:
    """Return in words a rule that draws several paths at once, or reads a confidence; "" for any other."""
    if isinstance(policy, InWaves):
        rule = _told(policy.rule.spec, finer=finer)
        return f"At least {_sizes(policy)} paths at a time, and after each wave: {rule}"
    if (flight := in_flight_of(policy)) is not None:
        rule = _told(flight.rule.spec, finer=finer).rstrip(".")
        return f"{rule}, {flight.width} at once; votes count {_counted(flight)}."
    if policy.needs & {"calibration"}:
        return _by_confidence(policy, finer=finer)
    return ""


def _counted(flight: InFlight) -> str:
    """Return when votes of paths in flight count; an unbeatable lead takes three votes anyway."""
    if flight.order == "launch":
        return "in launch order"
    free = flight.alone or flight.rule.spec.startswith("curtailed")
    least = "" if free else f", at least {LEAST_VOTES}"
    return f"as they arrive{least}"


def _by_confidence(policy: Policy, *, finer: bool) -> str:
    if isinstance(policy, LogOddsVote):
        weigh = "Votes weigh as likely as they are right by their confidence"
        return f"{weigh}. {_told(policy.rule.spec, finer=finer)}"
    bar = PolicySpec.parse(policy.spec).value
    return f"Take the first path that is right with chance {bar}; at most {policy.cap} paths."


def _by_lead(policy: TablePolicy) -> str:
    """Return the rule as the lead that stops it, and from which path on by less; "" where that is not all."""
    leads: dict[int, int] = {}
    allowed = legal(policy.cap)
    for n in range(1, policy.cap):
        v1, v2 = np.nonzero(allowed[n])
        lead, stops = v1 - v2, policy.stops[n][v1, v2]
        if not stops.any():
            continue
        least = int(lead[stops].min())
        if lead[~stops].max(initial=0) >= least:
            return ""
        if least != next(reversed(leads.values()), 0):
            leads[n] = least
    if not leads or list(leads.values()) != sorted(leads.values(), reverse=True):
        return ""
    parts = [
        f"by {lead}" + (f" from path {n} on" if n > lead or place else "")
        for place, (n, lead) in enumerate(leads.items())
    ]
    return f"Stop when one answer leads {', or '.join(parts)}; at most {policy.cap} paths."


@dataclass(frozen=True, slots=True)
class Stops:
    """Where a rule stops before its ``cap``, read off its whole table.

    ``leads`` are the votes of the leader at which it stops against 0, 1 and 2 votes for the next answer (0
    for never), whatever else was drawn; with two answers and no abstention it stops at no closer vote.
    ``closer`` is the least number of paths after which a closer vote against at most two stops, which takes
    third answers or abstentions (None for never), and ``ahead`` the least lead that ever stops against three
    or more (None for never).
    """

    cap: int
    leads: tuple[int, ...]
    closer: int | None
    ahead: int | None

    @classmethod
    def of(cls, policy: TablePolicy) -> Stops | None:
        """Read a rule's table; None for a rule that these words cannot tell."""
        cap, before = policy.cap, policy.stops[: policy.cap] & legal(policy.cap)[: policy.cap]
        leads = tuple(_lead(before, against) for against in range(MOST_DISSENT + 1))
        n, v1, v2 = np.nonzero(before)
        near = v2 <= MOST_DISSENT
        needed = np.array([lead or cap + 1 for lead in leads])[np.minimum(v2, MOST_DISSENT)]
        early = n[near & (v1 < needed)]
        far = (v1 - v2)[~near]
        rule = cls(cap, leads, int(early.min()) if early.size else None, int(far.min()) if far.size else None)
        return rule if rule._always(before) else None

    def _always(self, before: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> bool:
        """Return whether a vote that is said to stop does so whatever else was drawn."""
        n, v1 = np.indices(before.shape[:2])
        for against, lead in enumerate(self.leads):
            said = (v1 >= lead) & (v1 + against <= n) if lead else np.zeros(n.shape, np.bool_)
            if not np.all(before[:, :, against][said]):
                return False
        return True

    @property
    def places(self) -> list[str]:
        """The votes at which it stops, whatever else was drawn."""
        return [f"{lead} to {against}" for against, lead in enumerate(self.leads) if lead]

    def short(self) -> str:
        """Return where it stops with few votes against the leader, and the most paths."""
        if not self.places:
            return self.sentence()
        return f"Stop when the vote stands at {_any_of(self.places)}; at most {self.cap} paths."

    def sentence(self) -> str:
        """Return the rule in words."""
        places = self.places
        if not places and self.closer is None and self.ahead is None:
            return f"Draw {self.cap} paths, then take the most frequent answer."
        parts = [f"Stop when the vote stands at {_any_of(places)}"] if places else []
        if self.closer is not None:
            closer = f"closer votes stop from path {self.closer} on at the earliest"
            parts.append(f"{closer}, where other answers or abstentions took paths" if places else closer)
        if self.ahead == 1 and self.closer is not None:
            parts.append("against 3 votes or more it asks for less the fewer paths are left")
        elif self.ahead is not None:
            parts.append(f"against 3 votes or more it takes a lead of at least {self.ahead}")
        text = "; ".join([*parts, f"at most {self.cap} paths."])
        return text[0].upper() + text[1:]


def _sizes(policy: InWaves) -> str:
    return ", then ".join(map(str, policy.sizes))


def _lead(before: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], against: int) -> int:
    """Return the fewest votes that stop against so many when two answers share all paths; 0 for never."""
    ahead = range(against + 1, len(before) - against)
    return next((v1 for v1 in ahead if before[v1 + against, v1, against]), 0)


def _any_of(places: list[str]) -> str:
    return places[0] if len(places) == 1 else f"{', '.join(places[:-1])} or {places[-1]}"
