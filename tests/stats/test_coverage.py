"""Intervals hold the truth as often as they say, at 10 to 300 questions, alone and in clusters."""

import numpy as np
import pytest

from benchmarks.stats.intervals import CLUSTERS, KINDS, LAWS, QUESTIONS, expected_covered, shares_covered

SAMPLES = 100


@pytest.mark.slow
@pytest.mark.parametrize("n", QUESTIONS)
def test_intervals_of_shares_and_of_differences_cover(n: int) -> None:
    for kind in KINDS:
        for design in CLUSTERS:
            found = shares_covered(kind, design, n, SAMPLES)
            # Three standard errors below 95% for each law, and two for all of them together.
            assert min(found) >= 0.95 - 3 * (0.95 * 0.05 / SAMPLES) ** 0.5, (kind, design, found)
            assert np.mean(found) >= 0.95 - 2 * (0.95 * 0.05 / SAMPLES / len(found)) ** 0.5, (kind, design)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "size", "pilots"), [(10, 1, 8), (30, 2, 6), (100, 1, 4), (300, 2, 3)])
def test_expected_figures_cover_those_of_as_many_new_questions(n: int, size: int, pilots: int) -> None:
    found = np.concatenate([expected_covered(law, n, size, pilots) for law in LAWS])
    stated = found[np.isfinite(found)]
    # The share kept is not stated of the weakest law at few questions.
    assert stated.size >= 11
    assert stated.mean() >= 0.95 - 3 * (0.95 * 0.05 / pilots / len(LAWS)) ** 0.5, found
