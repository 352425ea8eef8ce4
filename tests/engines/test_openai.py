"""The openai engine against a server that fails in every way we know, and against a real one."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fault_server import FAULTS, Script
from keff.engines import _transport
from keff.engines.openai import OpenAI, engine
from keff.errors import EngineError
from keff.records import Completion, Logprobs, Sampling
from openai_rig import PROMPT, SAMPLING, Serve, all_of, ask, once, texts, using
from real_server import real_base_url


@pytest.mark.parametrize("stream", [False, True])
def test_paths_of_one_request(serve: Serve, stream: bool) -> None:
    script = Script()
    drawn = ask(engine(base_url=serve(script), stream=stream))
    assert [one.text for one in drawn] == texts()
    first = drawn[0]
    assert (first.tokens, first.prompt_tokens, first.cached_tokens, first.finish) == (9, 7, 3, "stop")
    assert first.logprobs == Logprobs(pytest.approx(-0.5), pytest.approx(-0.9), pytest.approx(-4.5))
    (body,) = script.requests
    assert (body["n"], body["seed"], body["model"], body["max_tokens"]) == (3, 5, "stub", 64)
    assert script.headers[0]["user-agent"].startswith("keff/")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "hang"])
def test_every_fault_ends_in_right_paths_or_a_transient_error(serve: Serve, fault: str, stream: bool) -> None:
    """What is returned is never wrong, and asking again after the error works."""
    made = engine(base_url=serve(Script(fault=once(fault))), stream=stream)

    async def twice(e: OpenAI) -> list[Completion]:
        try:
            return await all_of(e, 3)
        except EngineError as error:
            assert error.transient
            assert str(error).count("http://127.0.0.1") == 1
            assert "\n" not in str(error)
            return await all_of(e, 3)

    drawn = using(made, twice)
    assert [one.text for one in drawn] == texts()
    assert [one.tokens for one in drawn] == [9, 9, 9]


def test_faults_that_the_client_itself_retries(serve: Serve) -> None:
    for fault in ("429", "500", "reset"):
        script = Script(fault=once(fault))
        assert [one.text for one in ask(engine(base_url=serve(script)))] == texts()
        assert len(script.requests) == 2


def test_a_hanging_server_times_out(serve: Serve) -> None:
    made = engine(base_url=serve(Script(fault=once("hang"))), timeout=0.3, max_retries=0)
    with pytest.raises(EngineError, match=r"no answer within 0\.3 s") as caught:
        ask(made)
    assert caught.value.transient


@pytest.mark.parametrize("stream", [False, True])
def test_cancelling_closes_the_connection(serve: Serve, stream: bool) -> None:
    script = Script(latency=30)

    async def cancel(e: OpenAI) -> None:
        request = asyncio.ensure_future(e.generate(PROMPT, SAMPLING, 2))
        while not script.requests:  # noqa: ASYNC110 (filled by another thread)
            await asyncio.sleep(0.01)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    using(engine(base_url=serve(script), stream=stream), cancel)
    deadline = time.monotonic() + 10
    while not script.gone and time.monotonic() < deadline:
        time.sleep(0.01)
    assert script.gone == 1


def test_a_server_with_a_smaller_n_is_learnt_once(serve: Serve) -> None:
    """n=8 is refused, then n=4.

    What worked is remembered. After a refusal one path tells whether it was n.
    """
    script = Script(max_n=2)

    async def work(e: OpenAI) -> list[list[str]]:
        drawn = [await all_of(e, 8) for _ in range(2)]
        assert e.capabilities.max_n == 2
        return [[one.text for one in paths] for paths in drawn]

    assert using(engine(base_url=serve(script)), work) == [texts(8), texts(8)]
    assert [body.get("n", 1) for body in script.requests] == [8, 1, 4, 1, 2, 2, 2, 2, 2, 2, 2]


def test_a_server_that_ignores_n(serve: Serve) -> None:
    """Each path is drawn once, with its own seed."""
    script = Script(fault=lambda _, body: "wrong_n" if body.get("n") == 2 else None)
    drawn = ask(engine(base_url=serve(script)), 2)
    assert [one.text for one in drawn] == texts(2)
    assert [body["seed"] for body in script.requests] == [5, 6]


def test_one_odd_answer_does_not_change_the_requests_after_it(serve: Serve) -> None:
    """Too few paths, or one twice, may be a passing fault; three times in a row is how the server is."""
    for fault in ("wrong_n", "duplicated"):
        odd = {0, 4}

        def passing(number: int, body: dict[str, Any], odd: set[int] = odd, fault: str = fault) -> str | None:
            return fault if number in odd and body.get("n", 1) > 1 else None

        async def work(e: OpenAI) -> int:
            for _ in range(5):
                drawn = await all_of(e, 4)
                assert [one.text for one in drawn] == texts(4)
            return e.capabilities.max_n

        made = engine(base_url=serve(Script(fault=passing)))
        assert using(made, work) == made.capabilities.max_n == 8

        always = Script(fault=lambda _, body, fault=fault: fault if body.get("n", 1) > 1 else None)
        with pytest.warns(UserWarning, match="bills the prompt with every path"):
            assert using(engine(base_url=serve(always)), work) == 1
            assert [body.get("n", 1) for body in always.requests[-4:]] == [1] * 4


def test_a_host_that_drops_packets_is_noticed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full backlog drops new connections, as a firewall does; the long patience is for answers only."""
    monkeypatch.setattr(_transport, "CONNECT", 0.2)
    with ExitStack() as stack:
        deaf = stack.enter_context(socket.socket())
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(3):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(deaf.getsockname())
        with pytest.raises(EngineError, match="nothing there answers"):
            asyncio.run(engine(base_url=f"http://127.0.0.1:{deaf.getsockname()[1]}", timeout=600).start())


def test_too_many_choices_are_left_out(serve: Serve) -> None:
    drawn = ask(engine(base_url=serve(Script(fault=once("too_many")))))
    assert [one.text for one in drawn] == texts()


def test_without_logprobs_each_path_is_its_own_request(serve: Serve) -> None:
    """The tokens of several paths could only be counted in sum."""
    script = Script(refuses_logprobs=True)
    with (
        pytest.warns(UserWarning, match="bills the prompt with every path"),
        pytest.warns(UserWarning, match="the server gives no log-probabilities: .* ordinary votes"),
    ):
        drawn = ask(engine(base_url=serve(script)))
    assert [(one.text, one.tokens, one.logprobs) for one in drawn] == [(text, 9, None) for text in texts()]
    assert [body.get("n", 1) for body in script.requests[1:]] == [3]
    script = Script(logprobs=False)
    made = engine(base_url=serve(script))
    with (
        pytest.warns(UserWarning, match="bills the prompt with every path"),
        pytest.warns(UserWarning, match="no log-probabilities"),
    ):
        ask(made)
    assert made.capabilities.max_n == 1


def test_shared_requests_without_logprobs_divide_the_usage(serve: Serve) -> None:
    script = Script(answer=lambda _, seed: "word " * (seed - 4))
    drawn = ask(engine(base_url=serve(script), logprobs=False, n_per_request=3))
    assert len(script.requests) == 1
    assert [one.tokens for one in drawn] == [1, 2, 3]


def test_usage_of_the_first_path_only(serve: Serve) -> None:
    """As llama.cpp counts: each path is counted by its log-probabilities."""
    script = Script(first_usage_only=True, answer=lambda _, seed: "word " * (seed - 4))
    assert [one.tokens for one in ask(engine(base_url=serve(script)))] == [1, 2, 3]


@pytest.mark.parametrize("stream", [False, True])
def test_hidden_thinking_is_kept_apart_and_counted(serve: Serve, stream: bool) -> None:
    script = Script(reasoning="let me think about it")
    made = engine(base_url=serve(script), stream=stream)
    drawn = ask(made, 2)
    assert [(one.text, one.reasoning, one.tokens) for one in drawn] == [
        (text, "let me think about it", 14) for text in texts(2)
    ]


def test_refusals_and_filters_are_outcomes(serve: Serve) -> None:
    refusal = ask(engine(base_url=serve(Script(fault=once("refusal")))))[0]
    assert (refusal.text, refusal.refusal) == ("", "I cannot help with that.")
    filtered = ask(engine(base_url=serve(Script(fault=once("filtered")))))[0]
    assert (filtered.text, filtered.finish) == ("", "content_filter")
    assert filtered.refusal
    refused = ask(engine(base_url=serve(Script(fault=lambda *_: "filter_400"))))
    assert [(one.text, one.finish, one.tokens) for one in refused] == [("", "content_filter", 0)] * 3
    truncated = ask(engine(base_url=serve(Script(fault=once("length")))))[0]
    assert truncated.finish == "length"


@pytest.mark.slow
def test_a_real_server_counts_every_path_and_keeps_seeds(smollm2: Path) -> None:
    """Streamed or not, shared or not, the same seeds give the same texts and the same counts."""
    pytest.importorskip("xllamacpp")
    url = real_base_url(smollm2)
    how = Sampling(temperature=0.9, max_tokens=8, seed=3)
    shared = ask(engine(base_url=url), 3, how)
    single = ask(engine(base_url=url, n_per_request=1), 3, how)
    streamed = ask(engine(base_url=url, stream=True), 3, how)
    facts = [(one.text, one.tokens, one.finish, one.prompt_tokens) for one in shared]
    assert facts == [(one.text, one.tokens, one.finish, one.prompt_tokens) for one in single]
    assert facts == [(one.text, one.tokens, one.finish, one.prompt_tokens) for one in streamed]
    assert len({one.text for one in shared}) > 1


def test_a_fall_to_one_path_per_request_says_that_prompts_are_billed_for_each(serve: Serve) -> None:
    made = engine(base_url=serve(Script(max_n=1)))

    async def work(e: OpenAI) -> list[Completion]:
        return await all_of(e, 8)

    with pytest.warns(UserWarning, match="bills the prompt with every path"):
        assert [one.text for one in using(made, work)] == texts(8)
    assert made.capabilities.max_n == 1
