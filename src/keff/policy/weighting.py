"""Base class of policies that wrap another, and votes weighted by confidence or log odds."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from keff.errors import PolicyError
from keff.policy.spec import PolicySpec
from keff.policy.view import Capability, Fittable, Need, Policy, Sample, Stop, Vectorised, View
from keff.records import Logprobs, frozen, stable_hash
from keff.stats.votes import CONFIDENCE, BoolArray, FloatArray, Int16Array, IntArray, Votes
from keff.stats.voting.calibration import Calibration
from keff.stats.voting.draws import CHANCE, WEIGHT, Draws, at_place

Part = TypeVar("Part")

# Answers [n, R] after some paths, with their credit where labelled.
Answered = tuple[Int16Array, FloatArray | None]


@frozen
class Over:
    """Base class of policies that wrap another ``rule`` and change how it draws or votes."""

    rule: Policy

    @property
    def cap(self) -> int:
        """The most paths that it draws."""
        return self.rule.cap

    @property
    def needs(self) -> frozenset[Need]:
        """The fields a view must have."""
        return self.rule.needs

    @property
    def fitted(self) -> bool:
        """Whether the wrapped rule is fitted, or needs no fit."""
        return not isinstance(self.rule, Fittable) or self.rule.fitted

    def fit(self, pilot: Votes) -> Self:
        """Return the wrapper with its rule fitted to a pilot."""
        return replace(self, rule=self.rule.fit(pilot)) if isinstance(self.rule, Fittable) else self

    def spec_with(self, **options: str | float | None) -> str:
        """Return the rule's policy string with further options, without those that are None."""
        rule = PolicySpec.parse(self.rule.spec)
        given = {name: option for name, option in options.items() if option is not None}
        return str(replace(rule, options={**rule.options, **given}))


def part_of(policy: Policy, kind: type[Part]) -> Part | None:
    """Return the outermost layer of a policy that is of a class, else None."""
    part: object = policy
    while isinstance(part, Over) and not isinstance(part, kind):
        part = part.rule
    return part if isinstance(part, kind) else None


def ahead_of(rule: Policy, draws: Draws, how: str) -> NDArray[Any]:
    """Return the paths a rule requests after each prefix, also beyond earlier stops [n, R, cap + 1]."""
    if not isinstance(rule, Vectorised):
        raise PolicyError(f"{rule.spec} cannot be replayed {how}: it decides on one vote at a time")
    return rule.ahead(draws)


@frozen
class ConfidenceVote(Over):
    """Wrapper that stops as ``rule``, and answers by a vote weighted by exp(confidence / temperature).

    CISC's softmax over the paths of an item (arXiv 2502.06233): its denominator is common to all answers
    and cancels. A path whose confidence is not known abstains from this vote.
    """

    temperature: float
    confidence: str = CONFIDENCE

    @property
    def spec(self) -> str:
        """The policy string, which parses to this policy."""
        named = None if self.confidence == CONFIDENCE else self.confidence
        return self.spec_with(weight="confidence", temperature=self.temperature, confidence=named)

    @property
    def needs(self) -> frozenset[Need]:
        """The fields a view must have."""
        return frozenset[Need]({*self.rule.needs, "confidence"})

    def decide(self, view: View) -> Sample | Stop:
        """Return the rule's decision; a stop has the weighted vote's answer."""
        decision = self.rule.decide(view)
        if isinstance(decision, Sample):
            return decision
        view.check_confidences(min(len(view.keys), self.cap), self)
        voters = [
            (key, c)
            for key, c in zip(view.keys[: self.cap], view.confidence, strict=False)
            if key is not None and math.isfinite(c)
        ]
        top = max([c for _, c in voters], default=0.0)
        powers = [math.exp((c - top) / self.temperature) for _, c in voters]
        sums = totals([key for key, _ in voters], powers)
        answer = largest(sums)
        share = sums[answer] / sum(powers) if answer is not None else 0.0
        return Stop(answer, share, "weighted_share", decision.reason)

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Return the rule's paths to draw next, or 0 to stop, after each prefix [n, R, cap + 1]."""
        return ahead_of(self.rule, draws, "with weights")

    def answered(self, draws: Draws, stop: IntArray) -> Answered:
        """Return answer and credit of the weighted vote; ties (to nine digits) are split."""
        drawn = np.arange(draws.cap) < stop[..., None]
        given = draws.confidences_along(self.confidence)
        known = np.isfinite(given)
        logits = np.where(known, given, -np.inf) / self.temperature
        top = logits.max(axis=(1, 2), keepdims=True)  # scaled by item
        weights = np.exp(np.subtract(logits, top, where=known, out=logits)) * drawn

        def by_answer(values: NDArray[Any]) -> FloatArray:
            """Return the sums of values [n, R, cap] over the paths of each answer [width, n, R]."""
            return np.stack([(values * (draws.codes == code)).sum(axis=2) for code in range(draws.width)])

        support = by_answer(weights)
        # Equal weights are summed in another order for each answer: they tie up to rounding.
        tied = (support > 0) & (support >= support.max(axis=0) * (1 - 1e-9))
        answer = np.where(tied.any(axis=0), tied.argmax(axis=0), -1).astype(np.int16)
        if draws.correct is None:
            return answer, None
        right = by_answer(draws.correct * drawn) / np.maximum(by_answer(drawn), 1)
        return answer, (tied * right).sum(axis=0) / np.maximum(tied.sum(axis=0), 1)


class Answering(Capability):
    """A policy whose answer is not the plain plurality, evaluated on many orders."""

    @abstractmethod
    def answered(self, draws: Draws, stop: IntArray) -> Answered:
        """Return the answer [n, R] after ``stop`` [n, R] paths, with credit where labelled."""
        ...


class Calibrated:
    """Base class of rules that map a confidence to P(right) or a vote weight by a calibration.

    The calibration is held by a plan; a replay brings chances and weights that are cross-fitted.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]
    confidence: str
    calibration: Calibration | None
    # Whether one path may end the vote by itself, however few others have arrived.
    alone: ClassVar[bool] = False

    @property
    def reads(self) -> frozenset[Need]:
        """The confidence that a view must have, and ``calibration`` where none is held."""
        return frozenset({"confidence"} if self.calibration else {"confidence", "calibration"})

    @property
    def named(self) -> str | None:
        """The confidence's name, where not the default."""
        return None if self.confidence == CONFIDENCE else self.confidence

    def held(self, spec: str) -> Calibration:
        """Return the calibration; raises PolicyError where none is held."""
        if self.calibration is None:
            raise PolicyError(
                f"{spec} needs a calibration of its confidence: keff analyze RECORD -o plan.json makes one, "
                "and keff serve --plan plan.json or keff sample --policy plan.json holds it"
            )
        return self.calibration

    @property
    def digest(self) -> str | None:
        """The calibration's hash (None without one), since equal specs may hold different ones."""
        return None if self.calibration is None else stable_hash(asdict(self.calibration))

    def chances(self, draws: Draws, spec: str) -> NDArray[Any]:
        """Return P(right) of each path [n, R, cap]: cross-fitted, or by the held calibration."""
        known = draws.named.get(self.confidence + CHANCE)
        return self.held(spec).chance(draws.confidences_along(self.confidence)) if known is None else known

    def weighed(self, draws: Draws, spec: str) -> Draws:
        """Return the draws with calibrated vote weights."""
        known = draws.named.get(self.confidence + WEIGHT)
        if known is None:
            known = self.held(spec).weight(draws.confidences_along(self.confidence)).astype(np.float32)
        return draws.with_weights(self.confidence, known)


class Bounded(Capability):
    """Protocol of a rule on the number of paths and the two largest vote sums, real-valued."""

    @abstractmethod
    def bound(self, n: Any, v1: Any, v2: Any, most: float) -> Any:
        """Return a mask of the states where the rule stops; ``most`` is the largest vote weight."""
        ...

    @abstractmethod
    def certainty(self, v1: float, v2: float) -> float | None:
        """Return the rule's certainty of its leader; None for rules that only count."""
        ...


@frozen
class LogOddsVote(Over, Calibrated):
    """Wrapper that applies a stopping rule to vote sums weighted by log odds of being right.

    Maximal ratio: other answers share what a path leaves, so its weight is log(p / (1 - p)) - log(q), q the
    chance that two wrong paths agree, in units of an ordinary vote. A rule that is no function of two counts
    stops on plain votes and answers by weighted ones. A path without a confidence is an ordinary vote.
    With ``give_up`` it stops too where two rated answers or more are right with a mean chance below that: of
    a question that looks too hard further paths tell little.
    """

    confidence: str = CONFIDENCE
    calibration: Calibration | None = None
    give_up: float | None = None

    @property
    def spec(self) -> str:
        """The policy string, which parses to this policy."""
        return self.spec_with(weight="log_odds", confidence=self.named, give_up=self.give_up)

    @property
    def needs(self) -> frozenset[Need]:
        """The fields a view must have."""
        return self.rule.needs | self.reads

    def decide(self, view: View) -> Sample | Stop:
        """Stop where the weighted sums satisfy the rule, or it gives up; else draw one more path."""
        held, n = self.held(self.spec), min(len(view.keys), self.cap)
        view.check_confidences(n, self)
        keys, given = view.keys[:n], view.confidence[:n]
        sums = totals(keys, held.weight(given).tolist())
        first, second = [*sorted(sums.values(), reverse=True), 0.0, 0.0][:2]
        rule, sure = self.rule, None
        hopeless = self._hopeless(keys, given, held)
        if isinstance(rule, Bounded):
            if n == 0:
                return Sample(self._first(rule, held.heaviest))
            if not (n == self.cap or hopeless or (first > 0 and rule.bound(n, first, second, held.heaviest))):
                return Sample(1)
            sure = rule.certainty(first, second)
        elif isinstance(decision := rule.decide(view), Sample):
            return decision
        answer = largest(sums)
        why = f"{'given up: ' if hopeless else ''}weights {first:.2f} against {second:.2f}"
        reason = f"{why} after {n} of at most {self.cap} paths"
        if sure is not None:
            return Stop(answer, sure, "posterior", reason)
        return Stop(answer, first / sum(sums.values()) if sums else 0.0, "weighted_share", reason)

    def _hopeless(self, keys: Sequence[str | None], given: Sequence[float], held: Calibration) -> bool:
        """Return whether the rule gives up at these votes."""
        known = [c for key, c in zip(keys, given, strict=True) if key is not None and math.isfinite(c)]
        return len(known) > 1 and float(held.chance(known).sum()) < (self.give_up or 0) * len(known)

    def _first(self, rule: Bounded, most: float) -> int:
        """Return the fewest paths that can stop the rule: they are drawn at once."""
        least = min(2, self.cap) if self.give_up else self.cap
        return next((m for m in range(1, least) if rule.bound(m, m * most, 0.0, most)), least)

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Return the paths to draw next, or 0 to stop, after each prefix [n, R, cap + 1]."""
        if not isinstance(self.rule, Bounded):
            return ahead_of(self.rule, draws, "with weights")
        weighed = self.weighed(draws, self.spec)
        side = self.cap + 1
        most = max(1.0, float(weighed.weights.max(initial=0.0))) if weighed.weights is not None else 1.0
        v1, v2 = weighed.tallies.v1[..., :side], weighed.tallies.v2[..., :side]
        stops = np.broadcast_to(self.rule.bound(np.arange(side), v1, v2, most), v1.shape) & (v1 > 0)
        out = (~(stops | self._hopeless_at(draws))).astype(np.int16)
        out[..., 0], out[..., self.cap] = self._first(self.rule, most), 0
        return out

    def _hopeless_at(self, draws: Draws) -> BoolArray:
        """Return whether the rule gives up after each prefix of every order [n, R, cap + 1]."""
        out = np.zeros((*draws.codes.shape[:2], self.cap + 1), np.bool_)
        if self.give_up:
            known = (draws.codes >= 0) & np.isfinite(draws.confidences_along(self.confidence))
            sums = np.where(known, self.chances(draws, self.spec), np.float32(0)).cumsum(axis=2)
            count = known.cumsum(axis=2)
            out[..., 1:] = ((count > 1) & (sums < self.give_up * count))[..., : self.cap]
        return out

    def answered(self, draws: Draws, stop: IntArray) -> Answered:
        """Return the weighted votes' leader, and its credit."""
        seen = self.weighed(draws, self.spec).tallies
        return at_place(seen.leader, stop), None if seen.credit is None else at_place(seen.credit, stop)


def totals(keys: Sequence[str | None], weights: Sequence[float]) -> dict[str, float]:
    """Return the weighted vote sum of each answer, in order of first use."""
    sums: dict[str, float] = {}
    for key, weight in zip(keys, weights, strict=True):
        if key is not None:
            sums[key] = sums.get(key, 0) + weight
    return sums


def largest(sums: Mapping[str, float]) -> str | None:
    """Return the answer with the largest sum, ties to the first; None without answers."""
    return max(sums, key=sums.__getitem__, default=None)


def leader_of(keys: Sequence[str | None], weights: Sequence[float]) -> str | None:
    """Return the answer with the largest sum of weights, ties to the first seen; None without votes."""
    return largest(totals(keys, weights))


def checked_name(name: object) -> str:
    """Return a valid confidence name; raises PolicyError."""
    if isinstance(name, str) and re.fullmatch(r"[\w.-]+", name):
        return name
    raise PolicyError(f"a confidence is named by letters, digits, dots and dashes, not {str(name)[:40]!r}")


# Confidences that an engine gives, by name; the usual one is the mean.
LOGPROBS = {f"logprob_{part}": part for part in ("mean", "bottom", "total", "answer")}


def logprob_of(summary: Logprobs | None, name: str | None) -> float:
    """Return the named log-probability of a completion; NaN where the server gave none."""
    value = getattr(summary, LOGPROBS.get(name or "", "mean"), None)
    return float("nan") if value is None else float(value)


def calibrated(policy: Policy) -> Calibrated | None:
    """Return the part of a policy that reads a calibrated confidence; None where there is none."""
    return part_of(policy, Calibrated)


def with_calibrations(policy: Policy, known: Mapping[str, Calibration]) -> Policy:
    """Return a policy that holds the calibration of the confidence that it reads, where it is known."""
    if isinstance(policy, Calibrated):
        return replace(policy, calibration=known.get(policy.confidence, policy.calibration))
    if isinstance(policy, Over):
        return replace(policy, rule=with_calibrations(policy.rule, known))
    return policy
