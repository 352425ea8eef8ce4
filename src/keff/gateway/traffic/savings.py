"""Savings of the gateway against today's policy: paths, dollars and seconds, signed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, TypeAlias

from keff.gateway.traffic.metrics import MetricLabels, series
from keff.gateway.traffic.monitor import stops_at
from keff.narrow import fields, text
from keff.plan import Plan
from keff.policy import Policy, parse_policy, policy_now
from keff.policy.spec import PolicySpec
from keff.protocol.values import Object
from keff.records import Interval, frozen

Z = 1.96  # two-sided 95% of the normal law

# What is compared with what is deployed today.
COMPARED = ("paths", "tokens", "dollars", "seconds")


@dataclass(slots=True)
class Mean:
    """A running mean of independent values, with the normal interval of its standard error."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        """Add one value."""
        self.n += 1
        self.total += value
        self.squares += value * value

    def interval(self) -> Interval | None:
        """Return the mean with its 95% interval; None before the first value."""
        if not self.n:
            return None
        mean = self.total / self.n
        if self.n == 1:
            return Interval(mean, None, None, "mean of one request")
        spread = max(0.0, self.squares / self.n - mean**2) * self.n / (self.n - 1)
        half = Z * math.sqrt(spread / self.n)
        return Interval(mean, mean - half, mean + half, "mean over requests, normal 95%")


def interval_json(interval: Interval | None) -> object:
    """Return an interval as JSON values for page and API; null where unknown."""
    return None if interval is None else interval.to_dict()


Keys: TypeAlias = Sequence[str | None]


@frozen
class Baseline:
    """Today's policy, and its number of paths where that is fixed."""

    spec: str
    k: int | None

    @classmethod
    def of(cls, given: str | None, plan: Plan | None) -> Baseline | None:
        """Return the stated baseline, else the plan's reference; raises PolicyError."""
        stated = given
        if stated is None and plan is not None:
            stated = text(fields(plan.estimates.get("decision")).get("reference"))
        if stated is None:
            return None
        policy = policy_now(stated)
        fixed = PolicySpec.parse(policy.spec).name == "fixed"
        return cls(policy.spec, policy.cap if fixed else None)


class RequestCost(NamedTuple):
    """Cost of one reply: seconds, dollars (None without prices), and paths that came back.

    ``stop`` says why its vote ended, ``cancelled`` how many paths were begun and did not come back.
    ``at_once`` are the seconds that today's paths would have taken side by side, as far as that is known.
    ``tokens`` were billed; of them and of the dollars ``cut_tokens`` and ``cut_dollars`` for paths that were
    cancelled. ``id``, ``key`` and ``model`` say of which request.
    """

    seconds: float
    dollars: float | None
    paths: int
    at_once: float | None = None
    tokens: int = 0
    cut_tokens: int = 0
    cut_dollars: float = 0.0
    id: str = ""
    key: str = ""
    model: str = ""
    stop: str = ""
    cancelled: int = 0

    @property
    def started(self) -> int:
        """The paths that were begun, all of which may cost."""
        return self.paths + self.cancelled


@dataclass(slots=True)
class GatewayChange:
    """Mean change per request against today's policy; a saving is negative.

    What was billed, cancelled paths included, minus what K paths today are expected to cost: K times the mean
    of the reply's own paths that came back (each with its prompt), and the longest of K of its own path
    times. Another policy is replayed on the requests that were drawn on; its seconds are not known.
    """

    baseline: Baseline
    means: Mapping[str, Mean] = field(default_factory=lambda: {name: Mean() for name in COMPARED})

    def of(self, spent: RequestCost) -> dict[str, float]:
        """Return one reply's cost minus its estimated cost under today's policy, where known."""
        k = self.baseline.k
        if k is None or not spent.paths:
            return {}
        by = k / spent.paths
        found = {"paths": float(spent.started - k)}
        found["tokens"] = spent.tokens - by * (spent.tokens - spent.cut_tokens)
        if spent.dollars is not None:
            found["dollars"] = spent.dollars - by * (spent.dollars - spent.cut_dollars)
        if spent.at_once is not None:
            found["seconds"] = spent.seconds - spent.at_once
        return found

    def take(self, spent: RequestCost) -> dict[str, float]:
        """Add one reply to the means, and return its change."""
        found = self.of(spent)
        for name, by in found.items():
            self.means[name].add(by)
        return found

    def told(self, policy: Policy | None, rows: Iterable[Keys], dollars: float | None) -> Object:
        """Return the comparison; ``rows`` are shadow requests, ``dollars`` the mean price of a path."""
        found = {name: mean.interval() for name, mean in self.means.items()}
        if self.baseline.k is None and policy is not None:
            paths = found["paths"] = replayed(policy, _policy(self.baseline.spec), rows)
            if paths is not None and dollars is not None:
                method = f"{paths.method}, at the mean price of a path"
                found["dollars"] = paths.mapped(lambda difference: difference * dollars, method)
        return {"against": self.baseline.spec} | {name: interval_json(each) for name, each in found.items()}

    def gauges(self) -> dict[tuple[str, MetricLabels], float]:
        """Return the known means as gauges for ``/metrics``."""
        known = ((name, mean) for name, mean in self.means.items() if mean.n)
        spec = self.baseline.spec
        return {series(f"keff_change_{name}", against=spec): mean.total / mean.n for name, mean in known}


def replayed(served: Policy, today: Policy, rows: Iterable[Keys]) -> Interval | None:
    """Return the mean paths of the served policy minus today's, replayed on shadow requests."""
    difference = Mean()
    for row in rows:
        ends = [stops_at(policy, row, len(row)) or len(row) for policy in (served, today)]
        difference.add(ends[0] - ends[1])
    return difference.interval()


def longest_of(seconds: Sequence[float], k: int) -> float | None:
    """Return the expected maximum of ``k`` of these times, drawn without replacement.

    With fewer times than k they are drawn with replacement: too short a time, if anything. None for no times.
    """
    n = len(seconds)
    if not n:
        return None
    ordered = sorted(seconds)
    if n >= k:
        below = [math.comb(place, k) / math.comb(n, k) for place in range(n + 1)]
    else:
        below = [(place / n) ** k for place in range(n + 1)]
    return sum(time * (below[place + 1] - below[place]) for place, time in enumerate(ordered))


_policy = cache(parse_policy)
