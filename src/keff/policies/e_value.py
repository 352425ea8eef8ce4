"""Stop when an anytime-valid certificate says that the leader is the model's most likely answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.policies._table import beats_half, check_value, log_rising
from keff.policy import Need, Policy, Sample, Stop, View, tally
from keff.policy.spec import DEFAULT_CAP, format_spec
from keff.stats.votes import BoolArray, FloatArray, Int16Array, IntArray
from keff.stats.voting.draws import Draws


def log_e_values(cap: int) -> FloatArray:
    """Return the log of the one-sided e-value of s votes against f: 2^(s+f+1) B(s+1, f+1) P(share > 1/2).

    By [s, f], up to ``cap`` of each. The uniform mixture over shares above one half, against one half at
    most; P is the Beta posterior of Adaptive-Consistency. Valid at every stopping time (Ville).
    """
    s, f = np.indices((cap + 1, cap + 1))
    factorial = log_rising(1.0, 2 * cap + 1)
    beta = factorial[s] + factorial[f] - factorial[s + f + 1]
    return np.asarray((s + f + 1) * math.log(2) + beta + np.log(beats_half(cap)), np.float64)


@dataclass(frozen=True)
class Certificate:
    """E-value rule, its error ``delta`` split over answers in order of appearance.

    The r-th answer to appear is tested at delta / (r (r + 1)), on the votes after its first one and
    against the strongest rival there: a union bound over answers, so their number need not be known.
    """

    spec: str
    delta: float
    cap: int
    needs: frozenset[Need] = frozenset({"answers"})

    @cached_property
    def logs(self) -> FloatArray:
        """Log e-values by votes for and against [cap + 1] * 2."""
        return log_e_values(self.cap)

    @cached_property
    def least(self) -> int:
        """The fewest paths that can certify an answer."""
        enough = np.flatnonzero(self.logs[:, 0] >= self._bar(1))
        return int(enough[0]) + 1 if len(enough) else self.cap

    def _bar(self, rank: int) -> float:
        return math.log(rank * (rank + 1) / self.delta)

    def decide(self, view: View) -> Sample | Stop:
        """Stop when the leader is certified or at the cap, with ``least`` paths first."""
        keys = view.keys[: self.cap]
        n = len(keys)
        if n < self.least:
            return Sample(self.least - n)
        seen = tally(keys)
        log_e, rank = -math.inf, 1
        if seen.leader is not None:
            first = keys.index(seen.leader)
            since = tally(keys[first + 1 :]).counts
            s = since.pop(seen.leader, 0)
            rank = 1 + len(set(keys[:first]) - {None})
            log_e = float(self.logs[s, max(since.values(), default=0)])
        if log_e < self._bar(rank) and n < self.cap:
            return Sample(1)
        why = "the cap" if log_e < self._bar(rank) else f"certified at {self.delta:g}"
        reason = f"{why}: {seen.v1} against {seen.v2} votes after {n} of at most {self.cap} paths"
        return Stop(seen.leader, math.exp(log_e), "e_value", reason)

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Return the paths to draw next, or 0 to stop, after each prefix, item by item [n, R, cap + 1]."""
        n = np.arange(self.cap + 1)
        early = np.where(n < self.cap, np.maximum(1, self.least - n), 0)
        ahead = np.broadcast_to(early, (*draws.codes.shape[:2], len(n))).copy()
        for item, codes in enumerate(draws.codes):
            certified = self._certified(codes[:, : self.cap], draws.tallies.leader[item, :, : self.cap + 1])
            ahead[item][certified & (n >= self.least)] = 0
        return ahead

    def _certified(self, codes: Int16Array, leader: Int16Array) -> BoolArray:
        answers: IntArray = np.arange(int(codes.max(initial=0)) + 1, dtype=np.int64)
        counts = np.zeros((len(codes), self.cap + 1, len(answers)), np.int16)
        np.cumsum(codes[..., None] == answers, axis=1, out=counts[:, 1:])
        appears = np.where(counts[:, -1] > 0, (counts > 0).argmax(axis=1), self.cap + 1)
        lead = np.maximum(leader, 0)
        first = np.take_along_axis(appears, lead, axis=1)
        rank = (appears[:, None, :] <= first[..., None]).sum(axis=2)
        rows = np.arange(len(codes))[:, None]
        since = counts - counts[rows, np.minimum(first, self.cap)]
        s = np.take_along_axis(since, lead[..., None], axis=2)[..., 0]
        np.put_along_axis(since, lead[..., None], 0, axis=2)
        f: IntArray = since.max(axis=2)
        bar = np.log(np.maximum(rank * (rank + 1), 1) / self.delta)
        return (leader >= 0) & (self.logs[np.maximum(s, 0), f] >= bar)


def policy(value: float | None = 0.05, *, cap: int = DEFAULT_CAP) -> Policy:
    """Return ``e_value:delta`` (default 0.05): P(ever certifying a wrong mode) is at most delta.

    It certifies the model's mode, not that the answer is right. At 0.05 it needs 9 unanimous paths.
    """
    delta = check_value("e_value", value, 1)
    return Certificate(format_spec("e_value", delta, cap=cap), delta, cap)
