"""Whether right answers meet: by hand, by simulation with a known r, and where it is not known."""

from __future__ import annotations

import numpy as np
import pytest

from keff.stats.votes import Votes
from keff.stats.voting.alike import vote_patterns
from keff.stats.voting.correlation import right_answers_meet, right_pairs


def draw(n: int, r_law: tuple[float, float], rng: np.random.Generator) -> Votes:
    """Six paths of accuracy .7; a right one holds key 0 with the question's own chance q, else its own."""
    right = (rng.random((n, 6)) < 0.7).astype(np.int64)
    shared = rng.random((n, 6)) < rng.beta(*r_law, n)[:, None]
    answers = np.where(right > 0, np.where(shared, 0, 10 + np.arange(6)), 1)
    return Votes(answers, right)


def test_pairs_by_hand() -> None:
    votes = Votes(np.array([[0, 0, 1, 2], [3, 3, 3, -1]]), np.array([[1, 1, 1, 0], [1, 1, 1, 0]]))
    same, pairs = (values[vote_patterns(votes).back] for values in right_pairs(votes))
    assert same.tolist() == [1, 3]
    assert pairs.tolist() == [3, 3]


@pytest.mark.slow
def test_interval_covers_a_known_r() -> None:
    """r = E q^2, for two right paths meet when both hold the shared key."""
    rng, law = np.random.default_rng(2), (2.0, 1.0)
    truth = law[0] * (law[0] + 1) / (sum(law) * (sum(law) + 1))
    found = [right_answers_meet(draw(60, law, rng)).r for _ in range(400)]
    assert np.mean([r.value for r in found]) == pytest.approx(truth, abs=0.01)
    assert 0.92 <= np.mean([r.lo <= truth <= r.hi for r in found]) <= 0.985


def test_all_meet_is_not_certainty_and_none_meet_is_said() -> None:
    rng = np.random.default_rng(0)
    right = (rng.random((40, 8)) < 0.5).astype(np.int64)
    meets = right_answers_meet(Votes(1 - right, right))
    assert meets.r.value == 1.0
    assert 0.85 < meets.r.lo < 0.99
    assert meets.chance_below() < 0.01
    apart = right_answers_meet(Votes(np.tile(np.arange(8), (40, 1)), right))
    assert apart.r.value == 0.0
    assert apart.chance_below() > 0.99
    assert [note.code for note in apart.r.warnings] == ["right_answers_differ"]


def test_few_questions_with_two_right_paths_leave_r_unknown() -> None:
    right = np.zeros((40, 4), np.int64)
    right[:19, :2] = 1
    found = right_answers_meet(Votes(1 - right, right))
    assert np.isnan(found.r.value)
    assert found.r.lo is None
    assert [note.code for note in found.r.warnings] == ["meeting_unknown"]
    nobody = right_answers_meet(Votes(np.ones((40, 4), np.int64), np.zeros((40, 4), np.int64)))
    assert nobody.chance_below() == 1.0
