"""Result of ``keff combine``: template slots, weighted votes, and slot pruning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keff.records import Finding, Interval, Result, frozen, number, percent, text_table
from keff.stats.branches.gls import RidgeChoice
from keff.stats.branches.weights import Pruning, WeightedVote


@frozen
class Slot(Result):
    """One template slot: accuracy of its paths, and share of unanswered ones."""

    slot: int
    accuracy: float
    extraction_failures: float | None


@frozen
class DeflectionWorth(Result):
    """K_eff by deflection under one weighting: the plain paths that all recorded ones are worth."""

    votes: str
    k_eff: Interval


@frozen
class Combination(Finding):
    """Result of ``keff combine`` on one record.

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
    gls_r: RidgeChoice | None
    k_eff: tuple[DeflectionWorth, ...] = ()

    def line(self) -> str:
        """Return the size of the record and the best cross-fitted gain."""
        best = max(self.weights, key=lambda row: row.gain)
        return (
            f"{self.n} questions x {self.k} paths; best weighted vote {best.scheme} ({best.rule}), "
            f"gain {best.gain:+.1%} ± {best.se:.1%} cross-fitted, "
            f"{best.in_sample - best.uniform:+.1%} in sample"
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Return one table row per weighting."""
        return _weight_rows(self.weights)

    def statements(self) -> Iterator[str]:
        """Yield what ``keff combine`` prints."""
        yield self.line()
        if self.slots is None:
            rated = any(row.scheme.startswith(("confidence", "log odds of")) for row in self.weights)
            what = "weigh paths by confidence, or equally" if rated else "weigh them equally"
            yield f"All paths have one prompt, so a weight per column means nothing: {what}."
        yield from weighting(self.slots, self.weights, self.pruning)
        for found in self.k_eff:
            yield f"  K_eff of {self.k} paths, {found.votes}: {found.k_eff.text()} (by deflection)"
        if self.oracle_optimism is not None:
            gain = f"{self.oracle_optimism:+.2%}"
            yield f"  if all slots were equal, the in-sample oracle would still look {gain} better"
        if self.gls_r is not None:
            yield from _ridge(self.gls_r)


def _ridge(found: RidgeChoice) -> Iterator[str]:
    """Yield the sentences on GLS-R: its risk on held-out questions and its weights."""
    kept = "equal weights kept" if found.ridge is None else f"ridge {found.ridge:g}"
    risks = f"{found.held_out_risk:.4g} against {found.held_out_risk_uniform:.4g}"
    yield f"  GLS-R: {kept}; held-out risk {risks} of equal weights"
    weights = ", ".join(f"{weight:.3f}" for weight in found.weights)
    negative = " (a negative one has no vote)" if min(found.weights) < 0 else ""
    yield f"  its weights: {weights}{negative}"


def weighting(
    slots: Sequence[Slot] | None, weights: Sequence[WeightedVote], pruning: Sequence[Pruning]
) -> Iterator[str]:
    """Yield the tables of template slots, weighted votes and pruning."""
    if slots is not None:
        head = ("slot", "accuracy", "no answer")
        rows = [(str(slot.slot), percent(slot.accuracy), percent(slot.extraction_failures)) for slot in slots]
        yield f"\n{text_table([head, *rows], 'template slots')}"
    yield f"\n{text_table(_weight_rows(weights), 'weighted votes')}"
    for choice in pruning if slots else ():
        kept = f"keep slots {list(choice.candidate)}" if choice.adopted else "keep all slots"
        yield f"  pruning, {choice.rule}: {kept} (nested gain {choice.gain:+.1%} ± {choice.se:.1%})"


def _weight_rows(weights: Sequence[WeightedVote]) -> list[tuple[str, ...]]:
    """Return the table of weightings, header first."""
    head = ("vote", "uniform", "cross-fitted", "gain ± standard error", "best slot", "in-sample oracle")
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
