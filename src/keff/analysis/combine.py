"""Combining paths by weight: votes of slots judged by cross-fitting, and GLS-R from path embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from keff.analysis.panel import panel_of
from keff.analysis.results.combination import Combination, DeflectionWorth, Panel, Slot
from keff.errors import LogError, UsageError
from keff.logs.parquet import columns_of, is_parquet, rows_of
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
from keff.stats.voting.calibrate import calibrate, cross_fit, informs, within_auc
from keff.stats.voting.choose import k_eff_deflection
from keff.stats.voting.correlation import anova_c

SCHEMES: tuple[Scheme, ...] = ("accuracy", "log_odds", "fisher")


def combine_record(record: Record, seed: int = 0, embeddings: FloatArray | None = None) -> Combination:
    """Return what weighted votes and slot pruning gain on a record.

    ``embeddings`` [n, K, D] add GLS-R. ``oracle_optimism`` is what in-sample accuracy weights seem to gain
    where no slot differs from any other. Without gold answers only the agreement of several slots is known.
    Raises UsageError for one prompt without gold answers, for one path, or fewer clusters than folds.
    """
    votes = (record.with_gaps or record.ballot).votes
    if votes.correct is None and votes.slots is None:
        raise UsageError(f"{record.path} has no gold answers: weights cannot be learned or judged")
    if votes.k < 2:
        raise UsageError(f"{record.path} has one path of each question: a panel needs two judges or more")
    panel = panel_of(record, seed) if votes.slots is not None else None
    if votes.correct is not None and votes.n_clusters < FOLDS:
        of = "gold answers" if panel is None else "a gold answer"
        raise UsageError(
            f"{record.path}: {votes.n_clusters} questions with {of} are too few to judge votes: "
            f"record {FOLDS}, or leave the gold answers out to see agreement alone"
        )
    whole = record.ballot.votes
    if whole.correct is None or whole.n_clusters < FOLDS or not _mostly_whole(record):
        assert panel is not None
        return _panel_alone(record, panel)
    votes = whole
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
        panel=panel,
        warnings=record.ballot.notes,
    )


def _mostly_whole(record: Record) -> bool:
    """Return whether half of the questions or more have all slots or judges."""
    gaps = record.with_gaps
    return gaps is None or (
        gaps.votes is not record.ballot.votes and 2 * record.ballot.votes.n >= gaps.votes.n
    )


def _panel_alone(record: Record, panel: Panel) -> Combination:
    """Return what is known of a panel without gold answers, or where most questions lack a judge."""
    votes = (record.with_gaps or record.ballot).votes
    return Combination(
        path=record.path,
        n=votes.n,
        k=votes.k,
        slots=None,
        slot_cv=None,
        oracle_optimism=None,
        weights=(),
        pruning=(),
        gls_r=None,
        panel=panel,
        warnings=record.ballot.notes,
    )


def _deflection_worth(votes: Votes, seed: int) -> tuple[DeflectionWorth, ...]:
    """Return K_eff by deflection of plain, abstention-weighted and confidence-weighted votes.

    A path of chance p weighs max(2p - 1, 0): of all weights those separate most (Cauchy-Schwarz). Plain
    votes are the paper's, where an abstention is wrong; of the others it has weight 0, in K paths as in one.
    """
    ones = np.ones((votes.n, votes.k))
    found = [DeflectionWorth("plain", k_eff_deflection(votes, ones, seed))]
    voting = ones if votes.answers is None else (votes.answers >= 0).astype(np.float64)
    kinds = dict[str, FloatArray]()
    if not voting.all():
        kinds["abstentions at weight 0"] = voting
    for name, given in votes.rated.items():
        if not informs(within_auc(votes, given), len(votes.rated)):
            # All weigh alike: what differs is how the folds' base rates are estimated.
            continue
        chances = cross_fit(votes, given, np.random.default_rng(seed))[0]
        kinds[f"weighted by {name}"] = voting * np.maximum(2 * chances - 1, 0.0)
    found += [DeflectionWorth(name, k_eff_deflection(votes, w, seed, voting)) for name, w in kinds.items()]
    return tuple(found)


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


def run_embeddings(run: Path) -> Path | None:
    """Return the file of embeddings kept beside a run's paths; None where there is none."""
    source = run / EMBEDDINGS
    return source if source.is_file() else None


def read_embeddings(source: str | Path, record: Record) -> FloatArray:
    """Return embeddings [n, K, D] of a record's paths from a ``.npy`` array or ``FILE.parquet#COLUMN``.

    The rows of an array are the record's questions in their order; those of a Parquet file too, or by ``id``
    where it has that column, each a list of K vectors. Raises LogError when they do not fit the votes.
    """
    path, _, column = str(source).rpartition("#")
    file = Path(path) if path and not Path(source).exists() else Path(source)
    if not file.is_file():
        raise LogError(f"{file} does not exist: give embeddings as FILE.npy or FILE.parquet#COLUMN")
    given = _column(file, column, record) if is_parquet(file) else _array(file)
    return fitting(given, record, str(source))


def fitting(given: ArrayLike | list[object], record: Record, name: str = "embeddings") -> FloatArray:
    """Return embeddings as an array [n, K, D] of finite numbers; raises LogError where they are none."""
    votes, wanted = record.ballot.votes, "one vector of numbers for each path, all of one length"
    try:
        array: FloatArray = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise LogError(f"{name} holds something other than {wanted}") from None
    if array.ndim != 3 or array.shape[:2] != (votes.n, votes.k) or not array.shape[2]:
        raise LogError(f"{name} has the shape {array.shape}, not ({votes.n}, {votes.k}, dimensions)")
    if not np.all(np.isfinite(array)):
        raise LogError(f"{name} holds numbers that are not finite: leave these questions out of both files")
    return array


def _array(path: Path) -> ArrayLike:
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise LogError(f"{path} is not an array of NumPy: {error}") from None


def _column(path: Path, column: str, record: Record) -> list[object]:
    """Return a column of a Parquet file as lists, in the order of the record's questions."""
    names = columns_of(path)
    if column not in names:
        raise LogError(f"{path} has no column {column!r}: name one with {path}#COLUMN, of {', '.join(names)}")
    rows = [row for _, row in rows_of(path, [name for name in ("id", column) if name in names])]
    if "id" not in names:
        return [row[column] for row in rows]
    by_id = {str(row["id"]): row[column] for row in rows}
    ids = record.ballot.names
    lacking = [one for one in ids if one not in by_id]
    if lacking or len(by_id) < len(rows):
        what = f"lacks {lacking[0]!r:.40}" if lacking else "has some twice"
        raise LogError(f"{path}: column id {what}: it takes one row for each of the {len(ids)} questions")
    return [by_id[one] for one in ids]


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
