"""Policies that wrap another policy, and the votes weighted by confidence or log odds inside any of them."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from keff.errors import PolicyError
from keff.policy.spec import PolicySpec
from keff.policy.view import Capability, Fittable, Need, Policy, Sample, Stop, Vectorised, View
from keff.records import Logprobs, frozen, stable_hash
from keff.stats.votes import CONFIDENCE, FloatArray, IntArray, Votes
from keff.stats.voting.calibration import Calibration
from keff.stats.voting.draws import CHANCE, WEIGHT, Draws, at

Part = TypeVar("Part")


@frozen
class Over:
    """A policy that stops as ``rule`` does, or by it, and differs in how it draws or votes."""

    rule: Policy

    @property
    def cap(self) -> int:
        """The most paths that it draws."""
        return self.rule.cap

    @property
    def needs(self) -> frozenset[Need]:
        """What a view must carry."""
        return self.rule.needs

    @property
    def fitted(self) -> bool:
        """Whether the rule needs no pilot, or has had one."""
        return not isinstance(self.rule, Fittable) or self.rule.fitted

    def fit(self, pilot: Votes) -> Self:
        """Fit the rule, where it can be fitted."""
        return replace(self, rule=self.rule.fit(pilot)) if isinstance(self.rule, Fittable) else self

    def spelled(self, **options: str | float) -> str:
        """Return the string of the rule with further options."""
        rule = PolicySpec.parse(self.rule.spec)
        return str(replace(rule, options={**rule.options, **options}))


def part_of(policy: Policy, kind: type[Part]) -> Part | None:
    """Return the outermost part of a policy that is of a kind: itself or what it wraps, else None."""
    part: object = policy
    while isinstance(part, Over) and not isinstance(part, kind):
        part = part.rule
    return part if isinstance(part, kind) else None


def ahead_of(rule: Policy, draws: Draws, how: str) -> NDArray[Any]:
    """Return what a rule asks for after each prefix, past earlier stops too [n, R, cap + 1]."""
    if not isinstance(rule, Vectorised):
        raise PolicyError(f"{rule.spec} cannot be replayed {how}: it decides on one vote at a time")
    return rule.ahead(draws)


@frozen
class ConfidenceVote(Over):
    """Stop as ``rule`` does, then answer by the vote weighted by exp(confidence / temperature).

    CISC's softmax over the paths of an item (arXiv 2502.06233): its denominator is common to all answers
    and cancels. A path whose confidence is NaN abstains from this vote.
    """

    temperature: float
    confidence: str = CONFIDENCE

    @property
    def spec(self) -> str:
        """The string that makes this policy again."""
        named = {} if self.confidence == CONFIDENCE else {"confidence": self.confidence}
        return self.spelled(weight="confidence", temperature=self.temperature, **named)

    @property
    def needs(self) -> frozenset[Need]:
        """What a view must carry."""
        return frozenset[Need]({*self.rule.needs, "confidence"})

    def decide(self, view: View) -> Sample | Stop:
        """Decide as the stopping rule does; the answer of a stop is the weighted one."""
        decision = self.rule.decide(view)
        if isinstance(decision, Sample):
            return decision
        view.check_confidences(min(len(view.keys), self.cap), self)
        voters = [
            (key, c)
            for key, c in zip(view.keys[: self.cap], view.confidence, strict=False)
            if key is not None and c == c
        ]
        top = max([c for _, c in voters], default=0.0)
        powers = [math.exp((c - top) / self.temperature) for _, c in voters]
        sums = totals([key for key, _ in voters], powers)
        answer = largest(sums)
        share = sums[answer] / sum(powers) if answer is not None else 0.0
        return Stop(answer, share, "weighted_share", decision.reason)

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Decide as the stopping rule does."""
        return ahead_of(self.rule, draws, "with weights")

    def answered(self, draws: Draws, stop: IntArray) -> tuple[NDArray[np.int16], FloatArray | None]:
        """Return the answer of the weighted vote and its credit; ties are split, to nine digits."""
        drawn = np.arange(draws.cap) < stop[..., None]
        logits = draws.rated(self.confidence) / self.temperature
        top = np.nanmax(logits, axis=(1, 2), keepdims=True, initial=-np.inf)  # scaled by item
        weights = np.where(np.isnan(logits), 0.0, np.exp(np.nan_to_num(logits - top))) * drawn
        best, answer = np.zeros(stop.shape), np.full(stop.shape, -1, np.int16)
        total, tied = np.zeros(stop.shape), np.ones(stop.shape)
        for code in range(draws.width):
            held = (draws.codes == code) & drawn
            weight = (weights * held).sum(axis=2)
            right = np.zeros(stop.shape)
            if draws.correct is not None:
                right = (draws.correct * held).sum(axis=2) / np.maximum(held.sum(axis=2), 1)
            # Equal weights are summed in another order for each answer: they tie up to rounding.
            leads = weight > best * (1 + 1e-9)
            joins = ~leads & (weight > 0) & (weight >= best * (1 - 1e-9))
            total = np.where(leads, right, np.where(joins, total + right, total))
            tied = np.where(leads, 1, np.where(joins, tied + 1, tied))
            answer[leads] = code
            best = np.where(leads, weight, best)
        return answer, None if draws.correct is None else total / tied


class Answering(Capability):
    """A policy whose answer on many orders of drawing is not that of one path, one vote."""

    @abstractmethod
    def answered(self, draws: Draws, stop: IntArray) -> tuple[NDArray[np.int16], FloatArray | None]:
        """Return the answer [n, R] after ``stop`` [n, R] paths, and its credit where labels are known."""
        ...


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """What rules share that turn the confidence of this name into P(right), or the weight of a vote.

    The calibration is held by a plan; a replay brings chances and weights that are cross-fitted.
    """

    confidence: str = CONFIDENCE
    calibration: Calibration | None = None
    # Whether one path may end the vote by itself, however few others have arrived.
    alone: ClassVar[bool] = False

    @property
    def unheld(self) -> frozenset[Need]:
        """Return ``calibration`` where there is none."""
        return frozenset[Need]() if self.calibration else frozenset[Need]({"calibration"})

    @property
    def named(self) -> str | None:
        """The name of the confidence where it is not the usual one."""
        return None if self.confidence == CONFIDENCE else self.confidence

    def held(self, spec: str) -> Calibration:
        """Return the calibration; raises PolicyError without one."""
        if self.calibration is None:
            raise PolicyError(
                f"{spec} needs a calibration of its confidence: keff analyze RECORD -o plan.json makes one, "
                "and keff serve --plan plan.json or keff sample --policy plan.json holds it"
            )
        return self.calibration

    @property
    def digest(self) -> str | None:
        """The hash of the calibration, None without one: two plans may write the same rule."""
        return None if self.calibration is None else stable_hash(asdict(self.calibration))

    def chances(self, draws: Draws, spec: str) -> NDArray[Any]:
        """Return P(right) of each path [n, R, cap]: cross-fitted, or by the calibration that is held."""
        known = draws.named.get(self.confidence + CHANCE)
        return self.held(spec).chance(draws.rated(self.confidence)) if known is None else known

    def weighed(self, draws: Draws, spec: str) -> Draws:
        """Return the draws with their votes weighted."""
        known = draws.named.get(self.confidence + WEIGHT)
        if known is None:
            known = self.held(spec).weight(draws.rated(self.confidence)).astype(np.float32)
        return draws.weighed(self.confidence, known)


class Bounded(Capability):
    """A rule of the number of paths and the two largest sums of votes, which need not be whole."""

    @abstractmethod
    def bound(self, n: Any, v1: Any, v2: Any, most: float) -> Any:
        """Return where the rule is satisfied; ``most`` is the largest weight of one vote."""
        ...

    @abstractmethod
    def certainty(self, v1: float, v2: float) -> float | None:
        """Return how sure the rule is of its leader; None where it only counts."""
        ...


@frozen
class LogOddsVote(Over, Calibrated):
    """Weigh each vote by its log odds of being right, and stop and answer by the weighted sums.

    Maximal ratio: other answers share what a path leaves, so its weight is log(p / (1 - p)) - log(q), q the
    chance that two wrong paths agree, in units of an ordinary vote. A rule that is no function of two counts
    stops on plain votes and answers by weighted ones. A path without a confidence is an ordinary vote.
    """

    @property
    def spec(self) -> str:
        """The string that makes this policy again."""
        options = {} if self.named is None else {"confidence": self.named}
        return self.spelled(weight="log_odds", **options)

    @property
    def needs(self) -> frozenset[Need]:
        """What a view must carry."""
        return frozenset[Need]({*self.rule.needs, "confidence", *self.unheld})

    def decide(self, view: View) -> Sample | Stop:
        """Stop where the rule is satisfied by the weighted sums; else draw one more path."""
        held, n = self.held(self.spec), min(len(view.keys), self.cap)
        view.check_confidences(n, self)
        sums = totals(view.keys[:n], held.weight(view.confidence[:n]).tolist())
        first, second = [*sorted(sums.values(), reverse=True), 0.0, 0.0][:2]
        rule, sure = self.rule, None
        if isinstance(rule, Bounded):
            if n == 0:
                return Sample(self._first(rule, held.heaviest))
            if n < self.cap and not (first > 0 and rule.bound(n, first, second, held.heaviest)):
                return Sample(1)
            sure = rule.certainty(first, second)
        elif isinstance(decision := rule.decide(view), Sample):
            return decision
        answer = largest(sums)
        reason = f"weights {first:.2f} against {second:.2f} after {n} of at most {self.cap} paths"
        if sure is not None:
            return Stop(answer, sure, "posterior", reason)
        return Stop(answer, first / sum(sums.values()) if sums else 0.0, "weighted_share", reason)

    def _first(self, rule: Bounded, most: float) -> int:
        """Return the fewest paths that can stop the rule: they are drawn at once."""
        enough = (m for m in range(1, self.cap) if rule.bound(m, m * most, 0.0, most))
        return next(enough, self.cap)

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Decide on every prefix of every order."""
        if not isinstance(self.rule, Bounded):
            return ahead_of(self.rule, draws, "with weights")
        weighed = self.weighed(draws, self.spec)
        side = self.cap + 1
        most = max(1.0, float(weighed.weights.max(initial=0.0))) if weighed.weights is not None else 1.0
        v1, v2 = weighed.tallies.v1[..., :side], weighed.tallies.v2[..., :side]
        stops = np.broadcast_to(self.rule.bound(np.arange(side), v1, v2, most), v1.shape) & (v1 > 0)
        out = (~stops).astype(np.int16)
        out[..., 0], out[..., self.cap] = self._first(self.rule, most), 0
        return out

    def answered(self, draws: Draws, stop: IntArray) -> tuple[NDArray[np.int16], FloatArray | None]:
        """Return the leader of the weighted votes, and its credit."""
        seen = self.weighed(draws, self.spec).tallies
        return at(seen.leader, stop), None if seen.credit is None else at(seen.credit, stop)


def totals(keys: Sequence[str | None], weights: Sequence[float]) -> dict[str, float]:
    """Return the sum of the weights of each answer, in order of first use."""
    sums: dict[str, float] = {}
    for key, weight in zip(keys, weights, strict=True):
        if key is not None:
            sums[key] = sums.get(key, 0) + weight
    return sums


def largest(sums: Mapping[str, float]) -> str | None:
    """Return the answer of the largest sum, of equals the first; None without answers."""
    return max(sums, key=sums.__getitem__, default=None)


def leader_of(keys: Sequence[str | None], weights: Sequence[float]) -> str | None:
    """Return the answer of the largest sum of weights, of equals the first seen; None without votes."""
    return largest(totals(keys, weights))


def checked_name(name: object) -> str:
    """Return the name of a confidence; raises PolicyError for what is none."""
    if isinstance(name, str) and re.fullmatch(r"[\w.-]+", name):
        return name
    raise PolicyError(f"confidence is the name of one, letters, digits, dots and dashes, not {name!s:.40}")


# Confidences that an engine gives, by name; the usual one is the mean.
LOGPROBS = {f"logprob_{part}": part for part in ("mean", "bottom", "total", "answer")}


def logprob_of(summary: Logprobs | None, name: str | None) -> float:
    """Return the log-probability that a confidence of this name is, NaN where the server gave none."""
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
