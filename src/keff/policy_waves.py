"""Any stopping rule, several paths at a time: ``wave=M``; and what every way to draw in waves shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keff.errors import PolicyError
from keff.policy_over import Over
from keff.policy_spec import MAX_CAP
from keff.policy_view import Everywhere, Fittable, Policy, Sample, Stop, Vectorised, View, Weighting
from keff.stats.draws import Draws
from keff.stats.votes import FloatArray, IntArray, Votes

Ahead = NDArray[np.int64]


Sizes: TypeAlias = Callable[[int, Ahead, Ahead, tuple[Ahead, Ahead]], Ahead]
"""The next wave of many orders, 0 to stop: at wave ``turn`` (from 0), after so many paths, where the rule
asks for so many and these are the two largest counts."""


def follow(decide: Callable[[View, int], Sample | Stop], view: View, cap: int) -> Sample | Stop:
    """Walk the waves along the votes in launch order.

    ``decide`` says what follows the votes of all waves so far, at the beginning of wave ``turn`` (from 0). In
    the middle of a wave the rest of it is asked for, so a vote that is taken up again ends where it would
    have ended.
    """
    keys, n = view.keys[:cap], 0
    for turn in count():
        decision = decide(View(keys[:n], view.confidence[:n]), turn)
        if isinstance(decision, Stop):
            return decision
        n += decision.m
        if n > len(keys):
            return Sample(n - len(keys))
    raise AssertionError("a policy stops at the cap")


def follow_all(next_sizes: Sizes, rule: Policy, draws: Draws) -> NDArray[Any]:
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
        sizes = next_sizes(turn, at[going], flat[where].astype(np.int64), counts)
        out[where] = sizes
        at[going] += sizes
        going = going[sizes > 0]
        if not len(going):
            break
    return out.reshape(shape)


@dataclass(frozen=True)
class Paced(Over):
    """A rule that is asked at the end of waves only."""

    @property
    def monotone(self) -> bool:
        """A vote for the leader may change where the waves end."""
        return False

    def at_end(self, view: View, turn: int) -> Sample | Stop:
        """Say what follows the votes of all waves so far, at the beginning of wave ``turn`` (from 0)."""
        raise NotImplementedError

    def sizes(self, turn: int, at: Ahead, ahead: Ahead, counts: tuple[Ahead, Ahead]) -> Ahead:
        """Return the same for many orders: the next wave of each, 0 to stop."""
        raise NotImplementedError

    def decide(self, view: View) -> Sample | Stop:
        """Decide at the end of a wave; in the middle of one ask for the rest of it."""
        return follow(self.at_end, view, self.cap)

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Decide at the end of every wave of every order."""
        return follow_all(self.sizes, self.rule, draws)


class Weighed(Paced):
    """The same for a rule that weighs its votes."""

    def weights(self, draws: Draws, stop: IntArray) -> FloatArray:
        """Return the weights of the rule."""
        assert isinstance(self.rule, Weighting)
        return self.rule.weights(draws, stop)


@dataclass(frozen=True)
class InWaves(Paced):
    """A rule that is asked only after whole waves of at least ``size`` paths.

    Where no vote can stop it within ``size`` paths it asks for more, as it does without waves.
    """

    size: int

    @property
    def spec(self) -> str:
        """The string that makes this policy again."""
        return self.spelled(wave=self.size)

    def at_end(self, view: View, turn: int) -> Sample | Stop:  # noqa: ARG002
        """Ask the rule, and for a whole wave where it goes on."""
        decision = self.rule.decide(view)
        if isinstance(decision, Stop):
            return decision
        return Sample(min(max(decision.m, self.size), self.cap - len(view.keys)))

    def sizes(self, turn: int, at: Ahead, ahead: Ahead, counts: tuple[Ahead, Ahead]) -> Ahead:  # noqa: ARG002
        """Return the next wave of many orders, 0 to stop."""
        return np.where(ahead > 0, np.minimum(np.maximum(ahead, self.size), self.cap - at), 0)

    def fit(self, pilot: Votes) -> Policy:
        """Fit the rule, where it can be fitted."""
        return in_waves(self.rule.fit(pilot), self.size) if isinstance(self.rule, Fittable) else self


class VoteInWaves(InWaves, Weighed):
    """The same for a rule that weighs its votes."""


def in_waves(rule: Policy, wave: object) -> Policy:
    """Return a rule that draws at least ``wave`` paths at once; raises PolicyError outside 1 to 256."""
    size = whole(rule, "wave", wave)
    return VoteInWaves(rule, size) if isinstance(rule, Weighting) else InWaves(rule, size)


def whole(rule: Policy, name: str, value: object) -> int:
    """Return an option as an integer from 1 to 256, or raise PolicyError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_CAP:
        raise PolicyError(f"policy {rule.spec}: {name} must be an integer from 1 to {MAX_CAP}, not {value}")
    return value
