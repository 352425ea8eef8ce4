"""Prior from recorded workloads: how many answers a rule changes, and the accuracy a change costs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from keff.analysis.walks import changed, run
from keff.policy import Policy, in_flight_of
from keff.records import frozen
from keff.stats.models.mixture import GENERIC_WEIGHTS, prior_shares
from keff.stats.votes import FloatArray
from keff.stats.voting.draws import Draws

# Records hold few workloads where voting hurts: this much of the prior is symmetric around 0 and so wide that
# base rates do not decide against what a pilot measures.
WIDE_WEIGHT, WIDE_SD = 0.1, 0.6


@frozen
class FlipPrice:
    """Prior of the accuracy one changed answer costs, as a part of the reference's accuracy.

    ``one_path`` is the price for one path, ``deep`` that of the deepest rules times the cap of the reference:
    the fewer answers a rule changes, the closer are the votes that it changes. ``sd`` is the standard
    deviation from one workload to another.
    """

    one_path: float
    deep: float
    sd: float

    def mean(self, ratio: FloatArray, cap: int) -> FloatArray:
        """Return the prior mean for rules [C], by changed answers relative to one path's (``ratio`` [C])."""
        deep = min(self.deep / cap, self.one_path)
        return deep + (self.one_path - deep) * np.clip(ratio, 0.0, 1.0)


# Fitted by ``python -m benchmarks.analysis.decision --fit`` to recorded generations.
GENERIC = FlipPrice(one_path=0.358, deep=0.155, sd=0.166)

SIMULATED, ORDERS = 2_000, 2


@lru_cache(maxsize=4)
def _generic_draws(cap: int) -> Draws:
    """Return simulated votes of generic questions, from the mixture fitted to recorded workloads."""
    rng = np.random.default_rng(0)
    edges = prior_shares(GENERIC_WEIGHTS, SIMULATED, rng).cumsum(axis=1)
    drawn = rng.random((SIMULATED, ORDERS * cap))
    codes = np.empty(drawn.shape, np.int16)
    for row, edge, place in zip(codes, edges, drawn, strict=True):
        row[:] = np.searchsorted(edge, place)
    # What is beyond the named answers is a new one each time.
    beyond = edges.shape[1] + np.arange(ORDERS * cap, dtype=np.int16)
    codes = np.where(codes < edges.shape[1], codes, beyond)
    return Draws(codes.astype(np.int16).reshape(SIMULATED, ORDERS, cap))


def generic_ratios(rules: Sequence[Policy]) -> FloatArray:
    """Return changed answers of each rule [C] on generic questions, relative to those of the first rule.

    The first is one path. On simulated votes of the generic workload; 0 where one path changes none. Rules
    with paths in flight count as in launch order: the generic workload knows no lengths. NaN for rules that
    read a confidence, which it does not know either.
    """
    rules = [flight.rule if (flight := in_flight_of(rule)) is not None else rule for rule in rules]
    draws = _generic_draws(max(policy.cap for policy in rules))
    today, known = run(rules[-1], draws), {rule.spec: rule for rule in rules}
    flips = {
        spec: np.nan if "confidence" in rule.needs else float(changed(run(rule, draws), today, draws).sum())
        for spec, rule in known.items()
    }
    found = np.array([flips[rule.spec] for rule in rules])
    return found / found[0] if found[0] > 0 else np.zeros_like(found)
