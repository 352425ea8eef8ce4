"""Base classes of policies that wrap another policy."""

from __future__ import annotations

from dataclasses import dataclass, replace

from keff.policy.spec import PolicySpec
from keff.policy.view import Fittable, Need, Policy, Weighting
from keff.stats.votes import FloatArray, IntArray
from keff.stats.voting.draws import Draws


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
    def fitted(self) -> bool:
        """Whether the rule needs no pilot, or has had one."""
        return not isinstance(self.rule, Fittable) or self.rule.fitted

    def spelled(self, **options: str | float) -> str:
        """Return the string of the rule with further options."""
        rule = PolicySpec.parse(self.rule.spec)
        return str(replace(rule, options={**rule.options, **options}))


class WeighingAsRule(Over):
    """A policy around a rule that weighs its votes: it weighs them alike."""

    def weights(self, draws: Draws, stop: IntArray) -> FloatArray:
        """Return the weights of the rule."""
        assert isinstance(self.rule, Weighting)
        return self.rule.weights(draws, stop)
