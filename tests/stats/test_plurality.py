from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from by_item import plurality_at_k_items
from how_many import examples
from keff.stats.models.betabinomial import majority_at_k_items
from keff.stats.votes import Votes
from keff.stats.voting.alike import vote_patterns
from keff.stats.voting.plurality import (
    flip,
    flip_patterns,
    plurality_at_k,
    plurality_at_k_patterns,
    plurality_share,
    share_patterns,
)

quick = settings(max_examples=examples(60), deadline=None)


def leaders(codes):
    given_codes, sizes = np.unique(codes[codes >= 0], return_counts=True)
    return set(given_codes[sizes == sizes.max()].tolist()) if sizes.size else set()


def by_enumeration(codes, correct, size):
    """Credit, flip and share of one item, averaged over all subsets of ``size`` paths."""
    credit, flips, share = [], [], []
    top = leaders(codes)
    for subset in combinations(range(codes.size), size):
        drawn, right = codes[list(subset)], correct[list(subset)]
        winners = leaders(drawn)
        credit.append(np.mean([right[drawn == w].mean() for w in winners]) if winners else 0.0)
        flips.append(1 - np.mean([w in top for w in winners]) if winners else float(bool(top)))
        share.append(max((np.sum(drawn == w) for w in winners), default=0) / size)
    return np.mean(credit), np.mean(flips), np.mean(share)


@st.composite
def votes_by_path(draw):
    """Votes whose correctness may differ between paths with one answer, with abstentions."""
    shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 8)))
    codes = draw(arrays(np.int64, shape, elements=st.integers(-1, 4)))
    right = draw(arrays(np.int64, shape, elements=st.integers(0, 1)))
    return Votes(codes, right * (codes >= 0))


@quick
@given(votes_by_path())
def test_plurality_flip_and_share_are_averages_over_all_subsets(votes):
    functions = plurality_at_k_patterns, flip_patterns, share_patterns
    got = np.stack([function(votes) for function in functions], axis=-1)[vote_patterns(votes).back]
    for i in range(votes.n):
        for size in range(1, votes.k + 1):
            want = by_enumeration(votes.answers[i], votes.correct[i], size)
            np.testing.assert_allclose(got[i, size - 1], want, atol=1e-13)


@quick
@given(arrays(np.int64, st.tuples(st.integers(1, 6), st.integers(1, 30)), elements=st.integers(0, 1)))
def test_with_two_answers_plurality_is_majority(matrix):
    votes = Votes(matrix, matrix)
    np.testing.assert_allclose(plurality_at_k_items(votes), majority_at_k_items(votes), atol=1e-13)


@quick
@given(votes_by_path())
def test_ends_and_the_flip_bound(votes):
    credit, flips = plurality_at_k_items(votes), flip_patterns(votes)[vote_patterns(votes).back]
    np.testing.assert_allclose(credit[:, 0], votes.correct.mean(axis=1), atol=1e-14)
    np.testing.assert_allclose(flips[:, -1], 0, atol=1e-14)
    assert (np.abs(credit - credit[:, -1:]) <= flips + 1e-12).all()


@quick
@given(votes_by_path(), st.randoms(use_true_random=False))
def test_neither_names_of_answers_nor_order_of_paths_matter(votes, random):
    columns, names = list(range(votes.k)), list(range(5))
    random.shuffle(columns)
    random.shuffle(names)
    renamed = np.where(votes.answers < 0, -1, np.array(names)[votes.answers])
    other = Votes(renamed, votes.correct).paths(columns)
    np.testing.assert_allclose(plurality_at_k_items(other), plurality_at_k_items(votes), atol=1e-13)


def test_eighty_paths_against_simulation():
    rng = np.random.default_rng(5)
    codes = rng.choice(6, size=(1, 80), p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    codes[0, :7] = -1
    votes = Votes(codes, (codes == 1).astype(int))
    exact = plurality_at_k(votes)
    for size in (2, 9, 40):
        draws = np.argsort(rng.random((20_000, 80)), axis=1)[:, :size]
        counts = np.stack([(codes[0][draws] == code).sum(axis=1) for code in range(6)], axis=1)
        won = counts == counts.max(axis=1, keepdims=True)
        score = np.where(counts.max(axis=1) > 0, won[:, 1] / won.sum(axis=1), 0.0)
        assert exact[size - 1] == pytest.approx(score.mean(), abs=4 * score.std() / np.sqrt(score.size))


def test_many_paths_stay_exact():
    """All answers different: the winner is one of the drawn at random; at K = 160 nothing overflows."""
    codes = np.arange(160)[None]
    votes = Votes(codes, (codes < 40).astype(int))
    np.testing.assert_allclose(plurality_at_k(votes), 0.25, rtol=1e-12)
    np.testing.assert_allclose(plurality_share(votes), 1 / np.arange(1, 161), rtol=1e-12)
    half = np.repeat([0, 1], 80)[None]
    np.testing.assert_allclose(plurality_at_k(Votes(half, 1 - half)), 0.5, rtol=1e-12)


def test_nobody_answers():
    votes = Votes(np.full((1, 4), -1), np.zeros((1, 4), int))
    assert plurality_at_k(votes).tolist() == [0] * 4
    assert flip(votes).tolist() == [0] * 4
    assert plurality_share(votes).tolist() == [0] * 4


def test_label_free_where_there_are_no_labels():
    votes = Votes([[0, 0, 1]], None)
    np.testing.assert_allclose(flip(votes), [1 / 3, 1 / 3, 0], atol=1e-15)
    np.testing.assert_allclose(plurality_share(votes), [1, 2 / 3, 2 / 3], atol=1e-15)


def test_too_many_paths_are_refused():
    with pytest.raises(ValueError, match="at most 1000"):
        flip(Votes(np.zeros((1, 1001), int), None))
    with pytest.raises(ValueError, match="no answers"):
        plurality_at_k(Votes.from_correct([[1, 0]]))
