import numpy as np
import pytest

from keff.stats.influence import cross_run_c
from keff.stats.votes import Votes


def test_cross_run_c_counts_pairs_of_different_rows():
    matrix = np.array([[1, 1], [1, 0], [0, 0], [0, 1], [1, 1]])
    votes = Votes.from_correct(matrix, clusters=[0, 0, 1, 1, 2])
    p = matrix.mean()
    pairs = [a * b for x, y in ((0, 1), (2, 3)) for a in matrix[x] for b in matrix[y]]
    assert cross_run_c(votes) == pytest.approx((np.mean(pairs) - p * p) / (p * (1 - p)))
