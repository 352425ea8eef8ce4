"""Paths in flight: the running vote, event by event, against the simulator along all orders at once."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drawn
from benchmarks.places import RECORDED
from how_many import examples
from keff.analysis.replay import replay
from keff.analysis.walks import expectations, run
from keff.errors import PolicyError
from keff.policy import Policy, RunningVote, Stop, View, parse_policy, tally
from keff.policy.spec import PolicySpec
from keff.reading.open import Opening, open_record
from keff.stats.votes import Votes
from keff.stats.voting.draws import Draws, permute_paths

KEYS = "abc"
CAP = 8
RULES = ("lead_k:2", "lead_k:3", "budget:3", "fixed:8", "curtailed", "esc:3", "adaptive_consistency:0.9")


def in_flight(rule: str, width: int, order: str) -> str:
    spec = PolicySpec.parse(rule).with_cap(CAP)
    return str(replace(spec, options={**spec.options, "in_flight": width, "order": order}))


@dataclass
class Event:
    """How one vote ended: what it answered, when, and what each path had done by then."""

    stop: Stop
    counted: list[int]
    time: float
    done: list[float]


def by_events(policy: Policy, keys: Sequence[str | None], work: Sequence[float]) -> Event:
    """Run one vote as a driver does: start what it launches, and report the next path that ends."""
    vote = RunningVote(policy, lambda places: View([keys[place] for place in places]))
    now, began, ended = 0.0, dict[int, float](), set[int]()
    running: list[tuple[float, int]] = []

    def start() -> None:
        for place in vote.launch():
            began[place] = now
            heapq.heappush(running, (now + work[place], place))

    start()
    while vote.stop is None:
        now, place = heapq.heappop(running)
        ended.add(place)
        vote.end(place)
        start()
    done = [
        length if place in ended else min(length, now - began[place]) if place in began else 0.0
        for place, length in enumerate(work)
    ]
    return Event(vote.stop, vote.counted, now, done)


votes_of = drawn.lists([*KEYS, "a", None], CAP)
quarters = drawn.lists([n / 4 for n in range(10)], CAP)


@pytest.mark.parametrize("rule", RULES)
@given(keys=votes_of, work=quarters, width=st.integers(1, CAP), order=st.sampled_from(["arrival", "launch"]))
@settings(max_examples=examples(60), deadline=None)
def test_the_simulator_equals_the_running_vote_to_the_token(
    rule: str, keys: list[str | None], work: list[float], width: int, order: str
) -> None:
    policy = parse_policy(in_flight(rule, width, order))
    seen = by_events(policy, keys, work)
    codes = np.array([[[-1 if key is None else KEYS.index(key) for key in keys]]], np.int16)
    lengths = np.array([[work]], np.float32)
    draws = Draws(codes, tokens=lengths, seconds=lengths)
    walks = run(policy, draws)
    assert walks.wait is not None and walks.ran is not None
    assert walks.wait[0, 0] == pytest.approx(seen.time, abs=1e-6)
    assert walks.stop[0, 0] == len(seen.counted)
    assert expectations(walks, draws, CAP).tokens == pytest.approx(sum(seen.done), abs=1e-5)
    counts = tally([keys[place] for place in seen.counted])
    if counts.v1 > counts.v2:
        assert walks.answer[0, 0] == KEYS.index(seen.stop.answer or "")


@given(keys=votes_of, work=quarters, width=st.integers(1, CAP), order=st.sampled_from(["arrival", "launch"]))
@settings(max_examples=examples(200), deadline=None)
def test_the_exact_rule_gives_the_answer_of_the_whole_vote_ties_as_in_launch_order(
    keys: list[str | None], work: list[float], width: int, order: str
) -> None:
    seen = by_events(parse_policy(in_flight("curtailed", width, order)), keys, work)
    assert seen.stop.answer == tally(keys).leader


@given(keys=votes_of, work=quarters, width=st.integers(1, CAP))
@settings(max_examples=examples(100), deadline=None)
def test_on_arrival_no_rule_stops_before_three_votes_that_could_be_overtaken(
    keys: list[str | None], work: list[float], width: int
) -> None:
    seen = by_events(parse_policy(in_flight("lead_k:1", width, "arrival")), keys, work)
    votes = [keys[place] for place in seen.counted if keys[place] is not None]
    counts = tally([keys[place] for place in seen.counted])
    left = CAP - len(seen.counted)
    assert len(votes) >= 3 or not left or counts.v1 - counts.v2 > left


def test_in_launch_order_the_votes_are_those_of_one_path_at_a_time() -> None:
    keys, work = ["a", "b", "a", "a", "b", "c", "a", "a"], [9.0, 1, 1, 1, 1, 1, 1, 1]
    alone = by_events(parse_policy(in_flight("lead_k:2", 1, "launch")), keys, work)
    four = by_events(parse_policy(in_flight("lead_k:2", 4, "launch")), keys, work)
    assert alone.counted == four.counted == [0, 1, 2, 3]
    assert alone.time == 12 and four.time == 9


def recorded() -> Iterator[Votes]:
    for file in sorted(RECORDED.glob("*.jsonl")):
        votes = open_record(file, Opening()).ballot.votes
        # Where no lengths are recorded any will do: the rule may not depend on them.
        work = np.random.default_rng(1).lognormal(size=(votes.n, votes.k))
        yield votes if votes.tokens is not None else replace(votes, seconds=work)


@pytest.mark.slow
def test_the_exact_rule_gives_the_same_answers_on_recorded_generations() -> None:
    seen = 0
    for votes in recorded():
        draws = permute_paths(votes, 8, 8, np.random.default_rng(2))
        for width in (8, 4):
            exact = parse_policy(in_flight("curtailed", width, "arrival"))
            assert (run(exact, draws).answer == draws.tallies.leader[..., 8]).all()
        seen += 1
    assert seen > 50


def test_replay_pays_a_cancelled_path_up_to_its_end_or_whole() -> None:
    rng = np.random.default_rng(4)
    votes = Votes(
        np.zeros((20, 8), int), np.ones((20, 8), int), tokens=rng.integers(1, 100, (20, 8)).astype(float)
    )
    spec = "lead_k:3,cap=8,in_flight=8,order=arrival"
    row = replay(votes, [spec], rng).policies[0]
    third = np.sort(votes.tokens, axis=1)[:, 2] if votes.tokens is not None else np.zeros(0)
    assert votes.tokens is not None and row.mean_tokens is not None
    ran = np.minimum(votes.tokens, third[:, None]).sum(axis=1).mean()
    assert row.mean_tokens == pytest.approx(ran, rel=1e-6)
    assert row.mean_paths == 8 and row.seconds is None
    draws = permute_paths(votes, 8, 4, rng)
    paid = expectations(run(parse_policy(spec), draws, whole=True), draws, 8).tokens
    assert paid is not None and paid.mean() == pytest.approx(votes.tokens.sum(axis=1).mean())


def test_what_was_not_timed_is_not_replayed_in_flight() -> None:
    votes = Votes(np.zeros((4, 8), int), np.ones((4, 8), int))
    with pytest.raises(PolicyError, match="record the seconds or the tokens"):
        replay(votes, ["lead_k:3,cap=8,in_flight=2"], np.random.default_rng(0))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lead_k:3,cap=8,in_flight=9", "above its cap: write 8 at most"),
        ("lead_k:3,in_flight=0", "in_flight must be an integer from 1"),
        ("lead_k:3,in_flight=2,order=first", "order is arrival or launch, not first"),
        ("lead_k:3,order=arrival", "order needs in_flight=W"),
        ("lead_k:3,wave=2,in_flight=2", "wave or in_flight, not both"),
        ("cascade:S(lead_k:2,cap=2)/L(fixed:1),in_flight=2", "over one branch"),
    ],
)
def test_bad_specs_say_what_to_write(text: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        parse_policy(text)


def test_a_lower_cap_keeps_fewer_paths_in_flight() -> None:
    spec = PolicySpec.parse("lead_k:3,cap=8,in_flight=8,order=arrival").with_cap(4)
    assert str(spec) == "lead_k:3,cap=4,in_flight=4,order=arrival"
    assert str(PolicySpec.parse("fixed:8,in_flight=8").with_cap(4)) == "fixed:4,in_flight=4"
