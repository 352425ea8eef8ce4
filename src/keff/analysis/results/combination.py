"""Result of ``keff combine``: a panel of judges or template slots, weighted votes, and slot pruning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keff.records import Finding, Interval, Note, Result, frozen, number, percent, text_table
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
class Judge(Result):
    """One judge (prompt, model) of a panel.

    ``answered`` is the share of questions that it answered, and of these everything else is. ``accuracy`` is
    None without gold answers. ``agreement`` is how often another judge answers alike,
    ``nearest`` the judge that does so most and ``nearest_agreement`` how often. ``adds`` is by how much K_eff
    falls without it (None: the judge is set aside, or K_eff has no bound). ``constant`` is the answer that
    it always gives, whatever is right, for which it is set aside.
    """

    name: str
    answered: float
    accuracy: Interval | None
    agreement: float
    nearest: str
    nearest_agreement: float
    adds: float | None
    constant: str | None


@frozen
class PanelVote(Result):
    """A panel's vote against the best single judge, both chosen on other questions than they are judged on.

    ``judges`` are those with a vote, ``accuracy`` the vote's, ``gain`` it minus the best judge's.
    """

    vote: str
    judges: tuple[str, ...]
    accuracy: float
    gain: Interval


@frozen
class Panel(Result):
    """How many independent judges a panel is worth, at most all, and whether it beats the best single one.

    ``agreement`` is how often two judges answer a question alike; ``k_eff_agreement`` what K judges are worth
    where all agreement beyond chance were a shared error: K / (1 + (K - 1) kappa), Fleiss' kappa. With gold
    answers ``k_eff`` is K / (1 + (K - 1) c) of being right, ``best`` the best judge, ``best_accuracy`` that
    of a judge chosen on other questions, where it answered, ``votes`` the panels there, and ``recommended``
    the one that surely beats it (None: ask ``best`` alone). All these are None and empty without.
    """

    judges: tuple[Judge, ...]
    agreement: Interval
    k_eff_agreement: Interval
    k_eff: Interval | None
    best: str | None
    best_accuracy: float | None
    votes: tuple[PanelVote, ...]
    recommended: PanelVote | None

    @property
    def noun(self) -> str:
        """What its members are called."""
        return "slot" if self.judges[0].name.startswith("slot ") else "judge"

    @property
    def gaps(self) -> bool:
        """Whether some judge has no answer to some question."""
        return any(judge.answered < 1 for judge in self.judges)

    @property
    def redundant(self) -> tuple[str, ...]:
        """The judges without whom K_eff is as high."""
        return tuple(
            judge.name for judge in self.judges if judge.adds is not None and judge.adds <= NOTHING_ADDED
        )

    def line(self) -> str:
        """Return whom to ask, or without gold answers what agreement says and what it cannot."""
        size = sum(judge.constant is None for judge in self.judges)
        if self.k_eff is None or self.best is None:
            worth = f"{self.k_eff_agreement.text()} independent ones if they agree because they err together"
            return (
                f"Two of {size} {self.noun}s agree {self.agreement.percent()} of the time. They are worth "
                f"{worth}, and more if they agree because they are right. Only gold answers tell which"
            )
        worth = f"{size} {self.noun}s are worth {self.k_eff.text()} independent ones"
        if self.recommended is None:
            return f"Ask {self.best} alone: keff is not sure that any panel beats it. {worth}"
        found = self.recommended
        which = f"all {size} {self.noun}s" if len(found.judges) == size else ", ".join(found.judges)
        return (
            f"Ask {which} and take the {found.vote}: {100 * found.gain.value:+z.1f} points "
            f"against the best {self.noun} alone. {worth}"
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table of judges, the most accurate first."""
        known = self.k_eff is not None
        order = sorted(
            self.judges,
            key=lambda judge: -(judge.agreement if judge.accuracy is None else judge.accuracy.value),
        )
        return [
            (
                self.noun,
                *(["answers"] if self.gaps else []),
                *(["accuracy"] if known else []),
                "agrees",
                "adds",
                "most like",
            ),
            *(
                (
                    judge.name,
                    *([percent(judge.answered)] if self.gaps else []),
                    *([percent(judge.accuracy)] if known else []),
                    percent(judge.agreement),
                    "–" if judge.adds is None else f"{judge.adds:+.2f}",
                    f"{judge.nearest} ({judge.nearest_agreement:.0%})",
                )
                for judge in order
            ),
        ]

    def statements(self) -> Iterator[str]:
        """Yield the answer, the judges, and each panel against the best of them."""
        yield f"{self.line()}."
        yield f"\n{text_table(self.rows(), f'{self.noun}s, and what each adds to the independent ones')}"
        if self.redundant:
            spare = self.redundant
            many = f"{len(spare)} of them" if len(spare) > MANY else ", ".join(spare)
            yield f"  You can leave out {'any one of ' if len(spare) > 1 else ''}{many} without loss."
        if self.gaps:
            yield "  A question that a judge did not answer does not count for it, neither right nor wrong."
        for judge in self.judges:
            if judge.constant is not None:
                yield f"  {judge.name} always answers {judge.constant!r}: keff sets it aside."
        if self.best_accuracy is not None:
            head = ("vote", "accuracy", f"points against the best {self.noun}")
            rows = [
                (found.vote, percent(found.accuracy), found.gain.mapped(lambda x: 100 * x).text("+z.1f"))
                for found in self.votes
            ]
            best = (f"best {self.noun} alone", percent(self.best_accuracy), "")
            where = f", where the best {self.noun} answered" if self.gaps else ""
            title = f"chosen on other questions than they are judged on{where}"
            yield f"\n{text_table([head, best, *rows], title)}"


# More names than these are counted instead.
MANY = 5

# A judge adds nothing where K_eff without it is at most this much lower.
NOTHING_ADDED = 0.02


@frozen
class Combination(Finding):
    """Result of ``keff combine`` on one record.

    ``slots`` is None if all paths have one prompt. ``slot_cv`` is the coefficient of variation of the
    slots' accuracies. ``oracle_optimism`` is what in-sample weights seem to gain even if all slots are
    equal. ``k_eff`` holds K_eff of the paper and, by deflection, of weighted and abstaining votes.
    ``panel`` takes the slots as judges (None for one prompt). Without gold answers all else is empty.
    """

    path: str
    n: int
    k: int
    slots: tuple[Slot, ...] | None
    slot_cv: float | None
    oracle_optimism: float | None
    weights: tuple[WeightedVote, ...]
    pruning: tuple[Pruning, ...]
    gls_r: RidgeChoice | None
    k_eff: tuple[DeflectionWorth, ...] = ()
    panel: Panel | None = None
    warnings: tuple[Note, ...] = ()

    def line(self) -> str:
        """Return the size of the record and the best cross-fitted gain."""
        if not self.weights:
            gold = self.panel is not None and self.panel.k_eff is not None
            lack = "most of them without some judge" if gold else "without gold answers"
            return f"{self.n} questions x {self.k} paths, {lack}"
        best = max(self.weights, key=lambda row: row.gain)
        return (
            f"{self.n} questions x {self.k} paths. The best weighted vote is {best.rule}, "
            f"{best.scheme.replace('_', ' ')}. On questions that its weights were not learned from it gains "
            f"{_gain(best.gain, best.se)} points over equal weights"
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Return one table row per weighting."""
        return _weight_rows(self.weights)

    def statements(self) -> Iterator[str]:
        """Yield what ``keff combine`` prints."""
        if self.panel is not None:
            yield from self.panel.statements()
            yield ""
        if not self.weights:
            yield f"{self.line()}."
            return
        if self.slots is None:
            rated = any(row.scheme.startswith(("confidence", "log odds of")) for row in self.weights)
            what = "weigh paths by confidence, or equally" if rated else "weigh them equally"
            yield f"All paths have one prompt, so a weight per column means nothing: {what}."
        yield f"{self.line()}."
        yield from weighting(self.slots, self.weights, self.pruning, table=self.panel is None)
        for found in self.k_eff:
            yield f"  K_eff of {self.k} paths, {found.votes}: {found.k_eff.text()} (by deflection)"
        if self.oracle_optimism is not None:
            gain = f"{100 * self.oracle_optimism:.1f} points"
            yield f"  Weights learned on these questions seem to gain {gain} even if slots were equal."
        if self.gls_r is not None:
            yield from _ridge(self.gls_r)


def _gain(gain: float, se: float) -> str:
    """Return a gain in points with its standard error."""
    return f"{100 * gain:+z.1f} ± {100 * se:.1f}"


def _ridge(found: RidgeChoice) -> Iterator[str]:
    """Yield the sentences on GLS-R: its risk on held-out questions and its weights."""
    kept = "keeps equal weights" if found.ridge is None else f"takes the ridge {found.ridge:g}"
    risks = f"{found.held_out_risk:.4g}, that of equal weights is {found.held_out_risk_uniform:.4g}"
    yield f"  GLS-R {kept}. Its risk on held-out questions is {risks}"
    weights = ", ".join(f"{weight:.3f}" for weight in found.weights)
    negative = " (a negative one has no vote)" if min(found.weights) < 0 else ""
    yield f"  its weights: {weights}{negative}"


def weighting(
    slots: Sequence[Slot] | None,
    weights: Sequence[WeightedVote],
    pruning: Sequence[Pruning],
    *,
    table: bool = True,
) -> Iterator[str]:
    """Yield the tables of template slots, weighted votes and pruning."""
    if slots is not None and table:
        head = ("slot", "accuracy", "no answer")
        rows = [(str(slot.slot), percent(slot.accuracy), percent(slot.extraction_failures)) for slot in slots]
        yield f"\n{text_table([head, *rows], 'template slots')}"
    yield f"\n{text_table(_weight_rows(weights), 'weighted votes')}"
    for choice in pruning if slots else ():
        kept = f"keep slots {list(choice.candidate)}" if choice.adopted else "keep all slots"
        yield f"  pruning, {choice.rule}: {kept} (nested gain {_gain(choice.gain, choice.se)} points)"


def _weight_rows(weights: Sequence[WeightedVote]) -> list[tuple[str, ...]]:
    """Return the table of weightings, header first."""
    head = ("vote", "uniform", "cross-fitted", "points ± standard error", "best slot", "in-sample oracle")
    return [
        head,
        *(
            (
                f"{row.rule}, {row.scheme.replace('_', ' ')}",
                number(row.uniform, ".1%"),
                number(row.cross_fitted, ".1%"),
                _gain(row.gain, row.se),
                number(row.best_slot, ".1%"),
                number(row.in_sample, ".1%"),
            )
            for row in weights
        ),
    ]
