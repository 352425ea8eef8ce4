"""One decision: its rule, verdict, share kept and change come from one posterior and never contradict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import permutations

import numpy as np
import pytest

from benchmarks.places import RECORDED
from how_many import examples
from keff.analysis import workload
from keff.analysis.decision import Aim, DecisionResult, decide, reference_of
from keff.analysis.decision.chain import candidate_rules, full_spec
from keff.analysis.decision.choose import (
    COIN_FLIPS,
    LEAST_Z_OF_VOTE,
    NEGLIGIBLE,
    allowed_loss,
    choose,
    stated_gain,
)
from keff.analysis.decision.outcomes import replay_rules
from keff.analysis.decision.posterior import posterior_of
from keff.analysis.decision.prior import generic_ratios
from keff.analysis.money import complete
from keff.analysis.results.decision import Decision
from keff.errors import PolicyError
from keff.policy import View, parse_policy
from keff.policy.view import Stop
from keff.reading.open import Opening, open_record
from keff.stats.votes import Votes

FIXED = parse_policy("fixed:8")


def pilot(n: int, k: int, rng: np.random.Generator) -> Votes:
    """Questions of a workload drawn at random: how hard, how wrong answers meet, how often none is read."""
    right = rng.beta(*rng.uniform(0.2, 3, 2), n)
    width = int(rng.integers(1, 6))
    rivals = rng.dirichlet(np.full(width, rng.uniform(0.1, 2)), n)
    shares = np.column_stack([right, (1 - right)[:, None] * rivals]).cumsum(axis=1)
    answers = (rng.random((n, k, 1)) > shares[:, None, :]).sum(axis=2).clip(max=width)
    answers[rng.random((n, k)) < rng.choice([0, 0.1])] = -1
    clusters = rng.integers(0, max(n // 3, 12), n) if rng.random() < 0.2 else None
    return Votes(answers, (answers == 0).astype(int), clusters=clusters)


def random_aim(rng: np.random.Generator) -> Aim:
    match int(rng.integers(0, 4)):
        case 0:
            return Aim()
        case 1:
            return Aim(retain=float(rng.choice([0.9, 0.98, 0.995, 0.999, 1.0])))
        case 2:
            return Aim(budget=float(rng.uniform(1, 8)))
        case _:
            return Aim(value_per_correct=1.0, cost_per_path=float(rng.choice([0.0, 0.001, 0.05])))


def check(decided: DecisionResult, aim: Aim) -> None:
    decision, known, choice = decided.decision, decided.posterior, decided.choice
    assert decision.because and "\n" not in decision.because
    if decision.verdict is None:
        assert known is None and decision.kept is None
        return
    assert known is not None and choice is not None and decision.expected_paths is not None
    rule, change = choice.rule, decision.change
    assert decision.policy == full_spec(known.specs[rule])
    paths = decision.expected_paths
    assert paths.lo is not None and paths.hi is not None
    assert paths.lo >= 1 - 1e-9 and paths.hi <= parse_policy(decision.policy).cap + 1e-9
    one = known.specs[rule] == "fixed:1"
    assert not (decision.verdict == "ask once" and not one)
    assert not (one and decision.verdict == "vote")
    if aim.asks_share:
        better = min(float(known.loss[known.single]), 0.0)
        assert known.loss[rule] - better <= allowed_loss(known, aim) + 1e-9
        # Who asks for less time than today's may have to start more paths at once.
        sooner = decision.slower is not None and decision.slower < 1
        assert sooner or decision.expected_paths.value <= known.paths[-1] + 1e-9
    if decision.verdict == "vote":
        assert known.measured[rule] > 0
        assert np.maximum(-known.gain(choice.rule), 0).mean() <= max(allowed_loss(known, aim), NEGLIGIBLE)
    if decision.verdict == "ask once" and aim.asks_share:
        assert choice.regret_of_one_path <= max(allowed_loss(known, aim), NEGLIGIBLE)
    assert change.paths is not None
    assert change.paths.value == pytest.approx(decision.expected_paths.value - known.paths[-1])
    assert (decision.open is None) == (decision.settled is None) == (decision.verdict != "undecided")
    if decision.settled is not None:
        assert f" with {decision.policy}" in decision.settled or " with " not in decision.settled
        assert known.level is not None or "points" not in decision.settled
    check_time(decision, aim)
    for value in (change.paths, change.points, decision.accuracy, decision.run_change):
        if value is not None:
            assert value.lo is not None and value.hi is not None and value.lo <= value.value <= value.hi
    if known.level is None:
        assert decision.kept is None and change.points is None
        return
    assert change.points is not None and decision.accuracy is not None
    if known.level - known.loss[rule] <= 1:
        assert decision.accuracy.value == pytest.approx(known.level + change.points.value, abs=1e-9)
    check_kept(decided)
    assert decision.run_change is not None and decision.run_change.lo is not None
    assert change.points.lo is not None and decision.run_change.lo <= change.points.lo


def check_kept(decided: DecisionResult) -> None:
    """The share kept is that of the stated change, ends at 1, and has no limits where the ratio has none."""
    kept, change, known = decided.decision.kept, decided.decision.change, decided.posterior
    if kept is None:
        return
    assert known is not None and known.level is not None and known.new.level is not None
    assert change.points is not None
    assert kept.of == decided.decision.reference
    assert kept.value == pytest.approx(min(1 + change.points.value / known.level, 1.0), abs=1e-9)
    assert (kept.limits is None) == (known.new.level.min() <= 0)
    assert kept.limits is None or kept.limits[0] <= kept.value <= kept.limits[1] <= 1


def check_time(decision: Decision, aim: Aim) -> None:
    change = decision.change
    if decision.slower is not None and decision.time is None:
        assert change.p50_ratio is not None and change.p95_ratio is not None
        assert max(change.p50_ratio.value, change.p95_ratio.value) <= decision.slower + 1e-5
    if decision.cheapest is not None:
        deployed = next(row for row in decision.timed if row.policy == decision.policy)
        assert decision.cheapest.cost <= deployed.cost + 1e-9 or not aim.asks_share


@cache
def workloads() -> list[Votes]:
    """Every sixth of the recorded generations."""
    files = sorted(RECORDED.glob("*.jsonl"))[::6]
    return [open_record(file, Opening()).ballot.votes for file in files if "multimodel" not in file.name]


def real_pilot(n: int, k: int, rng: np.random.Generator) -> Votes:
    """Questions and paths of a recorded workload drawn at random."""
    votes = workloads()[int(rng.integers(len(workloads())))]
    rows = rng.choice(votes.n, min(n, votes.n), replace=False)
    drawn = votes.take(rows).paths(rng.choice(votes.k, min(k, votes.k), replace=False))
    return complete(drawn)


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the random orders and of the simulated questions: the parts agree on any of them."""
    monkeypatch.setattr(workload, "ORDERS_IN_ALL", workload.ORDERS_IN_ALL // 10)
    monkeypatch.setattr(workload, "TIMED_PATHS", workload.TIMED_PATHS // 10)
    simulated = import_module("keff.analysis.decision.predicted")  # beside it, the name is the function's
    monkeypatch.setattr(simulated, "SEQUENCES", simulated.SEQUENCES // 10)


def many(start: int, count: int, draw: Callable[[int, int, np.random.Generator], Votes] = pilot) -> None:
    for seed in range(start, start + count):
        rng = np.random.default_rng([seed, 30])
        votes = draw(int(rng.integers(8, 32)), int(rng.choice([2, 4, 8])), rng)
        if rng.random() < 0.15:
            votes = Votes(votes.answers, None)
        if rng.random() < 0.3:
            votes = replace(votes, tokens=rng.gamma(2, 100, (votes.n, votes.k)))
        aim = replace(random_aim(rng), slower=[None, 0.7, 1.0, 2.0][int(rng.integers(4))])
        now = str(rng.choice(["", "8", "lead_k:3", "4", "32"])) or None
        check(decide(votes, aim, now=now, seed=seed), aim)


@pytest.mark.usefixtures("coarse")
@pytest.mark.slow
def test_the_parts_of_a_decision_never_contradict_each_other() -> None:
    many(0, examples(100))


@pytest.mark.usefixtures("coarse")
@pytest.mark.integration
def test_many_decisions_never_contradict_themselves() -> None:
    many(100, examples(400))


@pytest.mark.slow
@pytest.mark.usefixtures("coarse")
def test_decisions_from_recorded_pilots_never_contradict_themselves() -> None:
    many(0, examples(20), real_pilot)


@pytest.mark.integration
@pytest.mark.usefixtures("coarse")
def test_many_decisions_from_recorded_pilots_never_contradict_themselves() -> None:
    many(20, examples(120), real_pilot)


@pytest.mark.slow
def test_rules_are_replayed_as_all_orders_of_the_paths_say() -> None:
    answers = np.array([[0, 1, 0, 2, 0], [0, 0, 0, 1, -1], [2, 1, 0, 1, 1]])
    votes = Votes(answers, (answers == 0).astype(int))
    rules = [parse_policy("lead_k:2,cap=5"), parse_policy("budget:1.05,cap=5,b=8")]
    seen = replay_rules(votes, rules, parse_policy("fixed:5"))
    assert seen.rows.pattern is not None
    for place, rule in enumerate(rules):
        for row, codes in zip(seen.rows.pattern, answers, strict=True):
            paths, flips = [], []
            for order in permutations(codes.tolist()):
                keys = [None if code < 0 else str(code) for code in order]
                n = 0
                while not isinstance(step := rule.decide(View(keys[:n], [])), Stop):
                    n += step.m
                full = parse_policy("fixed:5").decide(View(keys, []))
                assert isinstance(full, Stop)
                paths.append(n)
                flips.append(step.answer != full.answer)
            assert seen.paths[row, place] == pytest.approx(np.mean(paths), abs=0.15)
            assert seen.flips[row, place] == pytest.approx(np.mean(flips), abs=0.06)
    assert seen.loss is not None and np.all(seen.loss[:, -1] == 0) and np.all(seen.flips[:, -1] == 0)


def test_patterns_give_what_questions_give() -> None:
    rng = np.random.default_rng(3)
    few = pilot(60, 8, rng)
    clean = Votes(few.answered(), few.scored())
    many_votes = clean.take(np.tile(np.arange(60), 60))
    one = replay_rules(clean, [parse_policy("lead_k:2,cap=8")], FIXED)
    all_of_them = replay_rules(many_votes, [parse_policy("lead_k:2,cap=8")], FIXED)
    assert one.loss is not None and all_of_them.loss is not None
    few_rows, all_rows = one.rows, all_of_them.rows
    assert all_rows.counts is not None and all_rows.counts.sum() == all_rows.clusters.size == 3600
    assert all_rows.means(all_of_them.paths)[0] == pytest.approx(few_rows.means(one.paths)[0], abs=0.03)
    assert all_rows.means(all_of_them.loss)[0] == pytest.approx(few_rows.means(one.loss)[0], abs=0.004)


@pytest.mark.slow
def test_what_the_orders_of_few_patterns_leave_unknown_is_stated() -> None:
    """Fair coins show nine patterns, and every rule is right half of the time: a loss seen is the orders'."""
    coins = np.random.default_rng(4).integers(0, 2, (20_000, 8))
    votes, rules = Votes(coins, 1 - coins), [parse_policy("lead_k:2,cap=7"), parse_policy("lead_k:2,cap=8")]
    off = []
    for seed in range(30):
        seen = replay_rules(votes, rules, FIXED, seed=seed)
        assert seen.rows.counts is not None and seen.loss is not None
        assert np.all(seen.orders_error[:2] < 0.003) and seen.orders_error[-1] == 0
        off.append(seen.rows.means(seen.loss)[:2] / seen.orders_error[:2])
    assert np.all(np.std(off, axis=0) == pytest.approx(1.0, abs=0.45))


@pytest.mark.slow
@pytest.mark.usefixtures("coarse")
def test_the_limits_of_the_gain_hold_what_the_pilot_alone_shows() -> None:
    """Coins are unlike recorded workloads, and the interval of their gain holds 0 all the same."""
    rules, held = candidate_rules(8), []
    for seed in range(40):
        coins = np.random.default_rng([seed, 1]).integers(0, 2, (50, 8))
        seen = replay_rules(Votes(coins, 1 - coins), rules, FIXED, seed=seed)
        known = posterior_of(seen, generic_ratios((*rules, FIXED)), 8)
        whole = replace(choose(known, Aim()), rule=len(rules))
        drawn, stated = known.gain(whole.rule), stated_gain(known, whole)
        assert stated.value == pytest.approx(drawn.mean()) and stated.limits is not None
        low, high = stated.limits
        assert low <= np.quantile(drawn, 0.025) and high >= np.quantile(drawn, 0.975)
        held.append(low <= 0 <= high)
    assert np.mean(held) >= 0.85  # 40 pilots: 95% are 38, and 34 or fewer come in 2% of runs


@pytest.mark.slow
def test_the_posterior_joins_what_was_measured_with_what_is_usual() -> None:
    """With many questions the measured loss rules; with few, B lies between it and the price of the flips."""
    rng = np.random.default_rng(5)
    rules = candidate_rules(8)
    ratios = generic_ratios((*rules, FIXED))
    widths: list[float] = []
    for n in (40, 640):
        answers = np.where(rng.random((n, 8)) < np.repeat([0.9, 0.55], n // 2)[:, None], 0, 1)
        seen = replay_rules(Votes(answers, (answers == 0).astype(int)), rules, FIXED)
        known = posterior_of(seen, ratios, 8)
        assert seen.loss is not None and seen.rows.pattern is not None and known.population.level is not None
        once = seen.loss[seen.rows.pattern, 0]
        drawn = known.population.loss[:, 0]
        widths.append(float(drawn.std()))
        # The posterior is narrower than the sample's error, and its mean within it.
        error = once.std() / n**0.5
        assert 0.3 * error < drawn.std() < 1.1 * error
        assert abs(drawn.mean() - once.mean()) < 2 * error
        assert np.all(known.population.loss[:, -1] == 0)
    assert widths[1] < 0.45 * widths[0]


def test_a_chain_goes_from_one_path_to_the_exact_vote_in_about_a_dozen_steps() -> None:
    for cap in (1, 2, 3, 4, 5, 8, 16, 32, 64):
        specs = [rule.spec for rule in candidate_rules(cap)]
        assert specs[0] == "fixed:1" and len(set(specs)) == len(specs) <= 18
        assert all(rule.cap <= cap for rule in candidate_rules(cap))
        if cap > 1:
            assert full_spec(specs[-1]) == f"curtailed:cap={cap}"
    depths = generic_ratios((*candidate_rules(8), FIXED))
    assert depths[0] == 1 and depths[-2] == depths[-1] == 0


def test_the_reference_is_what_the_user_does() -> None:
    assert reference_of(None, 8).spec == "fixed:8"
    assert reference_of(None, 80).spec == "fixed:64"
    assert reference_of("12", 8).spec == "fixed:12"
    assert reference_of("lead_k:3", 8).spec == "lead_k:3,cap=8"
    assert reference_of("lead_k:3,cap=16", 8).cap == 16
    with pytest.raises(PolicyError, match=r"unknown policy|no policy"):
        reference_of("leadk:3", 8)
    with pytest.raises(PolicyError, match="fitted to a pilot"):
        reference_of("adaptive_k", 8)


def same(n: int, rows: list[list[int]]) -> Votes:
    answers = np.array(rows * n)[:n]
    return Votes(answers, (answers == 0).astype(int))


def test_where_there_is_nothing_to_decide_one_line_says_what_to_do() -> None:
    rng = np.random.default_rng(1)
    cases = {
        "record at least 10": pilot(9, 8, rng),
        "one path per question": pilot(30, 1, rng),
        "keff read": same(20, [[-1] * 8]),
        "no two paths": Votes(np.tile(np.arange(8), (30, 1)), np.zeros((30, 8), int)),
    }
    for words, votes in cases.items():
        decision = decide(votes, Aim()).decision
        assert decision.verdict is None and words in decision.because
        assert decision.policy in ("curtailed:cap=8", "fixed:1")


@pytest.mark.slow
def test_pilots_without_any_difference_claim_nothing() -> None:
    equal = decide(same(60, [[0] * 8]), Aim()).decision
    assert equal.verdict == "ask once" and equal.policy == "fixed:1"
    wrong = decide(same(60, [[1] * 8]), Aim()).decision
    assert wrong.verdict is None and "no answer was right" in wrong.because
    tied = decide(same(60, [[0, 0, 0, 0, 1, 1, 1, 1]]), Aim())
    assert tied.decision.verdict != "vote"
    points = tied.decision.change.points
    assert points is not None and points.value <= 1e-9


@pytest.mark.slow
def test_a_vote_that_hurts_is_not_recommended_and_one_that_helps_is() -> None:
    hurts = same(80, [[0, 0, 0, 1, 1, 1, 1, 1]])
    decision = decide(hurts, Aim()).decision
    assert decision.verdict == "ask once" and "lowers accuracy" in decision.because
    rng = np.random.default_rng(2)
    answers = np.where(rng.random((100, 8)) < 0.7, 0, rng.integers(1, 4, (100, 8)))
    helped = decide(Votes(answers, (answers == 0).astype(int)), Aim()).decision
    assert helped.verdict == "vote" and helped.change.paths is not None and helped.change.paths.value < -2
    # Right answers that do not meet warn, but never override a gain that was measured.
    alias = np.where(answers == 0, np.where(rng.random((100, 8)) < 0.6, 0, 9), answers)
    split = decide(Votes(alias, (answers == 0).astype(int)), Aim()).decision
    assert split.verdict == "vote"


@pytest.mark.slow
def test_the_evidence_asked_for_falls_with_the_answers_that_are_at_stake() -> None:
    """Coins must speak for a vote by 1.5 standard errors; where paths seldom differ, by less."""
    rng = np.random.default_rng(4)
    coins = rng.integers(0, 2, (60, 8))
    rare = np.where(rng.random((60, 8)) < 0.94, 0, rng.integers(1, 4, (60, 8)))
    least: list[float] = []
    for answers in (coins, rare):
        known = decide(Votes(answers, (answers == 0).astype(int)), Aim()).posterior
        assert known is not None
        # Nothing but the evidence of the pilot may stand against a vote, or for one path.
        gains = np.full_like(known.population.loss, 0.0)
        gains[:, known.single] = 0.5
        helped = np.full_like(known.measured, 0.01)
        sure = replace(known, population=replace(known.population, loss=gains), measured=helped)
        asked = np.linspace(-1, 3, 81)
        voted = [choose(replace(sure, z_vote=float(shown)), Aim()).verdict == "vote" for shown in asked]
        assert voted == sorted(voted)  # more evidence never opens a verdict
        least.append(float(asked[voted.index(True)]))
    flips = np.mean(rare != 0)
    assert least[0] == pytest.approx(LEAST_Z_OF_VOTE, abs=0.1)
    assert least[1] == pytest.approx(LEAST_Z_OF_VOTE * flips / COIN_FLIPS, abs=0.15)


@pytest.mark.slow
def test_budgets_hold_for_new_questions_and_dollars_of_paths_are_counted() -> None:
    votes = pilot(80, 8, np.random.default_rng(7))
    for budget in (1.0, 2.9, 4.0, 8.0):
        decided = decide(votes, Aim(budget=budget))
        assert decided.posterior is not None and decided.choice is not None
        drawn = decided.posterior.new.paths[:, decided.choice.rule]
        assert np.quantile(drawn, 0.9) <= budget + 1e-9


@pytest.mark.slow
def test_what_lies_beyond_the_record_is_predicted_and_wider() -> None:
    rng = np.random.default_rng(11)
    answers = np.where(rng.random((60, 8)) < rng.beta(2, 1, (60, 1)), 0, rng.integers(1, 4, (60, 8)))
    votes = Votes(answers, (answers == 0).astype(int))
    here, beyond = (decide(votes, Aim(), now=now) for now in ("8", "32"))
    assert here.decision.measured and not beyond.decision.measured
    assert here.posterior is not None and beyond.posterior is not None
    gain = [known.population.loss[:, known.single] for known in (here.posterior, beyond.posterior)]
    assert gain[1].std() > gain[0].std()
    assert beyond.decision.reference == "fixed:32" and beyond.decision.change.points is not None


@pytest.mark.parametrize("retain", [None, 0.98, 0.5])
def test_a_share_that_no_rule_within_the_cap_keeps_is_said(retain: float | None) -> None:
    """Eight paths of coins that fall right in .6 of cases keep .83 to .6 of the vote of 32."""
    rng = np.random.default_rng(5)
    answers = (rng.random((300, 32)) > 0.6) * rng.integers(1, 3, (300, 32))
    votes = Votes(answers, (answers == 0).astype(int))
    aim, said = Aim(retain=retain), "No rule within the cap keeps the"
    for cap in (None, 2):
        decided = decide(votes, aim, cap=cap)
        decision, known = decided.decision, decided.posterior
        assert known is not None and decision.kept is not None
        small = np.array([parse_policy(spec).cap <= (cap or 32) for spec in known.specs])
        better = min(float(known.loss[known.single]), 0.0)
        reached = bool((known.loss[small] - better <= allowed_loss(known, aim)).any())
        assert reached == (cap is None or retain == 0.5)
        assert (decision.unmet is None) == reached == (decision.kept.value >= aim.share)
        told = [line for line in decision.statements() if line.startswith(said)]
        assert told == ([] if reached else [f"{said} {100 * aim.share:g}% you asked for."])


def scattered(k: int) -> Votes:
    """Forty questions on which .6 of the answers are right and the others scatter; none abstains."""
    rng = np.random.default_rng(4)
    answers = np.where(rng.random((40, k)) < 0.6, 0, rng.integers(1, 4, (40, k)))
    return Votes(answers, (answers == 0).astype(int))


@pytest.mark.parametrize("k", [2, 8])
def test_a_vote_of_two_is_worth_one_path_and_no_more(k: int) -> None:
    decided = decide(scattered(k), Aim(), now="2")
    decision = decided.decision
    assert (decision.verdict, decision.policy) == ("ask once", "fixed:1")
    assert decision.change.points is not None and decision.change.points.limits is not None
    assert np.allclose([decision.change.points.value, *decision.change.points.limits], 0, atol=1e-9)
    assert "+0.0 points (95% interval +0.0 to +0.0)" in decision.because


def test_a_vote_of_two_pays_where_paths_abstain() -> None:
    """Half of the paths abstain and all others are right: two are right in .75 of cases, one in .5."""
    rng = np.random.default_rng(4)
    answers = np.where(rng.random((400, 8)) < 0.5, 0, -1)
    decision = decide(Votes(answers, (answers == 0).astype(int)), Aim(), now="2").decision
    assert decision.verdict == "vote" and decision.accuracy is not None
    assert decision.accuracy.value == pytest.approx(0.75, abs=0.03)


def test_two_answers_to_a_question_ask_for_a_third_and_not_for_more_questions() -> None:
    decision = decide(scattered(2), Aim(), now="8").decision
    assert decision.verdict == "undecided" and decision.open is not None
    assert "two answers" in decision.because and decision.open.endswith("Record three answers or more")
    assert "questions would show" not in decision.open
