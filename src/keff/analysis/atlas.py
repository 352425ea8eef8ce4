"""One line of the atlas: what was measured on one recorded workload, and what keff's rule does there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from keff.analysis.estimates import Settings, analyze
from keff.analysis.replay.outcomes import expectations, run
from keff.analysis.results.estimates import Analysis, Limits
from keff.analysis.results.recommendation import Recommendation
from keff.analysis.terms import Terms
from keff.errors import UsageError
from keff.policy import parse_policy, policy_now
from keff.reading.open import Record
from keff.records import Interval
from keff.result import Result
from keff.stats.diversity import k_eff
from keff.stats.draws import permuted
from keff.stats.intervals import interval_mean
from keff.stats.votes import Votes

CAP = 32
"""Savings are against 32 paths per question for every workload, so that lines can be compared."""
SHOWN = (1, 8, CAP)
PREDICTED = "predicted"
ORDERS = 40_000
"""Orders of drawing over all questions that tokens are averaged over."""
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

    ``p`` is the accuracy of one path, ``c`` the correlation of two paths' correctness, ``k_eff`` what 32
    paths carry and ``ceiling`` what any number carries, in independent paths. ``plurality`` is the accuracy
    of the most frequent answer of 1, 8 and 32 paths: a subset average where so many were recorded, else its
    method says that it is predicted. ``policy`` is what ``verdict`` recommends; ``mean_paths`` what it draws,
    ``accuracy`` its own, ``kept`` the share of the accuracy of 32 paths it keeps; ``paths_saved`` and
    ``tokens_saved`` the shares of the cost of 32 paths that it saves. ``basis`` says whether these were
    replayed on the recorded paths or predicted from them. Intervals are 95%; None is what the record cannot
    say, and the ceiling where c is not above 0.
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
    plurality: Mapping[int, Interval | None]
    verdict: str
    policy: str
    mean_paths: Interval | None
    accuracy: Interval | None
    kept: Interval | None
    paths_saved: Interval | None
    tokens_saved: Interval | None
    basis: str
    warnings: tuple[str, ...]


def measure(record: Record, about: About, seed: int = 0) -> AtlasEntry:
    """Return the line of one record; raises UsageError where correctness or more than a path is missing."""
    analysis = analyze(record, Settings(k_max=CAP, seed=seed, terms=Terms(now=policy_now(str(CAP)))))
    p, c, advice = single(analysis), analysis.c, analysis.recommendation
    if p is None or c is None or math.isnan(c.value):
        raise UsageError(f"{record.path}: {_WANTED}")
    paths = advice.expected_paths
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
        plurality={k: plurality_at(analysis, k) for k in SHOWN},
        verdict=advice.verdict,
        policy=advice.policy,
        mean_paths=advice.expected_paths_interval or (None if paths is None else _bare(paths)),
        accuracy=advice.expected_plurality,
        kept=None if advice.kept is None else _plain(advice.kept),
        paths_saved=None if advice.change is None else _saved(advice.change.paths),
        tokens_saved=_tokens_saved(record.ballot.votes, advice, seed),
        basis="replayed" if analysis.k >= CAP else PREDICTED,
        warnings=tuple(note.code for note in analysis.warnings),
    )


def single(analysis: Analysis) -> Interval | None:
    """Return the accuracy of one path with its interval; None without gold answers."""
    if analysis.p is None or analysis.bands is None:
        return None
    return Interval(analysis.p, *analysis.bands.majority[1], "cluster_bootstrap")


def plurality_at(analysis: Analysis, k: int) -> Interval | None:
    """Return the plurality of k paths: as recorded where that many were, else as predicted."""
    if analysis.plurality is None or analysis.bands is None or analysis.bands.plurality is None:
        return None
    if k in analysis.plurality:
        band: Limits = analysis.bands.plurality[k]
        return Interval(analysis.plurality[k], *band, "subset average, cluster_bootstrap")
    ahead = None if analysis.predicted is None else (analysis.predicted.plurality or {}).get(k)
    return (
        None if ahead is None else Interval(ahead.value, ahead.lo, ahead.hi, f"{PREDICTED}, {ahead.method}")
    )


def _tokens_saved(votes: Votes, advice: Recommendation, seed: int) -> Interval | None:
    """Return the share of the tokens of 32 paths that is not drawn; None where tokens are unknown.

    Replayed where 32 paths were recorded, with the interval of a ratio of means over questions.
    """
    if votes.tokens is None or advice.expected_tokens is None:
        return None
    full = CAP * votes.tokens.mean(axis=1)
    if votes.k < CAP or votes.answers is None:
        return _bare(1 - advice.expected_tokens / float(full.mean()))
    draws = permuted(votes, CAP, max(ORDERS // votes.n, 16), np.random.default_rng(seed))
    spent = expectations(run(parse_policy(advice.policy), draws), draws, CAP).tokens
    assert spent is not None
    share = float(spent.mean() / full.mean())
    return interval_mean(1 - share - (spent - share * full) / full.mean(), votes.cluster_ids).interval


def _worth(c: Interval) -> Interval:
    ends = [None if end is None else float(k_eff(CAP, end)) for end in (c.hi, c.lo)]
    return Interval(float(k_eff(CAP, c.value)), ends[0], ends[1], f"from c ({c.method})")


def _saved(change: Interval) -> Interval:
    lo, hi = (None if end is None else -end / CAP for end in (change.hi, change.lo))
    return Interval(-change.value / CAP, lo, hi, change.method)


def _plain(value: Interval) -> Interval:
    return Interval(value.value, value.lo, value.hi, value.method)


def _bare(value: float) -> Interval:
    return Interval(value, None, None, "expected")
