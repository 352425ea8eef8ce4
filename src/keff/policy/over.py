"""What every policy that goes around another has of it: the cap, what a view must carry, the fit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from keff.policy.spec import PolicySpec
from keff.policy.view import Fittable, Need, Policy


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
