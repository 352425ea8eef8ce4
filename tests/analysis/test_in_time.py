"""The decision over accuracy, cost and time: paths in flight, and the bound on the time to answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy

from keff.analysis.decision import Aim, DecisionResult, decide
from keff.analysis.decision.chain import in_flight_rules
from keff.analysis.decision.timing import SHARES, SURE_OF_TIME, Timing
from keff.analysis.money import Tariff, complete, rates
from keff.analysis.results.words import sentences, summary
from keff.analysis.terms import Accounts, Terms
from keff.analysis.walks import run
from keff.analysis.wanted import settings_of
from keff.errors import PolicyError, UsageError
from keff.policy import in_flight_of, parse_policy
from keff.sampling.cost import Price
from keff.stats.time import quantile_change, smoothing
from keff.stats.votes import Votes
from keff.stats.voting.draws import permute_paths


def reasoning(n: int = 60, k: int = 8, seed: int = 1) -> Votes:
    """Questions of very different difficulty; the longer a path, the likelier it is wrong."""
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 1, (n, 1))
    correct = (rng.random((n, k)) < p).astype(int)
    answers = np.where(correct, 0, rng.integers(1, 4, (n, k)))
    tokens = 1000 * rng.gamma(3, 1, (n, 1)) * rng.lognormal(0, 0.5, (n, k)) * (2 - p)
    return Votes(answers, correct, tokens=tokens)


def part(decided: DecisionResult) -> float:
    """Tokens as a part of today's."""
    decision = decided.decision
    assert decision.expected_tokens is not None and decision.change.tokens is not None
    return decision.expected_tokens.value / (decision.expected_tokens.value - decision.change.tokens.value)


@pytest.mark.slow
def test_the_default_is_no_slower_than_today_and_any_time_is_the_cheapest() -> None:
    votes = reasoning()
    bounded, free = decide(votes, Aim()), decide(votes, Aim(slower=None))
    change = bounded.decision.change
    assert change.p50_ratio is not None and change.p95_ratio is not None
    assert change.p50_ratio.value <= 1 + 1e-6 and change.p95_ratio.value <= 1 + 1e-6
    flight = in_flight_of(parse_policy(bounded.decision.policy))
    assert flight is not None and part(free) < part(bounded) < 1
    later = free.decision.change.p95_ratio
    assert later is not None and later.value > 1.2
    cheapest = bounded.decision.cheapest
    assert cheapest is not None and cheapest.policy == free.decision.policy and cheapest.p95 > 1.2
    assert cheapest.cost == pytest.approx(part(free), abs=0.01)
    assert free.decision.cheapest is None and free.decision.slower is None
    first, *changes = summary(bounded.decision)
    assert first.startswith(f"Run {flight.width} at a time") and "% fewer tokens" in first
    assert any(line.startswith("Answers take ") and "less time (median)" in line for line in changes)
    assert changes[-1].startswith("If you can wait longer: ")
    sooner = decide(votes, Aim(slower=0.8)).decision
    assert sooner.change.p50_ratio is not None
    assert sooner.change.p50_ratio.value <= 0.8 or sooner.time is not None
    for row in bounded.decision.timed:
        others = [other for other in bounded.decision.timed if not other.dominated]
        beaten = any(o.cost <= row.cost and o.p50 <= row.p50 and o.p95 <= row.p95 for o in others)
        assert beaten  # by itself at least, where it is not dominated


@pytest.mark.slow
def test_seconds_are_told_apart_from_tokens_and_gaps_take_the_mean_of_their_question() -> None:
    votes = reasoning(40)
    by_tokens = decide(votes, Aim()).decision.change
    assert votes.tokens is not None
    timed = replace(votes, seconds=votes.tokens / 50)
    by_seconds = decide(timed, Aim()).decision.change
    assert by_tokens.p50 is None and by_seconds.p50 is not None and by_seconds.p95 is not None
    assert by_seconds.p50_ratio is not None and by_tokens.p50_ratio is not None
    assert by_seconds.p50_ratio.value == pytest.approx(by_tokens.p50_ratio.value, abs=1e-4)
    gaps = votes.tokens / 50
    gaps[::3, 2] = np.nan
    assert decide(complete(replace(timed, seconds=gaps)), Aim()).decision.change.p50_ratio is not None
    # Of a record with gaps that nobody filled no time is claimed.
    assert decide(replace(timed, seconds=gaps), Aim()).decision.change.p50_ratio is None


@pytest.mark.slow
def test_votes_on_arrival_are_refused_where_short_answers_are_wrong() -> None:
    """Every question has three short paths that agree on a wrong answer: a lead on arrival is theirs."""
    rng = np.random.default_rng(3)
    n = 100
    answers = np.zeros((n, 8), int)
    answers[:, :3] = 1  # 5 of 8 are right, and take longer
    tokens = rng.lognormal(6, 0.1, (n, 8))
    tokens[:, :3] /= 4
    votes = Votes(answers, (answers == 0).astype(int), tokens=tokens)
    draws = permute_paths(replace(votes, seconds=tokens), 8, 20, rng)
    hasty = run(parse_policy("lead_k:3,cap=8,in_flight=8,order=arrival"), draws)
    assert hasty.credit is not None and hasty.credit.mean() < 0.05  # by the full vote all are right
    for slower in (1.0, 2.0, None):
        chosen = parse_policy(decide(votes, Aim(slower=slower)).decision.policy)
        flight = in_flight_of(chosen)
        # The answer of an unbeatable lead is that of all its paths, whatever comes first.
        exact = chosen.spec.startswith("curtailed")
        assert flight is None or flight.order == "launch" or exact


@pytest.mark.slow
def test_where_cancelled_paths_are_billed_whole_paths_in_flight_save_nothing() -> None:
    votes = reasoning(40)
    exact = "curtailed:cap=8,in_flight=8,order=arrival"
    costs: dict[str, float] = {}
    for billed in ("stops", "whole"):
        price = Price(output=10, cancelled=billed)  # type: ignore[arg-type]
        priced = rates(votes, "m", Tariff({"m": price}))
        rows = decide(votes, Aim(), rates=priced).decision.timed
        costs[billed] = next(row.cost for row in rows if row.policy == exact)
    assert costs["whole"] == pytest.approx(1, abs=1e-5) and costs["stops"] < 0.97


def test_gaps_in_what_was_recorded_are_said() -> None:
    votes = reasoning(20)
    assert votes.tokens is not None
    gaps = votes.tokens.copy()
    gaps[:4, 0] = np.nan
    accounts = Accounts.of(replace(votes, tokens=gaps), None, Terms())
    assert [note.message for note in accounts.notes] == [
        "2.5% of the paths have no tokens, so keff takes the mean of their question"
    ]
    assert Accounts.of(votes, None, Terms()).notes == ()


def test_without_seconds_or_tokens_one_line_says_what_recording_them_would_allow() -> None:
    votes = reasoning(30)
    plain = decide(Votes(votes.answers, votes.correct), Aim()).decision
    assert in_flight_of(parse_policy(plain.policy)) is None and plain.slower is None
    assert plain.time is not None and "all_tokens" in plain.time
    assert sentences(plain)[-1] == f"{plain.time}."


def test_candidates_in_flight_are_few_and_all_different() -> None:
    for cap in (1, 2, 3, 5, 8, 16, 32, 64):
        rules = in_flight_rules(cap)
        assert len({rule.spec for rule in rules}) == len(rules) <= (50 if cap == 8 else 100)
        assert all(rule.cap <= cap for rule in rules)
        if cap >= 3:
            flight = in_flight_of(rules[0])
            assert flight is not None and rules[0].spec.startswith("curtailed")
            assert (flight.cap, flight.width, flight.order) == (cap, cap, "arrival")


def test_ratios_of_quantiles_by_hand() -> None:
    today = np.tile(np.arange(1.0, 101.0)[:, None], (1, 2))
    timing = Timing((today / 2, today * 1.1, today), np.arange(100), seconds=False)
    assert timing.ratios == pytest.approx(np.array([[0.5, 0.5], [1.1, 1.1], [1, 1]]))
    assert timing.means == pytest.approx([0.5, 1.1, 1])
    assert timing.within((1.0, 1.0)).tolist() == [True, False, True]
    assert timing.certainty(0, (0.5, 0.5)) == pytest.approx([1, 1])
    assert timing.certainty(1, (1.0, 2.0)) == pytest.approx([0, 1])
    *seconds, told, _ = timing.quantile_changes(0)
    assert seconds == [None, None]
    assert told.value == pytest.approx(0.5) and told.lo == pytest.approx(0.5, rel=0.02)


def test_smoothed_quantiles_are_those_of_harrell_and_davis() -> None:
    rng = np.random.default_rng(3)
    mine, today = rng.lognormal(0, 0.5, (40, 1)), rng.lognormal(0.3, 0.6, (40, 1))
    hdquantiles = scipy.stats.mstats.hdquantiles
    want = np.log(hdquantiles(mine[:, 0], SHARES) / hdquantiles(today[:, 0], SHARES))
    assert Timing((mine, today), np.arange(40), seconds=False)._log_ratios[0] == pytest.approx(want, abs=0.01)


def test_a_rule_that_is_never_slower_needs_no_proof_and_one_that_may_be_does() -> None:
    today = np.tile(1.25 ** np.arange(15.0)[:, None], (1, 4))
    uneven = today * np.where(np.arange(15) % 2, 1.15, 0.6)[:, None]
    timing = Timing((today * 0.99, uneven, today), np.arange(15), seconds=False)
    assert timing.certainty(0, (1.0, 1.0)).tolist() == [1, 1] and timing.within((1.0, 1.0))[1]
    assert np.any(timing.certainty(1, (1.0, 1.0)) < SURE_OF_TIME)
    assert np.all(timing.certainty(1, (4.0, 4.0)) > SURE_OF_TIME)


@pytest.mark.slow
def test_limits_of_a_ratio_cover_that_of_as_many_new_questions() -> None:
    def times(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        hard = rng.lognormal(0, 0.6, (60, 1))
        return (hard * rng.lognormal(0, 0.3, (60, 4, each)).max(axis=2) for each in (3, 8))  # type: ignore[return-value]

    inside = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        (mine, today), (new, other) = times(rng), times(rng)
        _, told = quantile_change(mine, today, 0.5, np.arange(60), smoothing(0.5, 60))
        assert told.limits is not None
        inside += told.limits[0] <= np.quantile(new, 0.5) / np.quantile(other, 0.5) <= told.limits[1]
    assert 0.9 <= inside / 150 <= 1


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan")])
def test_a_bound_that_is_none_is_refused(bad: float) -> None:
    with pytest.raises(PolicyError, match="slower"):
        Aim(slower=bad)


def test_the_keyword_takes_a_number_or_any() -> None:
    assert settings_of({}).aim.slower == 1
    assert settings_of({"slower": "any"}).aim.slower is None
    assert settings_of({"slower": 1.5}).aim.slower == 1.5
    with pytest.raises(UsageError, match="any"):
        settings_of({"slower": "soon"})
