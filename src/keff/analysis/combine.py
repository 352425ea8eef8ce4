"""Combining paths by weight: votes of slots judged by cross-fitting, and GLS-R from path embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from keff.analysis.results.combination import Combination, DeflectionWorth, Slot
from keff.errors import LogError, UsageError
from keff.reading.open import Record
from keff.sampling import EMBEDDINGS
from keff.stats.branches import slots as audit
from keff.stats.branches.gls import RidgeChoice, choose_ridge, gls_r_weights
from keff.stats.branches.weights import (
    Learn,
    Pruning,
    Rule,
    Scheme,
    WeightedVote,
    choose_subset,
    choose_temperature,
    confidence_weights,
    judge_weights,
    oracle_optimism,
)
from keff.stats.resampling import FOLDS
from keff.stats.votes import BoolArray, FloatArray, Votes
from keff.stats.voting.calibrate import calibrate, cross_fitted, informs, within_auc
from keff.stats.voting.choose import k_eff_deflection
from keff.stats.voting.correlation import anova_c

SCHEMES: tuple[Scheme, ...] = ("accuracy", "log_odds", "fisher")


def combine_record(record: Record, seed: int = 0, embeddings: FloatArray | None = None) -> Combination:
    """Return what weighted votes and slot pruning gain on a record.

    ``embeddings`` [n, K, D] add GLS-R. ``oracle_optimism`` is what in-sample accuracy weights seem to gain
    where no slot differs from any other. Raises UsageError without gold answers, with one path, or with fewer
    clusters than folds.
    """
    votes = record.ballot.votes
    if votes.correct is None:
        raise UsageError(f"{record.path} has no gold answers: weights cannot be learned or judged")
    if votes.k < 2 or votes.n_clusters < FOLDS:
        raise UsageError(f"{votes.n_clusters} items x {votes.k} paths are too few for {FOLDS} folds")
    usable = 0 < votes.p < 1 and anova_c(votes) < 1
    weights, pruning = judged(votes, seed, embeddings)
    return Combination(
        path=record.path,
        n=votes.n,
        k=votes.k,
        slots=slot_table(votes),
        slot_cv=audit.slot_cv(votes),
        oracle_optimism=oracle_optimism(votes.p, max(anova_c(votes), 0.0), votes.k, votes.n)
        if usable
        else None,
        weights=weights,
        pruning=pruning,
        gls_r=None if embeddings is None else gls_r(embeddings, seed),
        k_eff=_deflection_worth(votes, seed),
    )


def _deflection_worth(votes: Votes, seed: int) -> tuple[DeflectionWorth, ...]:
    """Return K_eff by deflection of plain, abstention-weighted and confidence-weighted votes.

    A path of chance p weighs max(2p - 1, 0): of all weights those separate most (Cauchy-Schwarz).
    """
    ones = np.ones((votes.n, votes.k))
    kinds = {"plain": ones}
    voting = ones if votes.answers is None else (votes.answers >= 0).astype(np.float64)
    if not voting.all():
        kinds["abstentions at weight 0"] = voting
    for name, given in votes.rated.items():
        if not informs(within_auc(votes, given), len(votes.rated)):
            # All weigh alike: what differs is how the folds' base rates are estimated.
            continue
        chances = cross_fitted(votes, given, np.random.default_rng(seed))[0]
        kinds[f"weighted by {name}"] = voting * np.maximum(2 * chances - 1, 0.0)
    return tuple(DeflectionWorth(name, k_eff_deflection(votes, w, seed)) for name, w in kinds.items())


def judged(
    votes: Votes, seed: int, embeddings: FloatArray | None = None
) -> tuple[tuple[WeightedVote, ...], tuple[Pruning, ...]]:
    """Return weighted votes and slot pruning, cross-fitted beside the best slot and the in-sample oracle.

    Votes by confidence where every path has one, and those of GLS and GLS-R where there are embeddings.
    """
    rules: list[Rule] = ["binary"] if votes.answers is None else ["binary", "plurality"]
    rows: list[WeightedVote] = []
    by_states = {} if embeddings is None else _learners(embeddings, seed)
    learners: dict[str, Scheme | Learn] = {scheme: scheme for scheme in SCHEMES}
    for name, given in votes.rated.items():
        learners[f"log odds of {name}"] = partial(_learn_log_odds, votes, given)
    for rule in rules:
        rows += [judge_weights(votes, learn, rule, seed, name) for name, learn in learners.items()]
        rows += _by_confidence(votes, rule, seed) + _by_embeddings(votes, by_states, rule, seed)
    return tuple(rows), tuple(choose_subset(votes, np.random.default_rng(seed), rule) for rule in rules)


def slot_table(votes: Votes) -> tuple[Slot, ...] | None:
    """Return accuracy and share of unanswered paths of each template slot.

    None under one prompt.
    """
    if votes.slots is None:
        return None
    accuracy = audit.slot_accuracies(votes)
    failures = None if votes.answers is None else audit.extraction_failures(votes)
    return tuple(
        Slot(
            slot=int(slot),
            accuracy=float(accuracy[votes.slots == slot].mean()),
            extraction_failures=None if failures is None else float(failures[votes.slots == slot].mean()),
        )
        for slot in np.unique(votes.slots)
    )


def gls_r(embeddings: FloatArray, seed: int = 0) -> RidgeChoice:
    """Return the GLS-R weights of slots with the ridge that held-out problems prefer (the paper's Eq. 11)."""
    try:
        return choose_ridge(embeddings, np.random.default_rng(seed))
    except ValueError as error:
        raise UsageError(f"GLS-R: {error}") from None


def read_embeddings(run: Path, votes: Votes) -> FloatArray | None:
    """Return the embeddings [n, K, D] of a run, kept beside its paths; None where there are none.

    Raises LogError when the file is no plain array or does not fit the votes.
    """
    source = run / EMBEDDINGS
    if not source.is_file():
        return None
    try:
        array = np.load(source, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise LogError(f"{source} is not an array of NumPy: {error}") from None
    if array.ndim != 3 or array.shape[:2] != (votes.n, votes.k):
        raise LogError(f"{source} has the shape {array.shape}, wanted ({votes.n}, {votes.k}, dimensions)")
    return np.asarray(array, np.float64)


def _by_confidence(votes: Votes, rule: Rule, seed: int) -> list[WeightedVote]:
    """Judge votes weighted by CISC's softmax, its temperature chosen on the other folds."""
    given = votes.confidences
    if given is None or not np.any(np.isfinite(given)):
        return []
    judged = judge_weights(
        votes,
        lambda items: confidence_weights(given, choose_temperature(votes.take(items), rule)),
        rule,
        seed,
        "confidence",
    )
    return [replace(judged, temperature=choose_temperature(votes, rule))]


def _learn_log_odds(votes: Votes, given: FloatArray, items: BoolArray) -> FloatArray:
    """Return the calibrated log-odds weights of a confidence."""
    return calibrate(votes.take(items), given[items]).weight(given)


def _learners(embeddings: FloatArray, seed: int) -> dict[str, Learn]:
    """Return the learners of GLS weights (no ridge) and GLS-R weights."""
    return {
        "gls": lambda items: _voting(gls_r_weights(embeddings[items], 0.0)),
        "gls_r": lambda items: _voting(choose_ridge(embeddings[items], np.random.default_rng(seed)).weights),
    }


def _by_embeddings(votes: Votes, learners: Mapping[str, Learn], rule: Rule, seed: int) -> list[WeightedVote]:
    """Judge votes weighted by GLS on embeddings; a slot of negative weight has no vote."""
    rows: list[WeightedVote] = []
    for scheme, learn in learners.items():
        try:
            rows.append(judge_weights(votes, learn, rule, seed, scheme))
        except ValueError:  # too few items for their covariance, which the line on GLS-R says
            continue
    return rows


def _voting(weights: ArrayLike) -> FloatArray:
    kept = np.maximum(np.asarray(weights, np.float64), 0.0)
    return kept if np.any(kept) else np.ones_like(kept)
