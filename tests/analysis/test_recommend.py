"""The recommendation: what it predicts against known laws, and that it serves the stated aim."""

from __future__ import annotations

import numpy as np
import pytest

from keff.analysis.recommend import Aim
from keff.analysis.recommend.choose import chance_to_keep, choose
from keff.analysis.recommend.kept import predicted
from keff.analysis.recommend.outlook import Outlook, believe, gather, losses
from keff.analysis.recommend.prior import GENERIC
from keff.analysis.recommend.rules import CURTAILED, SAFE, SINGLE, Rules
from keff.analysis.replay import Replaying, replay
from keff.analysis.replay.outcomes import run
from keff.errors import PolicyError
from keff.policy import parse_policy
from keff.stats.choose import Recommendation
from keff.stats.draws import Draws
from keff.stats.votes import Votes
from recommend_rig import advise, outlook, workload

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("cap", [1, 2, 8, 32])
def test_rules_stop_where_their_specs_do(cap: int) -> None:
    """What is chosen among is what is deployed: every rule, on every order, to the path."""
    rules = Rules(cap)
    assert rules.specs[: CURTAILED + 1][SINGLE] == "fixed:1"
    assert rules.specs[SAFE].startswith("adaptive_consistency:0.95")
    draws = Draws(restaurants(150, cap, 3).answered()[:, None, :].astype(np.int16))
    seen, flat = draws.tallies, (-1, cap + 1)
    stops = np.concatenate(rules.stops(seen.v1.reshape(flat), seen.v2.reshape(flat)), axis=1)
    assert stops.shape[1] == len(rules.specs) == len(set(rules.specs))
    for index, spec in enumerate(rules.specs):
        assert np.array_equal(stops[:, index], run(parse_policy(spec), draws).stop.ravel()), spec


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
    found = outlook(restaurants(800, 8, 2))
    fresh = restaurants(3000, 32, 3)
    assert fresh.answers is not None
    draws = Draws(fresh.answers[:, None, :].astype(np.int16))
    whole = draws.tallies.leader[:, :, 32]
    for index in range(0, len(found.paths), 40):
        walks = run(parse_policy(found.specs[index]), draws)
        assert found.paths[index] == pytest.approx(walks.stop.mean(), rel=0.05)
        assert found.differs[index] == pytest.approx(np.mean(walks.answer != whole), abs=0.025)


def test_the_accuracy_at_the_cap_is_predicted_within_its_error() -> None:
    found = outlook(workload(400, 8, 2))
    fresh = workload(3000, 32, 3)
    assert fresh.answers is not None and fresh.correct is not None
    credit = Draws(
        fresh.answers[:, None, :].astype(np.int16), correct=fresh.correct[:, None, :].astype(np.float32)
    ).tallies.credit
    assert found.accuracy is not None and credit is not None
    assert abs(found.accuracy.value - credit[:, :, 32].mean()) < 2.5 * found.accuracy.sd
    assert found.accuracy.sd < 0.04


def test_a_higher_retention_never_costs_fewer_paths(found: Outlook) -> None:
    chosen = [choose(found, Aim(retain=share))[0] for share in (0.8, 0.95, 0.98, 0.99, 0.995, 0.9999, 1)]
    paths = [found.paths[index] for index in chosen]
    assert paths == sorted(paths)
    assert paths[0] == 1 and found.share[chosen[-1]] <= 0


def test_a_budget_is_kept_and_used(found: Outlook) -> None:
    budgets = (1, 2.5, 4, 6, 8, 12, 24)
    chosen = [choose(found, Aim(budget=budget))[0] for budget in budgets]
    lost = [found.lost[index] for index in chosen]
    assert lost == sorted(lost, reverse=True)
    for index, budget in zip(chosen, budgets, strict=True):
        median, _ = choose(found, Aim(budget_mean=budget))
        assert found.paths[index] * np.exp(1.28 * found.spread[index]) <= budget + 1e-9
        assert found.paths[index] <= found.paths[median] <= budget
    assert found.paths[choose(found, Aim(budget_mean=8))[0]] > 6.5


def test_a_budget_holds_for_nine_pilots_in_ten() -> None:
    """The mean over future questions is known by simulation; one pilot in ten may be wrong about it."""
    draws = Draws(workload(2000, 16, 99).answered()[:, None, :].astype(np.int16))
    over = []
    for seed in range(20):
        spec = advise(workload(40, 8, 200 + seed), Aim(budget=5), cap=16).policy
        over.append(run(parse_policy(spec), draws).stop.mean() > 5)
    assert np.mean(over) <= 0.25  # 20 pilots: 10% and two standard errors


def at_face_value(n: int, k: int, seed: int) -> tuple[Votes, np.ndarray]:
    """Three answers of Dirichlet shares, each right as often as its share: a unit of share is worth one of
    accuracy, from one path to many and where a rule stops early. Returns also the shares [n, 3]."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet((2.0, 0.7, 0.3), n)
    drawn = (rng.random((n, k, 1)) > shares.cumsum(axis=1)[:, None, :]).sum(axis=2).clip(0, 2)
    gold = (rng.random((n, 1)) > shares.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    return Votes(drawn, (drawn == gold[:, None]).astype(int)), shares


def test_the_loss_is_the_share_lost_times_its_price() -> None:
    """Split and price are known: the share lost is predicted to a quarter, and the mean loss is what was
    allowed times the true price over the trusted one (records show less than face value)."""
    bias = 1.25
    asked, lost, expected, level = 0.98, [], [], []
    fresh, shares = at_face_value(3000, 16, 77)
    draws = Draws(fresh.answered()[:, None, :].astype(np.int16))
    leader = draws.tallies.leader[:, 0].astype(int).clip(0)
    share = np.take_along_axis(shares, leader, axis=1)
    for seed in range(16):
        found = outlook(at_face_value(80, 8, seed)[0], 16)
        index, _ = choose(found, Aim(retain=asked))
        stop = run(parse_policy(found.specs[index]), draws).stop
        lost.append(float((share[:, -1:] - np.take_along_axis(share, stop, axis=1)).mean()))
        expected.append(found.share[index])
        level.append(float(share[:, -1].mean()))
    assert 1 / bias < np.mean(expected) / np.mean(lost) < bias
    kept = 1 - np.mean(lost) / np.mean(level)
    assert 1 - bias * (1 - asked) / GENERIC.price.trusted <= kept < 1


def test_the_interval_narrows_with_the_pilot() -> None:
    """For one and the same rule: what is left at last is the workload's own price of a vote."""
    widths = []
    for items in (25, 50, 100, 400):
        known = gather(workload(items, 8, 21), 32, np.random.default_rng(0))
        kept = predicted(known, believe(known), 80, Aim(retain=0.99))
        assert kept.limits is not None
        widths.append(kept.limits[1] - kept.limits[0])
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.6 * widths[0]


def test_losses_have_the_mean_by_which_rules_are_chosen(found: Outlook) -> None:
    some = np.arange(3, len(found.paths), 20)
    drawn = losses(found, some).mean(axis=0) * found.level
    assert drawn == pytest.approx(found.lost[some], rel=0.05, abs=1e-4)


def test_to_be_sure_costs_paths_and_its_price_is_printed(pilot: Votes, found: Outlook) -> None:
    mean, _ = choose(found, Aim(retain=0.99))
    sure, _ = choose(found, Aim(retain=0.99, confidence=0.9))
    assert found.paths[mean] < found.paths[sure] and chance_to_keep(found, 0.99)[sure] >= 0.9
    advice = advise(pilot, Aim(retain=0.99))
    surer = f"being 90% sure of that on this workload would take {found.paths[sure]:.1f} paths"
    assert surer in advice.because
    assert advice.kept is not None and advice.kept.confidence == chance_to_keep(found, 0.99)[mean]
    asked = advise(pilot, Aim(retain=0.99, confidence=0.9))
    assert asked.kept is not None and asked.kept.sure == 0.9 and (asked.kept.confidence or 0) >= 0.9


def test_what_can_only_be_kept_by_curtailment_is_said(pilot: Votes) -> None:
    why = advise(pilot, Aim(retain=0.9999), cap=3).because
    assert "no rule that may change the answer can be trusted" in why


@pytest.mark.parametrize("share", [0.95, 0.98, 0.995])
def test_a_whole_record_is_chosen_from_by_replay(share: float) -> None:
    """What the page says of the record is what ``keff replay`` says, to the digit, and not below the aim."""
    record = workload(60, 40, 31)
    advice = advise(record, Aim(retain=share))
    assert advice.kept is not None and advice.kept.method == "replayed, cross-fitted over questions"
    row = replay(record, [advice.policy], np.random.default_rng(0), Replaying(cap=32)).policies[0]
    assert row.kept == advice.replayed and row.kept is not None and row.kept.value >= share
    assert advice.expected_paths == pytest.approx(row.mean_paths, rel=0.02)


def test_value_against_cost_moves_from_one_path_to_many(found: Outlook) -> None:
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
    assert found.kept is not None and 0.99 <= found.kept.value <= 1
    assert found.expected_tokens == pytest.approx(100 * (found.expected_paths or 0))
    assert found.because.endswith("paths") and "\n" not in found.because


def test_the_same_pilot_gives_the_same_advice(pilot: Votes) -> None:
    assert advise(pilot) == advise(pilot)


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
        {"budget": 4.0, "budget_mean": 4.0},
        {"budget": 4.0, "confidence": 0.9},
        {"retain": 0.9, "confidence": 1.0},
    ):
        with pytest.raises(PolicyError):
            Aim(**wrong)
