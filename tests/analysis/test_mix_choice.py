"""Choice between plans over branches: baselines, worth, the default, budgets."""

from __future__ import annotations

import numpy as np
import pytest

from keff.analysis.mix.choose import LEAST_STANDARD_ERRORS, MixAim, PlanTable, choose
from keff.analysis.mix.search import CandidatePlan
from keff.analysis.mix.shrink import RECORDED_GAINS
from keff.analysis.mix.study import MixSettings, combine_branches
from keff.errors import PolicyError
from keff.sampling.cost import Price
from keff.stats.votes import FloatArray
from mix_rig import group, plan_table, table_of

pytestmark = pytest.mark.slow


def two_single(accuracy: FloatArray, cost: FloatArray) -> PlanTable:
    return table_of(accuracy, cost, single=2)


def test_baselines_are_the_best_single_plan_and_the_cheapest_near_it() -> None:
    half = [1.0] * 200 + [0.0] * 200
    near = [0.0] * 30 + [1.0] * 170 + [0.0] * 171 + [1.0] * 29
    choice = choose(plan_table([half, near], [1e4, 1.0]), MixAim())
    assert (choice.best, choice.cheap, choice.taken) == (0, 1, 1)
    # A point of accuracy is given up for all of the cost, not for half of it.
    less = [0.0] * 34 + near[34:]
    assert choose(plan_table([half, less], [1e4, 1.0]), MixAim()).taken == 0
    assert choose(plan_table([half, near], [1e4, 9e3]), MixAim()).taken == 0
    # On 40 questions near may lose ten points, whatever it saves: the default does not gamble.
    few = np.r_[0:4, 40:56, 200:217, 397:400]
    assert choose(plan_table([half, near], [1e4, 1.0]).take(few, np.arange(len(few))), MixAim()).taken == 0


def test_of_equals_the_cheapest_is_the_baseline() -> None:
    same = [1.0] * 20 + [0.0] * 20
    choice = choose(plan_table([same, same], [10.0, 1.0]), MixAim())
    assert choice.best == choice.cheap == choice.taken == 1
    worse = [1.0] * 10 + [0.0] * 30
    assert plan_table([worse, same], [1.0, 1.0]).curve == [(0.0, 1)]


def test_aims() -> None:
    table = plan_table([[1.0] * 9 + [0.0], [1.0] * 8 + [0.0] * 2, [1.0] * 5 + [0.0] * 5], [10.0, 4.0, 1.0])
    assert choose(table, MixAim(retain=0.85)).taken == 1
    assert choose(table, MixAim(budget=9.0)).taken == 1
    assert choose(table, MixAim(value_per_correct=1000)).taken == 0
    assert choose(table, MixAim(value_per_correct=0.1)).taken == 2
    with pytest.raises(PolicyError, match="cheapest"):
        choose(table, MixAim(budget=0.5))
    with pytest.raises(PolicyError, match="one aim"):
        MixAim(retain=0.9, budget=3)


def test_worth_leaves_the_best_single_plan_for_a_gain_beyond_its_error_only() -> None:
    rng = np.random.default_rng(3)
    base = rng.random(200)
    noise = rng.normal(0, 0.1, 200)
    noise -= noise.mean()
    error = noise.std(ddof=1) / np.sqrt(200)
    for gain, taken in ((0.9 * LEAST_STANDARD_ERRORS * error, 0), (1.1 * LEAST_STANDARD_ERRORS * error, 2)):
        rule = two_single(np.array([base, base - 0.3, base + noise + gain]), np.ones((3, 200)))
        assert rule.best_at(1e4) == taken


@pytest.mark.parametrize("answered", [1.0, 0.8])
def test_what_a_plan_gains_on_one_path_is_shrunk_and_the_path_itself_is_not(answered: float) -> None:
    """To what (1 - 1/m) q(1 - q) makes likely; votes pass over paths without an answer, 1 - 1/m of them."""
    rng = np.random.default_rng(5)
    specs = (
        ("cascade:a(fixed:1)", (0,), 0.0, 1),
        ("cascade:a(lead_k:2,cap=4)", (0,), 0.0, 4),
        ("cascade:b(fixed:1)", (1,), 1.0, 1),
        ("cascade:a(lead_k:2,cap=4)/b(lead_k:2,cap=4)", (0, 1), 0.5, 8),
        ("cascade:a(lead_k:2,cap=4)/b(fixed:1)", (0, 1), 0.2, 5),
        ("cascade:a(lead_k:2,cap=4)/b(fixed:1),keep=fresh", (0, 1), RECORDED_GAINS.last, 5),
        ("mix:a(k=1,weight=1)/b(k=3,weight=1)", (0, 1), 0.75, 4),
    )
    for n in (20, 10_000):
        one, other = rng.random((2, n)) < np.array([[0.5], [0.7]])
        rows = np.array([one, one | (rng.random(n) < 0.2), other, *[one | other] * 4], float)
        made = [
            CandidatePlan(
                spec,
                "mix" if spec.startswith("mix") else "cascade" if len(branches) > 1 else "single",
                branches,
                row,
                np.ones(n),
            )
            for (spec, branches, _, _), row in zip(specs, rows, strict=True)
        ]
        table = PlanTable.of(made, [99] * 2, np.full((2, n), answered), np.arange(n))
        seen, expected = table.mean_accuracy, table.expected
        share, most = np.array([spec[2:] for spec in specs]).T
        votes, gain = 1 - 1 / most, np.array([RECORDED_GAINS.gain] * 3 + [RECORDED_GAINS.of_several] * 4)
        q = ((1 - share) * seen[0] + share * seen[2]) * (1 + votes * (1 / answered - 1))
        prior = q + gain * votes * q * (1 - q)
        assert expected[[0, 2]] == pytest.approx(seen[[0, 2]])
        assert (np.minimum(prior, seen) <= expected + 1e-6).all()
        assert (expected <= np.maximum(prior, seen) + 1e-6).all()
        closer = np.abs(expected - seen) < np.abs(expected - prior)
        assert closer[[1, 3, 4, 5, 6]].tolist() == [n > 1_000] * 5
        # On few questions next to nothing is left of what was seen.
        assert n > 1_000 or expected == pytest.approx(prior, abs=0.05)


def test_what_was_predicted_must_pass_what_was_measured() -> None:
    """A plan of predicted paths is taken by worth, for a gain of an error; under other aims none of them."""
    rng = np.random.default_rng(3)
    right = rng.random((3, 400)) < np.array([[0.5], [0.5], [0.9]])
    specs = ("cascade:a(fixed:1)", "cascade:a(lead_k:2,cap=3)", "cascade:a(lead_k:4,cap=8)")
    made = [
        CandidatePlan(spec, "single", (0,), row.astype(float), np.full(400, price))
        for spec, row, price in zip(specs, right, (1.0, 2.0, 0.5), strict=True)
    ]
    for recorded, free in ((4, 0), (8, 2)):
        table = PlanTable.of(made, [recorded], np.ones((1, 400)), np.arange(400))
        assert table.measured.tolist() == [True, True, recorded == 8]
        assert table.best_at(100) == 2
        for aim in (MixAim(), MixAim(retain=0.5), MixAim(budget=1.5)):
            assert choose(table, aim).taken in ((2,) if free else (0, 1))
    assert CandidatePlan("mix:a(k=3,weight=1)/b(k=8)", "mix", (1, 0), right, right).within([8, 3])
    assert not CandidatePlan("mix:a(k=3,weight=1)/b(k=8)", "mix", (0, 1), right, right).within([4, 4])


def test_the_curve_names_every_change_of_plan() -> None:
    rows = np.ones((2, 40)) * np.array([[0.6], [0.9]])
    rule = two_single(rows, np.ones((2, 40)) * np.array([[1.0], [7.0]]))
    assert [plan for _, plan in rule.curve] == [0, 1]
    # The dearer plan pays from 6 / .3 = 20.
    assert rule.pays_from(1) == pytest.approx(20) and rule.pays_from(0) == 0
    assert 20 <= rule.curve[1][0] <= 20.01
    assert rule.best_at(19) == 0 and rule.best_at(21) == 1
    assert two_single(rows[::-1], np.ones((2, 40)) * np.array([[1.0], [7.0]])).pays_from(1) is None


def test_the_default_does_not_gamble() -> None:
    steady, doubtful = np.full(50, 0.8), np.tile([1.0, 0.58], 25)
    rule = two_single(np.array([steady, doubtful, steady - 0.01]), np.ones((3, 50)))
    assert (
        rule.may_lose_too_much(1, 0) and not rule.may_lose_too_much(2, 0) and not rule.may_lose_too_much(0, 0)
    )


def test_a_budget_holds_on_new_questions_in_nine_of_ten() -> None:
    rng = np.random.default_rng(4)
    over = 0
    for _ in range(400):
        cost = rng.gamma(2, 0.5, (1, 60))
        budget = float(cost.mean() + 1.2816 * cost.std(ddof=1) / np.sqrt(60))
        rule = two_single(np.ones((1, 60)), cost)
        assert rule.within(budget * 1.0001)[0] and not rule.within(budget * 0.9999)[0]
        over += budget < 1.0
    assert over / 400 < 0.16


def test_a_free_branch_is_no_reason_to_lose_more_accuracy_than_a_cheap_one() -> None:
    prices = {"small": Price(path=0), "large": Price(path=1)}
    found = combine_branches(group(200, 4, seed=13, p=(0.5, 0.9)), MixSettings(cap=4, prices=prices))
    assert "large" in found.advice.plan.branches
    assert found.advice.plan.accuracy.value > found.best_single.accuracy.value - 0.03
    assert np.isfinite(found.advice.by_model) and np.isfinite(found.advice.by_cascade)
    prices = {"small": Price(path=1), "large": Price(path=0)}
    free = combine_branches(group(60, 4, seed=13, p=(0.5, 0.9)), MixSettings(cap=4, prices=prices))
    assert free.advice.plan.branches == ("large",) and free.advice.plan.cost.value == 0
