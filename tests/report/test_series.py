"""The rows that charts draw."""

from __future__ import annotations

import numpy as np
import pytest

import keff
from keff.analysis.estimates import Settings
from keff.report.series import plurality_ahead


@pytest.mark.slow
def test_the_predicted_band_joins_the_measured_one_at_the_last_recorded_path() -> None:
    rng = np.random.default_rng(5)
    answers = np.where(rng.random((60, 6)) < rng.beta(2, 1, (60, 1)), 0, rng.integers(1, 4, (60, 6)))
    result = keff.analyze(answers.tolist(), gold_answer=[0] * 60, settings=Settings(k_max=16))
    assert result.plurality is not None
    assert result.bands is not None
    assert result.bands.plurality is not None
    (k, start), *beyond = plurality_ahead(result)
    assert (k, start.value) == (6, result.plurality[6])
    assert (start.lo, start.hi) == tuple(result.bands.plurality[6])
    assert [k for k, _ in beyond] == [8, 16]
