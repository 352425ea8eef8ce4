"""Answer by the first path that is good enough: switched combining, on a calibrated confidence."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from keff.errors import PolicyError
from keff.policies._table import check_value
from keff.policy import Need, Policy, Sample, Stop, View
from keff.policy.spec import DEFAULT_CAP, format_spec
from keff.policy.weighting import Answered, Calibrated, leader_of
from keff.records import frozen
from keff.stats.votes import CONFIDENCE, BoolArray, FloatArray, IntArray
from keff.stats.voting.calibration import Calibration
from keff.stats.voting.draws import Draws, at_place

Otherwise = Literal["selection", "log_odds"]


@frozen
class Switch(Calibrated):
    """Switched combining: stop at the first path with P(right) >= ``tau``; at the cap, combine.

    ``selection`` takes the path with the highest chance, ``log_odds`` the vote weighted by log odds. A path
    whose confidence is not known has the base rate, and never ends it alone. With F(tau) the share of paths
    below tau, independent paths of a question take the sum of F(tau)^(k-1), k = 1 to the cap, on average.
    """

    tau: float
    cap: int
    otherwise: Otherwise
    confidence: str = CONFIDENCE
    calibration: Calibration | None = None
    alone: ClassVar[bool] = True

    @property
    def spec(self) -> str:
        """The policy string, which parses to this policy."""
        other = None if self.otherwise == "selection" else self.otherwise
        options = {"confidence": self.named, "else": other}
        return format_spec("switch", self.tau, cap=self.cap, **options)

    @property
    def needs(self) -> frozenset[Need]:
        """The fields a view must have."""
        return frozenset[Need]({*self.reads, "answers"})

    def decide(self, view: View) -> Sample | Stop:
        """Stop at the first path that is good enough, or at the cap; else draw one more."""
        held, n = self.held(self.spec), min(len(view.keys), self.cap)
        view.check_confidences(n, self)
        keys, given = view.keys[:n], view.confidence[:n]
        rated = np.isfinite(np.asarray(given, np.float64)).tolist()
        chances: list[float] = held.chance(given).tolist()
        for place, (key, chance) in enumerate(zip(keys, chances, strict=True)):
            if key is not None and rated[place] and chance >= self.tau:
                return Stop(key, chance, "posterior", f"path {place + 1} is right with chance {chance:.2f}")
        if n < self.cap:
            return Sample(1)
        voting = [place for place, key in enumerate(keys) if key is not None]
        best = max(voting, key=chances.__getitem__, default=None)
        chance = 0.0 if best is None else chances[best]
        answer = None if best is None else keys[best]
        if self.otherwise == "log_odds":
            answer = leader_of(keys, held.weight(given).tolist())
        reason = f"the cap: none of {n} paths is right with chance {self.tau:g}"
        return Stop(answer, chance, "posterior", reason)

    def _good_enough(self, draws: Draws) -> tuple[FloatArray, BoolArray]:
        """Return P(right) [n, R, cap] (-1: no vote), and a mask of paths good enough."""
        codes = draws.codes[..., : self.cap]
        chances: FloatArray = np.where(codes >= 0, self.chances(draws, self.spec)[..., : self.cap], -1.0)
        rated = np.isfinite(draws.confidences_along(self.confidence)[..., : self.cap])
        return chances, (chances >= self.tau) & rated

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Return 1 until a path is good enough, then 0 [n, R, cap + 1]."""
        found = np.logical_or.accumulate(self._good_enough(draws)[1], axis=2)
        out = np.ones((*found.shape[:2], self.cap + 1), np.int16)
        out[..., 1:] = ~found
        out[..., self.cap] = 0
        return out

    def answered(self, draws: Draws, stop: IntArray) -> Answered:
        """Return the stopping path's answer, else the best path's or the weighted vote's."""
        chances, good = self._good_enough(draws)
        drawn = np.arange(self.cap) < stop[..., None]
        good = good & drawn
        hit = good.any(axis=2)
        highest: IntArray = np.where(drawn, chances, -2.0).argmax(axis=2)
        best: IntArray = np.where(hit, good.argmax(axis=2), highest)
        answer = at_place(draws.codes, best)
        credit = None if draws.correct is None else at_place(draws.correct, best).astype(np.float64)
        if self.otherwise == "log_odds":
            seen = self.weighed(draws, self.spec).tallies
            answer = np.where(hit, answer, at_place(seen.leader, stop)).astype(np.int16)
            if credit is not None and seen.credit is not None:
                credit = np.where(hit, credit, at_place(seen.credit, stop))
        return answer, credit


def policy(value: float | None = 0.9, *, cap: int = DEFAULT_CAP, otherwise: str = "selection") -> Policy:
    """Return ``switch:tau`` (default 0.9), which needs a plan with the confidence's calibration.

    ``else=selection`` (default) or ``else=log_odds`` says how the paths are combined where none is good
    enough; ``confidence=NAME`` which confidence is read.
    """
    tau = check_value("switch", value, 1)
    for known in get_args(Otherwise):
        if otherwise == known:
            return Switch(tau=tau, cap=cap, otherwise=known)
    raise PolicyError(f"switch: else must be selection or log_odds, not {otherwise!s:.40}")
