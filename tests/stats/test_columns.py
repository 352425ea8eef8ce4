"""Exchangeable columns: the test's size and power."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from keff.stats.votes import Votes
from keff.stats.voting.columns import column_test


def matrix(n: int, shifts: NDArray[np.float64], spread: float, rng: np.random.Generator) -> Votes:
    """Paths right when a question's normal ease plus the column's shift beats a normal error."""
    ease = spread * rng.standard_normal((n, 1))
    return Votes.from_correct((ease + shifts + rng.standard_normal((n, shifts.size)) > 0).astype(int))


def test_p_values_are_uniform_without_mixed_columns() -> None:
    rng = np.random.default_rng(1)
    p = np.array([column_test(matrix(25, np.zeros(6), 1.0, rng), rng).p for _ in range(400)])
    for level in (0.05, 0.2, 0.5):
        assert np.mean(p <= level) == pytest.approx(level, abs=3 * (level * (1 - level) / 400) ** 0.5 + 0.01)


@pytest.mark.slow
def test_unequal_columns_raise_the_alarm_and_equal_ones_hardly_ever() -> None:
    rng = np.random.default_rng(2)
    unequal = [column_test(matrix(100, np.linspace(1.6, -0.8, 8), 0.5, rng), rng).mixed for _ in range(4)]
    equal = [column_test(matrix(60, np.zeros(8), 1.0, rng), rng).mixed for _ in range(150)]
    assert all(unequal)
    assert sum(equal) <= 3


def test_no_variance_is_no_alarm() -> None:
    assert column_test(Votes.from_correct([[1, 1], [0, 0]]), np.random.default_rng(0)).p == 1.0
