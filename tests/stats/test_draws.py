"""Running votes against counting by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

import drawn
from how_many import examples
from keff.stats.votes import Votes
from keff.stats.voting.alike import dense_codes
from keff.stats.voting.draws import Draws, permute_paths, random_orders


@pytest.mark.slow
@given(
    codes=drawn.lists(range(-1, 4), 9),
    right=drawn.lists([False, True], 9),
)
@settings(max_examples=examples(150), deadline=None)
def test_tallies_are_the_counts_of_each_prefix(codes: list[int], right: list[bool]) -> None:
    correct = [bool(r and c >= 0) for r, c in zip(right, codes, strict=True)]
    draws = Draws(np.array([[codes]], np.int16), correct=np.array([[correct]], np.float32))
    seen = draws.tallies
    assert seen.credit is not None
    for n in range(10):
        counts = Counter(code for code in codes[:n] if code >= 0)
        top = [count for _, count in counts.most_common()] + [0, 0]
        assert (seen.v1[0, 0, n], seen.v2[0, 0, n]) == (top[0], top[1])
        winners = [code for code, count in counts.items() if count == top[0]]
        scores = [np.mean([correct[i] for i in range(n) if codes[i] == code]) for code in winners]
        assert seen.credit[0, 0, n] == pytest.approx(np.mean(scores) if scores else 0, abs=1e-6)
        assert seen.leader[0, 0, n] in (winners or [-1])


def test_dense_codes_number_answers_by_first_use() -> None:
    assert dense_codes(np.array([[9, -1, 4, 9], [3, 3, 3, 3]])).tolist() == [[0, -1, 1, 0], [0, 0, 0, 0]]


def test_permuted_draws_each_path_once_and_keeps_its_fields_together() -> None:
    answers = np.tile(np.arange(12), (3, 1))
    votes = Votes(answers, (answers % 2).astype(int), tokens=answers * 10.0, confidences=answers / 10)
    draws = permute_paths(votes, 12, 50, np.random.default_rng(0))
    assert np.all(np.sort(draws.codes, axis=2) == np.arange(12))
    assert draws.correct is not None and draws.tokens is not None and draws.confidences is not None
    assert np.all(draws.correct == draws.codes % 2)
    assert np.all(draws.tokens == draws.codes * 10)
    assert draws.confidences == pytest.approx(draws.codes / 10)
    first = np.bincount(draws.codes[..., 0].ravel(), minlength=12)
    assert first.min() > 0


@pytest.mark.parametrize("k", [1, 2, 80, 256, 257, 3000])
def test_random_orders_are_those_of_a_stable_sort(k: int) -> None:
    uniform = np.random.default_rng(k).random((3, 5, k), dtype=np.float32)
    uniform[0, 0] = uniform[0, 0, 0]  # equals stay in place
    uniform[0, 1, 0] = np.nextafter(np.float32(1), np.float32(0))  # the largest that is drawn
    cap = max(k // 3, 1)
    assert np.array_equal(random_orders(uniform, cap), uniform.argsort(axis=2, kind="stable")[..., :cap])
