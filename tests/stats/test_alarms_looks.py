"""Looks at the mean: the threshold holds, the pilot's orders count, restarts change nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import ndtri, stdtr

from keff.stats.drift import LOOKS, MeanLooks, normal_of_t
from keff.stats.votes import FloatArray

ALPHA = 0.1


def looks_at(scores: FloatArray, alpha: float = 0.05) -> MeanLooks:
    return MeanLooks(scores, share(scores), alpha)


def share(scores: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-scores.mean(axis=1))))


def pilot(shift: float, n: int, orders: int, rng: np.random.Generator) -> FloatArray:
    """Scores of items that differ by 1, and of orders within an item that differ by 1.5, rounded."""
    return np.round(shift + rng.standard_normal((n, 1)) + 1.5 * rng.standard_normal((n, orders)))


def alarmed(shift: float, orders: int, seed: int, n: int = 60) -> bool:
    rng = np.random.default_rng(seed)
    whole = pilot(0.0, n, 64, rng)
    looks = MeanLooks(whole[:, :orders], share(whole), ALPHA)
    for score in pilot(shift, int(LOOKS[8]), 1, rng)[:, 0]:
        looks.update(float(score))
    return looks.alarm


@pytest.mark.slow
def test_false_alarms_come_as_often_as_stated_at_most() -> None:
    runs = 100
    false = sum(alarmed(0.0, 8, seed) for seed in range(runs))
    assert false <= runs * ALPHA + 2 * (runs * ALPHA * (1 - ALPHA)) ** 0.5
    assert false > runs * ALPHA / 5  # the first nine looks hold a good part of it


@pytest.mark.slow
def test_several_orders_of_a_pilot_find_more_than_one() -> None:
    several, single = (sum(alarmed(0.6, orders, seed) for seed in range(50)) for orders in (16, 1))
    assert several > single + 5


def test_a_rare_event_that_the_pilot_did_not_see_is_no_alarm_and_a_frequent_one_is() -> None:
    rare, often = (MeanLooks(np.zeros((50, 4)), np.ones(50), 0.04) for _ in range(2))
    for place in range(400):
        rare.update(-float(place % 40 == 39))
        often.update(-float(place % 4 == 3))
    assert not rare.alarm
    assert often.alarm
    same = MeanLooks(np.ones((50, 4)), np.ones(50), 0.04)
    for _ in range(400):
        same.update(1.0)
    assert same.statistic == 0.0


def test_it_looks_only_at_its_numbers_of_requests() -> None:
    looks = looks_at(np.array([[0.0], [1.0], [0.0], [1.0]]))
    seen = list[float]()
    for _ in range(30):
        seen.append(looks.update(0.9).statistic)
    assert seen[:19] == [0.0] * 19
    assert len(set(seen[19:27])) == 1
    assert seen[26] != seen[27]


def test_a_state_goes_on_where_it_was_taken() -> None:
    rng = np.random.default_rng(3)
    whole = looks_at(pilot(0.0, 30, 4, rng))
    scores = rng.standard_normal(60).tolist()
    for score in scores[:25]:
        whole.update(score)
    later = MeanLooks.from_state(json.loads(json.dumps(whole.state())))
    for score in scores[25:]:
        assert later.update(score).statistic == whole.update(score).statistic
    assert later.state() == whole.state()
    with pytest.raises(ValueError, match="lacks"):
        MeanLooks.from_state({"seen": 3})


def test_one_item_is_too_few() -> None:
    with pytest.raises(ValueError, match="at least two items"):
        MeanLooks([[1.0]], [1.0])


@pytest.mark.parametrize(("df", "off"), [(3, 2e-3), (5, 1.3e-4), (9, 1e-5), (49, 1e-7), (999, 1e-10)])
def test_student_s_t_as_a_normal_deviate(df: int, off: float) -> None:
    t = np.linspace(0, 12, 121)
    exact = -ndtri(stdtr(df, -t))
    assert [normal_of_t(float(each), df) for each in t] == pytest.approx(exact, abs=off)
