"""Copied and half-shared paths are refused; branches that agree by strength or by greed are not."""

from __future__ import annotations

import numpy as np
import pytest

from keff.errors import UsageError
from keff.reading.copies import check_separate
from keff.stats.votes import IntArray

NAMES, UNTIMED = ("first", "second"), (None, None)


def drawn(seed: int, p: float = 0.7, n: int = 60, k: int = 4) -> IntArray:
    """Answers of a branch that is right (0) with chance p, else one of three."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, k)) < p, 0, rng.integers(1, 4, (n, k)))


def test_a_copy_a_half_copy_and_a_shuffled_copy_are_refused() -> None:
    one, other = drawn(1), drawn(2)
    half = other.copy()
    half[:, 2] = one[:, 0]
    shuffled = np.random.default_rng(3).permuted(one, axis=1)
    for copy, words in ((one.copy(), "4 of 4"), (half, "1 of 4"), (shuffled, "another order")):
        with pytest.raises(UsageError, match=words):
            check_separate(NAMES, [one, copy], UNTIMED)


def test_branches_drawn_separately_pass_also_where_they_hardly_ever_err() -> None:
    for p in (0.3, 0.7, 0.95, 0.999):
        for seed in range(40):
            n, k = (20, 2) if seed % 2 else (60, 8)
            pair = [drawn(2 * seed, p, n, k), drawn(2 * seed + 1, p, n, k)]
            assert check_separate(NAMES, pair, UNTIMED) == [] or p > 0.9


def test_answers_that_no_chance_drew_are_named() -> None:
    greedy = np.repeat(np.arange(30)[:, None] % 3, 4, axis=1)
    assert [note.code for note in check_separate(NAMES, [greedy, greedy.copy()], UNTIMED)] == ["same_answers"]
    assert check_separate(NAMES, [greedy, (greedy + 1) % 3], UNTIMED) == []
