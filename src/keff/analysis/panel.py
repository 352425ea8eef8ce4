"""A panel of judges: how far they agree, how many independent ones they are worth, and whom to ask.

In: a record whose slots are judges, prompts or models. Out: Panel.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import stdtrit

from keff.analysis.results.combination import Judge, Panel, PanelVote
from keff.errors import UsageError
from keff.reading.open import Record
from keff.reading.questions import Coded
from keff.records import Interval
from keff.stats.branches.slots import slot_accuracies
from keff.stats.branches.weights import Rule, cross_fitted_credit, slot_weights
from keff.stats.intervals import bootstrap_means, interval_c, mean_share
from keff.stats.resampling import FOLDS, clustered_se
from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting.choose import k_eff, k_eff_block, k_eff_interval
from keff.stats.voting.correlation import equal_pairs, fleiss_kappa

# Splits into folds whose outcomes are averaged: one split moves a gain by as much as a point.
SPLITS = 5

# A panel of few: the most accurate ones with a vote each.
FEW_JUDGES = 3

# Of more different answers the share of each is as good as known, and chance agreement next to nothing.
CLOSED = 50

# Standard errors by which a panel has to beat the best judge: 5% one-sided, for the best of four votes.
SURE = 2.24


def panel_of(record: Record, seed: int = 0) -> Panel:
    """Return what a panel is worth, the slots of a record with answers.

    Of several paths of a slot the first is its verdict. A judge who always answers the same, whatever is
    right, is set aside: it would pass for one who errs independently. Without gold answers, or with fewer
    questions than folds, no vote is judged. Raises UsageError where fewer than two judges are left.
    """
    ballot, slots = record.ballot, record.ballot.votes.slots
    assert slots is not None
    names = record.branches or tuple(f"slot {slot}" for slot in np.unique(slots).tolist())
    first = np.unique(slots, return_index=True)[1].astype(np.int64)
    everyone, keys = ballot.votes.paths(first), Coded(ballot.keys.codes[:, first], ballot.keys.names)
    codes = np.asarray(keys.codes, np.int64)
    alike, constant = _pairs_alike(codes), _constant_answers(everyone, keys)
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
    worth = _right_worth if known else _kappa_worth
    basis: Votes = votes if known else Votes(said, None)
    columns, whole = np.arange(vary.size), worth(basis)
    adds = {place: whole - worth(basis.paths(columns[vary != place])) for place in left}
    judges = tuple(
        _judge(everyone, names, place, alike, adds.get(place), constant[place]) for place in range(len(names))
    )
    members = tuple(names[place] for place in left)
    panels = _votes(votes, members, seed) if known and votes.n_clusters >= FOLDS else None
    return Panel(
        judges=judges,
        agreement=mean_share(_agreeing(said), votes.clusters),
        k_eff_agreement=_agreement_worth(said, votes, seed),
        k_eff=k_eff_interval(votes.k, interval_c(votes).interval) if known else None,
        best=members[int(np.argmax(slot_accuracies(votes)))] if known else None,
        best_accuracy=None if panels is None else panels[0],
        votes=() if panels is None else panels[1],
        recommended=None if panels is None else _recommended(panels[1], float(slot_accuracies(votes).max())),
    )


def _constant_answers(votes: Votes, keys: Coded) -> list[str | None]:
    """Return the answer that each judge always gives; None where answers vary, or all are right or wrong."""
    codes = np.asarray(keys.codes, np.int64)
    same = (codes == codes[0]).all(axis=0) & (codes[0] >= 0)
    if votes.correct is not None:
        same &= np.ptp(votes.correct, axis=0) > 0
    given: list[int] = np.where(same & (votes.n > 1), codes[0], -1).tolist()
    return [None if code < 0 else keys.names[code] for code in given]


def _judge(
    votes: Votes,
    names: tuple[str, ...],
    place: int,
    alike: FloatArray,
    adds: float | None,
    constant: str | None,
) -> Judge:
    others = np.delete(alike[place], place)
    nearest = int(np.argmax(np.where(np.arange(votes.k) == place, -1.0, alike[place])))
    correct = votes.correct
    return Judge(
        name=names[place],
        accuracy=None if correct is None else mean_share(correct[:, place], votes.clusters),
        agreement=float(others.mean()),
        nearest=names[nearest],
        nearest_agreement=float(alike[place, nearest]),
        adds=adds if adds is not None and math.isfinite(adds) else None,
        constant=constant,
    )


def _right_worth(votes: Votes) -> float:
    return k_eff_block(votes) if votes.k > 1 else 1.0


def _pairs_alike(codes: IntArray) -> FloatArray:
    """Return how often two judges answer a question alike [K, K]; an abstention is like no answer."""
    same = (codes[:, :, None] == codes[:, None, :]) & (codes >= 0)[:, :, None]
    return np.asarray(same.mean(axis=0), np.float64)


def _agreeing(codes: IntArray) -> FloatArray:
    """Return the share of pairs of judges that answer alike, by question [n]."""
    k = codes.shape[1]
    return 2 * equal_pairs(codes) / (k * (k - 1))


def _kappa_worth(votes: Votes) -> float:
    """Return K / (1 + (K - 1) kappa) of judges, kappa of Fleiss over the answers of all questions."""
    if votes.k < 2:
        return 1.0
    kappa = fleiss_kappa(votes)
    return float(k_eff(votes.k, 1.0 if math.isnan(kappa) else kappa))


def _chance(codes: IntArray) -> float:
    """Return how often two answers drawn from those of all questions are alike."""
    share = np.bincount(codes[codes >= 0]) / max(codes.size, 1)
    return float(share @ share)


def _worth(agreement: FloatArray | float, chance: FloatArray | float, k: int) -> FloatArray:
    left = np.maximum(1 - np.asarray(chance), 1e-12)
    kappa = np.where(left > 1e-9, (np.asarray(agreement) - chance) / left, 1.0)
    return np.asarray(k_eff(k, kappa), np.float64)


def _agreement_worth(codes: IntArray, votes: Votes, seed: int) -> Interval:
    """Return K_eff of agreement, with percentiles over resampled questions."""
    used, number = np.unique(codes[codes >= 0], return_inverse=True)
    columns = [_agreeing(codes)]
    if used.size <= CLOSED:
        shares = np.zeros((votes.n, used.size))
        np.add.at(shares, (np.nonzero(codes >= 0)[0], number), 1 / votes.k)
        columns += [*shares.T]
    drawn: FloatArray = bootstrap_means(np.stack(columns, 1), votes.clusters, np.random.default_rng(seed))
    chance = _chance(codes) if used.size > CLOSED else np.square(drawn[:, 1:]).sum(axis=1)
    value = _kappa_worth(Votes(codes, None))
    lo, hi = np.quantile(_worth(drawn[:, 0], chance, votes.k), [0.025, 0.975]).tolist()
    return Interval(value, min(lo, value), max(hi, value), "from kappa, cluster bootstrap")


def _votes(votes: Votes, names: tuple[str, ...], seed: int) -> tuple[float, tuple[PanelVote, ...]]:
    """Return the accuracy of the best judge and of panels, each chosen on the other folds."""
    rule: Rule = "binary" if votes.answers is None else "plurality"

    def credit(learn: Callable[[Votes], FloatArray]) -> FloatArray:
        parts = [
            cross_fitted_credit(
                votes, lambda items: learn(votes.take(items)), rule, np.random.default_rng([seed, split])
            )
            for split in range(SPLITS)
        ]
        return np.mean(parts, axis=0)

    best = credit(lambda some: slot_weights(some, "best_slot"))
    found = list[PanelVote]()
    for name, learn in learners(votes.k).items():
        own = credit(learn)
        gain = float((own - best).mean())
        half = float(stdtrit(votes.n_clusters - 1, 0.975)) * clustered_se(own - best, votes.cluster_ids)
        taking = tuple(name for name, weight in zip(names, learn(votes), strict=True) if weight > 0)
        limits = Interval(gain, gain - half, gain + half, "cross-fitted, cluster t")
        found.append(PanelVote(name, taking, float(own.mean()), limits))
    return float(best.mean()), tuple(found)


def learners(k: int) -> dict[str, Callable[[Votes], FloatArray]]:
    """Return by name how a panel of ``k`` learns the weight of each judge [k] from labelled votes."""
    ways: dict[str, Callable[[Votes], FloatArray]] = {
        "vote of all": lambda votes: np.ones(votes.k),
        f"vote of the best {FEW_JUDGES}": _few,
        "vote by log odds": lambda votes: slot_weights(votes, "log_odds"),
        "vote by GLS weights": lambda votes: slot_weights(votes, "fisher"),
    }
    return {name: learn for name, learn in ways.items() if k > FEW_JUDGES or learn is not _few}


def _few(votes: Votes) -> FloatArray:
    """Return a vote each for the most accurate judges."""
    weights = np.zeros(votes.k)
    weights[np.argsort(-slot_accuracies(votes), kind="stable")[:FEW_JUDGES]] = 1.0
    return weights


def _recommended(votes: tuple[PanelVote, ...], best: float) -> PanelVote | None:
    """Return the panel of the highest gain, where that is above 0 by ``SURE`` standard errors.

    It must also be right more often than each judge is on all questions, the best with ``best``: judges of
    like accuracy change places from fold to fold, and any fixed one of them beats that choice.
    """
    found = max(votes, key=lambda vote: vote.gain.value)
    low = found.gain.lo
    sure = low is not None and found.gain.value > SURE / 1.96 * (found.gain.value - low)
    return found if sure and len(found.judges) > 1 and found.accuracy > best else None
