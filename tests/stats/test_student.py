"""Student's t by its finite sum, against SciPy's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri, stdtr

from keff.stats.student import LEAST_TAIL, normal_score


@given(st.floats(0, 30), st.integers(1, 400))
def test_it_has_the_tail_of_student(t: float, df: int) -> None:
    expected = min(-ndtri(stdtr(df, -t)), -ndtri(LEAST_TAIL))
    assert normal_score(t, df) == pytest.approx(expected, abs=1e-5)


def test_many_degrees_of_freedom_are_the_normal_law() -> None:
    assert normal_score(3.0, 1_000_000) == pytest.approx(3.0, abs=1e-4)


@pytest.mark.parametrize(("t", "df"), [(1.0, 0), (-1.0, 5), (float("nan"), 5)])
def test_it_refuses_what_it_cannot_mean(t: float, df: int) -> None:
    with pytest.raises(ValueError, match="Student"):
        normal_score(t, df)
