"""The calculator: what the formulas say of an accuracy, a correlation and a number of paths."""

from __future__ import annotations

from dataclasses import dataclass

from keff.errors import UsageError
from keff.result import Finding, number
from keff.stats.betabinomial import majority_beta_binomial, majority_limit
from keff.stats.choose import k_star
from keff.stats.diversity import ceiling, k_eff, percent_of_ceiling
from keff.stats.majority import majority_binomial


@dataclass(frozen=True, slots=True, repr=False)
class Prediction(Finding):
    """K_eff and its ceiling, the majority vote of correlated and of independent paths, and K*.

    ``limit`` is the majority vote as K grows without bound (None for negative c).
    """

    p: float
    c: float
    k: int
    k_eff: float
    ceiling: float
    percent_of_ceiling: float
    beta_binomial: float
    binomial: float
    limit: float | None
    k_star: int
    epsilon: float
    k_max: int

    def line(self) -> str:
        """Return K_eff and both votes."""
        return (
            f"{self.k} paths with c = {self.c:g} are worth {number(self.k_eff)} independent ones; "
            f"majority vote {self.beta_binomial:.2%}, {self.binomial:.2%} if independent"
        )

    def rows(self) -> list[tuple[str, str]]:
        """Return one line for each number."""
        return [
            (f"K_eff of {self.k} paths", number(self.k_eff)),
            ("ceiling 1/c", number(self.ceiling)),
            ("majority vote, beta-binomial", number(self.beta_binomial, ".2%")),
            ("majority vote, independent paths", number(self.binomial, ".2%")),
            ("majority vote without bound on K", number(self.limit, ".2%")),
            ("K*", str(self.k_star)),
        ]


def predict(p: float, c: float, k: int, *, epsilon: float = 0.025, k_max: int = 32) -> Prediction:
    """Return what the formulas say for accuracy ``p``, correlation ``c`` and ``k`` paths.

    Raises UsageError for values outside their ranges.
    """
    try:
        return Prediction(
            p=p,
            c=c,
            k=k,
            k_eff=float(k_eff(k, c)),
            ceiling=float(ceiling(c)),
            percent_of_ceiling=float(percent_of_ceiling(k, c)),
            beta_binomial=float(majority_beta_binomial(k, p, c)),
            binomial=float(majority_binomial(k, p)),
            limit=majority_limit(p, c) if c >= 0 else None,
            k_star=int(k_star(c, epsilon=epsilon, k_max=k_max)),
            epsilon=epsilon,
            k_max=k_max,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
