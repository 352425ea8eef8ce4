"""Ways of drawing for any stopping rule: in waves, with paths in flight, or giving up early.

Any stopping rule, several paths at a time: ``wave=M``, or waves of given sizes, ``wave=3+5``.

Any stopping rule that gives up where nothing agrees: ``give_up=M``.

For answers that are texts: a question whose first M paths give M different answers has none that repeats,
and each further path costs as much and says as little. Where answers are numbers, options or mathematics such
a question is a hard one instead, whose later paths do agree: there giving up at 4 of 32 lost 2.7% of the
accuracy on average over 62 recorded workloads, at 6 1.3%. So replay decides.

Any stopping rule with paths in flight: ``in_flight=W,order=arrival|launch``.

W paths run at once. On arrival each counts when it ends, in launch order when all launched before it have
ended too. The rule is asked after every vote; while it goes on, the next path starts. At the stop what still
runs is cancelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from keff.errors import PolicyError
from keff.policy.spec import MAX_CAP
from keff.policy.view import Branching, Policy, Sample, Stop, View, tally
from keff.policy.weighting import Answering, Bounded, Calibrated, LogOddsVote, Over, ahead_of, part_of
from keff.records import frozen
from keff.stats.votes import BoolArray
from keff.stats.voting.draws import Draws


@frozen
class InWaves(Over):
    """Wrapper that consults a rule only after whole waves; the last of ``sizes`` repeats.

    Where no vote can stop it within a wave it asks for more, as it does without waves.
    """

    sizes: tuple[int, ...]

    @property
    def spec(self) -> str:
        """The policy string, which parses to this policy."""
        return self.spec_with(wave=self.sizes[0] if len(self.sizes) == 1 else "+".join(map(str, self.sizes)))

    def decide(self, view: View) -> Sample | Stop:
        """Return the rule's decision at the end of a wave; within one, the rest of it.

        The waves are walked from the first vote on, so that a vote that is taken up again ends where it would
        have ended.
        """
        keys, n = view.keys[: self.cap], 0
        for turn in count():
            decision = self.rule.decide(View(keys[:n], view.confidence[:n]))
            if isinstance(decision, Stop):
                return decision
            n += min(max(decision.m, self._size(turn)), self.cap - n)
            if n > len(keys):
                return Sample(n - len(keys))
        raise AssertionError("a policy stops at the cap")

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Return the paths to draw next, or 0 to stop, after each prefix of every order [n, R, cap + 1]."""
        cap = self.cap
        asked = np.asarray(ahead_of(self.rule, draws, "in waves"))
        flat = asked.reshape(-1, cap + 1)
        out, at = np.zeros(flat.shape, np.int16), np.zeros(len(flat), np.int64)
        going = np.arange(len(flat))
        for turn in count():
            ahead = flat[going, at[going]].astype(np.int64)
            step = np.minimum(np.maximum(ahead, self._size(turn)), cap - at[going]) * (ahead > 0)
            out[going, at[going]] = step
            at[going] += step
            going = going[step > 0]
            if not len(going):
                break
        return out.reshape(asked.shape)

    def _size(self, turn: int) -> int:
        return self.sizes[min(turn, len(self.sizes) - 1)]


def in_waves(rule: Policy, wave: object) -> Policy:
    """Return a rule that draws in waves of ``wave`` paths, or of sizes such as ``3+5``.

    Raises PolicyError for a size outside 1 to 256.
    """
    parts = wave.split("+") if isinstance(wave, str) else [wave]
    sizes = tuple(
        checked_int(rule, "wave", int(p) if isinstance(p, str) and p.isdigit() else p) for p in parts
    )
    return InWaves(rule, sizes)


def checked_int(rule: Policy, name: str, value: object) -> int:
    """Return an option as an integer from 1 to 256, or raise PolicyError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_CAP:
        raise PolicyError(f"policy {rule.spec}: {name} must be an integer from 1 to {MAX_CAP}, not {value}")
    return value


@frozen
class GivesUp(Over):
    """Wrapper that stops with the first path's answer when the first ``paths`` all differ."""

    paths: int

    @property
    def spec(self) -> str:
        """The policy string, which parses to this policy."""
        return self.spec_with(give_up=self.paths)

    def disagree(self, keys: Sequence[str | None]) -> bool:
        """Return whether there are enough paths, and all their answers differ."""
        return len(keys) >= self.paths and None not in keys and len(set(keys)) == len(keys)

    def decide(self, view: View) -> Sample | Stop:
        """Give up, or return the rule's decision, with a first round up to the test."""
        keys = view.keys[: self.cap]
        if self.disagree(keys):
            reason = f"no agreement: {len(keys)} paths gave {len(keys)} answers"
            return Stop(keys[0], 1 / len(keys), "vote_share", reason)
        decision = self.rule.decide(view)
        if isinstance(decision, Stop) or len(keys) >= self.paths:
            return decision
        return Sample(min(decision.m, self.paths - len(keys)))

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Return the paths to draw next, or 0 to stop, after each prefix of every order [n, R, cap + 1]."""
        asked = np.array(ahead_of(self.rule, draws, "with give_up"))
        drawn = np.arange(self.cap + 1)
        voted = np.zeros(asked.shape, np.int64)
        voted[..., 1:] = (draws.codes[..., : self.cap] >= 0).cumsum(axis=2)
        alone = (draws.tallies.v1[..., : self.cap + 1] <= 1) & (voted == drawn)
        asked = np.where(drawn < self.paths, np.minimum(asked, self.paths - drawn), asked)
        return np.where(alone & (drawn >= self.paths), 0, asked).astype(np.int16)


def giving_up(rule: Policy, least: object) -> Policy:
    """Return a rule that gives up after so many paths that all differ, or weighted ones below a mean chance.

    Raises PolicyError for another number, for a rule over branches, and for a chance without weights.
    """
    chance = isinstance(least, float) and 0 < least < 1
    if chance and isinstance(rule, LogOddsVote) and isinstance(rule.rule, Bounded):
        return replace(rule, give_up=least)
    one = not ("confidence" in rule.needs or isinstance(rule, Branching))
    if one and not chance and (paths := checked_int(rule, "give_up", least)) > 1:
        return GivesUp(rule, paths)
    line = "give_up=M needs votes of one branch that are counted, and M at least 2; a chance weight=log_odds"
    raise PolicyError(f"policy {rule.spec}: {line}")


def gave_up(policy: Policy, keys: Sequence[str | None]) -> bool:
    """Return whether a policy stopped here because all answers differ."""
    rule = part_of(policy, GivesUp)
    return rule is not None and rule.disagree(keys)


VoteOrder = Literal["arrival", "launch"]
ORDERS: tuple[VoteOrder, ...] = ("arrival", "launch")

# On arrival no rule stops before so many votes, unless nothing can overtake the leader.
#
# The first two to arrive are the two shortest answers: with 8 in flight a lead of 2 taken at once kept 97.4%
# of the accuracy on the worst of 35 recorded workloads, from the third vote on 98.9%
# (``docs/in-flight.md``).
LEAST_VOTES = 3


@frozen
class InFlight(Over):
    """Wrapper that keeps ``width`` paths in flight, and consults the rule after every vote."""

    width: int
    order: VoteOrder

    @property
    def spec(self) -> str:
        """The policy string, which parses to this policy."""
        return self.spec_with(in_flight=self.width, order=self.order)

    def decide(self, view: View) -> Sample | Stop:
        """Return the rule's stop, or one more path.

        Votes that tie are told apart as the whole vote in launch order would: whose first path was launched
        first.
        """
        keys = view.keys[: self.cap]
        decision = self.rule.decide(View(keys, view.confidence[: self.cap]))
        if isinstance(decision, Sample) or not self._enough(keys):
            return Sample(1)
        return self.in_launch_order(decision, keys, view.launched)

    @property
    def alone(self) -> bool:
        """Whether a single path may end the vote: so for rules that read its confidence."""
        return isinstance(self.rule, Calibrated) and self.rule.alone

    def _enough(self, keys: Sequence[str | None]) -> bool:
        if self.order == "launch" or len(keys) == self.cap or self.alone:
            return True
        if sum(key is not None for key in keys) >= LEAST_VOTES:
            return True
        seen = tally(keys)
        return seen.v1 - seen.v2 > self.cap - len(keys)

    def in_launch_order(self, stop: Stop, keys: Sequence[str | None], launched: Sequence[int]) -> Stop:
        """Return the stop with ties broken in launch order, for rules that count votes."""
        seen = tally(keys)
        weighs = part_of(self.rule, Answering) is not None
        if weighs or seen.leader is None or seen.v1 != seen.v2 or not launched:
            return stop
        tied = [(place, key) for place, key in zip(launched, keys, strict=False) if key is not None]
        first = min((place, key) for place, key in tied if seen.counts[key] == seen.v1)
        return replace(stop, answer=first[1])

    def stops(self, draws: Draws) -> BoolArray:
        """Return whether it stops after 0..cap votes of every counting order [n, R, cap + 1]."""
        side = self.cap + 1
        asked = np.asarray(ahead_of(self.rule, draws, "in flight"))
        stops = asked == 0
        if self.order == "arrival" and not self.alone:
            seen = draws.tallies
            lead = seen.v1[..., 1:side] - seen.v2[..., 1:side]
            left = np.arange(self.cap - 1, -1, -1, dtype=lead.dtype)
            stops[..., 1:] &= (draws.cast[..., : self.cap] >= LEAST_VOTES) | (lead > left)
        stops[..., 0], stops[..., self.cap] = False, True
        return stops

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Return 1 wherever it goes on, else 0 [n, R, cap + 1], in counting order."""
        return (~self.stops(draws)).astype(np.int16)


def in_flight(rule: Policy, width: object, order: object = "launch") -> Policy:
    """Return a rule with ``width`` paths in flight, votes counted on arrival or in launch order.

    Raises PolicyError for a width outside 1 to the cap, or another order.
    """
    paths = checked_int(rule, "in_flight", width)
    if paths > rule.cap:
        raise PolicyError(f"policy {rule.spec}: in_flight={paths} is above its cap: write {rule.cap} at most")
    for known in ORDERS:
        if order == known:
            return InFlight(rule, paths, known)
    raise PolicyError(f"policy {rule.spec}: order is arrival or launch, not {order!s:.40}")


def in_flight_of(policy: Policy) -> InFlight | None:
    """Return a policy's in-flight wrapper; None for one that draws in rounds."""
    return part_of(policy, InFlight)
