"""Any stopping rule, several paths at a time: ``wave=M``; and what every way to draw in waves shares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from keff.errors import PolicyError
from keff.policy_spec import MAX_CAP, PolicySpec
from keff.policy_view import Everywhere, Fittable, Need, Policy, Sample, Stop, Vectorised, View, Weighting
from keff.stats.draws import Draws
from keff.stats.votes import FloatArray, IntArray, Votes

Ahead = NDArray[np.int64]


class Pacing(Protocol):
    """How many paths are drawn at once."""

    def decide(self, view: View, turn: int) -> Sample | Stop:
        """Say what follows the votes of all waves so far, at the beginning of wave ``turn`` (from 0)."""
        ...

    def sizes(self, turn: int, at: Ahead, ahead: Ahead, counts: tuple[Ahead, Ahead]) -> Ahead:
        """Return the same for many orders: the next wave, 0 to stop.

        ``at`` paths are drawn, the rule asks for ``ahead``, and ``counts`` are the two largest.
        """
        ...


def follow(pacing: Pacing, view: View, cap: int) -> Sample | Stop:
    """Walk the waves along the votes in launch order.

    In the middle of a wave the rest of it is asked for, so a vote that is taken up again ends where it would
    have ended.
    """
    keys, n = view.keys[:cap], 0
    for turn in count():
        decision = pacing.decide(View(keys[:n], view.confidence[:n]), turn)
        if isinstance(decision, Stop):
            return decision
        n += decision.m
        if n > len(keys):
            return Sample(n - len(keys))
    raise AssertionError("a pacing stops at the cap")


def follow_all(pacing: Pacing, rule: Policy, draws: Draws) -> NDArray[Any]:
    """Return what ``follow`` decides along every order at the ends of its waves [n, R, cap + 1]."""
    cap = rule.cap
    if not isinstance(rule, Vectorised):
        raise PolicyError(f"{rule.spec} cannot be replayed in waves: it decides on one vote at a time")
    asked = rule.everywhere(draws) if isinstance(rule, Everywhere) else rule.ahead(draws)
    shape = (*draws.codes.shape[:2], cap + 1)
    flat = np.asarray(asked).reshape(-1, cap + 1)
    v1, v2 = (seen[..., : cap + 1].reshape(-1, cap + 1) for seen in (draws.tallies.v1, draws.tallies.v2))
    out, at = np.zeros(flat.shape, np.int16), np.zeros(len(flat), np.int64)
    going = np.arange(len(flat))
    for turn in count():
        where = going, at[going]
        counts = v1[where].astype(np.int64), v2[where].astype(np.int64)
        sizes = pacing.sizes(turn, at[going], flat[where].astype(np.int64), counts)
        out[where] = sizes
        at[going] += sizes
        going = going[sizes > 0]
        if not len(going):
            break
    return out.reshape(shape)


@dataclass(frozen=True)
class InWaves:
    """A rule that is asked only after whole waves of at least ``size`` paths.

    Where no vote can stop it within ``size`` paths it asks for more, as it does without waves.
    """

    rule: Policy
    size: int

    @property
    def spec(self) -> str:
        """The string that makes this policy again."""
        rule = PolicySpec.parse(self.rule.spec)
        return str(replace(rule, options={**rule.options, "wave": self.size}))

    @property
    def cap(self) -> int:
        """The most paths that it draws."""
        return self.rule.cap

    @property
    def needs(self) -> frozenset[Need]:
        """What a view must carry."""
        return self.rule.needs

    @property
    def monotone(self) -> bool:
        """A vote for the leader may change where the waves end."""
        return False

    def decide(self, view: View, turn: int | None = None) -> Sample | Stop:
        """Ask the rule at the end of a wave; in the middle of one ask for the rest of it."""
        if turn is None:
            return follow(self, view, self.cap)
        decision = self.rule.decide(view)
        if isinstance(decision, Stop):
            return decision
        return Sample(min(max(decision.m, self.size), self.cap - len(view.keys)))

    def sizes(self, turn: int, at: Ahead, ahead: Ahead, counts: tuple[Ahead, Ahead]) -> Ahead:  # noqa: ARG002
        """Return the next wave of many orders, 0 to stop."""
        return np.where(ahead > 0, np.minimum(np.maximum(ahead, self.size), self.cap - at), 0)

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Decide at the end of every wave of every order."""
        return follow_all(self, self.rule, draws)

    @property
    def fitted(self) -> bool:
        """Whether the rule needs no pilot, or has had one."""
        return not isinstance(self.rule, Fittable) or self.rule.fitted

    def fit(self, pilot: Votes) -> Policy:
        """Fit the rule, where it can be fitted."""
        return in_waves(self.rule.fit(pilot), self.size) if isinstance(self.rule, Fittable) else self


@dataclass(frozen=True)
class VoteInWaves(InWaves):
    """The same for a rule that weighs its votes."""

    def weights(self, draws: Draws, stop: IntArray) -> FloatArray:
        """Return the weights of the rule."""
        assert isinstance(self.rule, Weighting)
        return self.rule.weights(draws, stop)


def in_waves(rule: Policy, wave: object) -> Policy:
    """Return a rule that draws at least ``wave`` paths at once; raises PolicyError outside 1 to 256."""
    size = whole(rule, "wave", wave)
    return VoteInWaves(rule, size) if isinstance(rule, Weighting) else InWaves(rule, size)


def whole(rule: Policy, name: str, value: object) -> int:
    """Return an option as an integer from 1 to 256, or raise PolicyError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_CAP:
        raise PolicyError(f"policy {rule.spec}: {name} must be an integer from 1 to {MAX_CAP}, not {value}")
    return value
