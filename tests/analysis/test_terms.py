"""Dollars and seconds against values worked out by hand, closed forms and simulation."""

from __future__ import annotations

import numpy as np
import pytest

from keff.analysis.money import Pace, Tariff, complete, rates, step
from keff.analysis.replay import Replaying, replay
from keff.analysis.terms import Accounts, Terms
from keff.errors import KeffError, PolicyError, UsageError
from keff.policy import policy_now
from keff.sampling.cost import Price
from keff.stats.time import quantiles
from keff.stats.votes import Votes

ANSWERS = np.array([[0, 0, 1, 0], [1, 0, 0, 1]])
CORRECT = (ANSWERS == 0).astype(int)
TOKENS = np.array([[10.0, 20, 30, 40], [100, 100, 100, 100]])
PROMPTS = np.array([[7.0, 0, 0, 0], [9, 0, 0, 0]])
VOTES = Votes(ANSWERS, CORRECT, tokens=TOKENS, prompt_tokens=PROMPTS)
TARIFF = Tariff({"m": Price(prompt=2, output=10)}, "prices.toml")


def test_the_cost_of_a_record_by_hand() -> None:
    known = rates(VOTES, "m-1", TARIFF)
    assert known.cost_of_record(VOTES) == pytest.approx(((7 + 9) * 2 + (100 + 400) * 10) / 1e6)
    # A path alone sends the prompt: (7 x 2 + 25 x 10 + 9 x 2 + 100 x 10) / 2.
    assert known.alone(VOTES).mean() == pytest.approx((14 + 250 + 18 + 1000) / 2 / 1e6)


def test_replay_bills_a_prompt_for_every_round() -> None:
    how = Replaying(tariff=TARIFF, model="m")
    table = replay(VOTES, ["fixed:4", "lead_k:3,cap=4"], np.random.default_rng(0), how)
    fixed, lead = table.policies
    assert fixed.dollars is not None
    assert lead.dollars is not None
    assert fixed.dollars.value == pytest.approx((14 + 1000 + 18 + 4000) / 2 / 1e6)
    assert lead.dollars.value < fixed.dollars.value + 3 * 18 / 1e6
    assert table.baseline == "fixed:4"
    assert fixed.change is not None
    assert (fixed.change.paths.value, fixed.change.accuracy and fixed.change.accuracy.value) == (0, 0)


def test_the_change_from_today_is_paired_and_signed() -> None:
    rng = np.random.default_rng(3)
    correct = (rng.random((80, 8)) < rng.beta(2, 1, (80, 1))).astype(int)
    votes = Votes(np.where(correct, 0, rng.integers(1, 4, correct.shape)), correct)
    table = replay(votes, ["fixed:1", "fixed:8"], rng, Replaying(now="fixed:4"))
    one, eight = (row.change for row in table.policies)
    assert one is not None
    assert eight is not None
    assert (one.paths.value, eight.paths.value) == (-3, 4)
    assert one.accuracy is not None
    assert table.policies[0].accuracy is not None
    today = replay(votes, ["fixed:4"], rng).policies[0].accuracy
    assert today is not None
    assert one.accuracy.value == pytest.approx(table.policies[0].accuracy.value - today.value)
    assert one.accuracy.lo is not None
    assert one.accuracy.lo < one.accuracy.value


@pytest.mark.slow
def test_seconds_of_independent_paths_meet_the_closed_form() -> None:
    """K exponential paths at once: P(max <= t) = (1 - exp(-t))^K."""
    rng = np.random.default_rng(1)
    votes = Votes(np.zeros((2000, 16), int), None, seconds=rng.exponential(1, (2000, 16)))
    row = replay(votes, ["fixed:8"], rng).policies[0]
    for share, found in ((0.5, row.seconds and row.seconds.p50), (0.95, row.seconds and row.seconds.p95)):
        assert found is not None
        assert found.lo is not None
        assert found.hi is not None
        truth = -np.log(1 - share ** (1 / 8))
        assert found.lo - 0.1 <= truth <= found.hi + 0.1


def test_sequential_rounds_add_and_paths_at_once_do_not() -> None:
    """No two answers alike: every order takes the same rounds, of 2 seconds each."""
    votes = Votes(np.tile(np.arange(6), (5, 1)), None, seconds=np.full((5, 6), 2.0))
    row = replay(votes, ["lead_k:3,cap=6"], np.random.default_rng(0)).policies[0]
    assert row.seconds is not None
    assert row.seconds_at_once is not None
    assert row.seconds.p50 is not None
    assert row.seconds_at_once.p95 is not None
    assert row.rounds > 1
    assert (row.seconds.p50.value, row.seconds_at_once.p95.value) == (2 * row.rounds, 2)


@pytest.mark.slow
def test_correlated_paths_widen_the_tail() -> None:
    """Paths of a question share their time: R rounds take R times it, which independent paths do not."""
    rng = np.random.default_rng(2)
    factor = rng.exponential(1, (3000, 1))
    votes = Votes(np.tile(np.arange(8), (3000, 1)), None, seconds=np.repeat(factor, 8, axis=1))
    row = replay(votes, ["lead_k:4,cap=8"], rng).policies[0]
    assert row.seconds is not None
    assert row.seconds.p95 is not None
    assert row.seconds.p95.value == pytest.approx(row.rounds * np.quantile(factor, 0.95), rel=1e-5)


def test_quantiles_by_hand() -> None:
    times = np.arange(100.0)[:, None]
    (found,) = quantiles(times, [0.5], np.arange(100))
    assert found.value == pytest.approx(49.5)
    assert found.lo is not None
    assert found.hi is not None
    assert 30 < found.lo < 49.5 < found.hi < 70


def test_a_budget_in_dollars_becomes_paths_and_steps_have_prices() -> None:
    from keff.analysis.decision import Aim

    terms = Terms(tariff=TARIFF, budget_dollars=3 * (14 + 250 + 18 + 1000) / 2 / 1e6)
    assert Accounts.of(VOTES, "m", terms).aim(Aim()).budget == pytest.approx(3)
    assert step(1, 2, 0.1, 0.002).dollars_per_right_answer == pytest.approx(0.02)
    assert step(1, 2, 0.0, 0.002).dollars_per_right_answer is None


def test_replay_compares_with_the_recorded_paths_or_with_a_rule_at_their_cap() -> None:
    rng = np.random.default_rng(0)
    for settings, reference in (
        (Replaying(cap=2), "fixed:4"),
        (Replaying(now="2"), "fixed:2"),
        (Replaying(now="lead_k:3"), "lead_k:3,cap=4"),
    ):
        assert replay(VOTES, ["fixed:1"], rng, settings).baseline == reference
    long = Votes(np.zeros((3, 70), np.int64), np.ones((3, 70), np.int64))
    assert replay(long, ["fixed:1"], rng, Replaying()).baseline == "fixed:64"


def test_bad_input_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"prices.toml has no price for 'other'"):
        rates(VOTES, "other", TARIFF)
    bare = Votes(ANSWERS, CORRECT)
    with pytest.raises(UsageError, match="the record counts none"):
        rates(bare, "m", TARIFF)
    with pytest.raises(ValueError, match="not negative"):
        Votes(ANSWERS, CORRECT, seconds=np.full((2, 4), -1.0))
    with pytest.raises(UsageError, match="milliseconds"):
        complete(Votes(ANSWERS, CORRECT, seconds=np.full((2, 4), 9e5)))
    with pytest.raises(PolicyError, match="the records hold 4"):
        replay(VOTES, ["fixed:1"], np.random.default_rng(0), Replaying(now="fixed:9"))
    with pytest.raises(UsageError, match="buys none"):
        from keff.analysis.decision import Aim

        Accounts.of(VOTES, "m", Terms(tariff=TARIFF, budget_dollars=1e-9)).aim(Aim())
    with pytest.raises(KeffError):
        policy_now("0")
    with pytest.raises(UsageError, match="above 0"):
        Pace(0.0, 0.0)


def test_tokens_give_seconds_at_a_pace() -> None:
    timed = complete(VOTES, Pace(0.5, 100)).seconds
    assert timed is not None
    assert timed[0].tolist() == pytest.approx([0.6, 0.7, 0.8, 0.9])
