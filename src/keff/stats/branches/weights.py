"""Weighted votes over slots and slot pruning, with their gain estimated by cross-validation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from keff.records import frozen
from keff.stats.branches.slots import slot_accuracies
from keff.stats.models.betabinomial import betabinom_logpmf, majority_prefix
from keff.stats.resampling import FOLDS, cluster_folds, clustered_se
from keff.stats.votes import BoolArray, FloatArray, IntArray, Votes
from keff.stats.voting.alike import dense_codes
from keff.stats.voting.draws import Draws

Scheme = Literal["accuracy", "log_odds", "fisher", "best_slot"]
# Votes on correctness, or on answers.
Rule = Literal["binary", "plurality"]

# Learns weights [K], or [n, K] of every path, from the items of a mask [n].
Learn = Callable[[BoolArray], FloatArray]

# From nearly equal weights down to the best path alone, in units of the confidences' spread.
TEMPERATURES = (10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1)
# Slots that always agree would make the covariance singular; in units of the mean slot variance.
RIDGE = 0.01
# Sums of weights that differ by rounding only are equal.
TIE = 1e-9


@frozen
class WeightedVote:
    """Cross-fitted accuracy of one weighting under one voting rule, beside uniform, oracle and best slot.

    ``in_sample`` uses weights from the same items (the paper's oracle: optimistic), ``cross_fitted`` weights
    from the other folds. ``best_slot`` is the cross-fitted accuracy of the single best slot. ``gain`` is
    cross-fitted minus uniform with its clustered standard error ``se``; ``weights`` are those of slots from
    all items and sum to 1 (None where paths are weighted); ``temperature`` is that of weights by confidence.
    """

    scheme: str
    rule: Rule
    uniform: float
    cross_fitted: float
    in_sample: float
    best_slot: float
    gain: float
    se: float
    weights: tuple[float, ...] | None
    temperature: float | None = None


def slot_weights(votes: Votes, scheme: Scheme, *, abstain: bool = False) -> FloatArray:
    """Return the weights [K] that a scheme learns from labelled votes; never negative, not all zero.

    "accuracy" is the slot accuracy p (the paper's); "log_odds" ``log_odds_weights`` of (s+1/2)/(n+1);
    "fisher" the positive part of Sigma^-1 (2p-1), Sigma the covariance of slots and a ridge; "best_slot" 1
    at the slot of the highest ``cautious_share``, the first of equals. Where a scheme leaves nothing
    positive, or no slot varies, the weights are uniform. Paths that ``abstain`` do not count; else they are
    wrong.
    """
    given = votes.answered() >= 0 if abstain else np.ones((votes.n, votes.k), np.bool_)
    s, n = votes.scored().sum(axis=0), given.sum(axis=0)
    raw = s / np.maximum(n, 1)
    if scheme == "log_odds":
        raw = log_odds_weights((s + 0.5) / (n + 1))
    elif scheme == "fisher":
        raw = _fisher(np.where(given, votes.scored() - 0.5, 0.0))
    elif scheme == "best_slot":
        raw = np.eye(votes.k)[int(np.argmax(cautious_share(s, n)))]
    return raw if np.any(raw > 0) else np.ones(votes.k)


def cautious_share(right: ArrayLike, of: ArrayLike) -> FloatArray:
    """Return (right + 2) / (of + 4), nearer to a half the fewer there are (Agresti and Coull 1998)."""
    return (np.asarray(right, np.float64) + 2) / (np.asarray(of, np.float64) + 4)


def log_odds_weights(accuracies: ArrayLike) -> FloatArray:
    """Return max(0, log(p/(1-p))) for slot accuracies p.

    Optimal for independent slots and two answers. Raises ValueError for an accuracy of 0 or 1, whose odds are
    not finite.
    """
    p = np.asarray(accuracies, float)
    if not np.all((p > 0) & (p < 1)):
        raise ValueError("log odds need accuracies strictly between 0 and 1")
    return np.maximum(0.0, np.log(p / (1 - p)))


def weighted_majority(votes: Votes, weights: ArrayLike) -> FloatArray:
    """Return the credit [n] of the weighted binary vote on correctness: 1, 0, or 1/2 at a tie.

    Correct slots win with more than half of the weight, which is [K], or [n, K] of every path. Sums within
    1e-9 of the total weight are a tie, so that rounding does not decide one.
    """
    w = _check_weights(weights, votes)
    margin = ((2.0 * votes.scored() - 1.0) * w).sum(axis=1)
    return np.where(np.abs(margin) <= TIE * w.sum(axis=-1), 0.5, margin > 0)


def weighted_plurality(votes: Votes, weights: ArrayLike) -> FloatArray:
    """Return the credit [n] of the weighted plurality of answers.

    The answer with most weight wins and is as right as its paths are on average; tied answers (within 1e-9
    of the total weight) share the credit. Abstentions and answers without weight never win; 0 when nothing
    is left. Raises ValueError without answers or gold labels.
    """
    w = np.broadcast_to(_check_weights(weights, votes), (votes.n, votes.k))
    codes = dense_codes(votes.answered())
    width = int(codes.max()) + 2  # the first for abstentions
    cell: IntArray = codes + 1 + np.arange(0, votes.n * width, width, dtype=np.int64)[:, None]

    def by_answer(values: NDArray[Any]) -> FloatArray:
        """Return the sums of values [n, K] over the paths of each answer [n, width - 1]."""
        sums: FloatArray = np.bincount(cell.ravel(), values.ravel(), votes.n * width).astype(np.float64)
        return sums.reshape(-1, width)[:, 1:]

    support, least = by_answer(w), TIE * w.sum(axis=1, keepdims=True)
    wins = support >= np.maximum(support.max(axis=1, keepdims=True, initial=0.0) - least, least)
    right = by_answer(votes.scored()) / np.maximum(by_answer(np.ones(w.shape)), 1)
    return (wins * right).sum(axis=1) / np.maximum(wins.sum(axis=1), 1)


def weighted_vote(votes: Votes, weights: ArrayLike, rule: Rule = "binary") -> FloatArray:
    """Return the credit [n] of ``weighted_majority`` or ``weighted_plurality``."""
    return weighted_majority(votes, weights) if rule == "binary" else weighted_plurality(votes, weights)


def cross_fitted_credit(votes: Votes, learn: Learn, rule: Rule, rng: np.random.Generator) -> FloatArray:
    """Return the credit [n] of each item under weights learned from the other folds of clusters."""
    fold = cluster_folds(votes, FOLDS, rng)
    credit = np.empty(votes.n)
    for part in range(FOLDS):
        test = fold == part
        weights = learn(~test)
        here = weights if weights.ndim == 1 else weights[test]
        credit[test] = weighted_vote(votes.take(test), here, rule)
    return credit


def judge_weights(
    votes: Votes, scheme: Scheme | Learn, rule: Rule, seed: np.random.Generator | int, name: str = ""
) -> WeightedVote:
    """Return the cross-fitted accuracy of a weighting, beside uniform weights, the oracle and the best slot.

    Those of a scheme, or of any way of learning them, under its ``name``. Raises ValueError as
    ``cluster_folds``.
    """

    def by(scheme: Scheme) -> Learn:
        return lambda items: slot_weights(votes.take(items), scheme)

    learn, rng = scheme if callable(scheme) else by(scheme), np.random.default_rng(seed)
    credit = cross_fitted_credit(votes, learn, rule, rng)
    best = cross_fitted_credit(votes, by("best_slot"), rule, rng)
    uniform = weighted_vote(votes, np.ones(votes.k), rule)
    weights = learn(np.ones(votes.n, np.bool_))
    return WeightedVote(
        scheme=name or str(scheme),
        rule=rule,
        uniform=float(uniform.mean()),
        cross_fitted=float(credit.mean()),
        in_sample=float(weighted_vote(votes, weights, rule).mean()),
        best_slot=float(best.mean()),
        gain=float((credit - uniform).mean()),
        se=clustered_se(credit - uniform, votes.cluster_ids),
        weights=tuple((weights / weights.sum()).tolist()) if weights.ndim == 1 else None,
    )


def confidence_weights(confidences: ArrayLike, temperature: float) -> FloatArray:
    """Return exp(confidence / temperature) over its sum [n, K]: CISC's softmax (arXiv 2502.06233).

    A path whose confidence is not finite has the mean of its item's; an item without any votes evenly.
    """
    given = np.asarray(confidences, float)
    known = np.isfinite(given)
    mean = np.where(known, given, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    scores = np.where(known, given, mean[:, None]) / temperature
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float64)


def choose_temperature(votes: Votes, rule: Rule) -> float:
    """Return the softmax temperature with the highest accuracy of the confidence-weighted vote.

    Of ``TEMPERATURES`` times the standard deviation of the confidences; of equals the highest, which is
    nearest to an even vote. Raises ValueError without confidences.
    """
    if votes.confidences is None:
        raise ValueError("the votes have no confidences")
    unit = float(votes.confidences.std(where=np.isfinite(votes.confidences))) or 1.0
    tried = [unit * times for times in TEMPERATURES]
    right = [weighted_vote(votes, confidence_weights(votes.confidences, at), rule).mean() for at in tried]
    return tried[int(np.argmax(right))]


def oracle_optimism(p: float, c: float, k: int, n: int) -> float:
    """Return the expected gain of in-sample accuracy weights over uniform ones when slots do not differ.

    P(S=K/2) (Phi(sqrt(K/(n p(1-p)(1-c)))/2) - 1/2) with S beta-binomial: the weights only decide ties, each
    towards the item's own answer, so it is 0 for odd K. For exchangeable slots, n items, 0 < p < 1 and
    c < 1.
    """
    if k % 2:
        return 0.0
    tie = math.exp(float(betabinom_logpmf(k, p, c)[k // 2]))
    return tie * (float(ndtr(0.5 * math.sqrt(k / (n * p * (1 - p) * (1 - c))))) - 0.5)


def _fisher(halves: FloatArray) -> FloatArray:
    """Return the weights [K] that separate right from wrong best.

    ``halves`` [n, K] are a half where a path is right, minus a half where it is wrong, 0 where it abstains:
    their covariance is that of correctness.
    """
    mean: FloatArray = halves.mean(axis=0)
    sigma = (halves - mean).T @ (halves - mean) / len(halves)
    if not np.any(sigma):
        return np.zeros(mean.size)
    sigma = sigma + RIDGE * float(np.trace(sigma)) / mean.size * np.eye(mean.size)
    return np.maximum(0.0, np.linalg.solve(sigma, 2 * mean))


def _check_weights(weights: ArrayLike, votes: Votes) -> FloatArray:
    w = np.asarray(weights, float)
    fits = w.shape in ((votes.k,), (votes.n, votes.k))
    if not fits or not np.all(np.isfinite(w)) or np.any(w < 0) or not np.all(np.any(w, axis=-1)):
        raise ValueError(f"weights must be {votes.k} finite numbers, none negative and not all zero")
    return w


@frozen
class Pruning:
    """Slot pruning, judged by nested cross-validation: accuracy with fewer slots against all of them.

    ``accuracy`` is the nested cross-validated accuracy of the choosing procedure, ``full`` that of all
    slots, ``gain`` their difference and ``se`` its clustered standard error. ``adopted`` is gain > se;
    ``candidate`` are the favourite slots either way.
    """

    rule: Rule
    accuracy: float
    full: float
    gain: float
    se: float
    adopted: bool
    candidate: tuple[int, ...]


def choose_subset(votes: Votes, rng: np.random.Generator, rule: Rule = "binary") -> Pruning:
    """Choose the m most accurate slots by nested cross-validation over clusters: slot pruning.

    In each outer fold the best m of the other folds is chosen anew and scored on the fold. (A subset has no
    parameters to fit, so an inner cross-validation would repeat the training accuracy.) The number to report
    is ``accuracy``: the accuracy of the best of many subsets on the items that chose it is optimistic by
    several points. All slots stay unless the gain exceeds one standard error. Raises ValueError for too few
    clusters.
    """
    credit = cross_fitted_credit(votes, lambda items: _favourite(votes.take(items), rule), rule, rng)
    full = weighted_vote(votes, np.ones(votes.k), rule)
    gain, se = float((credit - full).mean()), clustered_se(credit - full, votes.cluster_ids)
    names = np.arange(votes.k) if votes.slots is None else votes.slots
    kept: list[int] = names[_favourite(votes, rule) > 0].tolist()
    return Pruning(rule, float(credit.mean()), float(full.mean()), gain, se, gain > se, tuple(kept))


def _favourite(votes: Votes, rule: Rule) -> FloatArray:
    """Return the weights [K] of the most accurate slots that vote best together: 1, else 0."""
    order = np.argsort(-slot_accuracies(votes), kind="stable")
    ordered = votes.paths(order)
    if rule == "binary":
        scores = majority_prefix(ordered)
    else:
        right = ordered.scored()[:, None].astype(np.float32)
        credit = Draws(dense_codes(ordered.answered())[:, None], right).tallies.credit
        assert credit is not None
        scores = credit[:, 0, 1:].mean(axis=0, dtype=np.float64)
    # Subsets that are equal up to rounding are tied, and the largest is taken.
    chosen = np.zeros(votes.k)
    chosen[order[: np.flatnonzero(scores >= scores.max() - 1e-7)[-1] + 1]] = 1
    return chosen
