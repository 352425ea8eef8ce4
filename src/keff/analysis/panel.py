"""A panel of judges: how far they agree, how many independent ones they are worth, and whom to ask.

In: a record whose slots are judges, prompts or models. Out: Panel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import stdtrit

from keff.analysis.results.combination import Judge, Panel, PanelVote
from keff.errors import UsageError
from keff.reading.open import Record
from keff.reading.questions import Coded
from keff.records import Interval
from keff.stats.branches.pairwise import Together, c_of_judges
from keff.stats.branches.weights import cautious_share, cross_fitted_credit, slot_weights
from keff.stats.intervals import bootstrap_means, interval_c, mean_share
from keff.stats.resampling import FOLDS, clustered_se
from keff.stats.votes import BoolArray, FloatArray, IntArray, Votes, cluster_numbers
from keff.stats.voting.choose import k_eff
from keff.stats.voting.correlation import equal_pairs

# Splits into folds whose outcomes are averaged: one split moves a gain by as much as a point.
SPLITS = 5

# A panel of few: the most accurate ones with a vote each.
FEW_JUDGES = 3

# Of more different answers the share of each is as good as known, and chance agreement next to nothing.
CLOSED = 50

# A judge of whose answers others never give so many, though it repeats them, answers on another scale.
OTHER_SCALE = 0.9

# Standard errors by which a panel has to beat the best judge: 5% one-sided, for the best of four votes.
SURE = 2.24


def panel_of(record: Record, seed: int = 0) -> Panel:
    """Return what a panel is worth, the slots of a record with answers.

    Of several paths of a slot the first is its verdict. A judge counts on the questions that it answered. A
    judge who always answers the same, whatever is right, is set aside: it would pass for one who errs
    independently. Without gold answers, or with fewer questions than folds, no vote is judged. Raises
    UsageError where fewer than two judges are left, where one shares no question with another, and where
    they answer on different scales.
    """
    ballot = record.with_gaps or record.ballot
    slots = ballot.votes.slots
    assert slots is not None
    names = record.branches or tuple(f"slot {slot}" for slot in np.unique(slots).tolist())
    first = np.unique(slots, return_index=True)[1].astype(np.int64)
    everyone, keys = ballot.votes.paths(first), Coded(ballot.keys.codes[:, first], ballot.keys.names)
    codes = np.asarray(keys.codes, np.int64)
    if everyone.answers is None:
        # Verdicts alone: two judges agree where both are right, or both wrong.
        codes = everyone.scored()
        everyone = replace(everyone, answers=codes)
    alike, constant = _pairs_alike(codes), _constant_answers(everyone, codes, keys)
    _check(record.path, names, codes, keys, alike)
    left = [place for place, answer in enumerate(constant) if answer is None]
    if len(left) < 2:
        always = ", ".join(name for name, answer in zip(names, constant, strict=True) if answer is not None)
        raise UsageError(
            f"{record.path}: a panel needs two judges whose answers vary, and {always} always answered the "
            "same. Look at their answers with keff read"
        )
    vary = np.array(left, np.int64)
    votes, said = everyone.paths(vary), codes[:, vary]
    known = votes.correct is not None
    worth = _worth_by_right(votes) if known else _worth_by_agreement(said)
    columns, whole = np.arange(vary.size), worth(np.ones(vary.size, np.bool_))
    adds = {place: whole - worth(columns != column) for column, place in enumerate(left)}
    judges = tuple(
        _judge(everyone, names, place, alike, adds.get(place), constant[place]) for place in range(len(names))
    )
    members = tuple(names[place] for place in left)
    panels = _votes(votes, members, seed) if known and votes.n_clusters >= FOLDS else None
    best = int(np.argmax(slot_weights(votes, "best_slot", abstain=True))) if known else None
    accuracy = None if best is None else judges[left[best]].accuracy
    return Panel(
        judges=judges,
        agreement=_agreement(said, votes),
        k_eff_agreement=_k_eff_agreement(said, votes, seed),
        k_eff=_k_eff(votes) if known else None,
        best=None if best is None else members[best],
        best_accuracy=None if panels is None else panels[0],
        votes=() if panels is None else panels[1],
        recommended=None if panels is None or accuracy is None else _recommended(panels[1], accuracy.value),
    )


def _check(path: str, names: tuple[str, ...], codes: IntArray, keys: Coded, alike: FloatArray) -> None:
    """Raise UsageError for a judge who shares no question with another, or answers on another scale."""
    for place, name in enumerate(names):
        if np.all(np.isnan(np.delete(alike[place], place))):
            raise UsageError(
                f"{path}: {name} answered no question that another judge answered, so keff cannot compare "
                "them: leave its rows out"
            )
        own = codes[codes[:, place] >= 0, place]
        others = np.delete(codes, place, axis=1)
        used, times = np.unique(own, return_counts=True)
        alone = ~np.isin(used, others)
        if 2 * used.size <= own.size and times[alone].sum() > OTHER_SCALE * own.size:
            shown = ", ".join(repr(keys.names[code]) for code in used[alone][:3].tolist())
            raise UsageError(
                f"{path}: {name} answers {shown}, which no other judge ever does. Bring all judges to one "
                "scale first, for example good or bad by a limit for each"
            )


def _constant_answers(votes: Votes, codes: IntArray, keys: Coded) -> list[str | None]:
    """Return the answer that each judge always gives; None where answers vary, or all are right or wrong."""
    found = list[str | None]()
    for place in range(votes.k):
        given = codes[:, place] >= 0
        own = codes[given, place]
        right = None if votes.correct is None else votes.correct[given, place]
        same = own.size > 1 and not np.ptp(own) and (right is None or np.ptp(right) > 0)
        found.append(keys.names[int(own[0])] if same else None)
    return found


def _judge(
    votes: Votes,
    names: tuple[str, ...],
    place: int,
    alike: FloatArray,
    adds: float | None,
    constant: str | None,
) -> Judge:
    nearest, met = int(np.nanargmax(alike[place])), np.isfinite(alike[place])
    correct, given = votes.correct, votes.answered()[:, place] >= 0
    clusters = None if votes.clusters is None else votes.clusters[given]
    return Judge(
        name=names[place],
        answered=float(given.mean()),
        accuracy=None if correct is None else mean_share(correct[given, place], clusters),
        agreement=float(alike[place, met].mean()),
        nearest=names[nearest],
        nearest_agreement=float(alike[place, nearest]),
        adds=adds if adds is not None and math.isfinite(adds) else None,
        constant=constant,
    )


def _independent(k: int, c: float) -> float:
    """Return K_eff of K judges, at most K: below 0, c is chance or judges of unequal accuracy."""
    return min(float(k_eff(k, c)), float(k)) if k > 1 and not math.isnan(c) else 1.0


def _worth_by_right(votes: Votes) -> Callable[[BoolArray], float]:
    """Return K_eff of chosen judges [K], by how far they are right together."""
    together = Together.of(votes.scored(), votes.answered() >= 0, votes.cluster_ids)
    return lambda chosen: _independent(int(chosen.sum()), together.c(chosen))


def _worth_by_agreement(codes: IntArray) -> Callable[[BoolArray], float]:
    """Return K_eff of chosen judges [K], if all agreement beyond chance is a shared error."""
    return lambda chosen: _independent(int(chosen.sum()), _kappa(codes[:, chosen]))


def _k_eff(votes: Votes) -> Interval:
    """Return K_eff of judges with the interval that the correlation of being right leaves it."""
    given = votes.answered() >= 0
    right = votes.scored()
    c = interval_c(votes).interval if given.all() else c_of_judges(right, given, votes.cluster_ids)
    return c.mapped(lambda value: _independent(votes.k, value), f"from c ({c.method}), at most K")


def _pairs_alike(codes: IntArray) -> FloatArray:
    """Return how often two judges answer alike, of the questions that both answered [K, K]; else NaN."""
    given = codes >= 0
    both = (given[:, :, None] & given[:, None, :]).sum(axis=0)
    same = ((codes[:, :, None] == codes[:, None, :]) & given[:, :, None]).sum(axis=0)
    found = np.where(both > 0, same / np.maximum(both, 1), math.nan)
    np.fill_diagonal(found, math.nan)
    return found


def _agreeing(codes: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the share of pairs of answers that are alike, by question, and the number of answers [n]."""
    size = (codes >= 0).sum(axis=1).astype(np.float64)
    return 2 * equal_pairs(codes) / np.maximum(size * (size - 1), 1), size


def _agreement(codes: IntArray, votes: Votes) -> Interval:
    share, size = _agreeing(codes)
    paired = size > 1
    return mean_share(share[paired], None if votes.clusters is None else votes.clusters[paired])


def _kappa(codes: IntArray) -> float:
    """Return Fleiss' kappa of the answers that were given; 1 where all are the same."""
    share, size = _agreeing(codes)
    chance = np.square(np.bincount(codes[codes >= 0]) / max(size.sum(), 1)).sum()
    return float(_beyond_chance(share[size > 1].mean() if np.any(size > 1) else math.nan, chance))


def _beyond_chance(agreement: FloatArray | float, chance: FloatArray | float) -> FloatArray:
    left = 1 - np.asarray(chance)
    return np.where(left > 1e-9, (np.asarray(agreement) - chance) / np.maximum(left, 1e-12), 1.0)


def _k_eff_agreement(codes: IntArray, votes: Votes, seed: int) -> Interval:
    """Return K_eff of agreement, with percentiles over resampled questions."""
    used, number = np.unique(codes[codes >= 0], return_inverse=True)
    share, size = _agreeing(codes)
    counts = np.zeros((votes.n, used.size if used.size <= CLOSED else 0))
    if used.size <= CLOSED:
        np.add.at(counts, (np.nonzero(codes >= 0)[0], number), 1.0)
    columns: FloatArray = np.column_stack([share, (size > 1).astype(np.float64), size, counts])
    drawn = bootstrap_means(columns, votes.clusters, np.random.default_rng(seed))
    seen = drawn[(drawn[:, 1] > 0) & (drawn[:, 2] > 0)]
    chance = np.square(seen[:, 3:] / seen[:, 2:3]).sum(axis=1)
    if used.size > CLOSED:
        chance = np.full(len(seen), np.square(np.bincount(codes[codes >= 0]) / size.sum()).sum())
    kappas: list[float] = _beyond_chance(seen[:, 0] / seen[:, 1], chance).tolist()
    value = _independent(votes.k, _kappa(codes))
    lo, hi = np.quantile([_independent(votes.k, each) for each in kappas], [0.025, 0.975]).tolist()
    return Interval(value, min(lo, value), max(hi, value), "from kappa, cluster bootstrap; at most K")


def _votes(votes: Votes, names: tuple[str, ...], seed: int) -> tuple[float, tuple[PanelVote, ...]] | None:
    """Return the accuracy of the best judge and of panels, each chosen on the other folds.

    Judged where the best judge answered; None where it did on fewer questions than there are folds.
    """

    def credits(of: Votes, learn: Callable[[Votes], FloatArray]) -> FloatArray:
        parts = [
            cross_fitted_credit(
                of, lambda items: learn(votes.take(items)), "plurality", np.random.default_rng([seed, split])
            )
            for split in range(SPLITS)
        ]
        return np.stack(parts)

    def best_judge(some: Votes) -> FloatArray:
        return slot_weights(some, "best_slot", abstain=True)

    answered = replace(votes, correct=(votes.answered() >= 0).astype(np.int64))
    there = credits(answered, best_judge)
    judged = there.any(axis=0)
    ids = cluster_numbers(votes.cluster_ids[judged], int(judged.sum())) if judged.any() else np.zeros(0, int)
    if not ids.size or ids.max() + 1 < FOLDS:
        return None

    def credit(learn: Callable[[Votes], FloatArray]) -> FloatArray:
        return ((credits(votes, learn) * there).sum(axis=0) / np.maximum(there.sum(axis=0), 1))[judged]

    best = credit(best_judge)
    found = list[PanelVote]()
    for name, learn in learners(votes.k).items():
        own = credit(learn)
        gain = float((own - best).mean())
        half = float(stdtrit(int(ids.max()), 0.975)) * clustered_se(own - best, ids)
        taking = tuple(name for name, weight in zip(names, learn(votes), strict=True) if weight > 0)
        limits = Interval(gain, gain - half, gain + half, "cross-fitted, cluster t")
        found.append(PanelVote(name, taking, float(own.mean()), limits))
    return float(best.mean()), tuple(found)


def learners(k: int) -> dict[str, Callable[[Votes], FloatArray]]:
    """Return by name how a panel of ``k`` learns the weight of each judge [k] from labelled votes."""
    ways: dict[str, Callable[[Votes], FloatArray]] = {
        "vote of all": lambda votes: np.ones(votes.k),
        f"vote of the best {FEW_JUDGES}": _few,
        "vote by log odds": lambda votes: slot_weights(votes, "log_odds", abstain=True),
        "vote by GLS weights": lambda votes: slot_weights(votes, "fisher", abstain=True),
    }
    return {name: learn for name, learn in ways.items() if k > FEW_JUDGES or learn is not _few}


def _few(votes: Votes) -> FloatArray:
    """Return a vote each for the most accurate judges."""
    weights = np.zeros(votes.k)
    shares = cautious_share(votes.scored().sum(axis=0), (votes.answered() >= 0).sum(axis=0))
    weights[np.argsort(-shares, kind="stable")[:FEW_JUDGES]] = 1.0
    return weights


def _recommended(votes: tuple[PanelVote, ...], best: float) -> PanelVote | None:
    """Return the panel of the highest gain, where that is above 0 by ``SURE`` standard errors.

    It must also be right more often than the best judge is on all questions, with ``best``: judges of
    like accuracy change places from fold to fold, and any fixed one of them beats that choice.
    """
    found = max(votes, key=lambda vote: vote.gain.value)
    low = found.gain.lo
    sure = low is not None and found.gain.value > SURE / 1.96 * (found.gain.value - low)
    return found if sure and len(found.judges) > 1 and found.accuracy > best else None
