"""Truths about the rules: identities, closed forms and simulations with known parameters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drawn
from how_many import examples
from keff.analysis.walks import decisions, run
from keff.errors import PolicyError
from keff.policies._table import lookahead
from keff.policies.pilot_budget import fit_prior, top_two_lead
from keff.policy import Stop, View, format_spec, parse_policy, tally
from keff.stats.votes import Votes
from keff.stats.voting.draws import Draws


def stopped(spec: str, votes: list[str | None]) -> tuple[int, Stop]:
    *_, (n, last) = decisions(parse_policy(spec), votes, [])
    assert isinstance(last, Stop)
    return n, last


@given(votes=drawn.lists(["a", "b", "c", None], 12))
@settings(max_examples=examples(150), deadline=None)
def test_curtailed_answers_as_the_whole_vote(votes: list[str | None]) -> None:
    n, stop = stopped("curtailed:cap=12", votes)
    whole = tally(votes)
    assert n <= 12
    assert stop.answer == whole.leader or whole.counts[stop.answer or ""] == whole.v1 == whole.v2


@given(votes=drawn.lists(["a", "b", "c"], 16))
@settings(max_examples=examples(60), deadline=None)
def test_thresholds_near_one_draw_the_cap(votes: list[str | None]) -> None:
    for spec in ("adaptive_consistency:0.999999,cap=16", "lead_k:17,cap=16", "e_value:1e-9,cap=16"):
        n, stop = stopped(spec, votes)
        assert n == 16
        assert stop.answer == tally(votes).leader


def test_budget_at_its_cap_and_pilot_budget_near_one_lose_nothing() -> None:
    codes = np.random.default_rng(0).choice(3, p=[0.5, 0.35, 0.15], size=(40, 25, 16)).astype(np.int16)
    draws = Draws(codes, correct=(codes == 0).astype(np.float32))
    whole = run(parse_policy("fixed:16"), draws)
    assert whole.credit is not None
    for spec in ("budget:16,cap=16", "curtailed:cap=16"):
        found = run(parse_policy(spec), draws)
        assert found.credit == pytest.approx(whole.credit)
    sure = run(parse_policy("pilot_budget:0.99999999,a=1,w=0,cap=16"), draws)
    assert sure.answer[whole.credit % 1 == 0].tolist() == whole.answer[whole.credit % 1 == 0].tolist()


def test_budget_is_its_formula_in_every_reachable_state() -> None:
    k, cap = 4.0, 32
    table = parse_policy("budget:4").stops  # type: ignore[attr-defined]
    for n in range(1, cap):
        for v1 in range(1, n + 1):
            for v2 in range(min(v1, n - v1) + 1):
                left = (v1 - v2) ** 2 / ((v1 + v2) * (1 - n / cap))
                right = k / (1 - k / cap)
                assert table[n, v1, v2] == (left >= right - 1e-9), (n, v1, v2)


def test_budget_stops_at_k_unanimous_votes() -> None:
    for k in (2, 3, 5, 8):
        for b in ("", ",b=2", ",b=64"):
            assert stopped(f"budget:{k}{b}", ["a"] * 32)[0] == k


@pytest.mark.slow
def test_a_large_b_makes_budget_ask_for_a_lead() -> None:
    table = parse_policy("budget:3,b=1e9,cap=200").stops  # type: ignore[attr-defined]
    _, v1, v2 = np.nonzero(table[:20])
    assert (v1 - v2).min() == 3
    assert table[10, 5, 2] and not table[10, 5, 3]


@given(seed=st.integers(0, 10_000))
@settings(max_examples=examples(25), deadline=None)
def test_lookahead_is_the_shortest_way_to_a_stop_of_any_table(seed: int) -> None:
    cap = 7
    stops = np.random.default_rng(seed).random((cap + 1,) * 3) < 0.15
    stops[:, 0] = False
    stops[cap] = True
    ahead = lookahead(stops)

    def shortest(n: int, v1: int, v2: int) -> int:
        if stops[n, v1, v2]:
            return 0
        ways = [(v1 + 1, v2), (v1, v2), (v1 + 1, v2) if v1 == v2 else (v1, v2 + 1)]
        return 1 + min(shortest(n + 1, *way) for way in ways)

    for n, v1, v2 in [(0, 0, 0), (1, 1, 0), (3, 2, 1), (4, 2, 2), (5, 2, 0)]:
        assert ahead[n, v1, v2] == shortest(n, v1, v2)


def test_the_certificate_keeps_its_error_on_a_two_way_tie() -> None:
    """Neither of two equal answers is the mode, so every stop is false: at most delta of the runs."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 2, (1, 2000, 150)).astype(np.int16)
    walks = run(parse_policy("e_value:0.1,cap=150"), Draws(codes))
    false = np.mean(walks.stop < 150)
    assert 0.01 < false <= 0.1
    uncorrected = run(parse_policy("adaptive_consistency:0.9,cap=150"), Draws(codes))
    assert np.mean(uncorrected.stop < 150) > 0.5


def test_the_certificate_counts_only_after_an_answer_first_appears() -> None:
    policy = parse_policy("e_value:0.05")
    unanimous = next(n for n in range(1, 33) if isinstance(policy.decide(View(["a"] * n)), Stop))
    late = ["b", *["a"] * 31]
    second = next(n for n in range(1, 33) if isinstance(policy.decide(View(late[:n])), Stop))
    assert second - 1 > unanimous  # the second answer to appear is tested at a third of the error


def test_top_two_lead_is_what_simulation_says() -> None:
    rng = np.random.default_rng(1)
    a, w, cap = 0.7, 0.4, 12
    lead = top_two_lead(cap, a, w)
    share = np.where(rng.random(400_000) < w, 1.0, rng.beta(a, a, 400_000))
    first = rng.random((400_000, cap)) < share[:, None]  # all paths vote for one of the two answers
    for n, v2 in [(2, 0), (4, 1), (5, 0), (6, 2)]:
        a_votes = first[:, :n].sum(axis=1)
        for_a, for_b = a_votes == n - v2, a_votes == v2
        total = first.sum(axis=1)
        ahead = np.sign(2 * total - cap)
        wins = np.concatenate([(1 + ahead[for_a]) / 2, (1 - ahead[for_b]) / 2])
        assert lead[n, n - v2, v2] == pytest.approx(wins.mean(), abs=0.006)


def test_the_prior_is_recovered_from_a_large_pilot() -> None:
    rng = np.random.default_rng(2)
    share = np.where(rng.random(4000) < 0.4, 1.0, rng.beta(0.8, 0.8, 4000))
    answers = (rng.random((4000, 8)) > share[:, None]).astype(int)
    a, w = fit_prior(Votes(answers, None))
    assert a == pytest.approx(0.8, rel=0.25)
    assert w == pytest.approx(0.4, abs=0.06)
    fitted = parse_policy("pilot_budget:0.98").fit(Votes(answers, None))  # type: ignore[attr-defined]
    assert fitted.fitted and f"a={a:.6g}" in fitted.spec
    assert parse_policy(fitted.spec).spec == fitted.spec


def test_an_easy_pilot_makes_the_rule_stop_sooner_than_a_hard_one() -> None:
    easy = Votes(np.zeros((50, 8), int), None)
    hard = Votes(np.tile([0, 1, 0, 1, 0, 1, 0, 1], (50, 1)), None)
    lengths = [
        stopped(parse_policy("pilot_budget:0.98").fit(pilot).spec, ["a"] * 32)[0]  # type: ignore[attr-defined]
        for pilot in (easy, hard)
    ]
    assert lengths[0] < lengths[1]


def test_adaptive_k_refuses_what_it_cannot_use() -> None:
    rule = parse_policy("adaptive_k")
    with pytest.raises(PolicyError, match="labelled pilot"):
        rule.decide(View([]))
    with pytest.raises(PolicyError, match="gold labels"):
        rule.fit(Votes(np.zeros((5, 4), int), None))  # type: ignore[attr-defined]
    with pytest.raises(PolicyError, match="at least two"):
        rule.fit(Votes.from_correct(np.ones((5, 1), int)))  # type: ignore[attr-defined]


def test_confidence_can_overturn_the_count_and_nan_abstains() -> None:
    policy = parse_policy("fixed:3,weight=confidence,temperature=0.1")
    keys = ["a", "a", "b"]
    loud = policy.decide(View(keys, [0.1, 0.1, 0.9]))
    unsure = policy.decide(View(keys, [0.1, 0.1, float("nan")]))
    assert isinstance(loud, Stop) and loud.answer == "b" and loud.kind == "weighted_share"
    assert isinstance(unsure, Stop) and unsure.answer == "a" and unsure.weight == 1.0
    with pytest.raises(PolicyError, match="confidence for each path"):
        policy.decide(View(keys))


def test_specs_leave_out_what_is_default() -> None:
    assert format_spec("lead_k", 3) == "lead_k:3"
    assert format_spec("lead_k", 3, cap=16) == "lead_k:3,cap=16"
    assert format_spec("curtailed", cap=16) == "curtailed:cap=16"
    assert format_spec("budget", 2.25, b=None) == "budget:2.25"
    assert parse_policy(" budget:2.40,cap=32 ").spec == "budget:2.4"
