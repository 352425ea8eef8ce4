"""The live vote: launch order, replacement, cancellation, deadline; against the policy read off in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drawn
from how_many import examples
from keff.gateway.http.errors import Problem
from keff.gateway.upstream.answer import Answer, UpstreamError
from keff.gateway.vote.vote import Outcome, PathResult, Vote
from keff.policy import Policy, Stop, View, parse_policy
from keff.protocol.server import Refusal, Sharing

pytestmark = pytest.mark.anyio
KEYS = ("7", "8", None)


@dataclass
class Server:
    """Paths with given keys; each call takes as many turns of the loop as its path says."""

    keys: Sequence[str | None]
    turns: Callable[[int], int] = lambda _: 0
    fails: Callable[[int, int], UpstreamError | None] = lambda _, __: None
    most: int = 100
    gives: int = 100
    asked: list[tuple[int, int]] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    tries: dict[int, int] = field(default_factory=dict)

    async def call(self, start: int, n: int, branch: str = "") -> Answer:
        assert not branch
        self.asked.append((start, n))
        tries = self.tries[start] = self.tries.get(start, 0) + 1
        try:
            for _ in range(self.turns(start)):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled.append(start)
            raise
        if n > self.most:
            raise UpstreamError("n is too large", Refusal(400), transient=False)
        if error := self.fails(start, tries):
            raise error
        choices = [{"index": i, "key": self.keys[start + i]} for i in range(min(n, self.gives))]
        return Answer(choices, {})

    async def judge(self, answer: Answer) -> list[PathResult]:
        return [PathResult(choice, answer.body, choice["key"]) for choice in answer.choices]

    def vote(self, policy: str | Policy, most: int = 1, **rules: Any) -> Vote:
        made = parse_policy(policy) if isinstance(policy, str) else policy
        return Vote(made, self.call, self.judge, Sharing(most), **rules)


def in_order(policy: Policy, keys: Sequence[str | None]) -> tuple[int, Stop]:
    """Return what the policy decides on the paths one after the other."""
    n = 0
    while True:
        decision = policy.decide(View(keys[:n]))
        if isinstance(decision, Stop):
            return n, decision
        n += decision.m


def same(outcome: Outcome, policy: Policy, keys: Sequence[str | None]) -> bool:
    n, stop = in_order(policy, keys)
    return [path.key for path in outcome.paths] == list(keys[:n]) and outcome.stop == stop


@pytest.mark.slow
@given(
    keys=drawn.lists(KEYS, 12),
    turns=drawn.lists(range(10), 12),
    spec=st.sampled_from(
        ["lead_k:2,cap=12", "fixed:5", "esc:3,cap=12", "budget:3,cap=12", "curtailed:cap=9"]
    ),
    ahead=st.sampled_from([1, 2, 5]),
    most=st.sampled_from([1, 3]),
)
@settings(max_examples=examples(150), deadline=None)
def test_the_order_of_arrival_changes_nothing(
    keys: list[str | None], turns: list[int], spec: str, ahead: int, most: int
) -> None:
    server = Server(keys, turns.__getitem__)
    flying = spec if ahead == 1 else f"{spec},in_flight={ahead}"
    outcome = asyncio.run(server.vote(flying, most).run())
    assert same(outcome, parse_policy(spec), keys)


async def test_short_wrong_paths_do_not_win_the_race() -> None:
    """Wrong paths come back at once, right ones late: a vote on arrival would stop on the wrong answer."""
    keys = ["right", "wrong", "right", "wrong", "right", "wrong", "right", "right", "right"]
    server = Server(keys, lambda start: 50 if keys[start] == "right" else 0)
    outcome = await server.vote("lead_k:3,cap=9,in_flight=9").run()
    assert same(outcome, parse_policy("lead_k:3,cap=9"), keys)
    assert outcome.stop.answer == "right"


async def test_without_speculation_no_path_is_drawn_in_vain() -> None:
    server = Server(["7"] * 32)
    outcome = await server.vote("lead_k:4").run()
    assert len(server.asked) == 4
    assert not outcome.unused
    assert outcome.cancelled == 0


async def test_paths_beyond_the_decision_are_cancelled() -> None:
    server = Server(["7"] * 32, lambda start: 0 if start < 4 else 10**9)
    outcome = await asyncio.wait_for(server.vote("lead_k:4,in_flight=10").run(), 60)
    assert len(outcome.paths) == 4
    assert sorted(server.cancelled) == [4, 5, 6, 7, 8, 9]
    assert outcome.cancelled == 6


async def test_a_failed_path_is_drawn_again_in_its_place() -> None:
    keys = ["7", "8", "7", "7", "7"]
    flaky = UpstreamError("stumbled", Refusal(500, wait=0.001))
    server = Server(keys, fails=lambda start, tries: flaky if start in (1, 3) and tries < 3 else None)
    outcome = await server.vote("fixed:5").run()
    assert [path.key for path in outcome.paths] == keys
    assert outcome.cause == "policy"
    assert outcome.failed == 4


async def test_beyond_the_budget_those_that_are_there_vote() -> None:
    dead = UpstreamError("down", Refusal(500, wait=0.001))
    server = Server(["7", "8", "7", "8"], fails=lambda start, _: dead if start in (1, 3) else None)
    outcome = await server.vote("fixed:4", replacements=5).run()
    assert (outcome.cause, outcome.stop.answer, len(outcome.paths)) == ("failures", "7", 2)
    # The first failure of path 1 comes before path 2 does.
    assert server.tries == {0: 1, 1: 1 + 1 + 5, 2: 1, 3: 1 + 5}


@pytest.mark.parametrize("replacements", [0, 1, 4])
async def test_an_upstream_that_is_down_is_given_up_soon(replacements: int) -> None:
    dead = UpstreamError("down", Refusal(0, wait=0.001))
    server = Server(["7"] * 4, fails=lambda *_: dead)
    with pytest.raises(UpstreamError, match="down"):
        await server.vote("fixed:4", replacements=replacements).run()
    assert len(server.asked) == 4 * (1 + replacements)


async def test_a_path_that_fails_while_others_come_is_tried_longer() -> None:
    """Twenty paths one after the other, at a server that loses each of them three times of four."""
    flaky = UpstreamError("stumbled", Refusal(500, wait=0.001))
    server = Server(["7"] * 20, fails=lambda _, tries: flaky if tries < 4 else None)
    outcome = await server.vote("fixed:20,in_flight=2,order=arrival", replacements=3).run()
    assert (outcome.cause, len(outcome.paths), outcome.failed) == ("policy", 20, 60)


async def test_a_refused_request_is_not_tried_again() -> None:
    server = Server(["7"] * 4, fails=lambda *_: UpstreamError("bad", Refusal(400), transient=False))
    with pytest.raises(UpstreamError, match="bad"):
        await server.vote("fixed:4").run()
    assert len(server.asked) == 4


async def test_the_deadline_answers_with_what_is_there() -> None:
    server = Server(["7", "7", "8", "8"], lambda start: 0 if start < 2 else 10**9)
    outcome = await server.vote("fixed:4", deadline=0.05).run()
    assert (outcome.cause, outcome.stop.answer, len(outcome.paths)) == ("deadline", "7", 2)
    assert outcome.cancelled == 2
    nobody = Server(["7"] * 4, lambda _: 10**9)
    with pytest.raises(Problem) as problem:
        await nobody.vote("fixed:4", deadline=0.02).run()
    assert problem.value.status == 504


async def test_cancelling_the_vote_breaks_off_every_call() -> None:
    server = Server(["7"] * 8, lambda _: 10**9)
    task = asyncio.create_task(server.vote("fixed:8").run())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(server.cancelled) == list(range(8))


@pytest.mark.parametrize(("most", "gives"), [(1, 100), (3, 100), (100, 1), (100, 2)])
async def test_a_server_that_refuses_or_ignores_n_is_asked_for_fewer(most: int, gives: int) -> None:
    keys = [str(number) for number in range(8)]
    server = Server(keys, most=most, gives=gives)
    vote = server.vote("fixed:8", most=8)
    outcome = await vote.run()
    assert [path.key for path in outcome.paths] == keys
    assert vote.sharing.most <= min(most, gives)


async def test_a_bad_request_teaches_nothing_about_n() -> None:
    server = Server(["7"] * 8, fails=lambda *_: UpstreamError("bad", Refusal(400), transient=False))
    vote = server.vote("fixed:8", most=8)
    with pytest.raises(UpstreamError):
        await vote.run()
    assert vote.sharing.most == 8


@pytest.mark.parametrize(("mode", "paths"), [("pass", 4), ("draw", 32)])
async def test_free_text_is_seen_after_the_first_round(mode: Any, paths: int) -> None:
    outcome = await Server([None] * 32).vote("lead_k:4", free_text=mode).run()
    assert len(outcome.paths) == paths
    assert outcome.stop.answer is None


async def test_cut_paths_are_not_taken_for_free_text() -> None:
    server = Server([None] * 4 + ["7"] * 28)

    async def judge(answer: Answer) -> list[PathResult]:
        return [path._replace(truncated=True) for path in await server.judge(answer)]

    vote = replace(server.vote("lead_k:4", free_text="pass"), judge=judge)
    assert (await vote.run()).cause == "policy"


async def test_a_shadow_draws_on_in_launch_order() -> None:
    keys = ["7"] * 4 + ["8"] * 8
    server = Server(keys)
    vote = server.vote("lead_k:4")
    await vote.run()
    assert await vote.extend(12) == keys
    assert len(server.asked) == 12
