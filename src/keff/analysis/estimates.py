"""Estimates of one record for ``keff analyze``: correlation, votes by number of paths, decision.

Its curves are votes by the number of paths: measured, with bands, and predicted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal, NamedTuple

import numpy as np

from keff.analysis import adaptive_k as paper_rule
from keff.analysis.decision import Aim, decide
from keff.analysis.matching import field_notes, matching, reading_notes
from keff.analysis.matching import notes as matching_notes
from keff.analysis.money import doublings
from keff.analysis.results.estimates import Analysis, Band, Bands, Curve, KStar, Predicted
from keff.analysis.sources import SourceJackknife, decision_over_sources, source_notes
from keff.analysis.terms import Accounts, Terms
from keff.narrow import fields, number
from keff.reading.ballot import Ballot
from keff.reading.open import Record
from keff.reading.questions import Coded
from keff.records import Estimate, Interval, Note, frozen
from keff.stats.intervals import interval_c, majority_fits, majority_method, pattern_shares
from keff.stats.models.betabinomial import majority_at_k, majority_binomial, majority_curve, majority_table
from keff.stats.models.bounds import majority_bounds
from keff.stats.models.plurality_model import predict_plurality
from keff.stats.sources import SourceScores, correlation, source_variance, variance_left_out
from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting import choose
from keff.stats.voting.alike import pattern_notes, vote_patterns
from keff.stats.voting.choose import ceiling, k_eff_block, k_eff_interval, percent_of_ceiling
from keff.stats.voting.columns import MIXED, column_test, edge_notes
from keff.stats.voting.correlation import (
    agreement,
    anova_c,
    fleiss_kappa,
    pearson_c,
    pooled_c,
    right_answers_meet,
)
from keff.stats.voting.plurality import (
    flip,
    plurality_at_k,
    plurality_at_k_patterns,
    plurality_share,
)

# From more recorded paths, bounds are hardly wider than sampling error, and slow to find.
BOUNDED_PATHS = 16


def by_k(values: FloatArray) -> Curve:
    """Return the points (k, value) of a curve [K], k from 1."""
    return dict(enumerate(map(float, values), 1))


def measured(
    votes: Votes, level: float, left: SourceJackknife | None = None
) -> tuple[Curve, Curve | None, Bands]:
    """Return majority and plurality at 1..K paths, averaged over subsets, with the intervals of shares.

    These are over other sources, too, where votes are ``left`` of random ones. Plurality is None where only
    correctness was recorded. Needs gold labels.
    """
    own = left or SourceJackknife((), votes.k)

    def luck(accuracy: Callable[[Votes], FloatArray]) -> FloatArray | None:
        curves = own.curves(accuracy)
        return None if curves is None else variance_left_out(curves)

    right = votes.counts[vote_patterns(votes).first]
    shares = pattern_shares(majority_table(votes.k)[:, right].T, votes, level, luck(majority_at_k))
    majority = _band(shares)
    # By counts of right paths, so that it is the same to the digit whether answers are known or not.
    curve = by_k(majority_at_k(votes))
    if votes.answers is None:
        return curve, None, Bands(majority, None)
    plurality = _band(pattern_shares(plurality_at_k_patterns(votes), votes, level, luck(plurality_at_k)))
    return curve, by_k(plurality_at_k(votes)), Bands(majority, plurality)


def _band(shares: Sequence[Interval]) -> Band | None:
    limits = {k: share.limits for k, share in enumerate(shares, 1)}
    known = {k: each for k, each in limits.items() if each is not None}
    return known or None


def predicted(votes: Votes, k_max: int, level: float) -> Predicted:
    """Return the predicted votes of up to ``k_max`` paths; needs gold labels."""
    ks = doublings(k_max)
    beyond = [k for k in ks if k > votes.k]
    several = votes.n > 1 and votes.k > 1
    return Predicted(
        binomial={k: float(majority_binomial(k, votes.p)) for k in ks},
        beta_binomial=_beta_binomial(votes, ks, level),
        bounds=_bounds(votes, beyond, level) if several else None,
        plurality={row.k: row.plurality for row in predict_plurality(votes, beyond, level)}
        if several and votes.answers is not None
        else None,
    )


def _bounds(votes: Votes, beyond: list[int], level: float) -> Band | None:
    if not beyond or votes.k > BOUNDED_PATHS:
        return None
    lows, highs = majority_bounds(votes, beyond, level)
    return {k: (float(low), float(high)) for k, low, high in zip(beyond, lows, highs, strict=True)}


def _beta_binomial(votes: Votes, ks: list[int], level: float) -> dict[int, Interval] | None:
    c = usable_c(votes)
    if c is None:
        return None
    fits, curve = majority_fits(votes), majority_curve(ks[-1], votes.p, c)
    curves, method = fits.majority(ks[-1]), majority_method(votes.k)
    out: dict[int, Interval] = {}
    for k in ks[1:]:  # of one path a law of votes says nothing
        value, (lo, hi) = float(curve[k - 1]), fits.majority_interval(curves[:, k - 1], k, level)
        out[k] = Interval(value, min(lo, value), max(hi, value), f"{method}, with the law's error")
    return out


def usable_c(votes: Votes) -> float | None:
    """Return c clipped to the beta-binomial's range; None where it is undefined."""
    if votes.k < 2 or votes.n < 2 or votes.p in (0.0, 1.0):
        return None
    return min(max(anova_c(votes), 0.0), 1.0)


# Beyond this share the accuracy says as much about reading answers as about the answers.
MANY_ABSTENTIONS = 0.2

_ABOVE_K = Note(
    "k_eff_above_k",
    "c came out negative, so K_eff is above K. Paths of a question differ more than by chance, or the record "
    "is too small to show that they are alike.",
)


@frozen
class Settings:
    """Settings of an analysis: epsilon of K*, most paths affordable, level, seed, aim.

    keff predicts votes up to ``k_max`` paths; a decision draws at most ``cap`` (None: what is drawn
    today). ``terms`` are what the user pays and runs today. ``rule`` "adaptive_k" adds the paper's rule,
    and deploys its K*. ``false_accept`` is the share of wrong answers that a checker passes.
    """

    epsilon: float = 0.025
    k_max: int = 32
    cap: int | None = None
    level: float = 0.95
    seed: int = 0
    aim: Aim = field(default_factory=Aim)
    terms: Terms = field(default_factory=Terms)
    rule: Literal["adaptive_k"] | None = None
    false_accept: float | None = None

    @property
    def now(self) -> str | None:
        """What is drawn today; the paper's rule is compared with K_max paths where that is not stated."""
        return self.terms.now or (str(self.k_max) if self.rule else None)


# Notes that say how answers add up in a vote: of answers that are tried again they say nothing.
OF_VOTES = {"right_answers_differ", "all_different", "too_few"}


def analyze(record: Record, settings: Settings) -> Analysis:
    """Return the estimates of one record.

    Needs gold labels for everything but agreement, plurality shares, flip and the decision's paths;
    what cannot be had is None with a warning.
    """
    votes = record.ballot.votes
    if settings.rule is not None:
        paper_rule.check(votes, record.path)
    notes = [*record.ballot.notes]
    left = SourceJackknife.of(votes, record.sources)
    notes.extend(source_notes(left))
    correlation = _correlation(votes, settings, notes, left)
    curves = _curves(votes, settings, left)
    answers = _label_free(votes, notes)
    meeting = _meeting(votes, settings, notes)
    notes.extend(edge_notes(votes))
    notes.extend(pattern_notes(votes))
    integrity = _integrity(record, notes)
    accounts = Accounts.of(votes, record.info.model, settings.terms)
    notes.extend(accounts.notes)
    aim = accounts.aim(settings.aim)
    own, now = accounts.votes, settings.now
    star = None if settings.rule is None else correlation.k_star
    beside = () if star is None else (paper_rule.rule_of(star),)
    decided = decide(
        own,
        aim,
        now=now,
        cap=settings.cap,
        rates=accounts.rates,
        seed=settings.seed,
        beside=beside,
        false_accept=settings.false_accept,
    )
    matched = matching(record.ballot)
    if decided.by_votes:
        notes.extend(matching_notes(matched))
        notes.extend(field_notes(record.ballot))
        notes.extend(reading_notes(record.ballot))
    else:
        notes = [note for note in notes if note.code not in OF_VOTES]
    return Analysis(
        n=votes.n,
        k=votes.k,
        clusters=votes.n_clusters,
        p=None if votes.correct is None else votes.p,
        **correlation._asdict(),
        **curves._asdict(),
        **answers._asdict(),
        right_answers_meet=meeting,
        matching=matched,
        decision=decision_over_sources(decided.decision, left),
        confidences=decided.confidences or None,
        bill=accounts.bill(decided),
        seconds=None
        if decided.decision.expected_paths is None
        else accounts.seconds(decided.decision.policy, now, settings.cap, settings.seed),
        extraction=_extraction(record.ballot),
        integrity=integrity,
        warnings=tuple(dict.fromkeys(notes)),
        curve=accounts.fixed_curve(now, settings.cap, settings.seed),
        adaptive_k=None if star is None else paper_rule.adaptive_k(votes, star, decided, aim),
        tries=decided.tries,
    )


class _Correlation(NamedTuple):
    """Correlation of paths and K_eff; all None where unknown."""

    c: Interval | None = None
    c_pooled: float | None = None
    c_pearson: float | None = None
    c_pearson_dropped: int | None = None
    k_eff: Interval | None = None
    ceiling: Interval | None = None
    k_eff_block: float | None = None
    percent_of_ceiling: float | None = None
    k_star: KStar | None = None
    c_anova: float | None = None


def _correlation(votes: Votes, settings: Settings, notes: list[Note], left: SourceJackknife) -> _Correlation:
    if votes.correct is None:
        notes.append(Note("no_gold", "without gold answers keff cannot know accuracy and correlation"))
        return _Correlation()
    if votes.k < 2 or votes.n < 2:
        what = "path per question" if votes.k < 2 else "question"
        notes.append(Note("too_few", f"one {what} says nothing about correlation"))
        return _Correlation()
    c = interval_c(votes, level=settings.level)
    notes.extend(c.warnings)
    if column_test(votes, np.random.default_rng(settings.seed)).mixed:
        notes.append(MIXED)
    scores = SourceScores.of_votes(votes)
    if left.random and (variance := source_variance(scores)) is not None:
        other = correlation(scores, variance, settings.level)
        c = replace(c, value=other.value, lo=other.lo, hi=other.hi, method=other.method)
    if c.value < 0:
        notes.append(_ABOVE_K)
    pearson, dropped = pearson_c(votes)
    return _Correlation(
        c=c.interval,
        c_pooled=pooled_c(votes),
        c_pearson=pearson,
        c_pearson_dropped=dropped,
        k_eff=k_eff_interval(votes.k, c.interval),
        ceiling=c.interval.mapped(lambda value: float(ceiling(value)), f"from c ({c.method})"),
        k_eff_block=k_eff_block(votes),
        percent_of_ceiling=float(percent_of_ceiling(votes.k, c.value)),
        k_star=_k_star(votes, c, settings),
        c_anova=anova_c(votes),
    )


def _k_star(votes: Votes, c: Estimate, settings: Settings) -> KStar:
    epsilon, k_max = settings.epsilon, settings.k_max
    lo, hi = choose.k_star_interval(c, epsilon, k_max)
    return KStar(
        paper=choose.k_star(pooled_c(votes), epsilon, k_max),
        # The lower limit of an 80% interval lies below the true c in nine of ten records.
        conservative=choose.k_star_interval(interval_c(votes, level=0.8), epsilon, k_max)[1],
        lo=lo,
        hi=hi,
        epsilon=epsilon,
        k_max=k_max,
    )


class _Curves(NamedTuple):
    """Accuracy of votes by number of paths; all None without gold answers."""

    majority: Curve | None = None
    plurality: Curve | None = None
    bands: Bands | None = None
    predicted: Predicted | None = None


def _curves(votes: Votes, settings: Settings, left: SourceJackknife) -> _Curves:
    if votes.correct is None:
        return _Curves()
    curves = measured(votes, settings.level, left)
    return _Curves(*curves, predicted(votes, settings.k_max, settings.level))


class _Answers(NamedTuple):
    """Label-free figures of the answers; all None where only correctness was recorded."""

    abstain_rate: float | None = None
    agreement: float | None = None
    kappa: float | None = None
    plurality_share: Curve | None = None
    flip: Curve | None = None


def _label_free(votes: Votes, notes: list[Note]) -> _Answers:
    if votes.answers is None:
        return _Answers()
    rate = float(np.mean(votes.answers < 0))
    if rate > MANY_ABSTENTIONS:
        notes.append(
            Note(
                "many_abstentions",
                f"keff found no answer in {rate:.0%} of the paths. Look at how it reads them: keff read",
            )
        )
    several = votes.k > 1
    return _Answers(
        abstain_rate=rate,
        agreement=agreement(votes) if several else None,
        kappa=fleiss_kappa(votes) if several and votes.closed else None,
        plurality_share=by_k(plurality_share(votes)),
        flip=by_k(flip(votes)),
    )


def _meeting(votes: Votes, settings: Settings, notes: list[Note]) -> Interval | None:
    if votes.answers is None or votes.correct is None or votes.k < 2:
        return None
    r = right_answers_meet(votes, settings.level).r
    notes.extend(r.warnings)
    return r.interval


def _extraction(ballot: Ballot) -> Mapping[int, Mapping[str, int]] | None:
    """Return by slot how often each extraction rule found the answer, where recorded."""
    rules, votes = ballot.rules, ballot.votes
    if rules is None:
        return None
    slots = np.zeros(votes.k, np.int64) if votes.slots is None else votes.slots
    return {slot: _rule_counts(rules, np.flatnonzero(slots == slot)) for slot in np.unique(slots).tolist()}


def _rule_counts(rules: Coded, columns: IntArray) -> dict[str, int]:
    """Return the extraction rules of some columns with their counts, most frequent first."""
    codes = rules.codes[:, columns]
    counts = np.bincount(codes[codes >= 0], minlength=len(rules.names)).tolist()
    named = Counter({name: count for name, count in zip(rules.names, counts, strict=True) if count})
    return dict(named.most_common())


def _integrity(record: Record, notes: list[Note]) -> dict[str, float | None] | None:
    integrity = record.info.integrity
    if integrity is None:
        return None
    notes.extend(integrity.notes(_temperature(record)))
    return integrity.shares()


def _temperature(record: Record) -> float:
    sampling = fields((record.info.config or {}).get("sampling"))
    stated = number(sampling.get("temperature"))
    return 1.0 if stated is None else float(stated)
