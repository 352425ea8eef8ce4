"""Self-consistency through the real client against a server: votes in launch order, as in every driver."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import openai
import pytest

import keff
from keff.analysis.walks import decisions
from keff.errors import EngineError, KeffError, PolicyError, UsageError
from keff.policy import Stop, parse_policy
from keff.stats.voting.calibration import Calibration

pytest.importorskip("uvicorn", reason="the test server needs uvicorn: pip install 'keff[serve]'")

from fault_server import Script, running

Connect = Callable[[Script], openai.AsyncOpenAI]


@pytest.fixture
def connect() -> Iterator[Connect]:
    with ExitStack() as servers:

        def made(script: Script) -> openai.AsyncOpenAI:
            url = servers.enter_context(running(script))
            return openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=1)

        yield made


def says(*answers: str) -> Script:
    return Script(answer=lambda _, seed: f"Let me see. The final answer is {answers[seed]}.")


def test_the_vote_stops_when_the_policy_has_seen_enough(connect: Connect) -> None:
    script = says("42", "41", "42", "42", "7")
    found = keff.self_consistency_sync(
        connect(script), "What is 6 x 7?", "lead_k:2,cap=5", space="numeric", model="stub", seed=0
    )
    assert (found.answer, found.verdict.paths, found.keys) == ("42", 4, ("42", "41", "42", "42"))
    assert found.text is not None and "final answer is 42" in found.text
    assert found.tokens == sum(path.tokens for path in found.completions) > 0
    assert len(script.requests) == 4
    assert {body["model"] for body in script.requests} == {"stub"}
    assert script.requests[0]["messages"] == [{"role": "user", "content": "What is 6 x 7?"}]
    assert [body["seed"] for body in script.requests] != [0] * 4
    assert "'42'" in repr(found) and len(found.rows()) == 5


def test_it_tries_again_until_the_checker_passes(connect: Connect) -> None:
    script = Script(answer=lambda _, seed: f"def f():\n    return {seed}")
    seen: list[str] = []

    def check(prompt: str, text: str) -> bool:
        seen.append(prompt)
        return text.endswith("return 2")

    asked = {"model": "stub", "seed": 0, "verifier": check}
    found = keff.self_consistency_sync(connect(script), "Write f.", "retry:5", **asked)
    assert (found.verdict.paths, found.verdict.kind, found.verdict.weight) == (3, "verdict", 1.0)
    assert found.text == "def f():\n    return 2"
    assert seen == ["Write f."] * 3
    failed = keff.self_consistency_sync(connect(script), "Write f.", "retry:2", **asked)
    assert failed.verdict.weight == 0.0 and failed.text == "def f():\n    return 1"
    with pytest.raises(UsageError, match="give verifier="):
        keff.self_consistency_sync(connect(script), "Write f.", "retry:2", model="stub")


@pytest.mark.filterwarnings("ignore:in_flight is a key of the policy:DeprecationWarning")
def test_paths_ahead_save_rounds_and_change_nothing(connect: Connect) -> None:
    script = says("1", "2", "1", "1", "2", "2", "2", "2")
    how: dict[str, Any] = {"space": "numeric", "model": "stub", "seed": 0}
    plain = keff.self_consistency_sync(connect(script), "?", "lead_k:2,cap=8", **how)
    ahead = keff.self_consistency_sync(connect(script), "?", "lead_k:2,cap=8", in_flight=8, **how)
    assert (ahead.keys, ahead.verdict) == (plain.keys, plain.verdict)


def test_the_only_model_is_taken_and_several_are_named(connect: Connect) -> None:
    script = says("5")
    keff.self_consistency_sync(connect(script), [{"role": "user", "content": "?"}], "fixed:1", seed=0)
    assert script.requests[0]["model"] == "stub"
    with pytest.raises(UsageError, match=r"model=... \(the server has a, b\)"):
        keff.self_consistency_sync(connect(Script(models=("a", "b"))), "?")


def test_how_many_paths_are_drawn_is_the_policy_s_to_say(connect: Connect) -> None:
    """Of two choices in an answer one would be read, and both be paid for."""
    script = says("5", "5")
    with pytest.raises(UsageError, match=r"\(fixed:2\): leave n out"):
        keff.self_consistency_sync(connect(script), "?", "fixed:2", model="stub", n=2)
    assert not script.requests
    assert keff.self_consistency_sync(connect(script), "?", "fixed:2", model="stub", n=1).verdict.paths == 2


def test_a_server_that_fails_is_an_engine_error(connect: Connect) -> None:
    script = Script(fault=lambda *_: "500")
    with pytest.raises(EngineError, match="the server failed"):
        keff.self_consistency_sync(connect(script), "?", "fixed:3", model="stub")
    with pytest.raises(EngineError, match="overloaded"):
        keff.self_consistency_sync(
            connect(Script(fault=lambda *_: "error_200")), "?", "fixed:1", model="stub"
        )


def test_confidence_is_asked_for_where_the_policy_needs_it(connect: Connect) -> None:
    script = says("1", "2", "3")
    found = keff.self_consistency_sync(
        connect(script), "?", "fixed:3,weight=confidence", space="numeric", model="stub", seed=0
    )
    assert script.requests[0]["logprobs"] is True
    assert found.verdict.kind == "weighted_share"


def test_a_vote_may_be_weighed_by_the_log_probability_of_the_answer(connect: Connect) -> None:
    found = keff.self_consistency_sync(
        connect(says("1", "2")),
        "?",
        "fixed:2,weight=confidence,confidence=logprob_answer",
        space="numeric",
        model="stub",
        seed=0,
    )
    # The stub gives word i the log-probability -i/10: the answer is the eighth word.
    told = [path.logprobs for path in found.completions]
    assert [one and (one.answer, one.tokens) for one in told] == [(pytest.approx(-0.8), None)] * 2
    assert found.verdict.weight == 0.5


def test_a_rule_with_the_calibration_of_a_plan_ends_at_the_first_good_path(connect: Connect) -> None:
    held = {"logprob_answer": Calibration((-0.9, -0.8), (0.1, 0.95), (1.0, 1.0), 0.6)}
    rule = parse_policy("switch:0.9,cap=3,confidence=logprob_answer", held)
    found = keff.self_consistency_sync(
        connect(says("1", "2", "3")), "?", rule, space="numeric", model="stub", seed=0
    )
    assert (found.answer, found.verdict.paths, found.verdict.kind) == ("1", 1, "posterior")


def test_what_cannot_be_used_is_one_clear_error() -> None:
    """A synchronous client, a policy over several models, and a page in HTML where JSON should be."""

    class Page:
        async def create(self, **_: object) -> str:
            return "<html>login</html>"

    page: Any = SimpleNamespace(chat=SimpleNamespace(completions=Page()))
    with pytest.raises(UsageError, match="AsyncOpenAI"):
        keff.self_consistency_sync(openai.OpenAI(api_key="none"), "6 x 7?", model="m")
    with pytest.raises(PolicyError, match="asks the branches a, b"):
        keff.self_consistency_sync(page, "6 x 7?", "cascade:a(lead_k:2)/b(lead_k:2)", model="m")
    with pytest.raises(EngineError, match="not a chat completion"):
        keff.self_consistency_sync(page, "6 x 7?", model="m")


def test_without_the_official_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(KeffError, match=r"needs the package openai: pip install .*\[openai\]'"):
        keff.self_consistency_sync(SimpleNamespace(), "What is 6 x 7?")


def test_a_running_loop_is_told_to_await() -> None:
    async def inside() -> None:
        keff.self_consistency_sync(openai.AsyncOpenAI(api_key="none"), "?")

    with pytest.raises(UsageError, match=r"await keff\.self_consistency"):
        asyncio.run(inside())


def test_a_wrong_policy_or_space_is_said_before_anything_is_asked() -> None:
    client = openai.AsyncOpenAI(api_key="none", base_url="http://127.0.0.1:9")
    with pytest.raises(PolicyError):
        keff.self_consistency_sync(client, "?", "lead:3", model="m")
    wrong: Any = "numbers"
    with pytest.raises(KeffError, match="numbers"):
        keff.self_consistency_sync(client, "?", space=wrong, model="m")


@dataclass
class Slow:
    """A client of somebody else's: right answers come late, and none in the order of asking."""

    texts: list[str]
    late: str
    delay: float = 0.004
    asked: int = 0
    running: int = 0
    most: int = 0
    broken_off: int = 0
    chat: Any = field(init=False)

    def __post_init__(self) -> None:
        self.chat = self
        self.completions = self

    async def create(self, **_: Any) -> openai.types.chat.ChatCompletion:
        index, self.asked = self.asked, self.asked + 1
        text, self.running = self.texts[index], self.running + 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.delay * (text == self.late) + 0.001 * (7 - index % 8))
        except asyncio.CancelledError:
            self.broken_off += 1
            raise
        finally:
            self.running -= 1
        message = {"role": "assistant", "content": text or None}
        return openai.types.chat.ChatCompletion.model_validate(
            {
                "id": f"x{index}",
                "created": 0,
                "model": "m",
                "object": "chat.completion",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            }
        )


@pytest.mark.parametrize(
    "spec", ["fixed:5", "lead_k:2,cap=12", "budget:3,cap=12", "esc:3,cap=12", "curtailed:cap=12"]
)
@pytest.mark.filterwarnings("ignore:in_flight is a key of the policy:DeprecationWarning")
@pytest.mark.parametrize("in_flight", [1, 4, 12])
def test_votes_count_in_launch_order_whatever_comes_first(spec: str, in_flight: int) -> None:
    policy, rng = parse_policy(spec), np.random.default_rng(5)
    for _ in range(4):
        texts = rng.choice(["1", "2", "3", ""], 12, p=[0.5, 0.2, 0.2, 0.1]).tolist()
        client = Slow(texts, late="1")
        found = keff.self_consistency_sync(client, "?", policy, in_flight=in_flight, model="m")
        keys = [text or None for text in texts]
        *_, (paths, stop) = decisions(policy, keys, [])
        assert isinstance(stop, Stop)
        assert list(found.keys) == keys[:paths]
        assert (found.verdict.answer, found.verdict.weight, found.verdict.reason) == (
            stop.answer,
            stop.weight,
            stop.reason,
        )
        assert found.verdict.abstentions == keys[:paths].count(None)
        # While an early path is late, others are begun in the places of those that ended.
        assert client.asked <= policy.cap
        assert in_flight == 1 or client.most <= in_flight


@pytest.mark.filterwarnings("ignore:in_flight is a key of the policy:DeprecationWarning")
def test_what_is_in_flight_when_the_vote_ends_is_broken_off() -> None:
    client = Slow(["1"] * 2 + ["2"] * 10, late="2", delay=60)
    keff.self_consistency_sync(client, "?", "lead_k:2,cap=12", in_flight=12, model="m")
    assert client.asked == 12
    assert client.broken_off == 10


def test_answers_are_voted_on_by_what_they_mean() -> None:
    found = keff.vote(["42", "41", "42.0", None, "no number"], space="numeric")
    assert (found.answer, found.weight, found.paths, found.abstentions) == ("42", pytest.approx(2 / 3), 5, 2)
    tied = keff.vote(["b", "a"])
    assert (tied.answer, tied.reason) == ("b", "a tie, the first seen wins")
    assert keff.vote(["(B)", "b", "A"], space="choice").answer == "B"
    assert keff.vote([None]).answer is None
    assert keff.vote([]).paths == 0
    with pytest.raises(UsageError, match="a list of answers"):
        keff.vote("42")
