"""Partition patterns of a request's first answers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keff.stats.drift import (
    agreeing_pairs,
    pattern_code,
    pattern_codes,
    pattern_table,
    patterns,
)
from keff.stats.votes import Votes
from keff.stats.voting.correlation import agreement


def test_the_patterns_of_four_and_three_paths():
    assert patterns(4) == ((4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1))
    assert patterns(3) == ((3,), (2, 1), (1, 1, 1))
    np.testing.assert_array_equal(agreeing_pairs(4), [6, 3, 2, 1, 0])


@pytest.mark.parametrize(("m", "count"), [(2, 2), (5, 7), (8, 22), (12, 77)])
def test_every_partition_is_there_once(m, count):
    listed = patterns(m)
    assert len(set(listed)) == len(listed) == count
    assert all(sum(p) == m and list(p) == sorted(p, reverse=True) for p in listed)


def test_pattern_of_keys():
    assert patterns(4)[pattern_code(["7", "7", "12", "7", "12"], 4)] == (3, 1)
    assert patterns(5)[pattern_code(["7", "7", "12", "7", "12"], 5)] == (3, 2)
    assert pattern_code(["a", "b", "c", "d"], 4) == 4


def test_abstentions_agree_with_nothing():
    assert patterns(4)[pattern_code([None, None, "a", "a"], 4)] == (2, 1, 1)
    votes = Votes(np.array([[-1, -1, 0, 0], [-1, -1, -1, -1]]), None)
    np.testing.assert_array_equal(pattern_codes(votes, 4), [3, 4])


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_agreeing_pairs_are_the_agreement_of_the_votes(seed, m):
    answers = np.random.default_rng(seed).integers(-1, 3, (20, 7))
    votes = Votes(answers, None)
    table = pattern_table(pattern_codes(votes, m), m)
    assert table.sum() == 20
    share = table @ agreeing_pairs(m) / (20 * math.comb(m, 2))
    assert share == pytest.approx(agreement(votes.paths(range(m))))


def test_the_order_and_names_of_answers_do_not_matter():
    rng = np.random.default_rng(0)
    answers = rng.integers(0, 5, (30, 4))
    renamed = rng.permutation(50)[rng.permuted(answers, axis=1)]
    codes = pattern_codes(Votes(answers, None), 4)
    np.testing.assert_array_equal(codes, pattern_codes(Votes(renamed, None), 4))
    assert math.comb(4, 2) == agreeing_pairs(4)[0]
