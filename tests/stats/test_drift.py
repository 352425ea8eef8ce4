"""How many of a request's paths agree."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keff.stats.drift import agreeing_pairs
from keff.stats.votes import Votes
from keff.stats.voting.correlation import agreement


@pytest.mark.parametrize(
    ("votes", "pairs"), [((4,), 6), ((3, 1), 3), ((2, 2), 2), ((2, 1, 1), 1), ((1, 1, 1, 1), 0), ((), 0)]
)
def test_the_agreeing_pairs_of_four_paths(votes: tuple[int, ...], pairs: int) -> None:
    assert agreeing_pairs(votes) == pairs


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_agreeing_pairs_are_the_agreement_of_the_votes(seed: int, m: int) -> None:
    votes = Votes(np.random.default_rng(seed).integers(-1, 3, (20, 7)), None).paths(range(m))
    rows = [Counter(code for code in row if code >= 0) for row in votes.answered().tolist()]
    share = sum(agreeing_pairs(row.values()) for row in rows) / (20 * math.comb(m, 2))
    assert share == pytest.approx(agreement(votes))
