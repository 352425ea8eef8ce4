"""Traffic statistics of a gateway: counts since its start, and the votes of shadow requests.

Of those a label-free plan is made where that is asked for.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from keff.errors import PlanError
from keff.gateway.traffic.savings import COMPARED, GatewayChange, Mean, RequestCost, interval_json
from keff.plan import Plan, Profile
from keff.policy import Policy
from keff.protocol.values import Object
from keff.records import Interval
from keff.stats.drift import agreeing_pairs
from keff.stats.votes import Votes

# The answer space of a plan that was made from traffic: each request's answer is found anew.
PER_REQUEST = "per_request"

# Voted requests that make the profile of the drift alarm.
ENOUGH = 200

# Requests drawn on whose votes are kept, and replies whose times are: the latest.
KEPT, LATEST = 500, 2000


@dataclass(slots=True)
class Learner:
    """Collects the first ``ENOUGH`` voted requests at ``m`` paths each for a drift profile.

    ``shadow_only``: the rule may stop at one path, so only requests that are drawn on after their reply show
    as many; they were chosen before any of their votes was seen.
    """

    m: int
    shadow_only: bool = False
    rows: list[tuple[str | None, ...]] = field(default_factory=list[tuple[str | None, ...]])

    def observe(self, keys: Sequence[str | None]) -> Profile | None:
        """Add the votes of one request; returns the profile once there are enough."""
        self.rows.append(tuple(keys[: self.m]))
        return profile_of(self.rows, self.m) if len(self.rows) >= ENOUGH else None


def profile_of(rows: Sequence[Sequence[str | None]], m: int) -> Profile:
    """Return the drift profile of one or more requests at their first m paths."""
    votes = [Counter(key for key in row[:m] if key is not None) for row in rows]
    held = tuple(tuple(sorted(counts.values(), reverse=True)) for counts in votes)
    return Profile(paths=m, votes=held)


@dataclass(slots=True, kw_only=True)
class Traffic:
    """Traffic statistics of one gateway; ``change`` compares with a stated baseline.

    ``agreement`` is the share of pairs of paths with one answer, ``matching`` that of pairs of answers: a
    path that abstains lowers the first and does not count in the second.
    """

    change: GatewayChange | None = None
    since: float = field(default_factory=time.time)
    paths: Mean = field(default_factory=Mean)
    tokens: Mean = field(default_factory=Mean)
    dollars: Mean = field(default_factory=Mean)
    took: Mean = field(default_factory=Mean)
    priced_paths: int = 0
    agreement: Mean = field(default_factory=Mean)
    matching: Mean = field(default_factory=Mean)
    kinds: Counter[str] = field(default_factory=Counter[str])
    stops: Counter[str] = field(default_factory=Counter[str])
    abstained: int = 0
    failed: int = 0
    failures: Counter[str] = field(default_factory=Counter[str])
    last_failure: Object | None = None
    cancelled: int = 0
    cancelled_tokens: int = 0
    finished: int = 0
    after: int = 0
    after_tokens: int = 0
    seconds: deque[float] = field(default_factory=lambda: deque[float](maxlen=LATEST))
    drawn: deque[tuple[str | None, ...]] = field(
        default_factory=lambda: deque[tuple[str | None, ...]](maxlen=KEPT)
    )

    def add_vote(self, keys: Sequence[str | None], kind: str | None, stop: str, failed: int) -> None:
        """Count one answered request."""
        self.stops[stop] += 1
        self.failed += failed
        self.abstained += sum(key is None for key in keys)
        if stop == "policy" and len(keys) > 1:
            self.kinds[kind or "plan"] += 1
            counts = Counter(key for key in keys if key is not None)
            pairs = agreeing_pairs(counts.values())
            share = pairs / math.comb(len(keys), 2)
            self.agreement.add(share)
            if (read := counts.total()) > 1:
                self.matching.add(pairs / math.comb(read, 2))

    def add_failure(self, status: int, reason: str, upstream: str, calls: int) -> None:
        """Count a request that failed by the upstream or the gateway."""
        self.failures[str(status)] += 1
        self.failed += calls
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.last_failure = {"at": at, "status": status, "reason": reason, "upstream": upstream or None}

    def add_reply(self, spent: RequestCost) -> None:
        """Add time and cost of a reply, also of one relayed as a single path."""
        self.seconds.append(spent.seconds)
        self.took.add(spent.seconds)
        self.tokens.add(spent.tokens)
        if self.change is not None:
            self.change.take(spent)
        if spent.dollars is not None:
            self.dollars.add(spent.dollars)
            self.priced_paths += spent.paths
        # All that were begun: those in flight that the vote did not need are not saved.
        if spent.stop:
            self.paths.add(spent.started)
        self.finished += spent.paths
        self.cancelled += spent.cancelled
        self.cancelled_tokens += spent.cut_tokens
        if spent.stop == "off":
            self.stops[spent.stop] += 1

    def add_shadow_cost(self, reply: RequestCost, whole: RequestCost) -> None:
        """Add what a shadow request drew after its reply."""
        self.after += whole.started - reply.started
        self.after_tokens += whole.tokens - reply.tokens
        if self.change is not None:
            self.change.add_shadow_cost(reply, whole)

    def summary(self, served: Policy | None = None) -> Object:
        """Return the figures of the operator's page and of the log; ``served`` is the policy in use."""
        paths, each = self.paths.interval(), (self.paths, self.tokens, self.dollars, self.took)
        means = dict(zip(COMPARED, each, strict=True))
        p50, p95 = np.quantile(self.seconds, (0.5, 0.95)).tolist() if self.seconds else (None, None)
        return {
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.since)),
            "failed_requests": self.failures.total(),
            "failed_calls": self.failed,
            "failures": dict(self.failures.most_common()),
            "last_failure": self.last_failure,
            "requests": self.paths.n,
            "calls": {
                "started": self.finished + self.cancelled + self.after,
                "finished": self.finished,
                "cancelled": self.cancelled,
                "after_replies": self.after,
            },
            "tokens": {
                "billed": round(self.tokens.total) + self.after_tokens,
                "of_cancelled_calls": self.cancelled_tokens,
                "after_replies": self.after_tokens,
            },
            "paths_per_request": interval_json(paths),
            "dollars_per_request": interval_json(self.dollars.interval()),
            "per_request": {name: mean.total / mean.n if mean.n else None for name, mean in means.items()},
            "now": None if self.change is None else self.change.baseline.spec,
            "saved": self._saved(),
            "change": self._change(served),
            "seconds_p50": p50,
            "seconds_p95": p95,
            "agreement": interval_json(_in_range(self.agreement)),
            "answers_match": interval_json(_in_range(self.matching)),
            "abstained": self.abstained,
            "kinds": dict(self.kinds.most_common()),
            "stops": dict(self.stops.most_common()),
            "drawn_on": len(self.drawn),
        }

    def _saved(self) -> object:
        """Return the share of today's dollars, without prices of its tokens, that is expected to be saved.

        None where today's number of paths varies, and before the first reply.
        """
        for unit in ("dollars", "tokens") if self.dollars.total else ("tokens",):
            if self.change is not None and (found := self.change.saved(unit)) is not None:
                return found.to_dict() | {"of": unit}
        return None

    def _change(self, served: Policy | None) -> Object | None:
        if self.change is None:
            return None
        each = self.dollars.total / self.priced_paths if self.priced_paths else None
        return self.change.comparison(served, self.drawn, each)


def _in_range(mean: Mean) -> Interval | None:
    """Return the interval of a mean of shares: what the normal law puts beyond 0 and 1 is cut off."""
    found = mean.interval()
    return None if found is None else found.mapped(lambda share: min(max(share, 0.0), 1.0))


# Requests drawn on that a plan from traffic needs at least.
LEAST_DRAWN = 20


def plan_of(rows: Sequence[tuple[str | None, ...]], cap: int, space: str = PER_REQUEST) -> Plan:
    """Return the plan from a label-free analysis of shadow requests.

    ``rows`` are their vote keys in launch order. Raises PlanError for fewer than ``LEAST_DRAWN``. Takes
    seconds: not for the event loop.
    """
    # Heavy to import: only where a plan is asked for.
    from keff.analysis.decision import Aim, decide
    from keff.analysis.plans import profile
    from keff.reading.ballot import codes_of

    if len(rows) < LEAST_DRAWN:
        raise PlanError(
            f"{len(rows)} shadow requests were drawn so far, and a plan needs {LEAST_DRAWN}: "
            "wait, or raise the setting shadow_budget"
        )
    k = min(map(len, rows))
    votes = Votes(codes_of([row[:k] for row in rows], shared=False), None)
    advice = decide(votes, Aim(), now=str(cap)).decision
    return Plan(
        policy=advice.policy,
        space=space,
        estimates={"requests": len(rows), "paths": k, "label_free": True, "because": advice.because},
        profile=profile(votes),
    )


def reading_warning(match: Interval | None, requests: int) -> str | None:
    """Return a warning where answers of voted requests hardly ever match, else None.

    ``match`` is how often two answers to one request are equal. It is compared with the floor that an
    analysis has.
    """
    from keff.analysis.matching import FLOOR, LEAST_QUESTIONS, RARE, REMEDY

    if match is None or requests < LEAST_QUESTIONS or match.value >= FLOOR:
        return None
    return f"{RARE} (two answers to a request agree {match.value:.0%} of the time); {REMEDY}"
