"""Savings of the gateway against today's policy: paths, dollars and seconds, signed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple, TypeAlias

from keff.gateway.traffic.metrics import MetricLabels, series
from keff.gateway.traffic.monitor import stops_at
from keff.narrow import Fields, fields, number, text
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

    ``stop`` says why its vote ended. ``cancelled`` paths were started and did not come back. ``at_once``
    are the seconds that today's paths would have taken side by side, if known. The upstream billed
    ``tokens``; ``cut_tokens`` and ``cut_dollars`` of them are for cancelled paths. ``id``, ``key`` and
    ``model`` say which request it was. Where a call draws several paths by one prompt, today's call does,
    too: ``shared_calls`` (0: none does) had prompts of ``prompt_tokens`` for ``prompt_dollars``.
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
    shared_calls: int = 0
    prompt_tokens: int = 0
    prompt_dollars: float = 0.0

    @property
    def started(self) -> int:
        """The paths that were started, all of which may cost."""
        return self.paths + self.cancelled

    def cost(self, name: str) -> float:
        """Return one of the costs that are ``COMPARED``; 0 where it is unknown."""
        if name == "paths":
            return float(self.started)
        return float({"tokens": self.tokens, "dollars": self.dollars or 0.0, "seconds": self.seconds}[name])


# Requests drawn whole from which today's cost is taken; with fewer it is that of each reply's own paths.
LEAST_WHOLE = 20


@dataclass(slots=True)
class WholeRatio:
    """How much more K paths cost in fully drawn requests than the reply's own paths suggest.

    Paths that arrive first are short, so the paths of a reply may understate the others.
    """

    n: int = 0
    own: float = 0.0
    whole: float = 0.0
    squares: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def add(self, own: float, whole: float) -> None:
        """Add one request: the cost of K paths by its reply, and by all of its paths."""
        own_squares, products, whole_squares = self.squares
        self.squares = (own_squares + own**2, products + own * whole, whole_squares + whole**2)
        self.n, self.own, self.whole = self.n + 1, self.own + own, self.whole + whole

    @property
    def known(self) -> bool:
        """Whether enough requests were drawn whole."""
        return self.n >= LEAST_WHOLE and self.own > 0

    @property
    def value(self) -> float:
        """The ratio of means; 1 where it is not known."""
        return self.whole / self.own if self.known else 1.0

    @property
    def variance(self) -> float:
        """The variance of the ratio, to first order (Cochran 1977, section 6.3)."""
        if not self.known:
            return 0.0
        own, cross, whole = self.squares
        rest = whole - 2 * self.value * cross + self.value**2 * own
        return max(rest, 0.0) * self.n / (self.n - 1) / self.own**2


@dataclass(slots=True)
class GatewayChange:
    """Mean change per request against today's policy; a saving is negative.

    It is what was billed, cancelled paths and shadow requests included, minus what K paths today are
    expected to cost. Those are K times the mean of the reply's own paths that came back (each with its
    prompt), and for time the longest of K of its paths. Once ``LEAST_WHOLE`` requests were drawn in full,
    both are corrected by what these show. If the served policy ``cancels`` paths, those that came back
    are the short ones. Until enough requests were drawn in full, keff then compares paths only, and
    ``planned`` holds the shares that the plan expects to save. If today's policy is not a fixed number,
    keff replays it on the shadow requests, and its seconds are not known.
    """

    baseline: Baseline
    cancels: bool = False
    planned: Mapping[str, Interval] = field(default_factory=dict[str, Interval])
    means: Mapping[str, Mean] = field(default_factory=lambda: {name: Mean() for name in COMPARED})
    ratios: Mapping[str, WholeRatio] = field(
        default_factory=lambda: {name: WholeRatio() for name in COMPARED}
    )
    today: dict[str, float] = field(default_factory=dict[str, float])
    after: dict[str, float] = field(default_factory=dict[str, float])

    def expected(self, spent: RequestCost) -> dict[str, float]:
        """Return what K paths today are expected to cost by one reply's own paths, where known."""
        k = self.baseline.k
        if k is None or not spent.paths:
            return {}
        # Of each path, and of the prompt that all share.
        by, once = k / spent.paths, 0.0
        if spent.shared_calls:
            once = 1 / spent.shared_calls - by
        found = {"paths": float(k), "tokens": by * (spent.tokens - spent.cut_tokens)}
        found["tokens"] += once * spent.prompt_tokens
        if spent.dollars is not None:
            found["dollars"] = by * (spent.dollars - spent.cut_dollars) + once * spent.prompt_dollars
        if spent.at_once is not None:
            found["seconds"] = spent.at_once
        return found

    def of(self, spent: RequestCost) -> dict[str, float]:
        """Return one reply's cost minus its estimated cost under today's policy, where known."""
        return {name: spent.cost(name) - today for name, today in self.expected(spent).items()}

    def take(self, spent: RequestCost) -> dict[str, float]:
        """Add one reply to the means, and return its change."""
        found = self.of(spent)
        for name, by in found.items():
            self.means[name].add(by)
            self.today[name] = self.today.get(name, 0.0) + spent.cost(name) - by
        return found

    def add_shadow_cost(self, reply: RequestCost, whole: RequestCost) -> None:
        """Add a shadow request: what its reply had cost, and what all of its paths did."""
        own, found = self.expected(reply), self.expected(whole)
        for name in {*own} & {*found} - {"seconds"}:
            self.after[name] = self.after.get(name, 0.0) + whole.cost(name) - reply.cost(name)
        if self.baseline.k is not None and whole.paths >= self.baseline.k:
            for name in {*own} & {*found}:
                self.ratios[name].add(own[name], found[name])

    def interval(self, name: str) -> Interval | None:
        """Return the mean change of one cost with its 95% interval; None before the first reply."""
        mean, ratio = self.means[name], self.ratios[name]
        found = mean.interval()
        if found is None or (self.cancels and name != "paths" and not ratio.known):
            return None
        today = self.today[name] / mean.n
        value = found.value + self.after.get(name, 0.0) / mean.n - (ratio.value - 1) * today
        if found.limits is None:
            return replace(found, value=value)
        half = math.hypot((found.limits[1] - found.limits[0]) / 2, Z * ratio.variance**0.5 * today)
        method = f"mean over requests, {ratio.n} drawn whole, normal 95%" if ratio.known else found.method
        return Interval(value, value - half, value + half, method)

    def saved(self, name: str) -> Interval | None:
        """Return the share of today's cost that is saved; None where it is not known."""
        found, mean, k = self.interval(name), self.means[name], self.baseline.k
        if found is None or k is None or self.today[name] <= 0:
            return self.planned.get(name) if mean.n else None
        ratio, today = self.ratios[name], self.ratios[name].value * self.today[name] / mean.n
        source = (
            f"as {ratio.n} requests drawn whole" if ratio.known else "expected at the cost of a reply's own"
        )
        method = f"{name} billed, against {k} paths {source}; normal 95%"
        return found.mapped(lambda by: -by / today, method)

    def comparison(self, policy: Policy | None, rows: Iterable[Keys], dollars: float | None) -> Object:
        """Return the comparison; ``rows`` are shadow requests, ``dollars`` the mean price of a path."""
        found = {name: self.interval(name) for name in self.means}
        if self.baseline.k is None and policy is not None:
            paths = found["paths"] = paths_beside_today(policy, _policy(self.baseline.spec), rows)
            if paths is not None and dollars is not None:
                method = f"{paths.method}, at the mean price of a path"
                found["dollars"] = paths.mapped(lambda difference: difference * dollars, method)
        today = {name: self.ratios[name].value * self.today[name] / self.means[name].n for name in self.today}
        shown = {name: interval_json(each) for name, each in found.items()}
        return {"against": self.baseline.spec, "today": today} | shown

    def gauges(self) -> dict[tuple[str, MetricLabels], float]:
        """Return the known means as gauges for ``/metrics``."""
        known, spec = ((name, self.interval(name)) for name in self.means), self.baseline.spec
        return {series(f"keff_change_{name}", against=spec): each.value for name, each in known if each}


def planned_savings(decision: Fields, served: str, baseline: Baseline) -> dict[str, Interval]:
    """Return the share of today's tokens that a plan expects to save, where its own rule is served."""
    change, mean = fields(decision.get("change")).get("tokens"), fields(decision.get("expected_tokens"))
    by, tokens = fields(change), number(mean.get("value"))
    middle, lo, hi = (number(by.get(name)) for name in ("value", "lo", "hi"))
    if (decision.get("policy"), decision.get("reference")) != (served, baseline.spec):
        return {}
    if middle is None or tokens is None or tokens <= middle:
        return {}
    found = Interval(middle, lo, hi, "expected by the plan")
    return {"tokens": found.mapped(lambda change: -change / (tokens - middle))}


def paths_beside_today(served: Policy, today: Policy, rows: Iterable[Keys]) -> Interval | None:
    """Return the mean paths of the served policy minus today's, replayed on shadow requests."""
    difference = Mean()
    for row in rows:
        ends = [stops_at(policy, row, len(row)) or len(row) for policy in (served, today)]
        difference.add(ends[0] - ends[1])
    return difference.interval()


def longest_of(seconds: Sequence[float], k: int) -> float | None:
    """Return the expected maximum of ``k`` of these times, drawn without replacement.

    With fewer than k times it draws with replacement, which is too short if anything. None for no times.
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
