"""The fake engine: its accuracy and correlation are what was asked for."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keff.engines.fake import Fake, engine, skill, wrong_answers
from keff.errors import EngineError, UsageError
from keff.records import Completion, Sampling, stable_hash

MARK = "The final answer is "


def ask(item: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"question {item}"}]


def draw(made: Fake, item: int, n: int, seed: int = 0, **how: object) -> list[Completion]:
    return asyncio.run(made.generate(ask(item), Sampling(seed=seed, **how), n))


def correctness(made: Fake, items: int, k: int, gold: str) -> np.ndarray:
    async def matrix() -> list[list[bool]]:
        drawn = [await made.generate(ask(i), Sampling(seed=i), k) for i in range(items)]
        return [[one.text.endswith(MARK + gold) for one in paths] for paths in drawn]

    return np.array(asyncio.run(matrix()), float)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "c"), [(0.6, 0.3), (0.8, 0.6), (0.3, 0.05)])
def test_correctness_is_beta_binomial_with_the_chosen_p_and_c(p: float, c: float) -> None:
    """Mean and intraclass correlation of 600 x 8 paths lie within four standard errors of the truth."""
    items, k = 600, 8
    gold = {stable_hash(ask(i)): "42" for i in range(items)}
    right = correctness(engine(p=p, c=c, oracle=gold), items, k, "42")
    rate = right.mean(1)
    assert rate.mean() == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) * (c + (1 - c) / k) / items))
    pairs = ((right.sum(1) ** 2 - right.sum(1)) / (k * (k - 1)) - p**2) / (p * (1 - p))
    assert pairs.mean() == pytest.approx(c, abs=4 * pairs.std() / np.sqrt(items))


@pytest.mark.slow
@pytest.mark.parametrize("c", [0.0, 1.0])
def test_extreme_correlations(c: float) -> None:
    gold = {stable_hash(ask(i)): "42" for i in range(300)}
    rates = correctness(engine(p=0.5, c=c, oracle=gold), 300, 8, "42").mean(1)
    if c == 1:
        assert set(rates) == {0.0, 1.0}
    else:
        assert rates.var() == pytest.approx(0.25 / 8, rel=0.3)


@pytest.mark.slow
@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_skill_is_a_quantile_function(p: float, c: float) -> None:
    grid = [skill(p, c, (i + 0.5) / 400) for i in range(400)]
    assert all(a <= b for a, b in pairwise(grid))
    assert np.mean(grid) == pytest.approx(p, abs=0.01)


def test_a_path_depends_on_prompt_and_seed_only() -> None:
    made = engine()
    together = draw(made, 1, 8, seed=100)
    alone = [draw(engine(), 1, 1, seed=100 + i)[0] for i in reversed(range(8))][::-1]
    assert together == alone
    assert together != draw(made, 2, 8, seed=100)
    assert len({one.text for one in together}) > 1


def test_temperature_zero_draws_one_path() -> None:
    assert len({one.text for one in draw(engine(), 1, 8, temperature=0.0)}) == 1


def test_long_paths_are_cut_before_their_answer() -> None:
    for one in draw(engine(tokens=30), 1, 40, max_tokens=30):
        assert (one.finish == "length") == (MARK not in one.text)
        assert one.tokens <= 30
    assert {one.finish for one in draw(engine(tokens=30), 1, 40, max_tokens=30)} == {"stop", "length"}


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("B", ["A", "C", "D", "E"]),
        ("yes", ["no"]),
        ("False", ["True"]),
        ("1,000", ["1001", "1002", "1003", "1004"]),
        ("Paris", ["Paris 2", "Paris 3", "Paris 4", "Paris 5"]),
    ],
)
def test_wrong_answers_are_of_the_same_kind(right: str, wrong: list[str]) -> None:
    assert wrong_answers(right, 4) == wrong


@pytest.mark.slow
def test_wrong_answers_have_a_favourite() -> None:
    """With weights 1, 1/2, 1/3, 1/4 the favourite has a share of 12/25 of the wrong answers."""
    texts = Counter(one.text.split(MARK)[1] for one in draw(engine(p=0.0), 3, 2000))
    assert texts.most_common(1)[0][1] / 2000 == pytest.approx(12 / 25, abs=0.05)


@pytest.mark.slow
def test_failures_come_at_the_chosen_rate_and_pass_when_tried_again() -> None:
    made = engine(fail=0.3)
    failed = [item for item in range(400) if not _works(made, item)]
    assert len(failed) / 400 == pytest.approx(0.3, abs=0.1)
    again = [item for item in failed if not _works(made, item)]
    assert 0 < len(again) < len(failed) / 2


def _works(made: Fake, item: int) -> bool:
    try:
        return bool(draw(made, item, 1))
    except EngineError as error:
        assert error.transient
        return False


def test_refusals_are_completions() -> None:
    drawn = draw(engine(refuse=0.5), 0, 200)
    assert sum(one.refusal is not None for one in drawn) / 200 == pytest.approx(0.5, abs=0.15)
    assert all(one.text == "" for one in drawn if one.refusal)


@pytest.mark.parametrize("wrong", [{"p": 1.5}, {"c": -0.1}, {"answers": 0}, {"fail": 2}])
def test_wrong_options_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="engine fake"):
        engine(**wrong)
