"""Branches (models or prompts) within one record: detected, named, and read apart, not pooled."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from keff.errors import LogError
from keff.log import Question
from keff.narrow import is_array, is_object
from keff.reading.ballot import Ballot
from keff.reading.copies import FEWEST, LARGEST, SHARE, answer_cells, copies
from keff.records import Note
from keff.stats.resampling import group_sums
from keff.stats.votes import FloatArray

# Records are many, and a false alarm refuses a good one: far below 1 in a million.
SURE = 1e-9
# Columns are taken for different models when chance explains their accuracies with less than SURE, and the
# best and the worst are at least APART apart.
APART = 0.1

# Independent questions with both right and wrong answers that the test needs.
FEW = 20

# Columns above this are repeated paths: nobody records so many models side by side.
MOST_COLUMNS = 64
# Accuracies that rise or fall with the place this steadily are an order, such as growing temperature.
STEADY = 0.8
# From this many columns on, a rank correlation of place and accuracy beyond STEADY is an order.
STEADY_FROM = 5


def branch_names(text: str) -> tuple[str, ...]:
    """Return branch names from ``a,b,c``, or from a JSON file with one list.

    Raises LogError when there are none, or a name occurs twice.
    """
    names = _named_in(Path(text)) if text.endswith(".json") else [part.strip() for part in text.split(",")]
    if len(names) < 2 or not all(names) or len(set(names)) < len(names):
        raise LogError(
            f"--branches {text}: at least two different names are needed, not {', '.join(names)!r}"
        )
    return tuple(names)


def _named_in(file: Path) -> list[str]:
    try:
        content: object = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise LogError(f"--branches {file}: {getattr(error, 'strerror', None) or 'not JSON'}") from None
    values = list(content.values()) if is_object(content) else [content]
    lists = [value for value in values if is_array(value)]
    texts = [[name for name in names if isinstance(name, str)] for names in lists]
    named = [names for names, held in zip(texts, lists, strict=True) if len(names) == len(held)]
    if len(named) != 1:
        raise LogError(f"--branches {file}: it holds {len(named)} lists of names, and one is needed")
    return named[0]


def with_branches(question: Question, names: Sequence[str]) -> Question:
    """Return a question with its paths' branches named, by path or by template slot."""
    if len(names) == len(question.answers):
        return replace(question, branches=tuple(names), slots=None)
    slots = sorted(set(question.slots or ()))
    if len(names) != len(slots):
        raise LogError(
            f"--branches has {len(names)} names, but question {question.id!r} has "
            f"{len(question.answers)} paths" + (f" of {len(slots)} slots" if slots else "")
        )
    by_slot = dict(zip(slots, names, strict=True))
    return replace(question, branches=tuple(by_slot[slot] for slot in question.slots or ()), slots=None)


def with_copies_together(ballot: Ballot) -> Ballot:
    """Return the ballot with copied questions as one cluster and a note; unchanged where clusters are given.

    So every figure of the record, whichever command states it, is of as many independent questions.
    """
    votes = ballot.votes
    # Columns that are different models hold equal answers in few orders, too.
    if votes.n_clusters < votes.n or columns_apart(ballot)[0]:
        return ballot
    same = copies(ballot)
    repeated = votes.n - int(same.max()) - 1
    if repeated < max(FEWEST, SHARE * votes.n):
        return ballot
    text = (
        f"{repeated} of {votes.n} questions repeat another (same text, or same answers path by path). keff "
        "counts copies as one cluster, so that intervals are those of different questions. To say which "
        'questions belong together, give them a "cluster"'
    )
    notes = (*ballot.notes, Note("copied_questions", text))
    return replace(ballot, votes=replace(votes, clusters=same), notes=notes)


def columns_apart(ballot: Ballot) -> tuple[bool, Note | None]:
    """Return whether column accuracies differ so much that columns must be different models.

    Cochran's Q over the independent questions (clusters, and copies of a question, count once): paths that
    one model drew under one prompt are right equally often in every column. Columns that differ because
    somebody sorted the paths, or put equal answers together, change steadily from the first to the last; they
    are no models, and are said in a note.
    """
    correct = ballot.votes.correct
    if correct is None or ballot.votes.slots is not None or not 2 <= ballot.votes.k <= MOST_COLUMNS:
        return False, None
    accuracy = correct.mean(axis=0)
    if np.ptp(accuracy) < APART or not _differ(correct.astype(np.float64)):
        return False, None
    if ballot.votes.k >= STEADY_FROM and abs(_rank_correlation(accuracy)) > STEADY:
        text = (
            f"accuracy goes steadily from {accuracy[0]:.0%} in the first column to {accuracy[-1]:.0%} "
            "in the last, as if paths were sorted after they were drawn. If the columns are different "
            "models, name them with --branches"
        )
        return False, Note("ordered_paths", text)
    # Where few rows differ at all, they may be one question over and over.
    varied = np.flatnonzero(correct.min(axis=1) < correct.max(axis=1))[:LARGEST]
    rows = {row.tobytes() for row in answer_cells(ballot, varied.astype(np.int64))}
    return len(rows) >= FEW and _differ(_independent(ballot)), None


def _independent(ballot: Ballot) -> FloatArray:
    """Return how often each column is right in each independent question [G, K]."""
    votes = ballot.votes
    if votes.n_clusters < votes.n:
        return group_sums(votes.scored().astype(np.float64), votes.cluster_ids, votes.n_clusters)
    # Of a copy nothing is new, whatever the number of copies.
    return votes.scored()[np.unique(copies(ballot), return_index=True)[1]].astype(np.float64)


def _differ(right: FloatArray) -> bool:
    """Return whether columns differ beyond chance, by right answers per question [G, K].

    Cochran's Q = (K - 1) |sum of x|^2 / sum of |x|^2 with x the row less its mean: chi-square with K - 1
    degrees of freedom where every order of a row's values is as likely.
    """
    apart = right - right.mean(axis=1, keepdims=True)
    apart = apart[np.any(apart != 0, axis=1)]
    if len(apart) < FEW:
        return False
    from scipy.special import chdtrc  # a third of a second, not for every record

    k = right.shape[1]
    q = (k - 1) * np.sum(apart.sum(axis=0) ** 2) / np.sum(apart**2)
    return float(cast("Any", chdtrc)(k - 1, q)) <= SURE


def _rank_correlation(values: FloatArray) -> float:
    """Return Spearman's correlation of values with their index; ties in order."""
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return float(np.corrcoef(ranks, np.arange(values.size))[0, 1])
