"""Stop when the leader is probably the most likely answer, under a uniform prior (Adaptive-Consistency)."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.errors import PolicyError
from keff.policies._table import BoundedTable, TablePolicy, beats_half, check_value
from keff.policy import Policy, Sample, Stop, View, tally
from keff.policy.spec import DEFAULT_CAP, format_spec
from keff.stats.votes import FloatArray
from keff.stats.voting.draws import Draws


def policy(value: float | None = 0.95, *, cap: int = DEFAULT_CAP, rule: str = "beta") -> Policy:
    """Return ``adaptive_consistency:threshold`` (default 0.95); ``rule`` is ``beta`` or ``dirichlet``.

    Aggarwal et al. 2023 (arXiv 2305.11860). The Dirichlet runs over all answers seen, by quadrature. The
    threshold is a posterior under a uniform prior, not an error rate. Up to 0.75 it stops at one path.
    """
    threshold = check_value("adaptive_consistency", value, 0, 1)
    if rule not in ("beta", "dirichlet"):
        raise PolicyError(f"adaptive_consistency: rule must be beta or dirichlet, not {rule}")
    spec = format_spec("adaptive_consistency", threshold, cap=cap, rule=None if rule == "beta" else rule)
    if rule == "dirichlet":
        return DirichletPolicy(spec, threshold, cap)
    beta = beats_half(cap)
    table = np.broadcast_to(beta >= threshold, (cap + 1,) * 3)
    return BoundedTable(spec, cap, partial(_sure, threshold), (table, beta, _beta))


def _sure(threshold: float, n: Any, v1: Any, v2: Any, most: float) -> Any:  # noqa: ARG001
    # Rounding must not hide a posterior that is the threshold itself, such as .9375 of three votes.
    return _beta(v1, v2) >= threshold - 1e-12


def _beta(v1: Any, v2: Any) -> Any:
    """Return P(a share is above 1/2) of sums of votes that need not be whole; needs scipy, as weights do.

    scipy is loaded where it is used: it would double the memory of a gateway that never asks for it.
    """
    from scipy.special import betainc

    return betainc(np.asarray(v2, np.float64) + 1, np.asarray(v1, np.float64) + 1, 0.5)


# Gauss-Legendre with 96 nodes is exact for polynomials up to degree 191.
NODES = 96


@lru_cache(maxsize=8)
def _quadrature(cap: int) -> tuple[FloatArray, FloatArray]:
    """Return the weights [96] and P(v + 1, P^-1(v1 + 1, u)) [cap + 1, cap + 1, 96] at the nodes u."""
    from scipy.special import gammainc, gammaincinv

    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    counts = np.arange(cap + 1.0)
    where = gammaincinv(counts[:, None] + 1, (nodes + 1) / 2)
    return weights / 2, gammainc(counts[None, :, None] + 1, where[:, None, :])


@lru_cache(maxsize=65536)
def dirichlet_posterior(counts: tuple[int, ...], cap: int) -> float:
    """Return the probability that the first answer has the largest share, given counts in falling order.

    Under Dirichlet(1) over the answers seen: the integral over u in (0, 1) of the product over rivals j of
    P(v_j + 1, P^-1(v_1 + 1, u)), P the regularised lower gamma function, by 96 Gauss-Legendre nodes. With
    fewer than three distinct answers it is the Beta posterior.
    """
    v1, *rivals = counts
    if len(rivals) < 2:
        return float(_beta(v1, sum(rivals)))
    weights, below = _quadrature(cap)
    return float(weights @ below[v1, rivals].prod(axis=0))


class DirichletPolicy(TablePolicy):
    """The Dirichlet rule. It never stops before the Beta rule does, so that table is looked up first."""

    def __init__(self, spec: str, threshold: float, cap: int) -> None:
        beta = beats_half(cap)
        super().__init__(spec, np.broadcast_to(beta >= threshold, (cap + 1,) * 3), beta, "posterior")
        self.threshold = threshold
        _quadrature(cap)

    def decide(self, view: View) -> Sample | Stop:
        """Stop at the cap, or when both the Beta and the Dirichlet posterior reach the threshold."""
        keys = view.keys[: self.cap]
        seen = tally(keys)
        m = int(self._table.item(len(keys), seen.v1, seen.v2))
        if m:
            return Sample(m)
        if seen.leader is None:
            return self.stop(seen, len(keys))
        posterior = dirichlet_posterior(tuple(sorted(seen.counts.values(), reverse=True)), self.cap)
        if posterior < self.threshold and len(keys) < self.cap:
            return Sample(1)
        stop = self.stop(seen, len(keys))
        return Stop(stop.answer, posterior, "posterior", stop.reason)

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Decide on every prefix up to the first stop; each distinct set of counts is integrated once."""
        return self._decided(draws, past_stops=False)

    def everywhere(self, draws: Draws) -> NDArray[Any]:
        """Decide on every prefix, past the first stop too."""
        return self._decided(draws, past_stops=True)

    def _decided(self, draws: Draws, *, past_stops: bool) -> NDArray[Any]:
        ahead = super().ahead(draws)
        open_ = np.ones(ahead.shape[:2], np.bool_)
        bags = draws.bags
        known: dict[int, bool] = {}
        for t in range(1, self.cap):
            asked = open_ & (ahead[..., t] == 0) & (draws.distinct[..., t] > 2)
            rows = np.flatnonzero(asked)
            names, first, inverse = np.unique(bags[..., t][asked], return_index=True, return_inverse=True)
            verdicts = np.array(
                [
                    self._certain(draws, int(rows[i]), t, int(name), known)
                    for name, i in zip(names, first, strict=True)
                ],
                np.bool_,
            )
            if len(rows):
                ahead[..., t][asked] = np.where(verdicts[inverse], 0, 1)
            if not past_stops:
                open_ &= ahead[..., t] != 0
        return ahead

    def _certain(self, draws: Draws, row: int, t: int, name: int, known: dict[int, bool]) -> bool:
        if name not in known:
            codes = draws.codes.reshape(-1, draws.cap)[row, :t]
            counts = np.bincount(codes[codes >= 0])
            bag = tuple(np.sort(counts[counts > 0])[::-1].tolist())
            known[name] = dirichlet_posterior(bag, self.cap) >= self.threshold
        return known[name]
