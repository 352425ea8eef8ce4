"""The drift alarm.

Thinning is exact, drifts are found, quiet traffic stays quiet, restarts change nothing.
"""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gateway_rig import make_plan
from keff.errors import UsageError
from keff.gateway.traffic.monitor import Monitor, StateFile, pilot_scores, stops_at, watched_paths
from keff.plan import Plan, Profile
from keff.policy import Policy, parse_policy
from keff.stats.drift import stop_score

BASE, BIG = (0.8, 0.6), (0.55, 0.45)
"""Accuracy and correlation of the pilot, and of a big drift."""

MEDIAN_DELAY = 24
"""Requests until a big drift is found after a pilot of 100 questions, as simulated for the method."""


def traffic(p: float, c: float, n: int, k: int, rng: np.random.Generator) -> list[list[str]]:
    """Return the keys of n questions: beta-binomial right answers, wrong ones among three."""
    shape = (1 - c) / c
    theta = rng.beta(p * shape, (1 - p) * shape, size=n)
    right = rng.random((n, k)) < theta[:, None]
    wrong = rng.integers(1, 4, size=(n, k))
    return np.where(right, 0, wrong).astype(str).tolist()


def plan_of(
    rng: np.random.Generator, policy: str, truth: tuple[float, float] = BASE, items: int = 100
) -> Plan:
    """Return a plan whose pilot drew 8 paths of each question."""
    votes = [tuple(sorted(Counter(keys).values(), reverse=True)) for keys in traffic(*truth, items, 8, rng)]
    return make_plan(policy, profile=Profile(paths=8, votes=tuple(votes)))


def alarmed(truth: tuple[float, float], seed: int, requests: int) -> bool:
    rng = np.random.default_rng(seed)
    plan = plan_of(rng, "fixed:1")
    monitor = Monitor(plan, parse_policy(plan.policy))
    assert monitor.m == 4
    for keys in traffic(*truth, requests, 4, rng):
        monitor.observe(keys)
    return any(monitor.alarms.values())


@pytest.mark.slow
def test_big_drifts_are_found_in_three_times_the_median_delay() -> None:
    assert sum(alarmed(BIG, seed, 3 * MEDIAN_DELAY) for seed in range(20)) >= 16


@pytest.mark.slow
def test_quiet_traffic_stays_quiet() -> None:
    assert sum(alarmed(BASE, 100 + seed, 500) for seed in range(20)) <= 4


@pytest.mark.parametrize(
    ("policy", "paths", "expected"),
    [
        ("lead_k:3", 8, (3, False)),
        ("adaptive_consistency:0.95", 8, (4, False)),
        ("fixed:16", 8, (8, False)),
        ("esc:5", 4, (4, False)),
        ("fixed:1", 8, (4, True)),
        ("fixed:1", 3, (3, True)),
    ],
)
def test_agreement_is_taken_at_what_every_request_draws(
    policy: str, paths: int, expected: tuple[int, bool]
) -> None:
    assert watched_paths(parse_policy(policy), Profile(paths=paths, votes=((paths,),))) == expected


def test_thinning_is_a_draw_without_replacement() -> None:
    """Of a 3-1 split, two random paths agree with chance 1/2; of 2-2 with 1/3; of 4 with 1."""
    n = 20_000

    def scores(votes: tuple[int, ...], m: int) -> Counter[float]:
        monitor = Monitor(make_plan("fixed:1"), parse_policy("fixed:1"))
        monitor.m = m
        profile = Profile(paths=4, votes=(votes,) * n)
        return Counter(pilot_scores(profile, monitor.score, np.random.default_rng(1)))

    for votes, chance in (((4,), 1.0), ((3, 1), 1 / 2), ((2, 2), 1 / 3), ((2, 1, 1), 1 / 6), ((1,) * 4, 0.0)):
        share = scores(votes, 2)[1.0] / n
        assert abs(share - chance) < 4 * np.sqrt(chance * (1 - chance) / n) + 1e-12
    three = scores((3, 1), 3)
    assert set(three) == {3, 1}
    assert abs(three[3] / n - 1 / 4) < 4 * np.sqrt(3 / 16 / n)
    assert scores((2, 1, 1), 4) == {1: n}


RULE = "budget:1.6,b=8"


def test_the_stop_of_a_rule_is_what_the_rule_does_live() -> None:
    policy = parse_policy(RULE)
    assert stops_at(policy, ["a", "a", "b"], 8) == 2
    assert stops_at(policy, ["a", "b", "a", "a"], 8) == 4
    assert stops_at(policy, ["a", "b"] * 8, 8) is None
    assert stops_at(policy, [None, None, "a"], 8) is None
    scores = [stop_score(keys, stop, 8) for keys, stop in ((["a", "a"], 2), (["a", "b", "a", "a"], 4))]
    assert scores[0] > scores[1] > stop_score(["a", "b"] * 4, None, 8)


def test_the_pilots_stops_are_those_of_fresh_draws_of_it() -> None:
    """A question of 6 to 2 votes: two random paths agree with chance (30 + 2)/56."""
    n = 4000
    profile = Profile(paths=8, votes=((6, 2),) * n)
    monitor = Monitor(make_plan(RULE), parse_policy(RULE))
    scores = pilot_scores(profile, monitor.score, np.random.default_rng(0))
    first = np.mean(np.array(scores) > -2)
    assert abs(first - 32 / 56) < 4 * np.sqrt(0.25 / n)


def stopped(monitor: Monitor, policy: Policy, truth: tuple[float, float], requests: int, seed: int) -> None:
    """Show a monitor requests that end where the policy stops."""
    for keys in traffic(*truth, requests, 32, np.random.default_rng(seed)):
        monitor.observe(keys[: stops_at(policy, keys, 32)])


def alarms_of_stops(truth: tuple[float, float], seed: int, requests: int, quiet: int = 0) -> dict[str, bool]:
    """Return the alarms after so many quiet requests and then so many of another truth."""
    plan = plan_of(np.random.default_rng(seed), RULE)
    policy = parse_policy(plan.policy)
    monitor = Monitor(plan, policy)
    stopped(monitor, policy, BASE, quiet, 2 * seed)
    stopped(monitor, policy, truth, requests, 2 * seed + 1)
    return monitor.alarms


@pytest.mark.slow
def test_looks_find_what_differs_from_the_start_and_the_other_what_changes_later() -> None:
    early = [alarms_of_stops((0.68, 0.5), seed, 250) for seed in range(30)]
    late = [alarms_of_stops((0.68, 0.5), seed, 500, quiet=1000) for seed in range(15)]
    assert sum(one["looks"] for one in early) >= sum(one["shiryaev_roberts"] for one in early) + 5
    assert sum(one["shiryaev_roberts"] for one in late) >= sum(one["looks"] for one in late) + 5


@pytest.mark.slow
def test_stops_of_exchangeable_traffic_alarm_in_at_most_one_of_twenty() -> None:
    # 5% of 60, and two standard errors.
    assert sum(alarms_of_stops(BASE, 500 + seed, 200)["looks"] for seed in range(60)) <= 6


def test_a_pilot_that_always_agreed_sees_that_traffic_does_not() -> None:
    """The profile holds no other stop than the first: what it never showed counts as no agreement."""
    profile = Profile(paths=8, votes=((8,),) * 40)
    plan = make_plan(RULE, profile=profile)
    monitor = Monitor(plan, parse_policy(RULE))
    for place in range(80):
        monitor.observe(["a", "a"] if place % 2 else ["a", "b", "c", "d", "e", "f", "g", "h"])
    assert monitor.alarms["looks"]


def test_a_profile_of_more_votes_than_paths_is_refused() -> None:
    with pytest.raises(ValueError, match="as many votes of an item"):
        Profile(paths=4, votes=((4,), (3, 2)))


def test_a_restart_goes_on_where_it_stopped(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    plan = plan_of(rng, "lead_k:3")
    policy, stream = parse_policy(plan.policy), traffic(*BIG, 30, 3, rng)
    whole = Monitor(plan, policy)
    for keys in stream:
        whole.observe(keys)
    file = StateFile(tmp_path / "state")
    first = Monitor(plan, policy, file)
    for keys in stream[:13]:
        first.observe(keys)
    first.save()
    file.close()
    file = StateFile(tmp_path / "state")
    second = Monitor(plan, policy, file)
    for keys in stream[13:]:
        second.observe(keys)
    assert second.gauges() == whole.gauges()
    assert second.seen == 30
    file.close()


def test_another_plan_starts_afresh(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    plan = plan_of(rng, "lead_k:3")
    file = StateFile(tmp_path / "state")
    monitor = Monitor(plan, parse_policy(plan.policy), file)
    monitor.observe(["1", "1", "2"])
    monitor.save()
    other = plan_of(rng, "lead_k:3")
    assert Monitor(other, parse_policy(other.policy), file).seen == 0
    file.close()


def test_a_state_file_that_cannot_be_used_is_refused_with_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--state"):
        StateFile(tmp_path / "none" / "state")
    (tmp_path / "text").write_text("this is no database, but long enough to be taken for one" * 20)
    with pytest.raises(UsageError, match="--state"):
        StateFile(tmp_path / "text")
    held = StateFile(tmp_path / "state")
    with pytest.raises(UsageError, match="--state"):
        StateFile(tmp_path / "state")
    held.close()


def test_an_alarm_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    plan = make_plan("lead_k:3", profile=Profile(paths=4, votes=((4,),) * 50))
    monitor = Monitor(plan, parse_policy("lead_k:3"))
    with caplog.at_level(logging.WARNING, "keff.gateway"):
        for _ in range(100):
            monitor.observe(["1", "2", None])
    assert [record.message.count('"drift"') for record in caplog.records] == [1, 1]
    assert monitor.alarms == {"shiryaev_roberts": True, "looks": True}
