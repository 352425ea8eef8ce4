"""Slots, weights, the copula and drift on real recorded votes."""

import json

import numpy as np
import pytest

from keff.stats.branches.slots import extraction_failures, phi_audit, slot_cv
from keff.stats.branches.weights import judge_weights
from keff.stats.drift import ShiryaevRoberts
from keff.stats.votes import Votes
from keff.stats.voting.correlation import equal_pairs


def load(path):
    codes, correct = [], []
    for line in path.read_text().splitlines():
        row, seen = json.loads(line), {}
        codes.append([seen.setdefault(key, len(seen)) if key else -1 for key in row["all_answers"]])
        correct.append([int(bool(y) and c >= 0) for y, c in zip(row["all_correct"], codes[-1], strict=True)])
    k = min(map(len, codes))
    return Votes(np.array([c[:k] for c in codes]), np.array([y[:k] for y in correct]))


@pytest.fixture(scope="module")
def models(data):
    """28 language models as the slots: the most unequal voters on record."""
    return load(data / "recorded" / "mmlupro_multimodel_votes.jsonl")


def test_unequal_models_are_near_what_their_accuracies_allow(models):
    audit = phi_audit(models)
    assert slot_cv(models) > 0.225
    assert audit.phi_max < 0.8
    assert audit.phi < audit.ratio < 1
    assert 0 < extraction_failures(models).max() < 0.3


def test_most_of_the_gain_of_weights_is_the_best_slot(models):
    rng = np.random.default_rng(0)
    report = judge_weights(models, "fisher", "plurality", rng)
    assert report.gain > 5 * report.se
    assert report.best_slot > report.uniform + 0.1
    assert report.cross_fitted < report.best_slot + 0.03
    assert report.in_sample >= report.cross_fitted - 0.01


def test_the_alarm_stays_silent_on_the_pilots_own_task_and_wakes_on_another(data, models):
    asdiv = load(data / "recorded" / "woc_asdiv_gpt-3.5-turbo-0301.jsonl")
    rng = np.random.default_rng(1)
    own = equal_pairs(asdiv.answered()[:, :4])
    other = equal_pairs(models.answered()[:, :4])
    false, delays = 0, []
    for _ in range(15):
        order = rng.permutation(own.size)
        alarm = ShiryaevRoberts(own[order[:150]].tolist(), rng)
        for score in own[order[150:450]].tolist():
            alarm.update(score)
        false += alarm.alarm
        fresh = ShiryaevRoberts(own[order[:150]].tolist(), rng)
        states = [fresh.update(score) for score in rng.permutation(other)[:300].tolist()]
        delays.append(states[-1].first_alarm or 9999)
    assert false <= 3
    assert np.median(delays) < 100
