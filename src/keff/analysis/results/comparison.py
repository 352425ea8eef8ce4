"""What ``keff compare`` finds: two arms on the same questions."""

from __future__ import annotations

from dataclasses import dataclass

from keff.analysis.results.combination import Pruning, Slot, WeightedVote
from keff.records import Interval, Note
from keff.result import Finding, Result, number


@dataclass(frozen=True, slots=True)
class Phi(Result):
    """How near slot pairs come to the largest correlation that their accuracies allow; means over pairs."""

    phi: float
    phi_max: float
    ratio: float
    dropped: int


@dataclass(frozen=True, slots=True)
class ArmResult(Result):
    """What one arm is worth.

    ``rho`` is the mean pairwise Pearson correlation, without ``rho_dropped`` constant pairs; ``k_eff`` and
    ``ceiling`` go with it, as in the paper. ``weights`` and ``pruning`` are None under one prompt.
    """

    path: str
    n: int
    k: int
    clusters: int
    p: float
    rho: float
    rho_dropped: int
    c: Interval
    c_pooled: float
    c_anova: float
    k_eff: float
    ceiling: float
    k_eff_block: float
    block_over_vote: float
    majority: float
    plurality: float | None
    agreement: float | None
    answer_diversity: float | None
    slots: tuple[Slot, ...] | None
    slot_cv: float
    phi: Phi
    weights: tuple[WeightedVote, ...] | None
    pruning: tuple[Pruning, ...] | None


@dataclass(frozen=True, slots=True)
class Corrected(Result):
    """The comparison by the bias-corrected c.

    Both values, the relative and the absolute change, and of K_eff.
    """

    c: tuple[float, float]
    delta_c: Interval
    delta_c_absolute: Interval
    delta_k_eff: Interval


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Finding):
    """The second arm against the first on ``shared_items`` questions.

    ``delta_rho`` is the paper's relative change of the mean pairwise correlation; ``delta_p``,
    ``delta_majority`` and ``delta_plurality`` are paired differences of shares.
    """

    arms: tuple[ArmResult, ArmResult]
    shared_items: int
    shared_clusters: int
    design: str
    replicates: int
    delta_rho: Interval
    delta_rho_absolute: Interval
    delta_k_eff: Interval
    corrected: Corrected
    delta_p: Interval
    delta_majority: Interval
    delta_plurality: Interval | None
    warnings: tuple[Note, ...]

    def line(self) -> str:
        """Return the number of shared questions, and the changes of rho and of the vote."""
        name, vote = (
            ("plurality", self.delta_plurality) if self.delta_plurality else ("majority", self.delta_majority)
        )
        return (
            f"{self.shared_items} shared questions, rho {self.delta_rho.text('+.1%')}, {name} "
            f"{vote.text('+.1%')}"
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Return both arms and the change from the first to the second."""
        first, second = self.arms
        plurality = self.delta_plurality
        return [
            ("", first.path, second.path, "change"),
            ("mean pairwise rho", number(first.rho), number(second.rho), self.delta_rho.text("+.1%")),
            ("c, bias-corrected", first.c.text(), second.c.text(), self.corrected.delta_c.text("+.1%")),
            ("K_eff", number(first.k_eff), number(second.k_eff), self.delta_k_eff.text("+.2f")),
            ("one path", number(first.p, ".1%"), number(second.p, ".1%"), self.delta_p.text("+.1%")),
            (
                "majority vote",
                number(first.majority, ".1%"),
                number(second.majority, ".1%"),
                self.delta_majority.text("+.1%"),
            ),
            (
                "plurality",
                number(first.plurality, ".1%"),
                number(second.plurality, ".1%"),
                "–" if plurality is None else plurality.text("+.1%"),
            ),
            ("phi / phi-max", number(first.phi.ratio), number(second.phi.ratio), ""),
            ("K_eff block / vote", number(first.block_over_vote), number(second.block_over_vote), ""),
            ("slot CV", number(first.slot_cv), number(second.slot_cv), ""),
        ]
