"""Result of ``keff analyze`` on one record: its JSON object and its words.

The decision comes first, then what it costs, the curve, and what it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeAlias

from keff.analysis.results.adaptive_k import AdaptiveKAdvice
from keff.analysis.results.decision import (
    Bill,
    ConfidenceWorth,
    CurvePoint,
    Decision,
    Seconds,
    confidence_sentences,
)
from keff.analysis.results.tries import Tries
from keff.analysis.results.words import sentences
from keff.policy.spec import PolicySpec
from keff.records import Finding, Interval, Note, Result, frozen, number, percent, text_table
from keff.stats.intervals import SHARE
from keff.stats.voting.choose import k_eff


@frozen
class SplitAnswers(Result):
    """A question whose right paths have different keys (cut to 200 characters)."""

    id: str
    keys: tuple[str, ...]


@frozen
class Matching(Result):
    """Agreement and abstention of a record's answers.

    ``agreement`` is how often two answers of a question have one key (abstentions left out), ``chance`` how
    often they would if every path drew from the pooled answers (closed answer sets only). ``singles`` counts
    the questions, of ``questions`` with two answers or more, whose most frequent key has a single vote.
    ``right_agreement`` is how often two right paths of a question have one key, and ``split`` counts the
    questions where they hold several, of ``right_questions`` with two right paths; ``examples`` are a few of
    these. ``abstentions`` counts abstaining paths by reason. ``rare`` says that votes mean little.
    """

    questions: int
    agreement: float | None
    chance: float | None
    singles: int
    right_questions: int
    right_agreement: float | None
    split: int
    examples: tuple[SplitAnswers, ...]
    abstentions: Mapping[str, int]
    rare: bool


# A value at each number of paths.
Curve: TypeAlias = Mapping[int, float]

# The lower and the upper end of an interval.
Limits: TypeAlias = tuple[float, float]

# Limits at each number of paths.
Band: TypeAlias = Mapping[int, Limits]


@frozen
class KStar(Result):
    """The paper's operating point K*, a conservative one, and its interval.

    At the pooled c, at the one-sided 90% lower limit of c, and its interval.
    """

    paper: int
    conservative: int
    lo: int
    hi: int
    epsilon: float
    k_max: int


@frozen
class Bands(Result):
    """Intervals of the measured curves at 1..K paths, those of shares; None for one independent question."""

    majority: Band | None
    plurality: Band | None


@frozen
class Predicted(Result):
    """Votes predicted at powers of two up to the cap.

    ``binomial`` is the majority of independent paths, ``beta_binomial`` that of correlated ones, at every
    number of paths, as the paper has them. ``bounds`` hold for every law, and ``plurality`` comes from a
    fitted mixture: both are given beyond the recorded K only.
    """

    binomial: Curve
    beta_binomial: Mapping[int, Interval] | None
    bounds: Band | None
    plurality: Mapping[int, Interval] | None


@frozen
class Analysis(Finding):
    """Result of the analysis of one record: ``n`` questions x ``k`` paths in ``clusters`` clusters.

    ``p`` is the accuracy of one path. ``c`` is the correlation of two paths' correctness, corrected for
    bias; ``c_anova`` is the same without clipping, ``c_pooled`` is Eq. 3 of the paper, and ``c_pearson``
    the mean over pairs of columns, without ``c_pearson_dropped`` constant ones. ``k_eff`` = K/(1+(K-1)c),
    ``ceiling`` = 1/c, and ``percent_of_ceiling`` is how much of it K paths reach. ``majority`` and
    ``plurality`` are exact averages over subsets at 1..K paths. ``flip`` is how often the answer after k
    paths differs from that of all paths. ``right_answers_meet`` is the share of pairs of right paths with
    the same answer.

    ``decision`` is what to draw from now on, ``bill`` what that costs (None without prices), ``seconds``
    how long answers then take (None without times). ``curve`` holds the dollars and seconds of fixed
    numbers of paths, if known. ``confidences`` says what the paths' confidences are worth (None without
    any). ``adaptive_k`` is the paper's rule, if asked for (``rule``). ``tries`` is what retries reach if
    a checker judged the paths. Shares are between 0 and 1. What needs gold answers is None without them.
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
    bill: Bill | None
    seconds: Seconds | None
    extraction: Mapping[int, Mapping[str, int]] | None
    integrity: Mapping[str, float | None] | None
    warnings: tuple[Note, ...]
    curve: tuple[CurvePoint, ...] = ()
    adaptive_k: AdaptiveKAdvice | None = None
    tries: Tries | None = None

    @property
    def decided_by_tries(self) -> bool:
        """Whether answers are tried again until one passes, and not voted on."""
        return PolicySpec.parse(self.decision.reference).name == "retry"

    @property
    def policy(self) -> str:
        """The rule to deploy: the decision's, or the paper's K* where that was asked for."""
        return self.decision.policy if self.adaptive_k is None else self.adaptive_k.policy

    @property
    def cap(self) -> int:
        """The most paths the user would pay for."""
        return 32 if self.k_star is None else self.k_star.k_max

    @property
    def single(self) -> Interval | None:
        """The accuracy of one path with its interval; None without gold answers."""
        return None if self.p is None else self.curve_at(self.majority, 1)

    def curve_at(self, curve: Curve | None, k: int) -> Interval | None:
        """Return a point of the ``majority`` or ``plurality`` with its interval; None where unknown."""
        if curve is None or k not in curve:
            return None
        of_votes = curve is self.plurality
        bands = self.bands and (self.bands.plurality if of_votes else self.bands.majority)
        lo, hi = (None, None) if bands is None else bands[k]
        return Interval(curve[k], lo, hi, SHARE)

    def statements(self, *, verbose: bool = False) -> list[str]:
        """Return what ``keff analyze`` prints, warnings apart: tables and the curve have several lines.

        ``verbose`` adds the finer boundaries of the rule, the change that one run may show, and the paper's
        rule.
        """
        first = (
            sentences(self.decision, verbose=verbose)
            if self.adaptive_k is None
            else self.adaptive_k.statements(self.decision, self.c, self.ceiling)
        )
        return [
            *first,
            *_money(self.bill),
            *_time(self.seconds),
            *confidence_sentences(self.confidences or ()),
            *(["", *self.tries.statements()] if self.tries and (verbose or self.decided_by_tries) else ()),
            *self._votes(verbose=verbose),
        ]

    def _votes(self, *, verbose: bool) -> Iterator[str]:
        """Yield what votes of more paths reach; of answers that are not voted on, how alike tries are."""
        if self.decided_by_tries:
            yield from islice(_correlation(self, verbose=verbose), 1)
            return
        yield ""
        yield _table(self) if self.majority else _table_without_labels(self)
        yield from _curve(self)
        yield ""
        yield from _correlation(self, verbose=verbose)

    def line(self) -> str:
        """Return the record's size, c, K_eff and the decision in one line."""
        size = f"{self.n} questions x {self.k} paths"
        return f"{size}, c = {number(self.c)}, K_eff = {number(self.k_eff)}; {self.decision.line()}"

    def rows(self) -> list[tuple[str, str]]:
        """Return the table of the main estimates and the decision."""
        star = self.k_star
        vote = None if self.plurality is None else self.plurality[self.k]
        return [
            ("questions x paths", f"{self.n} x {self.k}"),
            ("accuracy of one path", number(self.p, ".1%")),
            (f"plurality of {self.k} paths", number(vote, ".1%")),
            ("correlation c", number(self.c)),
            (f"K_eff of {self.k} paths", number(self.k_eff)),
            ("ceiling 1/c", number(self.ceiling)),
            ("K*", "–" if star is None else f"{star.paper} [{star.lo}, {star.hi}]"),
            *self.decision.rows(),
        ]


# Doublings: what another path is worth falls that fast.
SHOWN = (1, 2, 4, 8, 16, 32, 64, 128)
BARS = "▁▂▃▄▅▆▇█"
# One line of a terminal of 80 columns, its label and its two ends included.
MOST_BARS = 32


def _money(bill: Bill | None) -> Iterator[str]:
    """Yield the sentences on dollars."""
    if bill is None:
        return
    line = f"keff costs {_dollars(bill.per_1000)} per 1,000 questions"
    if bill.for_volume is not None:
        line += f", {_dollars(bill.for_volume)} for {bill.volume:,}"
    yield f"{line}, at the prices of {bill.model}."
    for step in bill.steps:
        each = step.dollars_per_right_answer
        says = "accuracy does not rise" if each is None else f"each further right answer costs ${each:.3g}"
        yield f"From {step.paths_from} to {step.paths_to} answers, {says}."
    back = bill.pays_back_after
    paid = "" if back is None else f", and pays for itself after {back:,.0f} questions"
    yield f"Drawing this record cost ${bill.record:.3g}{paid}."


def _time(seconds: Seconds | None) -> Iterator[str]:
    """Yield the sentence on the time to answer."""
    if seconds is not None and seconds.p50 is not None and seconds.p95 is not None:
        median, slowest = seconds.p50.text(".1f"), seconds.p95.text(".1f")
        yield f"Answers take {median} s (median); the slowest 5% take {slowest} s or longer."


def _dollars(value: Interval | None) -> str:
    return "–" if value is None else f"${value.text('.3g')}"


def _table(analysis: Analysis) -> str:
    cap = analysis.k_star.k_max if analysis.k_star else analysis.k
    head = ["paths", "worth", "plurality", "majority"]
    return text_table([head, *(_row(analysis, k) for k in SHOWN if k <= cap)])


def _row(analysis: Analysis, k: int) -> list[str]:
    """Return a number of paths with the accuracy of its votes: measured, beyond the record predicted."""
    name, votes = str(k), (analysis.curve_at(analysis.plurality, k), analysis.curve_at(analysis.majority, k))
    if k > analysis.k:
        name, ahead = f"{k}, predicted", analysis.predicted
        curves = (None, None) if ahead is None else (ahead.plurality, ahead.beta_binomial)
        votes = tuple((curve or {}).get(k) for curve in curves)
    return [name, _worth(analysis.c, k), *map(_short, votes)]


def _worth(c: Interval | None, k: int) -> str:
    # A c below 0 would make K paths worth more than K independent ones.
    return "–" if c is None or not c.value >= 0 else f"{float(k_eff(k, c.value)):.2f}"


def _table_without_labels(analysis: Analysis) -> str:
    """Return the label-free table: plurality share and stability by number of paths."""
    share, flip = analysis.plurality_share or {}, analysis.flip or {}
    rows = [
        [str(k), percent(share.get(k)), percent(None if k not in flip else 1 - flip[k])]
        for k in sorted({*(k for k in SHOWN if k < analysis.k), analysis.k})
    ]
    head = ["paths", "share of the plurality", f"same answer as all {analysis.k} paths"]
    return text_table([head, *rows])


def _short(value: Interval | None) -> str:
    """Return a share with its limits in whole percents."""
    if value is None:
        return "–"
    if value.limits is None:
        return percent(value.value)
    lo, hi = value.limits
    return f"{percent(value.value)} [{100 * lo:.0f}, {100 * hi:.0f}]"


def _curve(analysis: Analysis) -> Iterator[str]:
    """Yield the plurality curve as block characters, at up to 32 numbers of paths."""
    if analysis.plurality is None or len(analysis.plurality) < 2:
        return
    last = len(analysis.plurality)
    ks = sorted({round(1 + step * (last - 1) / (MOST_BARS - 1)) for step in range(MOST_BARS)})
    values = [analysis.plurality[k] for k in ks]
    low, span = min(values), max(values) - min(values) or 1.0
    bars = (BARS[min(int((value - low) / span * len(BARS)), len(BARS) - 1)] for value in values)
    yield f"Plurality from 1 to {last} paths: {low:.1%} {''.join(bars)} {max(values):.1%}"


def _correlation(analysis: Analysis, *, verbose: bool) -> Iterator[str]:
    c, star = analysis.c, analysis.k_star
    if c is None or star is None or math.isnan(c.value):
        return
    yield (
        f"One path is right {percent(analysis.single)} of the time. Paths of one question tend to be right "
        f"together: their correlation is c = {c.text()}."
        if c.value > 0
        else f"One path is right {percent(analysis.single)} of the time. The correlation of two paths of a "
        f"question is c = {c.text()}."
    )
    if c.value > 0:
        yield (
            f"So {analysis.k} paths are worth {number(analysis.k_eff)} independent ones, and no number of "
            f"paths is worth more than {number(analysis.ceiling)}."
        )
    else:
        yield "That shows no correlation, so keff cannot say yet how much more paths are worth."
    if verbose and analysis.adaptive_k is None:
        yield (
            f"The paper's rule, from c alone: K* = {star.paper} ({star.lo} to {star.hi}; conservative "
            f"{star.conservative}; at most {star.k_max})."
        )
    yield (
        "Plurality is how often the most frequent answer is right, majority how often more than half of the "
        "paths are. Worth counts independent paths. Predicted values lie beyond the paths you recorded, and "
        "come from a fitted model. Brackets hold 95% intervals for questions like these."
    )
