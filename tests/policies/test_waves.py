"""Waves and rounds: what is promised whatever the votes, and what is planned against simulation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.analysis.replay.outcomes import drive, follow_rounds, run
from keff.policy import InRounds, Policy, Sample, Stop, View, parse_policy, tally
from keff.policy_induction import stations_of
from keff.policy_rounds import fit_agreement, in_rounds
from keff.policy_waves import follow_all, in_waves
from keff.stats.correlation import agreement
from keff.stats.courses import GENERIC_WEIGHTS, component_agreement, courses, tilted
from keff.stats.draws import Draws
from keff.stats.partitions import COMPONENTS, Simulated
from keff.stats.votes import FloatArray, IntArray, Votes

made = cache(parse_policy)
VOTES = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=32, max_size=32)
# A rule takes a second to plan.
PLANNED = (
    pytest.param("lead_k:3,rounds=3", marks=pytest.mark.slow),
    pytest.param("budget:4,rounds=2", marks=pytest.mark.slow),
    pytest.param("adaptive_consistency:0.95,rounds=4", marks=pytest.mark.slow),
)


def walk(spec: str, votes: list[str | None]) -> tuple[list[int], Stop]:
    """Return the sizes of the rounds, and the stop."""
    sizes: list[int] = []
    for _, decision in drive(made(spec), votes, []):
        if isinstance(decision, Stop):
            return sizes, decision
        sizes.append(decision.m)
    raise AssertionError


@given(votes=VOTES)
@settings(max_examples=examples(60), deadline=None)
def test_a_wave_is_never_smaller_but_at_the_cap_and_stops_where_the_rule_would(
    votes: list[str | None],
) -> None:
    sizes, stop = walk("lead_k:3,wave=5", votes)
    ends = np.cumsum(sizes)
    assert all(size >= 5 for size in sizes[:-1]) and (sizes[-1] >= 5 or ends[-1] == 32)
    rule = made("lead_k:3")
    stops = [isinstance(rule.decide(View(votes[:end])), Stop) for end in ends]
    assert stops == [False] * (len(ends) - 1) + [True]
    assert stop.answer == tally(votes[: ends[-1]]).leader


@pytest.mark.parametrize(
    "spec",
    [
        *PLANNED,
        pytest.param("esc:5,rounds=3", marks=pytest.mark.slow),
        pytest.param("e_value:0.2,rounds=2", marks=pytest.mark.slow),
        "curtailed:rounds=3",
    ],
)
@given(votes=VOTES)
@settings(max_examples=examples(30), deadline=None)
def test_no_vote_takes_more_rounds_than_there_are(spec: str, votes: list[str | None]) -> None:
    policy = made(spec)
    assert isinstance(policy, InRounds)
    sizes, _ = walk(spec, votes)
    assert 1 <= len(sizes) <= policy.rounds


@given(votes=VOTES)
@settings(max_examples=examples(60), deadline=None)
def test_a_rule_that_loses_nothing_loses_nothing_in_three_rounds(votes: list[str | None]) -> None:
    whole = tally(votes)
    _, stop = walk("curtailed:rounds=3", votes)
    assert stop.answer == whole.leader or whole.counts[stop.answer or ""] == whole.v1 == whole.v2


@given(votes=VOTES)
@settings(max_examples=examples(60), deadline=None)
def test_with_rounds_enough_the_fewest_votes_that_could_stop_are_drawn(votes: list[str | None]) -> None:
    assert walk("lead_k:2,cap=6,rounds=6", votes) == walk("lead_k:2,cap=6", votes)


@pytest.mark.parametrize("spec", [*PLANNED, "esc:3,cap=20,wave=4"])
@given(votes=VOTES, cut=st.integers(0, 31))
@settings(max_examples=examples(20), deadline=None)
def test_a_vote_that_was_cut_off_in_a_wave_ends_where_it_would_have_ended(
    spec: str, votes: list[str | None], cut: int
) -> None:
    sizes, stop = walk(spec, votes)
    n = min(cut, sum(sizes))
    while isinstance(decision := made(spec).decide(View(votes[:n])), Sample):
        n += decision.m
    assert (n, decision) == (sum(sizes), stop)


@cache
def fresh_courses(seed: int) -> Simulated:
    return courses(GENERIC_WEIGHTS, 20_000, 32, np.random.default_rng(seed))


def outcome(policy: Policy, seed: int) -> tuple[float, float, FloatArray]:
    """Return mean paths, mean rounds, and the share lost of every simulated question."""
    new = fresh_courses(seed)
    walks = run(policy, new.draws)
    share = new.share_of_leader()[:, 0]
    lost = share[:, -1] - share[np.arange(len(share)), walks.stop[:, 0]]
    return float(walks.stop.mean()), float(walks.rounds.mean()), lost


@pytest.mark.parametrize("spec", PLANNED)
def test_planned_rounds_lose_no_more_on_courses_that_they_were_not_made_from(spec: str) -> None:
    rule = parse_policy(spec.partition(",rounds")[0])
    paths, rounds, lost = outcome(parse_policy(spec), 77)
    alone, rounds_alone, lost_alone = outcome(rule, 77)
    more = lost - lost_alone
    assert more.mean() <= 3 * more.std() / len(more) ** 0.5
    assert rounds < rounds_alone and paths < 32
    # Doubling waves to the same number of rounds draw more paths and stop where the rule does.
    assert paths < 1.6 * alone


@pytest.mark.slow
def test_fewer_rounds_take_more_paths() -> None:
    paths = [outcome(parse_policy(f"budget:4,rounds={rounds}"), 5)[0] for rounds in (1, 2, 4)]
    assert paths == sorted(paths, reverse=True)


def in_fixed_waves(first: int, factor: int, rounds: int) -> Callable[..., IntArray]:
    """Return the sizes of waves that grow by a factor, the last drawing what is left."""

    def sizes(turn: int, at: IntArray, ahead: IntArray, counts: object) -> IntArray:  # noqa: ARG001
        size = 32 if turn >= rounds - 1 else first * factor**turn
        return np.where(ahead > 0, np.minimum(size, 32 - at), 0)

    return sizes


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "rounds", "agrees"), [("budget:5", 5, 0.91), ("budget:3", 3, 0.6)])
def test_planned_rounds_draw_no_more_than_the_same_rule_at_the_ends_of_fixed_waves(
    spec: str, rounds: int, agrees: float
) -> None:
    """On an easy workload no price of the loss is faithful enough, and only the rule may stop."""
    rule = parse_policy(spec)
    draws = courses(tilted(GENERIC_WEIGHTS, agrees), 20_000, 32, np.random.default_rng(31)).draws
    planned = run(parse_policy(f"{spec},rounds={rounds},agreement={agrees}"), draws).stop
    for first, factor in ((1, 2), (2, 2), (4, 2), (4, 1), (5, 1)):
        ahead = follow_all(in_fixed_waves(first, factor, rounds), rule, draws)
        more = planned - follow_rounds(ahead, None)[0]
        assert more.mean() <= 3 * more.std() / more.size**0.5, (first, factor)


@pytest.mark.slow
def test_the_agreement_of_each_law_is_that_of_its_votes() -> None:
    rng = np.random.default_rng(2)
    for index, expected in enumerate(component_agreement()):
        weights = np.eye(len(COMPONENTS))[index]
        votes = Votes(courses(weights, 3000, 12, rng).draws.codes[:, 0].astype(int), None)
        answered = votes.answered() >= 0
        pairs = (answered.sum(axis=1) * (answered.sum(axis=1) - 1)).mean() / (12 * 11)
        assert agreement(votes) / pairs == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("wanted", [0.2, 0.55, 0.9])
def test_tilted_weights_agree_as_often_as_was_asked(wanted: float) -> None:
    weights = tilted(GENERIC_WEIGHTS, wanted)
    assert weights @ component_agreement() == pytest.approx(wanted, abs=1e-6)
    assert weights.sum() == pytest.approx(1)


@pytest.mark.slow
def test_the_agreement_of_a_pilot_is_drawn_to_that_of_recorded_generations() -> None:
    unanimous = Votes(np.zeros((30, 8), int), None)
    generic = float(GENERIC_WEIGHTS @ component_agreement() / GENERIC_WEIGHTS.sum())
    assert fit_agreement(unanimous) == pytest.approx((30 + 10 * generic) / 40, abs=5e-4)
    fitted = parse_policy("lead_k:3,rounds=3")
    assert isinstance(fitted, InRounds)
    assert fitted.fit(unanimous).spec == f"lead_k:3,rounds=3,agreement={fit_agreement(unanimous)}"


@pytest.mark.parametrize("cap", [1, 2, 32, 33, 64, 256])
def test_rounds_may_end_at_the_cap_and_after_any_small_number(cap: int) -> None:
    stations = stations_of(cap)
    assert stations[0] == 0 and stations[-1] == cap
    assert len(stations) <= 33 and np.all(np.diff(stations) > 0)
    assert set(range(min(cap, 16))) <= set(stations.tolist())


class TwoInARow:
    """A rule of a user's own, which decides on one vote at a time."""

    needs = frozenset({"answers"})
    monotone = False
    spec = "two_in_a_row:cap=12"
    cap = 12

    def decide(self, view: View) -> Sample | Stop:
        keys = view.keys
        if len(keys) >= self.cap or (len(keys) > 1 and keys[-1] == keys[-2]):
            return Stop(tally(keys).leader, 1.0, "vote_share", "two in a row")
        return Sample(max(2 - len(keys), 1))


@pytest.mark.parametrize(("wave", "rounds"), [(3, None), (None, 2)])
def test_a_rule_of_ones_own_is_replayed_in_waves_one_vote_at_a_time(
    wave: int | None, rounds: int | None
) -> None:
    own: Policy = TwoInARow()  # type: ignore[assignment]
    policy = in_waves(own, wave) if wave else in_rounds(own, rounds)
    codes = np.random.default_rng(8).integers(0, 3, (4, 3, 12)).astype(np.int16)
    walks = run(policy, Draws(codes))
    for place in np.ndindex(4, 3):
        *_, (n, _) = drive(policy, [str(code) for code in codes[place]], [])
        assert walks.stop[place] == n
        if wave:
            assert n % 3 == 0
    if rounds:
        assert walks.rounds.max() <= rounds
