"""The plan that traffic gives, label-free: heavy to import, so only when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keff.analysis.decision import Aim, decide
from keff.analysis.matching import FLOOR, LEAST_QUESTIONS, RARE, REMEDY
from keff.errors import PlanError
from keff.gateway.traffic.traffic import PER_REQUEST, profile_of
from keff.plan import Plan
from keff.records import Interval
from keff.stats.votes import IntArray, Votes

# Requests drawn on that a plan from traffic needs at least.
LEAST_DRAWN = 20


def plan_of(rows: Sequence[tuple[str | None, ...]], cap: int, space: str = PER_REQUEST) -> Plan:
    """Return the plan that label-free analysis of requests drawn on gives.

    ``rows`` are their vote keys in launch order. Raises PlanError for fewer than ``LEAST_DRAWN``. Takes
    seconds: not for the event loop.
    """
    if len(rows) < LEAST_DRAWN:
        raise PlanError(
            f"{len(rows)} requests were drawn on so far, and a plan needs {LEAST_DRAWN}: "
            "wait, or raise the setting shadow_budget"
        )
    k = min(map(len, rows))
    votes = Votes(_codes([row[:k] for row in rows]), None)
    advice = decide(votes, Aim(), now=str(cap)).decision
    m = min(k, 8)
    return Plan(
        policy=advice.policy,
        space=space,
        estimates={"requests": len(rows), "paths": k, "label_free": True, "because": advice.because},
        profile=profile_of(rows, m) if m > 1 else None,
    )


def reading_warning(match: Interval | None, requests: int) -> str | None:
    """Return what must be said where the answers of voted requests hardly ever match, else None.

    ``match`` is how often two answers to one request are equal. It is compared with the floor that an
    analysis has.
    """
    if match is None or requests < LEAST_QUESTIONS or match.value >= FLOOR:
        return None
    return f"{RARE} (two answers to a request agree {match.value:.0%} of the time); {REMEDY}"


def _codes(rows: Sequence[Sequence[str | None]]) -> IntArray:
    coded: list[list[int]] = []
    for row in rows:
        names: dict[str, int] = {}
        coded.append([-1 if key is None else names.setdefault(key, len(names)) for key in row])
    return np.asarray(coded, np.int64)
