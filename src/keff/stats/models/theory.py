"""The paper's theory, formula by formula, on plain numbers and arrays.

| name | is | where in the paper |
| --- | --- | --- |
| ``k_eff``, ``ceiling``, ``marginal_gain``, ``k_star`` | K/(1+(K-1)c), 1/c, its growth, K* | Eq. 5 and 12 |
| ``k_eff_rank``, ``k_eff_rank_equal`` | effective rank of a covariance | Eq. 4 and 6, Theorem 4.1 |
| ``k_eff_block`` | p(1-p) over the variance of a vote share | appendix on block estimates |
| ``multiclass_p`` | accuracy against the strongest wrong answer | multiclass appendix |
| ``c_from_rho_d``, ``rho_d_from_c`` | Gaussian decision surrogate and its inverse | Proposition 3.4 |
| ``gls_weights``, ``gls_risk``, ``gain_over_uniform`` | generalised least squares | Theorem 4.4, Cor. 4.7 |
| ``mrc_weights``, ``symmetric_covariance`` | its special cases | Corollary 4.5 |
| ``majority_binomial``, ``majority_beta_binomial`` | majority votes, independent, correlated | Eq. 7 and 9 |
| ``OneFactorCopula``, ``fit_copula`` | votes of unequal slots | ours: the surrogate for unequal accuracies |
"""

from __future__ import annotations

from keff.stats.branches.gls import (
    gain_over_uniform,
    gls_risk,
    gls_weights,
    mrc_weights,
    symmetric_covariance,
)
from keff.stats.models.betabinomial import majority_beta_binomial
from keff.stats.models.gaussian import OneFactorCopula, c_from_rho_d, fit_copula, rho_d_from_c
from keff.stats.voting.choose import k_star
from keff.stats.voting.diversity import (
    ceiling,
    k_eff,
    k_eff_block,
    k_eff_rank,
    k_eff_rank_equal,
    marginal_gain,
)
from keff.stats.voting.majority import majority_binomial, multiclass_p

__all__ = [
    "OneFactorCopula",
    "c_from_rho_d",
    "ceiling",
    "fit_copula",
    "gain_over_uniform",
    "gls_risk",
    "gls_weights",
    "k_eff",
    "k_eff_block",
    "k_eff_rank",
    "k_eff_rank_equal",
    "k_star",
    "majority_beta_binomial",
    "majority_binomial",
    "marginal_gain",
    "mrc_weights",
    "multiclass_p",
    "rho_d_from_c",
    "symmetric_covariance",
]
