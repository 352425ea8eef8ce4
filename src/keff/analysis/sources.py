"""Noise of a score whose paths come from several sources: slots, judges, prompts or branches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from keff.analysis.results.decision import Decision
from keff.analysis.results.scores import Design, Noise, SourceNoise, VarianceSplit
from keff.policy import parse_policy
from keff.reading.open import SourceKind
from keff.records import Interval, Note, frozen
from keff.stats import sources as stats
from keff.stats.intervals import mean_share
from keff.stats.models.betabinomial import majority_at_k
from keff.stats.resampling import clustered_variance
from keff.stats.sources import SourceScores, SourceVariance, variance_left_out
from keff.stats.time import NORMAL_95
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.plurality import plurality_at_k

Bounds = TypeVar("Bounds", bound=Interval)

# The k of pass@k and pass^k that are told.
KS = (1, 2, 4, 8, 16, 32, 64)

# Sizes of evaluation sets in use, for the table of what they can tell apart.
SIZES = (50, 100, 200, 500, 1000, 2000)
# Repeats, or sources, that somebody would pay for.
TIMES = (1, 2, 4, 8, 16)

# Standard deviations of one run that two runs stay within in 95%.
TWO_RUNS = NORMAL_95 * math.sqrt(2)

# Standard deviations between sources come with limits this far apart from fewer of them.
FEW_SOURCES = 5
# Without one of two sources no correlation is left.
LEAST_SOURCES = 3


def rescale(value: Interval, wide: float, low: float = 0.0) -> Interval:
    """Return an interval on 0 to 1 converted to the scale of the scores."""
    return value.mapped(lambda share: low + wide * share)


def with_sources(found: Noise, scores: SourceScores) -> Noise:
    """Return the noise of repeats with what their sources add to it.

    Of random sources all intervals are over questions and sources, and pass^k is told up to half of these.
    Fixed sources are no part of the noise: a run is one of them once more.
    """
    variance = stats.source_variance(scores)
    if variance is None:
        return _not_told_apart(found, scores)
    if scores.random and variance.sources + variance.trials <= 0:
        return _alike(found, scores)
    low, wide = found.scale[0], found.scale[1] - found.scale[0]

    score = stats.mean_score(stats.score_spread(scores, variance), found.clusters)
    told = replace(
        found,
        score=rescale(score, wide, low),
        variance=_split(variance, wide),
        power=(),
        equal_cost=(),
        sources=SourceNoise(
            random=scores.random,
            scores=_scores(scores, low, wide),
            new_source=rescale(stats.new_source(scores, variance), wide, low) if scores.random else None,
            sd=rescale(stats.source_sd(scores, variance), wide) if scores.random else None,
            designs=_designs(scores, variance, wide) if scores.random else (),
        ),
        warnings=(*found.warnings, *_notes(scores, variance)),
    )
    if not scores.random:
        sd = wide * (variance.luck / scores.n) ** 0.5
        most = int(np.bincount(scores.question).min())
        return replace(
            told,
            run_to_run_sd=Interval(sd, None, None, "mean squares of trials"),
            gap_of_two_runs=TWO_RUNS * sd,
            pass_at_k=_up_to(found.pass_at_k, most),
            pass_hat_k=_up_to(found.pass_hat_k, most),
            groups_without_gradient=_up_to(found.groups_without_gradient, most),
        )
    return replace(
        told,
        run_to_run_sd=rescale(stats.run_of_one_source(scores, variance), wide),
        gap_of_two_runs=wide * stats.run_gap(scores, variance),
        c=stats.correlation(scores, variance),
        **_shares(found, scores),
    )


def _up_to(table: Mapping[int, Interval] | None, most: int) -> dict[int, Interval] | None:
    """Return the figures of up to ``most`` paths."""
    return None if table is None else {k: value for k, value in table.items() if k <= most}


def _shares(found: Noise, scores: SourceScores) -> dict[str, Any]:
    """Return pass@k, pass^k, flips and groups of up to half of the sources."""
    if found.pass_hat_k is None:
        return {"pass_at_k": None, "pass_hat_k": None, "flips": None, "groups_without_gradient": None}
    cells = np.unique(scores.question * scores.size + scores.source) // scores.size
    most = min(scores.size // 2, int(np.bincount(cells).min()) - 1)
    ks = [k for k in KS if k <= most]

    def right(k: int) -> Interval:
        return stats.over_sources(scores, lambda some: stats.all_right(some, k))

    def wrong(k: int) -> Interval:
        return stats.over_sources(scores, lambda some: stats.all_right(some, k, wrong=True))

    def alike(k: int) -> Interval:
        return stats.over_sources(
            scores, lambda some: stats.all_right(some, k) + stats.all_right(some, k, wrong=True)
        )

    return {
        "pass_at_k": {k: wrong(k).mapped(lambda share: 1 - share) for k in ks},
        "pass_hat_k": {k: right(k) for k in ks},
        "flips": alike(2).mapped(lambda share: 1 - share) if most > 1 else None,
        "groups_without_gradient": {k: alike(k) for k in ks if k in (found.groups_without_gradient or ())},
    }


def _split(variance: SourceVariance, wide: float) -> VarianceSplit:
    square = wide * wide
    parts = (square * max(part, 0.0) for part in (variance.questions, variance.trials, variance.sources))
    questions, trials, sources = parts
    return VarianceSplit(questions, trials, None, sources)


def _scores(scores: SourceScores, low: float, wide: float) -> dict[str, float]:
    means: list[float] = (low + wide * scores.means).tolist()
    return dict(zip(scores.names, means, strict=True))


def _designs(scores: SourceScores, variance: SourceVariance, wide: float) -> tuple[Design, ...]:
    """Return the standard errors of designs; of more trials where sources answered questions twice."""
    # As many independent questions as vary the mean as much: clusters of questions count for less.
    alone = float(scores.question_means.var(ddof=1)) / scores.n
    effect = clustered_variance(scores.question_means, scores.ids) / alone if alone > 0 else 1.0
    clustered = replace(variance, questions=variance.questions * effect)
    trials = (1,) if variance.interaction is None else TIMES
    return tuple(
        Design(
            n,
            s,
            r,
            wide * clustered.standard_error(n, s, r),
            wide * clustered.standard_error(n, s, r, same_questions=True),
        )
        for n in sorted({*SIZES, scores.n})
        for s in sorted({*TIMES, scores.size})
        for r in trials
    )


def _not_told_apart(found: Noise, scores: SourceScores) -> Noise:
    """Return the noise where no question has paths of two sources, or each source its own questions.

    Then sources are the independent units, or the questions are and hold what their sources add.
    """
    low, wide = found.scale[0], found.scale[1] - found.scale[0]
    own = np.unique(scores.question * scores.size + scores.source)
    blocks = own.size == scores.n
    units, text = "questions", "each source answers questions of its own"
    score = found.score
    if blocks and scores.random:
        source = (own % scores.size).astype(np.int64)
        score = rescale(mean_share(scores.question_means, source), wide, low)
        units, text = "sources", "no question has paths of two sources"
    note = Note(
        "sources_not_told_apart",
        f"{text}, so what sources and questions add cannot be told apart: the interval of the score is over "
        f"{units} and holds both",
    )
    return replace(
        found,
        score=score,
        power=(),
        equal_cost=(),
        sources=SourceNoise(scores.random, _scores(scores, low, wide), None, None, ()),
        warnings=(*found.warnings, note),
    )


def _alike(found: Noise, scores: SourceScores) -> Noise:
    """Return the noise of sources that score alike on every question: of others they tell nothing."""
    note = Note(
        "sources_alike",
        "the sources score alike on every question, so keff cannot tell what another one would score, or how "
        "far two can differ. Ask a judge or prompt that is not a copy of these",
    )
    return replace(
        found,
        run_to_run_sd=None,
        gap_of_two_runs=None,
        c=None,
        variance=None,
        power=(),
        equal_cost=(),
        sources=SourceNoise(
            True, _scores(scores, found.scale[0], found.scale[1] - found.scale[0]), None, None, ()
        ),
        warnings=(*found.warnings, note),
    )


def _notes(scores: SourceScores, variance: SourceVariance) -> Iterator[Note]:
    below = [
        name
        for name, value in (("sources", variance.sources), ("questions", variance.questions))
        if value < 0
    ]
    if below:
        yield Note(
            "no_variance_seen",
            f"the {' and the '.join(below)} differ less than chance alone would make them. Their variance "
            "came out below 0, so keff shows 0. That does not mean that there is none",
        )
    if not scores.random and variance.interaction is None:
        yield Note(
            "one_path_of_each_source",
            "each source answered a question at most once, so keff cannot tell luck from how a source takes "
            "a question: another run of these sources differs by what is shown, or less. Let each answer "
            "some questions twice",
        )
    if scores.random and scores.size < FEW_SOURCES:
        yield Note(
            "few_sources",
            f"with only {scores.size} sources keff knows roughly what another one would do, and more "
            "questions do not help: ask more judges or prompts",
        )
    same = _always_alike(scores)
    if same:
        text = f"{', '.join(same)} scored the same every time. Look at its answers with keff read"
        yield Note("constant_source", text)


def _always_alike(scores: SourceScores) -> list[str]:
    """Return the sources whose scores never vary, where those of others do."""
    high, low = np.full(scores.size, -np.inf), np.full(scores.size, np.inf)
    np.maximum.at(high, scores.source, scores.score)
    np.minimum.at(low, scores.source, scores.score)
    same = np.flatnonzero(high == low)
    return [] if same.size == scores.size else [scores.names[place] for place in same.tolist()]


@frozen
class SourceJackknife:
    """Votes of K paths without each source in turn, of sources that are some of many; none where not so.

    What a figure varies by over them is its variance over sources, by the jackknife. ``few`` are too few.
    """

    votes: tuple[Votes, ...]
    k: int
    few: bool = False

    @classmethod
    def of(cls, votes: Votes, kind: SourceKind | None) -> SourceJackknife:
        """Return the votes without each slot, or each column where all are said to be sources.

        Random sources, unless said to be fixed, are slots of one path each.
        """
        own = np.arange(votes.k) if votes.slots is None else votes.slots
        each: list[int] = np.unique(own).tolist()
        said = kind == "random" or (kind is None and votes.slots is not None and len(each) == votes.k)
        if not said or votes.correct is None:
            return cls((), votes.k)
        if len(each) < LEAST_SOURCES:
            return cls((), votes.k, few=True)
        return cls(tuple(votes.paths(own != one) for one in each), votes.k)

    @property
    def random(self) -> bool:
        """Whether sources are some of many, few or not."""
        return self.few or bool(self.votes)

    def curves(self, accuracy: Callable[[Votes], FloatArray]) -> FloatArray | None:
        """Return accuracy at 1..K paths without each source [S, K]; of more than there are, that of all."""
        if not self.votes:
            return None
        rows = [accuracy(votes) for votes in self.votes]
        return np.stack([np.pad(row, (0, self.k - row.size), "edge") for row in rows])

    def widen(self, interval: Bounds, figures: Sequence[float] | FloatArray, least: float = -1.0) -> Bounds:
        """Return an interval with what its figure varies by over sources, by t, from each left out [S].

        Figures are shares, differences of shares or correlations: between ``least`` and 1.
        """
        if interval.limits is None or len(figures) < LEAST_SOURCES:
            return interval
        reach = float(stdtrit(len(figures) - 1, 0.975)) * math.sqrt(variance_left_out(np.asarray(figures)))
        lo, hi = interval.limits
        value = interval.value
        lo, hi = value - math.hypot(value - lo, reach), value + math.hypot(hi - value, reach)
        return replace(interval, lo=max(lo, least), hi=min(hi, 1.0))


def mean_luck(votes: Votes, units: int) -> float:
    """Return the variance of the mean of right paths [n, K] over random sources: slots, else columns.

    Scaled so that the t of ``units`` independent questions gives the limits that few sources have.
    """
    scores = SourceScores.of_votes(votes)
    if scores.size < 2 or units < 2:
        return 0.0
    found = stats.source_variance(scores)
    wide = float(stdtrit(scores.size - 1, 0.975) / stdtrit(units - 1, 0.975))
    return 0.0 if found is None else max(found.sources, 0.0) * float(np.sum(scores.weights**2)) * wide**2


def decision_over_sources(decision: Decision, left: SourceJackknife) -> Decision:
    """Return a decision whose change of accuracy is for other sources, too.

    Over sources it varies as the plurality of as many paths minus that of the reference's does.
    """
    points, paths, kept = decision.change.points, decision.expected_paths, decision.kept
    if not left.votes or points is None or paths is None:
        return decision
    curves = left.curves(majority_at_k if left.votes[0].answers is None else plurality_at_k)
    assert curves is not None
    today = min(parse_policy(decision.reference).cap, left.k)
    # Between two numbers of paths the accuracy lies between theirs.
    low = min(int(paths.value), left.k)
    part, high = paths.value - low, min(low + 1, left.k)
    rows: FloatArray = (1 - part) * curves[:, low - 1] + part * curves[:, high - 1] - curves[:, today - 1]
    change = replace(decision.change, points=left.widen(points, rows))
    if kept is not None and kept.lo is not None and decision.accuracy and decision.accuracy.value > 0:
        reference = max(decision.accuracy.value - points.value, 1e-9)
        wide = left.widen(kept, rows / reference, 0.0)
        kept = replace(
            wide, confidence=_less_sure(kept.confidence, kept.value - kept.lo, wide.value - (wide.lo or 0.0))
        )
    return replace(decision, change=change, kept=kept)


def _less_sure(confidence: float | None, before: float, after: float) -> float | None:
    """Return a probability whose normal deviate is less by as much as the distance of a limit is more."""
    if confidence is None or not before < after:
        return confidence
    # A probability of 1 is one that no draw of the posterior contradicts.
    z = float(ndtri(min(max(confidence, 1e-3), 1 - 1e-3)))
    return float(ndtr(z * before / after))


def source_notes(left: SourceJackknife) -> Iterator[Note]:
    """Yield what random sources change in an analysis."""
    if left.few:
        yield Note(
            "few_sources",
            f"fewer than {LEAST_SOURCES} sources tell nothing about others, so every interval is for these "
            "alone. Ask more judges or prompts",
        )
    if left.votes:
        yield Note(
            "random_sources",
            f"keff takes the {len(left.votes)} sources of paths as a sample of many: its intervals of "
            "accuracy, c, what the rule changes and how sure it is are for sources like these. It chooses "
            "the rule on these alone. For these sources alone: --sources fixed",
        )
