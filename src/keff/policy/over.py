"""Base classes of policies that wrap another policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self, TypeVar

from keff.policy.spec import PolicySpec
from keff.policy.view import Fittable, Need, Policy, Weighting
from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting.draws import Draws

Part = TypeVar("Part")


@dataclass(frozen=True)
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
    def monotone(self) -> bool:
        """Whether a vote for the leader never makes it draw longer: as the rule, where only it stops."""
        return self.rule.monotone

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


class WeighingAsRule(Over):
    """A policy around a rule that weighs its votes: it weighs them alike."""

    def weights(self, draws: Draws, stop: IntArray) -> FloatArray:
        """Return the weights of the rule."""
        assert isinstance(self.rule, Weighting)
        return self.rule.weights(draws, stop)
