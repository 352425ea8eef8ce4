"""What ``keff analyze`` finds in one record: the object of its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from keff.analysis.results.confidences import ConfidenceWorth
from keff.analysis.results.decision import Decision
from keff.analysis.results.matching import Matching
from keff.analysis.results.money import CurvePoint
from keff.analysis.results.recommendation import Recommendation
from keff.records import Finding, Interval, Note, Result, number

# A value at each number of paths.
Curve: TypeAlias = Mapping[int, float]

# The lower and the upper end of an interval.
Limits: TypeAlias = tuple[float, float]

# Limits at each number of paths.
Band: TypeAlias = Mapping[int, Limits]


@dataclass(frozen=True, slots=True)
class KStar(Result):
    """The paper's operating point.

    At the pooled c, at the one-sided 90% lower limit of c, and its interval.
    """

    paper: int
    conservative: int
    lo: int
    hi: int
    epsilon: float
    k_max: int


@dataclass(frozen=True, slots=True)
class Bands(Result):
    """Bootstrap bands of the measured curves, at 1..K paths."""

    majority: Band
    plurality: Band | None


@dataclass(frozen=True, slots=True)
class Predicted(Result):
    """Votes predicted at powers of two up to the cap.

    ``binomial`` is the majority of independent paths, ``beta_binomial`` that of correlated ones; ``bounds``
    hold for every law, and are given beyond the recorded K; ``plurality`` comes from a fitted mixture.
    """

    binomial: Curve
    beta_binomial: Mapping[int, Interval] | None
    bounds: Band | None
    plurality: Mapping[int, Interval] | None


@dataclass(frozen=True, slots=True, repr=False)
class Analysis(Finding):
    """Everything that is found in one record of ``n`` questions with ``k`` paths in ``clusters`` clusters.

    ``p`` is the accuracy of one path; ``c`` the correlation of two paths' correctness (bias-corrected), with
    ``c_anova`` the same without clipping, ``c_pooled`` by Eq. 3 of the paper and ``c_pearson`` the mean over
    pairs of columns, of which ``c_pearson_dropped`` were constant. ``k_eff`` = K/(1+(K-1)c), ``ceiling`` =
    1/c, and ``percent_of_ceiling`` what K paths reach of it. ``majority`` and ``plurality`` are exact
    averages over subsets at 1..K paths, ``flip`` how often the answer after k paths is not that of all.
    ``right_answers_meet`` is the share of pairs of right paths that hold one answer.
    ``confidences`` is what those of the paths are worth (None where there are none).
    ``decision`` is what to draw from now on, ``recommendation`` the same under the names of version 0.2.
    ``curve`` are fixed numbers of paths with their dollars and seconds, where prices or times are known.
    Shares are between 0 and 1; what needs gold answers is None without them.
    """

    n: int
    k: int
    clusters: int
    p: float | None
    c: Interval | None
    c_pooled: float | None
    c_pearson: float | None
    c_pearson_dropped: int | None
    k_eff: Interval | None
    ceiling: Interval | None
    k_eff_block: float | None
    percent_of_ceiling: float | None
    k_star: KStar | None
    c_anova: float | None
    majority: Curve | None
    plurality: Curve | None
    bands: Bands | None
    predicted: Predicted | None
    abstain_rate: float | None
    agreement: float | None
    kappa: float | None
    plurality_share: Curve | None
    flip: Curve | None
    right_answers_meet: Interval | None
    matching: Matching | None
    decision: Decision
    confidences: tuple[ConfidenceWorth, ...] | None
    recommendation: Recommendation
    extraction: Mapping[int, Mapping[str, int]] | None
    integrity: Mapping[str, float | None] | None
    warnings: tuple[Note, ...]
    curve: tuple[CurvePoint, ...] = ()

    @property
    def cap(self) -> int:
        """The most paths one would pay for."""
        return 32 if self.k_star is None else self.k_star.k_max

    def __str__(self) -> str:
        """Return what ``keff analyze`` prints."""
        from keff.analysis.results.summary import statements

        return "\n".join([*statements(self), *(f"warning: {note.message}" for note in self.warnings)])

    def line(self) -> str:
        """Return the size of the record, c, K_eff and what is recommended."""
        c, worth = ("–" if value is None else value.text() for value in (self.c, self.k_eff))
        return f"{self.n} questions x {self.k} paths, c = {c}, K_eff = {worth}; {self.decision.line()}"

    def rows(self) -> list[tuple[str, str]]:
        """Return the estimates that people look at first, and the recommendation."""
        star = self.k_star
        vote = None if self.plurality is None else self.plurality[self.k]
        return [
            ("questions x paths", f"{self.n} x {self.k}"),
            ("accuracy of one path", number(self.p, ".1%")),
            (f"plurality of {self.k} paths", number(vote, ".1%")),
            ("correlation c", "–" if self.c is None else self.c.text()),
            (f"K_eff of {self.k} paths", "–" if self.k_eff is None else self.k_eff.text()),
            ("ceiling 1/c", "–" if self.ceiling is None else self.ceiling.text()),
            ("K*", "–" if star is None else f"{star.paper} [{star.lo}, {star.hi}]"),
            *self.decision.rows(),
        ]
