"""The reference values, in exact fractions or 40 digits by a script that knows nothing of keff."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from keff.stats.models.betabinomial import (
    betabinom_logpmf,
    majority_at_k,
    majority_beta_binomial,
    majority_binomial,
    majority_limit,
    majority_table,
    multiclass_p,
)
from keff.stats.votes import Votes
from keff.stats.voting.choose import k_eff, k_eff_block, k_eff_rank, k_eff_rank_equal, k_star, marginal_gain
from keff.stats.voting.correlation import anova_c, pearson_c, pooled_c
from keff.stats.voting.plurality import plurality_at_k
from reference import reference

Args = dict[str, Any]


def _plurality(args: Args) -> float:
    codes = np.repeat(np.arange(len(args["counts"])), args["counts"])[None]
    return plurality_at_k(Votes(codes, (codes == args["correct"]).astype(int)))[args["k"] - 1]


FUNCTIONS: dict[str, Callable[[Args], Any]] = {
    "keff_vote": lambda a: k_eff(a["K"], a["c"]),
    "keff_rank": lambda a: k_eff_rank_equal(a["K"], a["rho"]),
    "keff_rank_of_matrix": lambda a: k_eff_rank(a["R"]),
    "marginal_gain": lambda a: marginal_gain(a["K"], a["c"]),
    "k_star": lambda a: k_star(a["c"], a["eps"], a["K_max"], tuple(a["clip"])),
    "binom_mv": lambda a: majority_binomial(a["K"], a["p"]),
    "betabinom_mv": lambda a: majority_beta_binomial(a["K"], a["p"], a["c"]),
    "betabinom_logpmf": lambda a: betabinom_logpmf(a["K"], a["p"], a["c"])[a["j"]],
    "betabinom_mv_limit": lambda a: majority_limit(a["p"], a["c"]),
    "multiclass_p": lambda a: multiclass_p(a["p"], a["M"]),
    "hypergeom_mv": lambda a: majority_table(a["K"])[a["k"] - 1, a["S"]],
    "hypergeom_mv_mean": lambda a: majority_at_k(a["counts"])[a["k"] - 1],
    "plurality_mv": _plurality,
    "pooled_c_hat": lambda a: pooled_c(Votes.from_correct(a["Y"])),
    "anova_icc": lambda a: anova_c(Votes.from_correct(a["Y"])),
    "pearson_rho": lambda a: pearson_c(Votes.from_correct(a["Y"]))[0],
    "keff_block": lambda a: k_eff_block(Votes.from_correct(a["Y"])),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_reference_values(name):
    for args, value in reference(name):
        got, want = np.asarray(FUNCTIONS[name](args), float), np.asarray(value, float)
        tolerance = 1e-10 if "limit" in name else 1e-12
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=0, err_msg=str(args))
