"""Slot accuracies, the phi-max audit and answer diversity."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from keff.stats.branches.slots import (
    answer_diversity,
    extraction_failures,
    phi_audit,
    phi_max,
    slot_accuracies,
    slot_cv,
)
from keff.stats.votes import Votes


def test_accuracies_and_variation():
    votes = Votes.from_correct([[1, 0], [1, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(slot_accuracies(votes), [0.75, 0.25])
    assert slot_cv(votes) == pytest.approx(0.5)
    assert math.isnan(slot_cv(Votes.from_correct([[0, 0], [0, 0]])))


def test_extraction_failures_per_slot():
    votes = Votes(np.array([[0, -1], [1, -1], [-1, 2], [0, 0]]), None)
    np.testing.assert_array_equal(extraction_failures(votes), [0.25, 0.5])


@given(arrays(np.int64, (12, 2), elements=st.integers(0, 1)))
def test_no_pair_of_columns_beats_phi_max(matrix):
    p = matrix.mean(axis=0)
    if 0 < p[0] < 1 and 0 < p[1] < 1:
        assert np.corrcoef(matrix.T)[0, 1] <= phi_max(p)[0, 1] + 1e-12
        # Attained when one column contains the other.
        nested = np.sort(matrix, axis=0)
        assert np.corrcoef(nested.T)[0, 1] == pytest.approx(phi_max(p)[0, 1])


def test_phi_max_of_constant_slots_is_undefined():
    bound = phi_max([0.0, 0.5, 1.0])
    assert bound[1, 1] == 1
    assert np.isnan(bound).sum() == 8


def test_audit_tells_unequal_accuracy_from_independence():
    # Nested columns: as dependent as their accuracies allow, though phi is low.
    nested = Votes.from_correct(np.arange(20)[:, None] < np.array([2, 10, 18]))
    audit = phi_audit(nested)
    assert audit.ratio == pytest.approx(1)
    assert audit.phi == pytest.approx(audit.phi_max)
    assert audit.phi < 0.5
    with_constant = phi_audit(nested.paths([0, 1]))
    assert with_constant.dropped == 0
    dropped = phi_audit(Votes.from_correct([[1, 1, 0], [1, 0, 1], [1, 1, 1]]))
    assert dropped.dropped == 2
    assert math.isnan(phi_audit(Votes.from_correct([[1, 1], [1, 1]])).phi)


def test_answer_diversity_counts_distinct_answers_over_k():
    votes = Votes(np.array([[3, 3, 3, 3], [0, 1, 2, 3], [5, -1, 5, 2], [-1, -1, -1, -1]]), None)
    np.testing.assert_array_equal(answer_diversity(votes), [0.25, 1.0, 0.5, 0.0])
