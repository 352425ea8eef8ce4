"""Calculator: the paper's formulas for a given accuracy, correlation and number of paths."""

from __future__ import annotations

from keff.errors import UsageError
from keff.records import Finding, frozen, number
from keff.stats.branches.slots import copula_majority, rho_d_from_c
from keff.stats.models.betabinomial import (
    majority_beta_binomial,
    majority_binomial,
    majority_limit,
    multiclass_p,
)
from keff.stats.voting.choose import (
    PilotDesign,
    ceiling,
    k_eff,
    k_eff_rank_equal,
    k_star,
    marginal_gain,
    percent_of_ceiling,
    pilot_design,
)


@frozen
class Prediction(Finding):
    """K_eff, its ceiling, K*, and the majority vote of correlated and of independent paths.

    ``limit`` is the majority vote as K grows without bound (None for negative c). ``marginal_gain`` is what
    one path more adds to K_eff (Eq. 12 cuts it at epsilon). ``rho_d`` is the correlation of decision scores
    that gives c (Proposition 3.4, inverted), ``k_eff_rank`` the effective rank of paths that correlate so
    (Theorem 4.1), and ``copula`` the majority vote under that Gaussian surrogate; they are None where p is 0
    or 1, or the range of c at that p is left (``copula`` also for negative c). With ``answers`` M,
    ``p_multiclass`` is accuracy against the strongest wrong answer (the paper's multiclass appendix) and
    ``multiclass`` the beta-binomial vote with it: a heuristic for the plurality. ``pilot`` is, if asked for,
    the number of paths per question that measures c best.
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
    marginal_gain: float
    rho_d: float | None = None
    k_eff_rank: float | None = None
    copula: float | None = None
    answers: int | None = None
    p_multiclass: float | None = None
    multiclass: float | None = None
    pilot: PilotDesign | None = None

    def line(self) -> str:
        """Return K_eff and both votes in one sentence."""
        return (
            f"{self.k} paths with c = {self.c:g} are worth {number(self.k_eff)} independent ones; "
            f"majority vote {self.beta_binomial:.2%}, {self.binomial:.2%} if independent"
        )

    def rows(self) -> list[tuple[str, str]]:
        """Return one table row per quantity."""
        return [
            (f"K_eff of {self.k} paths", number(self.k_eff)),
            ("ceiling 1/c", number(self.ceiling)),
            ("majority vote, beta-binomial", number(self.beta_binomial, ".2%")),
            ("majority vote, independent paths", number(self.binomial, ".2%")),
            ("majority vote without bound on K", number(self.limit, ".2%")),
            ("K*", str(self.k_star)),
            ("K_eff gained by one path more", number(self.marginal_gain)),
            ("correlation of decision scores", number(self.rho_d)),
            ("effective rank at that correlation", number(self.k_eff_rank)),
            ("majority vote, Gaussian surrogate", number(self.copula, ".2%")),
            *([("pilot for c: paths per question", str(self.pilot.k))] if self.pilot else []),
            *([("majority vote among M answers", number(self.multiclass, ".2%"))] if self.answers else []),
        ]


def predict(
    p: float,
    c: float,
    k: int,
    *,
    epsilon: float = 0.025,
    k_max: int = 32,
    answers: int | None = None,
    pilot: bool = False,
) -> Prediction:
    """Return the formulas' values at accuracy ``p``, correlation ``c`` and ``k`` paths.

    ``answers`` is how many answers a question may have, for the multiclass heuristic; ``pilot`` adds the best
    pilot for c. Raises UsageError for values outside their ranges.

    Example: ``keff.predict(0.8, 0.6, 32).k_eff``.
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
            marginal_gain=float(marginal_gain(k, c)),
            **_surrogate(p, c, k),
            answers=answers,
            p_multiclass=(among := None if answers is None else float(multiclass_p(p, answers))),
            multiclass=None if among is None else float(majority_beta_binomial(k, among, c)),
            pilot=pilot_design(p, c) if pilot else None,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None


def _surrogate(p: float, c: float, k: int) -> dict[str, float]:
    """Return the Gaussian surrogate's values; empty where it does not exist."""
    try:
        rho_d = rho_d_from_c(c, p)
    except ValueError:
        return {}
    said = {"rho_d": rho_d, "k_eff_rank": float(k_eff_rank_equal(k, rho_d))}
    if rho_d < 0:
        return said
    return said | {"copula": copula_majority(k, p, rho_d)}
