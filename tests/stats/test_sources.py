"""Sources of paths: variances against tables and exact expectations, coverage of another source's score."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from keff.stats.scores import paired_test
from keff.stats.sources import (
    SourceScores,
    all_right,
    correlation,
    luck_of_difference,
    mean_score,
    new_source,
    score_spread,
    source_sd,
    source_variance,
)

# Variances of questions, sources, their interaction and one answer.
TRUE = (0.02, 0.01, 0.005, 0.03)


def scores_of(values: np.ndarray, here: np.ndarray | None = None) -> SourceScores:
    """Return the paths of an array [n, S, r] that are here."""
    question, source, _ = np.indices(values.shape)
    kept = np.ones(values.shape, bool) if here is None else here
    names = tuple(f"judge {number}" for number in range(values.shape[1]))
    return SourceScores(question[kept], source[kept], values[kept], names)


def drawn(rng: np.random.Generator, n: int, s: int, r: int, parts: tuple[float, ...] = TRUE) -> np.ndarray:
    sizes = ((n, 1, 1), (1, s, 1), (n, s, 1), (n, s, r))
    return 0.5 + sum(
        np.sqrt(part) * rng.standard_normal(size) for part, size in zip(parts, sizes, strict=True)
    )


def test_a_full_design_has_the_mean_squares_of_the_table() -> None:
    """The table of a full two-way design, by its sums of squares."""
    n, s, r = 9, 4, 3
    values = drawn(np.random.default_rng(0), n, s, r)
    question, source, cell = (values.mean(axis=axes, keepdims=True) for axes in ((1, 2), (0, 2), 2))
    both = r * np.sum((cell - question - source + values.mean()) ** 2) / ((n - 1) * (s - 1))
    luck = np.sum((values - cell) ** 2) / (n * s * (r - 1))
    found = source_variance(scores_of(values))
    assert found is not None and found.interaction is not None
    assert found.questions == pytest.approx((s * r * question.var(ddof=1) - both) / (s * r), rel=1e-9)
    assert found.sources == pytest.approx((n * r * source.var(ddof=1) - both) / (n * r), rel=1e-9)
    assert found.interaction == pytest.approx((both - luck) / r, rel=1e-9)
    assert found.trials - found.interaction == pytest.approx(luck, rel=1e-9)


@pytest.mark.parametrize(("repeats", "missing"), [(1, 0.0), (2, 0.0), (1, 0.5), (2, 0.5)])
def test_variances_are_exactly_unbiased_whatever_is_missing(repeats: int, missing: float) -> None:
    """A quadratic form y'Ay has the expectation tr(A LL') = sum of its values at the columns of L."""
    n, s = 7, 4
    here = np.random.default_rng(1).random((n, s, repeats)) >= missing
    shape = (n, s, repeats)
    columns = list[np.ndarray]()
    for part, axes in zip(TRUE, ((0,), (1,), (0, 1), (0, 1, 2)), strict=True):
        for place in itertools.product(*(range(shape[axis]) for axis in axes)):
            column = np.zeros(shape)
            where: list[object] = [slice(None)] * 3
            for axis, index in zip(axes, place, strict=True):
                where[axis] = index
            column[tuple(where)] = np.sqrt(part)
            columns.append(column)
    found = [source_variance(scores_of(column, here)) for column in columns]
    kept = [each for each in found if each is not None]
    assert len(kept) == len(columns)
    assert sum(each.questions for each in kept) == pytest.approx(TRUE[0])
    assert sum(each.sources for each in kept) == pytest.approx(TRUE[1])
    assert sum(each.trials for each in kept) == pytest.approx(TRUE[2] + TRUE[3])
    told = [each.interaction for each in kept if each.interaction is not None]
    assert (sum(told) == pytest.approx(TRUE[2])) if repeats > 1 else not told


def test_questions_of_one_cluster_are_no_other_questions() -> None:
    rng = np.random.default_rng(2)
    values = np.repeat(drawn(rng, 6, 5, 1), 4, axis=0)  # each question copied four times
    one, copied = scores_of(values[::4]), scores_of(values)
    clustered = SourceScores(
        copied.question, copied.source, copied.score, copied.names, np.repeat(np.arange(6), 4)
    )
    first, second = source_variance(one), source_variance(clustered)
    assert first is not None and second is not None
    assert second.sources == pytest.approx(first.sources)
    assert second.trials == pytest.approx(first.trials)
    spreads = score_spread(one, first), score_spread(clustered, second)
    assert spreads[1].variance == pytest.approx(spreads[0].variance)


def test_what_a_design_would_have_is_the_closed_form() -> None:
    found = source_variance(scores_of(drawn(np.random.default_rng(3), 30, 6, 2)))
    assert found is not None and found.interaction is not None
    luck = found.trials - found.interaction
    inside = found.sources / 8 + found.interaction / 800 + luck / 3200
    assert found.standard_error(100, 8, 4, same_questions=True) == pytest.approx(inside**0.5)
    assert found.standard_error(100, 8, 4) == pytest.approx((inside + found.questions / 100) ** 0.5)


def test_sources_with_questions_of_their_own_cannot_be_told_apart() -> None:
    values, here = drawn(np.random.default_rng(4), 8, 4, 1), np.zeros((8, 4, 1), bool)
    here[np.arange(8), np.arange(8) % 4] = True
    assert source_variance(scores_of(values, here)) is None


@pytest.mark.slow
def test_intervals_cover_the_score_of_a_new_source_the_mean_and_the_spread() -> None:
    rng, runs, sources = np.random.default_rng(5), 400, 6
    covered = np.zeros(4)
    for _ in range(runs):
        values = drawn(rng, 40, sources + 1, 1)
        seen, other = scores_of(values[:, :-1]), values[:, -1].mean()
        found = source_variance(seen)
        assert found is not None
        spread = score_spread(seen, found)
        about = correlation(seen, found)
        each = (
            (new_source(seen, found), other),
            (mean_score(spread, 40), 0.5),
            (source_sd(seen, found), TRUE[1] ** 0.5),
            (about, TRUE[0] / sum(TRUE)),
        )
        covered += [interval.lo <= truth <= interval.hi for interval, truth in each]  # type: ignore[operator]
    # Nominal 95%, of 400 runs: three standard errors are 3.3%.
    assert np.all(covered / runs > 0.917), covered / runs
    assert np.all(covered / runs < 0.99), covered / runs


def test_pass_of_different_sources_is_the_mean_over_their_subsets() -> None:
    rng = np.random.default_rng(6)
    values = (rng.random((5, 4, 2)) < 0.6).astype(float)
    here = np.ones(values.shape, bool)
    here[0, 1] = False
    found = all_right(scores_of(values, here), 3)
    for row in range(5):
        cells = [values[row, s].mean() for s in range(4) if here[row, s].any()]
        expected = np.mean([np.prod(chosen) for chosen in itertools.combinations(cells, 3)])
        assert found[row] == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_models_that_do_not_differ_are_told_apart_in_one_of_twenty(shared: bool) -> None:
    """Two models of one law, judged by the same judges or by others: fixed ones are taken for the law."""
    rng, runs = np.random.default_rng(7), 100
    wrong = np.zeros(2)
    for _ in range(runs):
        question, judge = rng.normal(0, 0.1, (50, 1)), rng.normal(0, 0.1, (2, 1, 5))
        # A judge likes one of the models more, besides being strict or mild.
        own = rng.normal(0, 0.05, (2, 1, 5)) + (judge[:1] if shared else judge)
        first, second = (0.5 + question + own[side] + rng.normal(0, 0.15, (50, 5)) for side in (0, 1))
        sides = [scores_of(side[:, :, None]) for side in (first, second)]
        if not shared:
            names = tuple(f"other {number}" for number in range(5))
            sides[1] = SourceScores(sides[1].question, sides[1].source, sides[1].score, names)
        repeats = [side.repeats() for side in sides]
        found = [paired_test(*repeats, luck=luck_of_difference(*sides)), paired_test(*repeats)]
        wrong += [each.decided for each in found]
    # At most 5%, three standard errors of 100 runs above.
    assert wrong[0] / runs < 0.116
    assert wrong[1] / runs > 0.3


def test_what_judges_add_to_both_models_cancels() -> None:
    rng = np.random.default_rng(8)
    values = drawn(rng, 30, 5, 1)
    better = scores_of(values + 0.02 * rng.standard_normal((30, 1, 1)) + 0.1)
    found = luck_of_difference(scores_of(values), better)
    assert found is not None
    assert (found.sources, found.trials) == pytest.approx((0.0, 0.0), abs=1e-12)
    other = SourceScores(better.question, better.source, better.score, tuple("vwxyz"))
    apart = luck_of_difference(scores_of(values), other)
    each = source_variance(scores_of(values))
    assert apart is not None and each is not None
    assert apart.sources == pytest.approx(2 * each.sources / 5)
