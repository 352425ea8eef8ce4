"""Recommendations within rounds and seconds, paths in flight, paired changes, and cached prompts."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from keff.analysis.estimates import Settings, analyze
from keff.analysis.money import Tariff, path_dollars, rates
from keff.analysis.replay import Replaying, replay
from keff.analysis.replay.in_flight import Lanes, batch
from keff.analysis.replay.outcomes import expectations, run
from keff.analysis.results.recommendation import Recommendation
from keff.analysis.rounds import Haste, all_in_time
from keff.analysis.terms import Terms
from keff.analysis.times import seconds_of
from keff.errors import UsageError
from keff.policy import parse_policy
from keff.reading.arrays import record_of_votes
from keff.records import Interval
from keff.sampling.cost import Price
from keff.stats.draws import permuted
from keff.stats.votes import Votes


def workload(n: int = 60, k: int = 8, seed: int = 1) -> Votes:
    """Questions of very different difficulty, whose paths take 1 second and more by length."""
    rng = np.random.default_rng(seed)
    correct = (rng.random((n, k)) < rng.beta(2, 1, (n, 1))).astype(int)
    answers = np.where(correct, 0, rng.integers(1, 4, (n, k)))
    tokens = np.round(100 * rng.gamma(4, 1, (n, 1)) * rng.uniform(0.8, 1.2, (n, k)))
    return Votes(answers, correct, tokens=tokens, seconds=1 + tokens / 50)


def advice(terms: Terms) -> Recommendation:
    return analyze(record_of_votes(workload()), Settings(k_max=8, terms=terms)).recommendation


@pytest.mark.slow
def test_a_recommendation_in_two_rounds_takes_more_paths_and_less_time() -> None:
    slow_way, quick = plain(), advice(Terms(haste=Haste(max_rounds=2)))
    assert "rounds=2,agreement=" in quick.policy and quick.policy.startswith(slow_way.policy.split(",")[0])
    assert slow_way.expected_paths is not None and quick.expected_paths is not None
    assert slow_way.expected_paths < quick.expected_paths < 8
    assert quick.expected_paths_interval is not None
    assert quick.expected_paths_interval.value == pytest.approx(quick.expected_paths)
    assert slow_way.kept is not None and quick.kept is not None
    assert quick.kept.value == pytest.approx(slow_way.kept.value, abs=0.01)
    slow, fast = slow_way.expected_seconds, quick.expected_seconds
    assert slow is not None and slow.p95 is not None and fast is not None and fast.p95 is not None
    assert fast.p95.value < slow.p95.value
    assert "in at most 2 rounds" in quick.because


@cache
def plain() -> Recommendation:
    return advice(Terms())


@pytest.mark.slow
def test_the_most_rounds_that_are_fast_enough_are_taken() -> None:
    votes = workload()
    alone, slow = seconds_of(votes, "fixed:1"), plain().expected_seconds
    assert alone is not None and alone.p95 is not None and slow is not None and slow.p95 is not None
    goal = (alone.p95.value + slow.p95.value) / 2
    quick = advice(Terms(haste=Haste(p95=goal)))
    assert quick.expected_seconds is not None and quick.expected_seconds.p95 is not None
    assert quick.expected_seconds.p95.value <= goal
    assert advice(Terms(haste=Haste(p95=1e4))).policy == plain().policy
    with pytest.raises(UsageError, match=r"one path takes .* s\): raise --p95"):
        advice(Terms(haste=Haste(p95=0.5)))


@pytest.mark.slow
def test_replayed_policies_are_drawn_in_so_many_rounds() -> None:
    votes = workload()
    asked = ["fixed:8", "lead_k:3,cap=8", "pilot_budget:0.98,cap=8"]  # the last is still to be fitted
    specs = all_in_time(asked, votes, Haste(max_rounds=2))
    assert len(specs) == 2
    assert specs[0] == "fixed:8" and specs[1].startswith("lead_k:3,cap=8,rounds=2,agreement=")
    table = replay(votes, ["lead_k:3,cap=8", *specs], np.random.default_rng(0), Replaying(replicates=50))
    assert table[specs[1]].rounds <= 2 < max(row.rounds for row in table.policies)


@pytest.mark.slow
def test_in_flight_all_paths_take_as_long_as_at_once_and_lose_tokens() -> None:
    votes = workload()
    how = Replaying(replicates=50, lanes=Lanes(in_flight=8))
    row = replay(votes, ["lead_k:3,cap=8"], np.random.default_rng(0), how).policies[0]
    assert row.in_flight is not None and row.in_flight.seconds is not None
    assert row.seconds_at_once is not None and row.seconds is not None and row.seconds.p95 is not None
    # Votes count in launch order, so what was at once is at once; but rounds ask again as they go.
    assert row.in_flight.seconds.p50 == row.seconds_at_once.p50
    assert row.in_flight.paths_in_vain == pytest.approx(8 - row.mean_paths)
    assert row.in_flight.tokens_in_vain is not None and row.mean_tokens is not None
    assert 0 < row.in_flight.tokens_in_vain < 8 * votes.tokens.mean() - row.mean_tokens  # type: ignore[union-attr]
    lone = replay(
        votes,
        ["lead_k:3,cap=8"],
        np.random.default_rng(0),
        Replaying(replicates=50, lanes=Lanes(in_flight=1)),
    )
    assert lone.policies[0].in_flight is not None
    assert lone.policies[0].in_flight.seconds == row.seconds
    assert lone.policies[0].in_flight.paths_in_vain == 0


@pytest.mark.slow
def test_a_queue_for_one_place_adds_up_the_paths() -> None:
    votes = Votes(np.zeros((40, 8), int), None, seconds=np.full((40, 8), 3.0))
    how = Replaying(replicates=50, lanes=Lanes(slots=2))
    fixed, lead = replay(votes, ["fixed:8", "lead_k:3,cap=8"], np.random.default_rng(0), how).policies
    assert fixed.seconds is not None and fixed.seconds.p95 is not None
    assert lead.seconds is not None and lead.seconds.p50 is not None
    assert (fixed.seconds.p95.value, lead.seconds.p50.value) == (12, 6)


@pytest.mark.slow
def test_a_batch_takes_its_work_over_the_places() -> None:
    votes = Votes(np.zeros((40, 8), int), None, seconds=np.full((40, 8), 3.0))
    how = Replaying(replicates=50, lanes=Lanes(slots=4))
    fixed, lead = replay(votes, ["fixed:8", "lead_k:3,cap=8"], np.random.default_rng(0), how).policies
    assert fixed.batch is not None and lead.batch is not None
    assert fixed.batch.seconds.value == 40 * 8 * 3 / 4
    # Three paths leave a place empty at most once: when the last question has begun.
    assert lead.batch.seconds.value == pytest.approx(40 * 3 * 3 / 4)
    assert fixed.batch.each is not None and fixed.batch.each.p50 is not None and fixed.seconds is not None
    # Eight open questions share four places; one alone has them all.
    assert fixed.seconds.p50 is not None and fixed.seconds.p50.value == 6
    assert fixed.batch.each.p50.value > 6
    unbounded = replay(votes, ["fixed:8"], np.random.default_rng(0), Replaying(replicates=50))
    assert unbounded.policies[0].batch is None


@pytest.mark.slow
def test_the_interval_of_a_batch_covers_batches_of_new_questions() -> None:
    policy, lanes = parse_policy("lead_k:2,cap=6"), Lanes(slots=5)

    def seconds(seed: int, questions: int) -> Interval:
        rng = np.random.default_rng(seed)
        long = rng.gamma(4.0, 0.5, (questions, 1)) * rng.gamma(8.0, 0.1, (questions, 6))
        answers = (rng.random((questions, 6)) < rng.random((questions, 1))).astype(int)
        draws = permuted(Votes(answers, None, seconds=long), 6, 12, rng)
        outcome = expectations(run(policy, draws), draws, 6)
        together = batch(policy, draws, lanes, outcome, np.arange(questions))
        assert together is not None
        return together.seconds

    expected = seconds(999, 1500).value / 1500
    known = [seconds(seed, 60) for seed in range(30)]
    inside = [low.lo <= 60 * expected <= low.hi for low in known if low.lo is not None and low.hi is not None]
    assert np.mean([each.value for each in known]) == pytest.approx(60 * expected, rel=0.1)
    assert np.mean(inside) >= 0.8


@pytest.mark.slow
def test_the_change_from_today_is_paired_and_narrower_than_two_estimates() -> None:
    today = advice(Terms(now="fixed:4"))
    change, expected = today.change, today.expected_plurality
    assert change is not None and change.accuracy is not None and change.accuracy.limits is not None
    assert expected is not None and expected.limits is not None
    lo, hi = change.accuracy.limits
    assert lo < change.accuracy.value < hi
    assert hi - lo < 0.7 * (expected.limits[1] - expected.limits[0])
    assert "paired" in change.accuracy.method
    same = replay(workload(), ["fixed:8"], np.random.default_rng(0), Replaying(now="fixed:4"))
    paired = same.policies[0].change
    assert paired is not None and paired.accuracy is not None and paired.accuracy.limits is not None
    # A recommendation is for new questions and holds the model's error: wider than what was seen.
    assert hi - lo > 0.8 * (paired.accuracy.limits[1] - paired.accuracy.limits[0])


CACHED = Votes(
    np.array([[0, 0, 1], [1, 0, 0]]),
    None,
    tokens=np.full((2, 3), 10.0),
    prompt_tokens=np.full((2, 3), 100.0),
    cached_tokens=np.array([[0.0, 80, 80], [0, 80, 80]]),
)


def test_cached_prompts_by_hand() -> None:
    tariff = Tariff({"m": Price(prompt=2, output=10, cached=0.5)})
    known = rates(CACHED, "m", tariff)
    assert known.cached == pytest.approx(0.8)
    whole = 2 * (100 + 20 + 20) * 2 + 2 * (80 + 80) * 0.5 + 60 * 10
    assert known.recorded(CACHED) == pytest.approx(whole / 1e6)
    ones = np.ones(2)
    three = known.dollars(3 * ones, 3 * ones, 30 * ones, None)
    assert three.tolist() == pytest.approx([(100 * 2 + 2 * (20 * 2 + 80 * 0.5) + 300) / 1e6] * 2)
    assert path_dollars(CACHED, tariff.prices["m"])[0].tolist() == pytest.approx([300 / 1e6] * 3)
    plain = rates(CACHED, "m", Tariff({"m": Price(prompt=2, output=10)}))
    assert plain.dollars(3 * ones, 3 * ones, 30 * ones, None).tolist() == pytest.approx([900 / 1e6] * 2)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Haste(max_rounds=0), "--max-rounds must be 1 to 256"),
        (lambda: Haste(p95=0.0), "--p95 must be seconds above 0"),
        (lambda: Haste(p95=float("nan")), "--p95 must be seconds above 0"),
        (lambda: Lanes(in_flight=0), "--in-flight must be 1 to 256"),
        (lambda: Lanes(slots=0), "--concurrency must be 1 to 256"),
        (
            lambda: all_in_time(["fixed:2"], Votes(CACHED.answers, None), Haste(p95=3)),
            "--p95 needs recorded seconds",
        ),
    ],
)
def test_bad_input_says_what_to_do(make: object, says: str) -> None:
    assert callable(make)
    with pytest.raises(UsageError, match=says):
        make()
