"""Going by patterns gives what going by items gives."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from by_item import plurality_at_k_items
from how_many import examples
from keff.stats.intervals import mean_share, pattern_shares
from keff.stats.models import answer_model
from keff.stats.models.answer_model import AnswerModel
from keff.stats.models.mixture import vote_counts
from keff.stats.votes import Votes
from keff.stats.voting.alike import (
    VotePatterns,
    _drawn_patterns,
    dense_codes,
    mean_of_items,
    one_of_each,
    pattern_notes,
    resampled_counts,
    vote_patterns,
)
from keff.stats.voting.correlation import (
    agreement_patterns,
    ratio_by_weights,
    right_answers_meet,
    right_pairs,
)
from keff.stats.voting.plurality import (
    flip_patterns,
    plurality_at_k_patterns,
    share_patterns,
)


@st.composite
def votes(draw: st.DrawFn) -> Votes:
    """Votes with abstentions, clusters, and slots, whose right paths may hold several answers."""
    n, k = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    answers = rng.integers(-1, draw(st.integers(1, 4)), (n, k))
    correct = rng.integers(0, 2, (n, k)) * (answers >= 0) if draw(st.booleans()) else None
    clusters = rng.integers(0, n, n) if draw(st.booleans()) else None
    slots = rng.integers(0, 2, k) if draw(st.booleans()) else None
    return Votes(answers, correct, slots=slots, clusters=clusters)


def pattern(one: Votes, item: int) -> tuple[tuple[int, int], ...]:
    """Return how many paths, and how many right ones, each answer of an item has."""
    answers = one.answered()[item].tolist()
    correct = [0] * one.k if one.correct is None else one.correct[item].tolist()
    sizes = Counter(code for code in answers if code >= 0)
    right = Counter(code for code, y in zip(answers, correct, strict=True) if y)
    return tuple(sorted((size, right[code]) for code, size in sizes.items()))


@settings(max_examples=examples(150), deadline=None)
@given(votes())
def test_items_are_alike_when_their_patterns_are_equal(one: Votes) -> None:
    same, patterns = vote_patterns(one), [pattern(one, item) for item in range(one.n)]
    assert [patterns[same.first[place]] for place in same.back] == patterns
    assert len(set(patterns)) == same.first.size
    assert same.counts.tolist() == [Counter(patterns)[patterns[item]] for item in same.first]


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None)
@given(votes())
def test_values_by_pattern_are_those_of_each_item_alone(one: Votes) -> None:
    functions = [share_patterns, flip_patterns]
    functions += [plurality_at_k_patterns] if one.correct is not None else []
    functions += [agreement_patterns] if one.k > 1 else []
    for function in functions:
        alone = [function(one.take([item]))[0] for item in range(one.n)]
        np.testing.assert_allclose(function(one)[vote_patterns(one).back], alone, rtol=0, atol=1e-12)
    if one.correct is not None:
        same, pairs = (values[vote_patterns(one).back] for values in right_pairs(one))
        alone = np.array([[values[0] for values in right_pairs(one.take([item]))] for item in range(one.n)])
        np.testing.assert_array_equal(np.column_stack([same, pairs]), alone)


@settings(max_examples=examples(100), deadline=None)
@given(votes())
def test_renumbered_answers_are_in_order_of_first_use(one: Votes) -> None:
    for row, dense in zip(one.answered().tolist(), dense_codes(one.answered()).tolist(), strict=True):
        table: dict[int, int] = {}
        assert dense == [-1 if code < 0 else table.setdefault(code, len(table)) for code in row]
    counts, abstained = vote_counts(one)
    assert (counts.sum(axis=1) + abstained == one.k).all()


def many(n: int = 400, k: int = 6) -> Votes:
    """Votes of many alike questions."""
    rng = np.random.default_rng(5)
    correct = (rng.random((n, k)) < rng.beta(1, 1, (n, 1))).astype(int)
    answers = np.where(correct > 0, 0, rng.integers(1, 3, (n, k)))
    silent = rng.random((n, k)) < 0.05
    return Votes(np.where(silent, -1, answers), np.where(silent, 0, correct))


def test_a_model_fitted_to_patterns_is_that_of_all_items(monkeypatch: pytest.MonkeyPatch) -> None:
    one = many()
    same = vote_patterns(one)
    assert 2 * same.first.size < one.n
    weights = np.random.default_rng(1).multinomial(one.n, np.full(one.n, 1 / one.n), 5).astype(float)
    by_weight = np.array([np.bincount(same.back, row, same.first.size) for row in weights])
    by_pattern = AnswerModel(one, 16)
    every = np.arange(one.n)
    with monkeypatch.context() as patch:
        patch.setattr(
            answer_model, "vote_patterns", lambda _: VotePatterns(every, np.ones_like(every), every)
        )
        patch.setattr(answer_model, "one_of_each", lambda votes: votes)
        by_item = AnswerModel(one, 16)
    close = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(by_pattern.prior, by_item.prior, **close)
    np.testing.assert_allclose(by_pattern.posterior, by_item.posterior, **close)
    np.testing.assert_allclose(by_pattern.gains([8, 16], by_weight), by_item.gains([8, 16], weights), **close)
    assert abs(by_pattern.spread(16) - by_item.spread(16)) < 1e-12
    assert abs(by_pattern.answering(16) - by_item.answering(16)) < 1e-12
    met = right_answers_meet(one)
    meets, pairs = met.same[same.back], met.pairs[same.back]
    extra = pairs[pairs > 0].mean()
    whole = (weights @ meets + extra / 2) / (weights @ pairs + extra)
    np.testing.assert_allclose(ratio_by_weights(by_weight, met), whole, **close)


@pytest.mark.parametrize(("n", "clustered"), [(400, False), (1200, False), (400, True)])
def test_resampled_counts_are_those_of_a_bootstrap_of_clusters(n: int, clustered: bool) -> None:
    one = many(n)
    if clustered:
        one = Votes(one.answers, one.correct, clusters=np.arange(one.n) // 4)
    same = vote_patterns(one)
    drawn = np.array(list(resampled_counts(one, 3000, np.random.default_rng(2))))
    assert set(drawn.sum(axis=1)) == {one.n}
    error = 4 * (same.counts.max() / 3000) ** 0.5
    np.testing.assert_allclose(drawn.mean(axis=0), same.counts, atol=5 * error)
    # The variance of a total over whole clusters, in closed form.
    value = plurality_at_k_items(one)[:, -1]
    totals = np.bincount(one.cluster_ids, value)
    expected = totals.size * totals.var()
    seen = (drawn @ value[same.first]).var()
    assert abs(seen / expected - 1) < 5 * (2 / 3000) ** 0.5


def test_one_of_each_holds_every_pattern_once() -> None:
    one = many()
    assert vote_patterns(one_of_each(one)).counts.tolist() == [1] * vote_patterns(one).first.size


def test_patterns_of_correctness_alone_are_counts_of_right_paths() -> None:
    bare = Votes.from_correct(many().scored())
    same = vote_patterns(bare)
    assert same.counts.tolist() == bare.hist[bare.counts[same.first]].tolist()
    assert (bare.counts[same.first][same.back] == bare.counts).all()


@pytest.mark.parametrize(("n", "clustered"), [(400, False), (1200, False), (1200, True)])
def test_shares_by_pattern_have_the_intervals_of_items(n: int, clustered: bool) -> None:
    one = many(n)
    if clustered:
        one = Votes(one.answers, one.correct, clusters=np.arange(n) // 4)
    values = plurality_at_k_patterns(one)
    items = plurality_at_k_items(one)
    np.testing.assert_allclose(mean_of_items(values, one), items.mean(axis=0), rtol=0, atol=1e-12)
    for share, column in zip(pattern_shares(values, one), items.T, strict=True):
        whole = mean_share(column, one.cluster_ids)
        assert share.limits == pytest.approx(whole.limits, abs=1e-12)


def test_it_is_said_where_a_large_record_goes_question_by_question(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    unlike = Votes(rng.integers(0, 9, (40, 30)), None)
    assert pattern_notes(unlike) == ()
    monkeypatch.setattr("keff.stats.voting.alike.LARGE", 40)
    (note,) = pattern_notes(unlike)
    assert note.code == "few_alike" and "of 40 questions" in note.message
    assert pattern_notes(many()) == ()


@pytest.mark.parametrize("counts", [[700, 250, *[1] * 30, *[4] * 5], [400, 600], [3] * 40])
def test_patterns_of_large_records_are_resampled_by_the_multinomial_law(counts: list[int]) -> None:
    own, n = np.array(counts), sum(counts)
    drawn = np.array(list(_drawn_patterns(own, 4000, np.random.default_rng(3))))
    assert np.all(drawn.sum(axis=1) == n)
    chances = own / n
    law = n * (np.diag(chances) - np.outer(chances, chances))
    error = np.sqrt(np.diag(law) / len(drawn))
    np.testing.assert_array_less(np.abs(drawn.mean(axis=0) - own), 5 * error)
    spread = np.sqrt((np.outer(np.diag(law), np.diag(law)) + law**2) / len(drawn))
    np.testing.assert_array_less(np.abs(np.cov(drawn.T) - law), 6 * spread)
