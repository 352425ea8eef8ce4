"""Batch drift tests: exact p-values by enumeration, size, power, spending, and restoring."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keff.stats.drift import BatchMonitor, agreement_test, alpha_spent

PILOT = np.array([0.62, 0.17, 0.08, 0.09, 0.04])
DRIFTED = np.array([0.42, 0.23, 0.12, 0.15, 0.08])


def draw(rng, shares, n):
    return rng.multinomial(n, shares)


def test_p_value_by_enumeration():
    """Unanimous or not at m = 2: Fisher's exact hypergeometric tail in the distance of means."""
    pilot, batch = np.array([9, 3]), np.array([2, 5])
    total, size = pilot + batch, 7
    chances, distance = [], []
    for unanimous in range(max(0, size - total[1]), min(size, total[0]) + 1):
        ways = math.comb(total[0], unanimous) * math.comb(total[1], size - unanimous)
        chances.append(ways / math.comb(19, size))
        distance.append(abs(unanimous / size - (total[0] - unanimous) / 12))
    want = sum(c for c, d in zip(chances, distance, strict=True) if d >= abs(2 / 7 - 9 / 12) - 1e-12)
    early = [agreement_test(pilot, batch, 2, np.random.default_rng(s), 20_000).p for s in range(30)]
    assert np.mean(early) == pytest.approx(want, rel=0.1)
    result = agreement_test(pilot, batch, 2, np.random.default_rng(0))
    assert (result.pilot, result.batch) == (0.75, pytest.approx(2 / 7))


def test_the_smallest_p_value_is_one_over_draws_plus_one():
    far = agreement_test([100, 0, 0], [0, 0, 100], 3, np.random.default_rng(0), 999)
    assert far.p == 1 / 1000
    same = agreement_test([50, 20, 5], [50, 20, 5], 3, np.random.default_rng(0), 999)
    assert same.p == 1.0


def test_size_and_power_of_a_batch():
    rng = np.random.default_rng(1)
    null = [agreement_test(draw(rng, PILOT, 100), draw(rng, PILOT, 200), 4, rng, 999).p for _ in range(300)]
    assert np.mean(np.array(null) <= 0.05) <= 0.08
    assert np.mean(np.array(null) <= 0.5) == pytest.approx(0.5, abs=0.1)
    moved = [agreement_test(draw(rng, PILOT, 100), draw(rng, DRIFTED, 200), 4, rng, 999).p for _ in range(60)]
    assert np.mean(np.array(moved) <= 0.05) > 0.75


@given(st.floats(0.001, 0.5))
def test_spending_sums_to_alpha(alpha):
    total = sum(alpha_spent(j, alpha) for j in range(1, 2000))
    assert alpha * 0.999 < total < alpha


def test_repeated_batches_hold_the_level_and_find_a_change():
    rng = np.random.default_rng(2)
    false = 0
    for _ in range(40):
        monitor = BatchMonitor(draw(rng, PILOT, 200), 4, rng)
        for _ in range(8):
            monitor.update(draw(rng, PILOT, 60))
        false += monitor.alarm
    assert false <= 6
    monitor = BatchMonitor(draw(rng, PILOT, 200), 4, rng)
    states = [monitor.update(draw(rng, PILOT if j < 3 else DRIFTED, 300)) for j in range(6)]
    assert [s.alarm for s in states[:3]] == [False] * 3
    assert states[-1].alarm
    assert [s.number for s in states] == [1, 2, 3, 4, 5, 6]
    assert states[1].level == pytest.approx(states[0].level / 4)
    # An alarm stays on though later batches look like the pilot.
    assert monitor.update(draw(rng, PILOT, 300)).alarm


def test_a_restored_monitor_goes_on_identically():
    rng = np.random.default_rng(3)
    batches = [draw(rng, PILOT, 50) for _ in range(6)]
    whole = BatchMonitor(draw(rng, PILOT, 100), 4, np.random.default_rng(9), 0.1)
    for batch in batches[:3]:
        whole.update(batch)
    restored = BatchMonitor.from_state(json.loads(json.dumps(whole.state())))
    for batch in batches[3:]:
        assert restored.update(batch) == whole.update(batch)
    assert restored.state() == whole.state()


@pytest.mark.parametrize("bad", [[1, 2, 3], [1, 2, 3, 4, -1], [0.5, 1, 1, 1, 1], [0, 0, 0, 0, 0]])
def test_bad_tables(bad):
    with pytest.raises(ValueError, match="pattern table"):
        agreement_test(bad, [1, 1, 1, 1, 1], 4, np.random.default_rng(0))


def test_bad_levels():
    with pytest.raises(ValueError, match="alpha"):
        BatchMonitor([1, 1], 2, np.random.default_rng(0), alpha=0.0)
    with pytest.raises(ValueError, match="numbered"):
        alpha_spent(0, 0.05)
    with pytest.raises(ValueError, match="default_rng"):
        BatchMonitor([1, 1], 2, np.random.Generator(np.random.MT19937(0))).state()
