"""What ``keff combine`` finds: weighted votes, pruned slots and GLS-R."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keff.records import Finding, Interval, Result, number


@dataclass(frozen=True, slots=True)
class Slot(Result):
    """One template slot: the accuracy of its paths, and the share of them without an answer."""

    slot: int
    accuracy: float
    extraction_failures: float | None


@dataclass(frozen=True, slots=True)
class WeightedVote(Result):
    """One weighting under one rule of voting, cross-fitted, beside equal weights and the best slot.

    ``in_sample`` is the oracle: weights judged on the questions that they were learned from. ``gain`` is
    cross-fitted minus uniform with its standard error; ``weights`` are of slots and sum to 1 (None where
    paths are weighted); ``temperature`` is that of weights by confidence.
    """

    scheme: str
    rule: str
    uniform: float
    cross_fitted: float
    in_sample: float
    best_slot: float
    gain: float
    se: float
    weights: tuple[float, ...] | None
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class Pruning(Result):
    """Whether fewer slots do as well.

    The slots to keep, and the nested cross-fitted gain of choosing them.
    """

    rule: str
    accuracy: float
    full: float
    gain: float
    se: float
    adopted: bool
    candidate: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GlsR(Result):
    """Weights of slots from hidden states, with the ridge that held-out questions prefer (Eq. 11)."""

    ridge: float | None
    weights: tuple[float, ...]
    held_out_risk: float
    held_out_risk_uniform: float
    se: float
    kept_uniform: bool


@dataclass(frozen=True, slots=True)
class DeflectionWorth(Result):
    """How many plain paths all recorded ones are worth as these votes: ``plain``, or weighted by what."""

    votes: str
    k_eff: Interval


@dataclass(frozen=True, slots=True, repr=False)
class Combination(Finding):
    """Every way of combining the paths of one record.

    ``slots`` is None under one prompt; ``slot_cv`` the coefficient of variation of slot accuracies;
    ``oracle_optimism`` what in-sample accuracy weights seem to gain where no slot differs from any other.
    ``k_eff`` is that of the paper and those of weighted and abstaining votes, by deflection.
    """

    path: str
    n: int
    k: int
    slots: tuple[Slot, ...] | None
    slot_cv: float
    oracle_optimism: float | None
    weights: tuple[WeightedVote, ...]
    pruning: tuple[Pruning, ...]
    gls_r: GlsR | None
    k_eff: tuple[DeflectionWorth, ...] = ()

    def line(self) -> str:
        """Return the size of the record and the best cross-fitted gain."""
        best = max(self.weights, key=lambda row: row.gain)
        return (
            f"{self.n} questions x {self.k} paths; best weighted vote {best.scheme} ({best.rule}), "
            f"gain {best.gain:+.1%} ± {best.se:.1%}"
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Return one line for each weighting."""
        return weight_rows(self.weights)


def weight_rows(weights: Sequence[WeightedVote]) -> list[tuple[str, ...]]:
    """Return one line for each weighting, its header first."""
    head = ("vote", "uniform", "cross-fitted", "gain", "best slot", "in-sample oracle")
    return [
        head,
        *(
            (
                f"{row.rule}, {row.scheme.replace('_', ' ')}",
                number(row.uniform, ".1%"),
                number(row.cross_fitted, ".1%"),
                f"{row.gain:+.1%} ± {row.se:.1%}",
                number(row.best_slot, ".1%"),
                number(row.in_sample, ".1%"),
            )
            for row in weights
        ),
    ]
