"""The recommendation: what it predicts against known laws, and that it serves the stated aim."""

from __future__ import annotations

import numpy as np
import pytest

from keff.analysis.recommend import Advice, Aim, choose, recommend
from keff.analysis.recommend.forecast import (
    LEAST_PRICE,
    SAFE,
    SINGLE,
    Forecast,
    candidates,
    fit_calibration,
    fit_slope,
    forecast,
    left_out_share,
)
from keff.analysis.recommend.prior import GENERIC
from keff.analysis.replay.outcomes import run
from keff.errors import PolicyError
from keff.policy import parse_policy
from keff.stats.choose import Recommendation
from keff.stats.correlation import agreement_items
from keff.stats.draws import Draws
from keff.stats.mixture import COMPONENTS
from keff.stats.plurality import plurality_at_k
from keff.stats.votes import Votes


def workload(n: int, k: int, seed: int, share: tuple[float, float] = (1.2, 0.8)) -> Votes:
    """Questions in which one answer, the right one, has a Beta share; others are ever rarer."""
    rng = np.random.default_rng(seed)
    p = rng.beta(*share, n)
    answers = np.where(rng.random((n, k)) < p[:, None], 0, np.minimum(rng.geometric(0.6, (n, k)), 3))
    return Votes(answers, (answers == 0).astype(int), tokens=np.full((n, k), 100.0))


def advise(pilot: Votes, aim: Aim | None = None, verdict: Recommendation = "sample", cap: int = 32) -> Advice:
    return recommend(pilot, aim or Aim(), verdict, cap=cap, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def pilot() -> Votes:
    return workload(60, 8, 1)


def test_candidates_are_their_specs() -> None:
    """What is simulated is what is deployed: the table of each candidate is that of its spec."""
    found = candidates(32)
    assert found.specs[SINGLE] == "fixed:1" and found.specs[SAFE] == "adaptive_consistency:0.95"
    assert len(set(found.specs)) == len(found.specs) > 100
    fits = np.indices((33, 33, 33))
    reachable = (fits[2] <= fits[1]) & (fits[1] + fits[2] <= fits[0])
    for spec, table in list(zip(found.specs, found.tables, strict=True))[::9]:
        rule = parse_policy(spec)
        cap = rule.cap
        own = rule.stops[:cap]  # type: ignore[attr-defined]
        assert np.array_equal(
            table[:cap, : cap + 1, : cap + 1][reachable[:cap, : cap + 1, : cap + 1]],
            own[reachable[:cap, : cap + 1, : cap + 1]],
        )
        assert table[cap:].all()


def restaurants(n: int, k: int, seed: int) -> Votes:
    """Half from a Chinese restaurant process with theta 0.8, half with two answers, Beta(6, 6)."""
    rng = np.random.default_rng(seed)
    answers = np.zeros((n, k), int)
    for row in answers[: n // 2]:
        for t in range(1, k):
            row[t] = row[:t].max() + 1 if rng.random() < 0.8 / (0.8 + t) else row[rng.integers(t)]
    answers[n // 2 :] = rng.random((n - n // 2, k)) < rng.beta(6, 6, (n - n // 2, 1))
    return Votes(answers, (answers == 0).astype(int))


def test_the_forecast_is_what_happens_on_new_questions() -> None:
    found = forecast(restaurants(800, 8, 2), 32, np.random.default_rng(0))
    fresh = restaurants(3000, 32, 3)
    assert fresh.answers is not None
    draws = Draws(fresh.answers[:, None, :].astype(np.int16))
    whole = draws.tallies.leader[:, :, 32]
    for index in range(0, len(found.paths), 40):
        walks = run(parse_policy(found.candidates.specs[index]), draws)
        assert found.paths[index] == pytest.approx(walks.stop.mean(), rel=0.05)
        assert found.differs[index] == pytest.approx(np.mean(walks.answer != whole), abs=0.025)


def test_the_accuracy_at_the_cap_is_predicted_within_its_error() -> None:
    found = forecast(workload(400, 8, 2), 32, np.random.default_rng(0))
    fresh = workload(3000, 32, 3)
    assert fresh.answers is not None and fresh.correct is not None
    credit = Draws(
        fresh.answers[:, None, :].astype(np.int16), correct=fresh.correct[:, None, :].astype(np.float32)
    ).tallies.credit
    assert found.accuracy is not None and found.error is not None and credit is not None
    assert abs(found.accuracy - credit[:, :, 32].mean()) < 2.5 * found.error
    assert found.error < 0.04


@pytest.fixture(scope="module")
def found(pilot: Votes) -> Forecast:
    return forecast(pilot, 32, np.random.default_rng(0))


def test_a_higher_retention_never_costs_fewer_paths(found: Forecast) -> None:
    chosen = [choose(found, Aim(retain=share))[0] for share in (0.8, 0.95, 0.98, 0.99, 0.995, 0.9999, 1)]
    paths = [found.paths[index] for index in chosen]
    assert paths == sorted(paths)
    assert paths[0] == 1 and found.loss[chosen[-1]] <= 0


def test_a_budget_is_kept_and_used(found: Forecast) -> None:
    chosen = [choose(found, Aim(budget=budget))[0] for budget in (1, 2.5, 4, 6, 8, 12, 24)]
    loss = [found.loss[index] for index in chosen]
    assert loss == sorted(loss, reverse=True)
    for index, budget in zip(chosen, (1, 2.5, 4, 6, 8, 12, 24), strict=True):
        assert found.paths[index] <= budget
    assert found.paths[chosen[3]] > 5.5


def test_value_against_cost_moves_from_one_path_to_many(found: Forecast) -> None:
    dear, _ = choose(found, Aim(value_per_correct=1, cost_per_path=1))
    cheap, why = choose(found, Aim(value_per_correct=10_000, cost_per_path=1))
    assert dear == SINGLE
    assert found.paths[cheap] > 6 and "10000 paths" in why


def test_every_recommendation_is_a_spec_that_the_drivers_accept(pilot: Votes) -> None:
    for cap, aim in ((8, Aim(budget=3)), (20, Aim(retain=0.98))):
        found = advise(pilot, aim, cap=cap)
        policy = parse_policy(found.policy)
        assert policy.cap <= cap and policy.spec == found.policy


def test_expectations_are_coherent(pilot: Votes) -> None:
    found = advise(pilot, Aim(retain=0.99))
    assert found.expected is not None and found.expected.lo is not None and found.expected.hi is not None
    assert 0 <= found.expected.lo < found.expected.value < found.expected.hi <= 1
    assert found.kept is not None and 0.98 < found.kept <= 1
    assert found.expected_tokens == pytest.approx(100 * (found.expected_paths or 0))
    assert found.because.endswith("of questions") and "\n" not in found.because


def test_the_same_pilot_gives_the_same_advice(pilot: Votes) -> None:
    assert advise(pilot) == advise(pilot)


def test_a_workload_of_one_answer_each_needs_one_path() -> None:
    same = Votes(np.zeros((60, 8), int), np.ones((60, 8), int))
    assert advise(same, Aim(retain=0.99)).policy == "fixed:1"


def test_without_labels_paths_are_chosen_and_accuracy_is_not_claimed(pilot: Votes) -> None:
    found = advise(Votes(pilot.answers, None), Aim(retain=0.99))
    assert found.expected is None and found.kept is None
    assert found.expected_paths is not None and 1 < found.expected_paths < 20


@pytest.mark.parametrize(
    ("verdict", "policy"), [("do not vote", "fixed:1"), ("single path", "fixed:1"), ("pilot too small", None)]
)
def test_the_verdict_decides_when_no_aim_is_stated(
    pilot: Votes, verdict: Recommendation, policy: str | None
) -> None:
    found = advise(pilot, Aim(), verdict)
    assert found.policy == (policy or "adaptive_consistency:0.95")
    assert found.verdict == verdict


def test_a_stated_aim_is_served_by_a_pilot_too_small_for_a_verdict(pilot: Votes) -> None:
    found = advise(pilot, Aim(budget=5), "pilot too small")
    assert found.verdict == "pilot too small" and found.policy.startswith("budget:")


def test_a_tiny_pilot_gets_the_safe_default_with_its_cap() -> None:
    assert advise(workload(6, 8, 4), Aim(retain=0.9)).policy == "adaptive_consistency:0.95"
    few = advise(workload(50, 2, 4), Aim(retain=0.9), cap=16)
    assert (few.policy, few.verdict) == ("adaptive_consistency:0.95,cap=16", "pilot too small")
    unknown = advise(Votes.from_correct(np.ones((30, 8), int)))
    assert (unknown.policy, unknown.expected_paths) == ("adaptive_consistency:0.95", None)


def test_aims_outside_their_range_are_refused() -> None:
    for wrong in (
        {"retain": 0},
        {"retain": 1.1},
        {"retain": float("nan")},
        {"budget": 0.5},
        {"value_per_correct": 1.0},
        {"value_per_correct": -1.0, "cost_per_path": 1.0},
        {"value_per_correct": 1.0, "cost_per_path": -1.0},
        {"retain": 0.9, "budget": 4.0},
    ):
        with pytest.raises(PolicyError):
            Aim(**wrong)


def test_the_slope_tells_shares_that_are_worth_something_from_those_that_are_not() -> None:
    right = workload(400, 8, 5)
    assert right.answers is not None
    steep = fit_slope(right)
    # Correct at random, answer by answer: the leader is no better than another.
    answer_is_right = np.random.default_rng(7).random((400, 4)) < 0.5
    flat = fit_slope(Votes(right.answers, np.take_along_axis(answer_is_right, right.answers, 1).astype(int)))
    assert steep.value > 0.7 > 0.35 > flat.value
    assert steep.sd < GENERIC.slope.sd
    assert fit_slope(Votes(right.answers, None)).value == pytest.approx(GENERIC.slope.at(1))


@pytest.mark.parametrize("truth", [0.5, 0.8, 1.0])
def test_calibration_comes_back(truth: float) -> None:
    """An answer of share s is right with probability ``truth`` * s.

    Then p is ``truth`` times the agreement.
    """
    rng = np.random.default_rng(8)
    share = rng.beta(2, 2, 4000)
    answers = (rng.random((4000, 8)) > share[:, None]).astype(int)
    first = rng.random(4000) < truth * share
    second = ~first & (rng.random(4000) < truth * (1 - share) / (1 - truth * share))
    right = np.where(answers == 0, first[:, None], second[:, None]).astype(int)
    found = fit_calibration(Votes(answers, right))
    assert found.value == pytest.approx(truth, abs=4 * found.sd)
    assert found.sd < 0.02
    few = Votes(answers[:12], right[:12])
    raw, generic = few.p / agreement_items(few).mean(), GENERIC.calibration.value
    assert abs(fit_calibration(few).value - generic) < abs(raw - generic)


def test_votes_that_are_worth_little_are_not_paid_for() -> None:
    """Two workloads of the same votes.

    Where wrong answers meet as often as right ones, fewer paths will do.
    """
    good = workload(80, 8, 9)
    assert good.answers is not None
    coin = np.random.default_rng(10).random((80, 4)) < 0.5
    poor = Votes(good.answers, np.take_along_axis(coin, good.answers, 1).astype(int))
    aim = Aim(retain=0.99)
    assert (advise(poor, aim).expected_paths or 0) < (advise(good, aim).expected_paths or 0)


def test_what_a_share_costs_has_a_floor_that_goes_with_the_accuracy(found: Forecast) -> None:
    assert np.all(found.price >= LEAST_PRICE * found.level)
    assert np.ptp(found.price[SINGLE + 1 :]) == 0 and found.price[SINGLE] >= found.price[SINGLE + 1]


def test_left_out_share_is_counted_by_hand() -> None:
    votes = Votes(np.array([[0, 0, 1], [0, 1, -1], [2, 2, 2]]), None)
    # First row: leaving out a 0 leaves a tie of 0 and 1 (one half, twice); leaving out 1 leaves 0 0 (none).
    assert left_out_share(votes).tolist() == pytest.approx([1 / 3, 0, 1])


def test_the_generic_prior_fits_the_components() -> None:
    assert GENERIC.weights.shape == (len(COMPONENTS),)
    assert GENERIC.weights.sum() == pytest.approx(1, abs=0.01)


def wrong_attractor(n: int, k: int, seed: int) -> Votes:
    """One path is right 4 times in 10, and the other answer is always the same: voting hurts."""
    answers = (np.random.default_rng(seed).random((n, k)) > 0.4).astype(int)
    return Votes(answers, (answers == 0).astype(int), tokens=np.full((n, k), 10.0))


def test_one_path_is_expected_to_do_what_one_path_did() -> None:
    pilot = wrong_attractor(80, 8, 1)
    found = advise(pilot, Aim(), "do not vote")
    assert found.policy == "fixed:1" and found.expected is not None
    assert found.expected.value == pytest.approx(pilot.p)
    assert found.expected.lo is not None and found.expected.hi is not None
    assert found.expected.lo < 0.4 < found.expected.hi
    assert found.kept is not None and found.kept > 1


@pytest.mark.parametrize("cap", [1, 4, 12])
def test_a_pilot_longer_than_the_cap_tells_the_accuracy_at_the_cap(cap: int) -> None:
    pilot = workload(200, 24, 3)
    found = forecast(pilot, cap, np.random.default_rng(0))
    assert found.accuracy == pytest.approx(plurality_at_k(pilot)[cap - 1])


def test_hard_questions_that_take_more_tokens_cost_more() -> None:
    easy, hard = np.zeros((40, 8), int), np.tile([0, 1], (40, 4))
    tokens = np.repeat([[100.0], [1000.0]], 40, axis=0) * np.ones(8)
    pilot = Votes(np.vstack([easy, hard]), None, tokens=tokens)
    found = forecast(pilot, 16, np.random.default_rng(0))
    assert found.tokens is not None
    assert found.tokens[SINGLE] == pytest.approx(550)
    assert found.tokens[SAFE] > 1.2 * 550 * found.paths[SAFE]


@pytest.mark.slow
def test_the_reason_says_what_was_asked(pilot: Votes) -> None:
    free = advise(pilot, Aim(value_per_correct=2, cost_per_path=0)).because
    assert free.startswith("paths cost nothing")
    assert "keep 99.95% of" in advise(pilot, Aim(retain=0.9995)).because
    assert "less than half a point" in advise(pilot, Aim(retain=0.99), "single path").because
    assert advise(workload(1, 8, 4)).because.startswith("1 question x 8 paths cannot")
