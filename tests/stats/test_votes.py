import numpy as np
import pytest

from keff.stats.votes import Votes, as_hist


def test_counts_histogram_and_shape():
    votes = Votes.from_correct([[1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 1, 1]])
    assert (votes.n, votes.k, votes.n_clusters) == (4, 3, 4)
    assert votes.counts.tolist() == [2, 0, 3, 2]
    assert votes.hist.tolist() == [1, 0, 2, 1]
    assert votes.p == 7 / 12


def test_clusters_are_renumbered():
    votes = Votes.from_correct([[1], [0], [1]], clusters=[70, 3, 70])
    assert votes.cluster_ids.tolist() == [1, 0, 1]
    assert votes.n_clusters == 2


@pytest.mark.parametrize(
    ("matrix", "word"),
    [
        ([[1.0, np.nan]], "without NaN"),
        ([[1, 2]], "only 0 and 1"),
        ([[1, 0], [1]], "ragged"),
        ([1, 0], "dimension"),
        ([["1", "0"]], "only 0 and 1"),
        (np.zeros((0, 3), int), "at least one item"),
        (np.zeros((3, 0), int), "at least one item"),
    ],
)
def test_bad_correctness_is_refused(matrix, word):
    with pytest.raises(ValueError, match=word):
        Votes.from_correct(matrix)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"answers": None, "correct": None}, "answers, correctness or both"),
        ({"answers": [[0, -2]], "correct": None}, "answer codes"),
        ({"answers": [[0, 0.5]], "correct": None}, "integers"),
        ({"answers": [[0, 1]], "correct": [[1, 0, 1]]}, "correct has shape"),
        ({"answers": [[0, 1]], "correct": None, "slots": [0]}, "slots has shape"),
        ({"answers": [[0, 1]], "correct": None, "clusters": [0, 1]}, "clusters has shape"),
        ({"answers": [[0, 1]], "correct": None, "tokens": [[1.0]]}, "tokens has shape"),
        ({"answers": [[-1, 0]], "correct": [[1, 0]]}, "score abstentions 0"),
    ],
)
def test_fields_that_do_not_fit_are_refused(fields, word):
    with pytest.raises(ValueError, match=word):
        Votes(**fields)


def test_what_is_unknown_is_said():
    with pytest.raises(ValueError, match="no gold labels"):
        _ = Votes(np.zeros((2, 2), int), None).counts
    with pytest.raises(ValueError, match="no answers"):
        Votes.from_correct([[1, 0]]).answered()


def test_take_and_paths_carry_every_field():
    votes = Votes(
        answers=[[0, 1, -1], [2, 2, 2]],
        correct=[[1, 0, 0], [0, 0, 0]],
        slots=[0, 1, 2],
        clusters=[5, 6],
        tokens=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
        confidences=[[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]],
        closed=True,
    )
    twice = votes.take([1, 1])
    assert twice.clusters.tolist() == [6, 6]
    assert twice.tokens.tolist() == [[4, 5, 6], [4, 5, 6]]
    last = votes.take([True, False]).paths([2, 0])
    assert last.answers.tolist() == [[-1, 0]]
    assert last.correct.tolist() == [[0, 1]]
    assert last.slots.tolist() == [2, 0]
    assert last.confidences.tolist() == [[0.3, 0.1]]
    assert last.closed


@pytest.mark.parametrize("hist", [[3], [0, 0], [-1, 4], [1.5, 2]])
def test_histograms_are_checked(hist):
    with pytest.raises(ValueError):
        as_hist(hist)
