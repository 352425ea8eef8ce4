"""Credit of a plurality with scattered wrong answers: by enumeration of partitions, and in its limits."""

from __future__ import annotations

import numpy as np
import pytest

from keff.stats.models.answer_model import credit_table, expected_credit


def partitions(w: int, largest: int | None = None) -> list[tuple[int, ...]]:
    """Return the integer partitions of w."""
    if w == 0:
        return [()]
    top = min(w, largest or w)
    return [(first, *rest) for first in range(top, 0, -1) for rest in partitions(w - first, first)]


def chance(blocks: tuple[int, ...], g: float) -> float:
    """Return the chance of block sizes under a Chinese restaurant process, by Ewens' sampling formula."""
    w = sum(blocks)
    out = np.prod(np.arange(1, w + 1) / (g + np.arange(w)))
    for size in set(blocks):
        times = blocks.count(size)
        out *= (g / size) ** times / np.prod(np.arange(1, times + 1))
    return float(out)


@pytest.mark.parametrize("g", [0.1, 1.0, 6.0])
def test_credit_by_enumeration(g: float) -> None:
    table = credit_table(12, g)
    for v in range(1, 13):
        assert table[v, 0] == 0.0
        for s in range(1, v + 1):
            every = partitions(v - s)
            assert sum(chance(b, g) for b in every) == pytest.approx(1.0, abs=1e-12)
            credit = sum(chance(b, g) / (1 + b.count(s)) for b in every if max(b, default=0) <= s)
            assert table[v, s] == pytest.approx(credit, abs=1e-12)


def test_credit_stays_exact_for_many_paths() -> None:
    table = credit_table(400, 2.5)
    assert table[400, 400] == 1.0
    steps = np.diff(table[400, :])
    assert steps.min() > -1e-9
    # One path in a pair is right, and then the other, wrong one ties with it.
    assert table[2, 1] == pytest.approx(0.5)
    assert credit_table(400, 1e-9)[400] == pytest.approx(np.r_[np.zeros(200), 0.5, np.ones(200)], abs=1e-6)


def test_expected_credit_averages_over_right_paths() -> None:
    """Agreeing wrong answers make it a binary vote; no answers win nothing."""
    theta = np.array([0.0, 0.3, 1.0])
    table = expected_credit(5, theta, np.array([1e-9]))[:, :, 0]
    assert table[0] == pytest.approx([0, 0, 0])
    assert table[3] == pytest.approx([0, 0.3**3 + 3 * 0.3**2 * 0.7, 1], abs=1e-7)
    assert table[4] == pytest.approx(table[3], abs=1e-7)
