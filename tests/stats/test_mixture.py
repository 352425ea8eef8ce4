"""The mixture of partition laws against enumeration, known weights and its own simulations."""

from __future__ import annotations

import numpy as np
import pytest

from keff.stats.models.mixture import (
    COMPONENTS,
    fit_weights,
    partition_log_law,
    simulate,
    vote_counts,
)
from keff.stats.votes import Votes

# The partitions of five votes, with how many set partitions of five paths have those sizes.
PARTITIONS = {
    (5,): 1,
    (4, 1): 5,
    (3, 2): 10,
    (3, 1, 1): 10,
    (2, 2, 1): 15,
    (2, 1, 1, 1): 10,
    (1, 1, 1, 1, 1): 1,
}


def test_every_component_is_a_law_on_partitions() -> None:
    counts = np.array([(*sizes, *[0] * (5 - len(sizes))) for sizes in PARTITIONS])
    total = np.array(list(PARTITIONS.values())) @ np.exp(partition_log_law(counts))
    assert total == pytest.approx(np.ones(len(COMPONENTS)), abs=1e-12)


def test_two_votes_agree_as_often_as_the_component_says() -> None:
    law = np.exp(partition_log_law(np.array([[2, 0]])))[0]
    for (kind, x, y), together in zip(COMPONENTS, law, strict=True):
        expected = {
            "one": 1.0,
            "open": (1 - x) / (1 + y),
            "few": (1 + y) / (1 + x * y) if x else 1.0,
        }[kind]
        assert together == pytest.approx(expected)


def test_an_abstention_is_no_vote() -> None:
    votes = Votes(np.array([[7, -1, 7, 3], [-1, -1, -1, -1]]), None)
    counts, abstained = vote_counts(votes)
    assert counts.tolist() == [[2, 1], [0, 0]] and abstained.tolist() == [1, 4]
    assert np.all(partition_log_law(counts)[1] == 0)


def test_em_finds_the_weights_of_a_large_workload() -> None:
    rng = np.random.default_rng(0)
    answers = np.zeros((3000, 8), int)
    tie = rng.random(3000) < 0.4
    answers[tie] = rng.integers(0, 2, (int(tie.sum()), 8))
    weights = fit_weights(
        partition_log_law(vote_counts(Votes(answers, None))[0]), np.full(len(COMPONENTS), 0.1)
    )
    even = [i for i, (kind, m, kappa) in enumerate(COMPONENTS) if kind == "few" and m == 2 and kappa >= 6]
    assert weights[even].sum() == pytest.approx(0.4, abs=0.05)
    assert weights.sum() == pytest.approx(1)


def test_simulated_questions_agree_as_the_pilot_does() -> None:
    rng = np.random.default_rng(1)
    share = rng.beta(2, 1, 300)
    answers = np.where(rng.random((300, 8)) < share[:, None], 0, rng.integers(1, 4, (300, 8)))
    answers[rng.random((300, 8)) < 0.1] = -1
    pilot = Votes(answers, None)
    law = partition_log_law(vote_counts(pilot)[0])
    found = simulate(pilot, fit_weights(law, np.full(len(COMPONENTS), 0.1)), (60, 8), rng)
    assert found.codes.shape == (300, 60, 8)

    def pairs(codes: np.ndarray) -> float:
        return float(np.mean((codes[..., 0] == codes[..., 1]) & (codes[..., 0] >= 0)))

    truth = np.mean((1 - 0.1) ** 2 * (share**2 + (1 - share) ** 2 / 3))
    assert pairs(found.codes) == pytest.approx(truth, abs=0.03)
    assert np.mean(found.codes < 0) == pytest.approx(0.1, abs=0.015)


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(COMPONENTS)))
def test_simulated_pairs_agree_as_the_component_says(place: int) -> None:
    """From questions without a vote, two paths agree by the component's own law, however open it is."""
    pilot = Votes(np.full((1, 4), -1), None)
    rng = np.random.default_rng(2)
    found = simulate(pilot, np.eye(len(COMPONENTS))[place], (20_000, 2), rng).codes[0]
    voted = np.all(found >= 0, axis=1)
    together = float(np.mean(found[voted, 0] == found[voted, 1])) if voted.any() else 1.0
    expected = float(np.exp(partition_log_law(np.array([[2, 0]])))[0, place])
    assert together == pytest.approx(expected, abs=4 * (0.25 / max(int(voted.sum()), 1)) ** 0.5)
