"""The alarm for late changes: uniform p-values, its recursion, false alarms, power, and restoring."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.stats.drift import BETS, ShiryaevRoberts

PILOT = np.array([0.62, 0.17, 0.08, 0.09, 0.04])
DRIFTED = np.array([0.42, 0.23, 0.12, 0.15, 0.08])
SCORES = np.array([6, 3, 2, 1, 0])
SLOPES = np.array(BETS)


def stream(rng, shares, n):
    return SCORES[rng.choice(5, n, p=shares)].tolist()


def test_p_value_by_hand():
    rng = np.random.default_rng(0)
    tie = float(np.random.default_rng(0).random())
    state = ShiryaevRoberts([6, 6, 3, 1], rng).update(3)
    assert state.u == pytest.approx((2 + tie * 2) / 5)
    assert state.statistic == pytest.approx(np.mean(1 + SLOPES * (state.u - 0.5)))


def test_p_values_are_uniform_and_uncorrelated_though_scores_tie():
    rng = np.random.default_rng(1)
    us = []
    for _ in range(40):
        alarm = ShiryaevRoberts(stream(rng, PILOT, 30), rng)
        us.append([alarm.update(x).u for x in stream(rng, PILOT, 100)])
    us = np.array(us)
    np.testing.assert_allclose(
        np.quantile(us, [0.1, 0.25, 0.5, 0.75, 0.9]), [0.1, 0.25, 0.5, 0.75, 0.9], atol=0.03
    )
    assert abs(np.corrcoef(us[:, :-1].ravel(), us[:, 1:].ravel())[0, 1]) < 0.05


@given(st.lists(st.sampled_from([0, 1, 2, 3, 6]), min_size=1, max_size=40), st.integers(0, 99))
def test_the_statistic_is_the_recursion_of_the_p_values(scores, seed):
    alarm = ShiryaevRoberts([6, 3, 1], np.random.default_rng(seed))
    r = np.zeros(SLOPES.size)
    for score in scores:
        alarm.update(score)
        r = (r + 1) * (1 + SLOPES * (alarm.u - 0.5))
        assert alarm.statistic == pytest.approx(r.mean(), rel=1e-9)


def test_shiryaev_roberts_sees_a_late_change():
    rng = np.random.default_rng(3)
    early, delays = 0, []
    for _ in range(20):
        alarm = ShiryaevRoberts(stream(rng, PILOT, 300), rng, run_length=2000)
        for x in stream(rng, PILOT, 200):
            alarm.update(x)
        if alarm.alarm:
            early += 1
            continue
        for x in stream(rng, DRIFTED, 400):
            alarm.update(x)
        delays.append((alarm.first_alarm or 9999) - 200)
    assert early <= 5
    assert np.median(delays) < 130


def test_shiryaev_roberts_minus_time_is_a_martingale():
    rng = np.random.default_rng(4)
    last = []
    for _ in range(400):
        alarm = ShiryaevRoberts(stream(rng, PILOT, 50), rng)
        for x in stream(rng, PILOT, 15):
            alarm.update(x)
        last.append(alarm.statistic)
    assert np.mean(last) == pytest.approx(15, abs=4 * np.std(last) / 20)


@settings(max_examples=examples(20))
@given(cut=st.integers(0, 30), seed=st.integers(0, 1000))
def test_a_restored_stream_goes_on_identically(cut, seed):
    scores = stream(np.random.default_rng(seed), DRIFTED, 40)
    whole = ShiryaevRoberts([6, 6, 3, 2], np.random.default_rng(seed), 50)
    for x in scores[:cut]:
        whole.update(x)
    text = json.dumps(whole.state(), allow_nan=False)
    restored = ShiryaevRoberts.from_state(json.loads(text))
    assert restored.alarm == whole.alarm
    for x in scores[cut:]:
        one, two = restored.update(x), whole.update(x)
        assert (one.u, one.statistic, one.alarm) == (two.u, two.statistic, two.alarm)
    assert restored.state() == whole.state()


def test_the_alarm_stays_on_and_nothing_overflows():
    alarm = ShiryaevRoberts([0.0] * 2000, np.random.default_rng(5))
    alarms = list[bool]()
    for _ in range(1500):
        alarms.append(alarm.update(1.0).alarm)
        assert np.isfinite(alarm.statistic)
    first = alarm.first_alarm
    assert first is not None
    assert first < 30
    assert alarms == [seen >= first for seen in range(1, 1501)]
    json.dumps(alarm.state(), allow_nan=False)
