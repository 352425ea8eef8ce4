"""Which slots to keep: pruning and subset choice, judged by nested cross-validation."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal

import numpy as np

from keff.stats.branches.slots import slot_accuracies
from keff.stats.branches.weights import Rule, weighted_vote
from keff.stats.inference.resampling import cluster_folds, clustered_se
from keff.stats.models.gaussian import fit_copula
from keff.stats.votes import FloatArray, IntArray, Votes

# All 4,095 subsets of 12 slots are tried; more would take minutes.
MOST_SLOTS = 12

Subset = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SubsetPlan:
    """Which subsets are tried and how they are ranked on the training folds.

    ``family``: "all" subsets (at most 12 slots), or "top", the m most accurate slots of the training folds
    for every m (slot pruning). ``sizes`` restricts how many slots are kept. ``score``: "empirical" counts
    votes by ``rule``; "copula" uses the smoother ``fit_copula`` prediction, for the binary rule only.
    """

    family: Literal["all", "top"] = "all"
    score: Literal["empirical", "copula"] = "empirical"
    rule: Rule = "binary"
    sizes: tuple[int, ...] | None = None
    folds: int = 5


@dataclass(frozen=True, slots=True)
class SubsetChoice:
    """The subset that all items favour, and what choosing like that is worth on items not used to choose.

    ``accuracy`` is the nested cross-validated accuracy of the choosing procedure, ``full`` that of all
    slots, ``gain`` their difference and ``se`` its clustered standard error. ``adopted`` is gain > se;
    ``slots`` [m] are then the columns to keep, else all of them. ``candidate`` is the favourite either way.
    """

    slots: IntArray
    candidate: IntArray
    accuracy: float
    full: float
    gain: float
    se: float
    adopted: bool


def choose_subset(votes: Votes, rng: np.random.Generator, plan: SubsetPlan | None = None) -> SubsetChoice:
    """Choose slots by nested cross-validation over clusters; keep all unless the gain exceeds one SE.

    In each outer fold the best subset of the other folds is chosen anew and scored on the fold. (A subset has
    no parameters to fit, so an inner cross-validation would repeat the training accuracy.) The number to
    report is ``accuracy``: the accuracy of the best of many subsets on the items that chose it is optimistic
    by several points. Ties go to the larger subset. Raises ValueError for a plan that does not fit.
    """
    plan = plan or SubsetPlan()
    fold = cluster_folds(votes, plan.folds, rng)
    credit = np.empty(votes.n)
    for part in range(plan.folds):
        chosen = _favourite(votes.take(fold != part), plan)
        credit[fold == part] = subset_credit(votes.take(fold == part), chosen, plan.rule)
    everything = tuple(range(votes.k))
    full = subset_credit(votes, everything, plan.rule)
    candidate = _favourite(votes, plan)
    gain, se = float((credit - full).mean()), clustered_se(credit - full, votes.cluster_ids)
    return SubsetChoice(
        slots=np.array(candidate if gain > se else everything),
        candidate=np.array(candidate),
        accuracy=float(credit.mean()),
        full=float(full.mean()),
        gain=gain,
        se=se,
        adopted=gain > se,
    )


def subset_credit(votes: Votes, subset: Subset, rule: Rule = "binary") -> FloatArray:
    """Return the credit [n] of the unweighted vote of some columns."""
    return weighted_vote(votes.paths(np.array(subset)), np.ones(len(subset)), rule)


def _favourite(votes: Votes, plan: SubsetPlan) -> Subset:
    subsets = _candidates(votes, plan)
    if plan.score == "copula":
        if plan.rule != "binary":
            raise ValueError("the copula predicts the binary vote: use score='empirical' for a plurality")
        scores = fit_copula(votes).majorities(subsets)
    else:
        scores = np.array([float(subset_credit(votes, subset, plan.rule).mean()) for subset in subsets])
    best = np.flatnonzero(scores >= scores.max() - 1e-12)
    return subsets[int(best[-1])]


def _candidates(votes: Votes, plan: SubsetPlan) -> list[Subset]:
    """List the subsets to try, smaller ones first."""
    sizes = plan.sizes or range(1, votes.k + 1)
    if not all(1 <= size <= votes.k for size in sizes):
        raise ValueError(f"subset sizes must lie between 1 and {votes.k}")
    if plan.family == "top":
        order = np.argsort(-slot_accuracies(votes), kind="stable").tolist()
        return [tuple(sorted(order[:size])) for size in sorted(sizes)]
    if votes.k > MOST_SLOTS:
        raise ValueError(f"{votes.k} slots have too many subsets: use family='top'")
    return [s for size in sorted(sizes) for s in itertools.combinations(range(votes.k), size)]
