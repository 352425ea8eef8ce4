"""The interface of a policy: when to stop drawing paths, and what to answer.

A policy is pure: the same view gives the same decision, live or replayed. Votes are seen in launch
order, never in order of arrival. The stopping rule and the vote rule are separate: any stopping rule
can be followed by a vote weighted by confidence (``lead_k:3,weight=confidence,temperature=0.2``).
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keff import plugins
from keff.errors import PluginError, PolicyError
from keff.policy_spec import DEFAULT_CAP, PolicySpec, check_cap, format_spec
from keff.stats.draws import Draws
from keff.stats.votes import FloatArray, IntArray, Votes

Need = Literal["answers", "confidence", "text", "labels", "branches"]
WeightKind = Literal["vote_share", "posterior", "e_value", "weighted_share"]

DRIVER_OPTIONS = ("weight", "temperature")
"""Options that every policy takes, because they choose the vote and not the stopping rule."""

__all__ = [
    "DEFAULT_CAP",
    "Branching",
    "ConfidenceVote",
    "Fittable",
    "Need",
    "Policy",
    "PolicySpec",
    "PolicyWarning",
    "Sample",
    "Stop",
    "Tally",
    "Vectorised",
    "View",
    "WeightKind",
    "Weighting",
    "for_one_model",
    "format_spec",
    "parse_policy",
    "tally",
]


class PolicyWarning(UserWarning):
    """A policy is legal but surely not what was meant."""


@dataclass(frozen=True, slots=True)
class View:
    """All that a policy may see of one item: the paths so far, in launch order.

    ``keys`` are canonical vote keys (None abstains: it costs, and does not vote). ``confidence`` is one
    number per path where the policy needs it, else empty. ``branches`` names the branch of each path
    where there are several, else it is empty. Never the gold answer, nor how many paths a recording holds.
    """

    keys: Sequence[str | None]
    confidence: Sequence[float] = ()
    branches: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """Draw ``m`` more paths at once: no vote among them can make the policy stop before the last.

    ``branches`` names the branch of each of the ``m`` paths, in launch order; it is empty where a policy
    knows one branch only.
    """

    m: int
    branches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop and answer: ``answer`` is a key or None, ``weight`` its strength as named by ``kind``."""

    answer: str | None
    weight: float
    kind: WeightKind
    reason: str


class Policy(Protocol):
    """A stopping rule with its vote rule. Made by ``parse_policy("lead_k:3,cap=16")``.

    ``spec`` is the canonical string that makes it again; ``cap`` the most paths it ever draws; ``needs``
    what a view must carry; ``monotone``: a vote for the leader never makes it draw longer.
    """

    @property
    def spec(self) -> str:
        """The string that makes this policy again."""
        ...

    @property
    def cap(self) -> int:
        """The most paths that it draws."""
        ...

    @property
    def needs(self) -> frozenset[Need]:
        """What a view must carry."""
        ...

    @property
    def monotone(self) -> bool:
        """Whether a vote for the leader never makes it draw longer."""
        ...

    def decide(self, view: View) -> Sample | Stop:
        """Say what to do after the paths in ``view`` (none at the first call)."""
        ...


@runtime_checkable
class Fittable(Protocol):
    """A policy that a pilot can fit. Before, it uses a generic prior or refuses to decide (``fitted``)."""

    @property
    def fitted(self) -> bool:
        """Whether it is fitted, or needs no fit."""
        ...

    def fit(self, pilot: Votes) -> Policy:
        """Return the fitted policy, whose spec carries all that was fitted."""
        ...


@runtime_checkable
class Branching(Protocol):
    """A policy that draws from several branches: each ``Sample`` names the branch of every path."""

    @property
    def branches(self) -> tuple[str, ...]:
        """The branches that it may ask, in the order of their first use."""
        ...


@runtime_checkable
class Vectorised(Protocol):
    """A policy that decides on many orders of drawing at once; replay calls ``decide`` on the others."""

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Return what ``decide`` says after each prefix [n, R, cap + 1]: paths to draw, or 0 to stop."""
        ...


@runtime_checkable
class Weighting(Protocol):
    """A policy whose vote is not one path, one vote."""

    def weights(self, draws: Draws, stop: IntArray) -> FloatArray:
        """Return the weight of each path [n, R, cap] when the draws stop after ``stop`` [n, R] paths."""
        ...


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts of the keys seen: ``v1`` for ``leader``, ``v2`` for the runner-up.

    Abstentions are in no count. Among tied answers the first seen leads.
    """

    counts: Counter[str]
    leader: str | None
    v1: int
    v2: int


def tally(keys: Sequence[str | None]) -> Tally:
    """Count the votes of one item."""
    seen = Counter(keys)
    seen.pop(None, None)
    counts: Counter[str] = seen  # type: ignore[assignment]
    if len(counts) < 2:
        for key, count in counts.items():
            return Tally(counts, key, count, 0)
        return Tally(counts, None, 0, 0)
    leader = max(counts, key=counts.__getitem__)  # the first of equals: Counter keeps the order seen
    v1, v2 = counts[leader], max([count for key, count in counts.items() if key != leader])
    return Tally(counts, leader, v1, v2)


def parse_policy(text: str | PolicySpec) -> Policy:
    """Make the policy that a spec names: ``name``, ``name:value`` or ``name:value,key=value,...``.

    Example: ``lead_k:3,cap=16``. ``weight=confidence`` (with ``temperature=T``) goes with every policy.
    Warns (PolicyWarning) when the policy always stops after one of several paths. Raises PolicyError for
    an unknown name or option, or a value outside its range.
    """
    spec = PolicySpec.parse(text) if isinstance(text, str) else text
    options: dict[str, Any] = {
        key: option for key, option in spec.options.items() if key not in DRIVER_OPTIONS
    }
    if "cap" in options:
        check_cap(spec.name, options["cap"])
    if spec.value is not None:
        options["value"] = spec.value
    try:
        policy: Policy = plugins.load("policy", spec.name, **options)
    except PluginError as error:
        raise PolicyError(str(error)) from error
    driver = {key: spec.options[key] for key in DRIVER_OPTIONS if key in spec.options}
    if driver:
        policy = _weighted(policy, **driver)
    _warn_if_single(policy)
    return policy


def for_one_model(policy: Policy, wanted_by: str) -> None:
    """Raise PolicyError for a policy over several branches where only one model is asked."""
    if isinstance(policy, Branching):
        names = ", ".join(policy.branches)
        raise PolicyError(f"{policy.spec} asks the branches {names}, and {wanted_by} draws from one model")


@dataclass(frozen=True, slots=True)
class ConfidenceVote:
    """Stop as ``rule`` does, then answer by the vote weighted by exp(confidence / temperature).

    CISC's softmax over the paths of an item (arXiv 2502.06233): its denominator is common to all answers
    and cancels. A path whose confidence is NaN abstains from this vote.
    """

    rule: Policy
    temperature: float

    @property
    def spec(self) -> str:
        """The string that makes this policy again."""
        rule = PolicySpec.parse(self.rule.spec)
        weighted = {"weight": "confidence", "temperature": self.temperature}
        return str(replace(rule, options={**rule.options, **weighted}))

    @property
    def cap(self) -> int:
        """The most paths that it draws."""
        return self.rule.cap

    @property
    def needs(self) -> frozenset[Need]:
        """What a view must carry."""
        return frozenset[Need]({*self.rule.needs, "confidence"})

    @property
    def monotone(self) -> bool:
        """Whether a vote for the leader never makes it draw longer."""
        return self.rule.monotone

    def decide(self, view: View) -> Sample | Stop:
        """Decide as the stopping rule does; the answer of a stop is the weighted one."""
        decision = self.rule.decide(view)
        if isinstance(decision, Sample):
            return decision
        if len(view.confidence) < min(len(view.keys), self.cap):
            raise PolicyError(f"{self.spec} needs a confidence for each path: sample with log-probabilities")
        answer, share = self._vote(view)
        return Stop(answer, share, "weighted_share", decision.reason)

    def _vote(self, view: View) -> tuple[str | None, float]:
        voters = [
            (key, c)
            for key, c in zip(view.keys[: self.cap], view.confidence, strict=False)
            if key is not None and c == c
        ]
        if not voters:
            return None, 0.0
        top = max(c for _, c in voters)
        totals: dict[str, float] = {}
        for key, c in voters:
            totals[key] = totals.get(key, 0.0) + math.exp((c - top) / self.temperature)
        answer = max(totals, key=totals.__getitem__)
        return answer, totals[answer] / sum(totals.values())

    def weights(self, draws: Draws, stop: IntArray) -> FloatArray:
        """Return exp(confidence / temperature), scaled by item, of the paths before ``stop``."""
        if draws.confidences is None:
            raise PolicyError(f"{self.spec} needs confidences, and these records have none")
        logits = draws.confidences / self.temperature
        top = np.nanmax(logits, axis=(1, 2), keepdims=True, initial=-np.inf)
        raw = np.where(np.isnan(logits), 0.0, np.exp(np.nan_to_num(logits - top)))
        return raw * (np.arange(draws.cap) < stop[..., None])

    @property
    def fitted(self) -> bool:
        """Whether the stopping rule needs no pilot, or has had one."""
        return not isinstance(self.rule, Fittable) or self.rule.fitted

    def fit(self, pilot: Votes) -> ConfidenceVote:
        """Fit the stopping rule, where it can be fitted."""
        return replace(self, rule=self.rule.fit(pilot)) if isinstance(self.rule, Fittable) else self


def _weighted(policy: Policy, weight: object = None, temperature: object = 1.0) -> Policy:
    if weight != "confidence":
        raise PolicyError(f"policy {policy.spec}: the only weight is weight=confidence")
    if not isinstance(temperature, int | float) or not 0 < temperature < float("inf"):
        raise PolicyError(f"policy {policy.spec}: temperature must be a number above 0")
    return ConfidenceVote(policy, float(temperature))


def _warn_if_single(policy: Policy) -> None:
    if policy.cap < 2 or "labels" in policy.needs or isinstance(policy, Branching):
        return
    if isinstance(policy.decide(View(["a"], [0.0])), Stop):
        text = f"{policy.spec} always stops after one path: raise its threshold, or say fixed:1"
        warnings.warn(text, PolicyWarning, stacklevel=3)
