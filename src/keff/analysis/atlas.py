"""One line of the atlas: what was measured on one recorded workload, and what keff's rule does there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from keff.analysis.decision import Aim
from keff.analysis.estimates import Settings, analyze
from keff.analysis.replay.outcomes import expectations, rated, run
from keff.analysis.results.decision import Decision, VotingVerdict
from keff.analysis.results.estimates import Analysis
from keff.analysis.terms import Terms
from keff.errors import UsageError
from keff.policy import parse_policy
from keff.policy.spec import PolicySpec
from keff.reading.open import Record
from keff.records import Interval, Result
from keff.stats.intervals import interval_mean
from keff.stats.votes import Votes
from keff.stats.voting.choose import k_eff
from keff.stats.voting.draws import permuted

# Every workload is taken to draw 8 paths today, or what it recorded where that is less, so that lines can be
# compared and nothing in them is predicted.
TODAY = 8
# Orders of drawing over all questions that tokens are averaged over.
ORDERS = 40_000
_WANTED = "the atlas needs gold answers, two paths per question, and questions that differ in difficulty"


@dataclass(frozen=True, slots=True)
class About(Result):
    """What a record is: its name in the atlas, model, data set, how it was sampled, and the source's key."""

    name: str
    model: str
    dataset: str
    setting: str
    source: str


@dataclass(frozen=True, slots=True)
class AtlasEntry(Result):
    """One workload of ``questions`` with ``paths`` recorded paths each.

    ``p`` is the accuracy of one path, ``c`` the correlation of two paths' correctness, ``k_eff`` what 8 paths
    carry and ``ceiling`` what any number carries, in independent paths. ``today`` is the number of paths
    that the decision is against, and ``vote`` the accuracy of the most frequent answer of so many (a subset
    average). ``policy`` is the rule of the decision and ``verdict`` whether to vote; ``mean_paths`` is what
    the rule draws, ``kept`` the share of the accuracy of ``vote`` that it keeps and ``points`` its accuracy
    minus that, ``paths_saved`` and ``tokens_saved`` the shares of the cost of ``today`` that it saves.
    Intervals are 95%; None is what the record cannot say, and the ceiling where c is not above 0.
    """

    name: str
    model: str
    dataset: str
    setting: str
    source: str
    questions: int
    paths: int
    p: Interval
    c: Interval
    k_eff: Interval
    ceiling: Interval | None
    today: int
    vote: Interval | None
    verdict: VotingVerdict | None
    policy: str
    mean_paths: Interval | None
    kept: Interval | None
    points: Interval | None
    paths_saved: Interval | None
    tokens_saved: Interval | None
    warnings: tuple[str, ...]


def measure(record: Record, about: About, seed: int = 0) -> AtlasEntry:
    """Return the line of one record; raises UsageError where correctness or more than a path is missing."""
    votes = record.ballot.votes
    today = min(TODAY, votes.k)
    analysis = analyze(record, Settings(seed=seed, aim=Aim(slower=None), terms=Terms(now=str(today))))
    p, c, decision = single(analysis), analysis.c, analysis.decision
    if p is None or c is None or math.isnan(c.value):
        raise UsageError(f"{record.path}: {_WANTED}")
    change = decision.change
    return AtlasEntry(
        name=about.name,
        model=about.model,
        dataset=about.dataset,
        setting=about.setting,
        source=about.source,
        questions=analysis.n,
        paths=analysis.k,
        p=p,
        c=c,
        k_eff=_worth(c),
        ceiling=analysis.ceiling if c.value > 0 else None,
        today=today,
        vote=_vote(analysis, today),
        verdict=decision.verdict,
        policy=decision.policy,
        mean_paths=decision.expected_paths,
        kept=None if decision.kept is None else _plain(decision.kept),
        points=change.points,
        paths_saved=None if change.paths is None else _saved(change.paths, today),
        tokens_saved=_tokens_saved(votes, decision, today, seed),
        warnings=tuple(note.code for note in analysis.warnings),
    )


def single(analysis: Analysis) -> Interval | None:
    """Return the accuracy of one path with its interval; None without gold answers."""
    if analysis.p is None or analysis.bands is None:
        return None
    return Interval(analysis.p, *analysis.bands.majority[1], "cluster_bootstrap")


def _vote(analysis: Analysis, k: int) -> Interval | None:
    """Return the accuracy of the most frequent answer of k of the recorded paths."""
    if analysis.plurality is None or analysis.bands is None or analysis.bands.plurality is None:
        return None
    band = analysis.bands.plurality[k]
    return Interval(analysis.plurality[k], *band, "subset average, cluster_bootstrap")


def _tokens_saved(votes: Votes, decision: Decision, today: int, seed: int) -> Interval | None:
    """Return the share of the tokens of today's paths that is not drawn; None where tokens are unknown.

    Replayed, with the interval of a ratio of means over questions.
    """
    if votes.tokens is None or votes.answers is None or decision.verdict is None:
        return None
    if PolicySpec.parse(decision.policy).name == "fixed":  # paths are exchangeable: no order to average over
        share = parse_policy(decision.policy).cap / today
        return Interval(1 - share, 1 - share, 1 - share, "exact")
    full = today * votes.tokens.mean(axis=1)
    policy = parse_policy(decision.policy)
    draws = permuted(rated(votes, [policy]), today, max(ORDERS // votes.n, 16), np.random.default_rng(seed))
    spent = expectations(run(policy, draws), draws, today).tokens
    assert spent is not None
    share = float(spent.mean() / full.mean())
    return interval_mean(1 - share - (spent - share * full) / full.mean(), votes.cluster_ids).interval


def _worth(c: Interval) -> Interval:
    ends = [None if end is None else float(k_eff(TODAY, end)) for end in (c.hi, c.lo)]
    return Interval(float(k_eff(TODAY, c.value)), ends[0], ends[1], f"from c ({c.method})")


def _saved(change: Interval, today: int) -> Interval:
    lo, hi = (None if end is None else -end / today for end in (change.hi, change.lo))
    return Interval(-change.value / today, lo, hi, change.method)


def _plain(value: Interval) -> Interval:
    return Interval(value.value, value.lo, value.hi, value.method)
