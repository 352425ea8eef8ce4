"""A gateway without a plan: the answer found per request, and what is not worth a vote costs one path."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fault_server import Script
from gateway_rig import QUESTION, Options, Rig, gateway
from keff.errors import PlanError, UsageError
from keff.gateway.vote.kinds import KindReader, asked, kind_of
from raw_server import answer as body_of
from raw_server import http, raw_server

Serve = Callable[..., Rig]

CONTRACT = [{"role": "user", "content": 'What is 6 times 7? End with a line "Final answer: <number>".'}]
POEM = "Two roads diverged in a yellow wood,\nand 2 travellers I could not be,\nlong I stood."


def says(*answers: str) -> Callable[[list[dict[str, Any]], int], str]:
    """Return a script's answers by seed."""
    return lambda _, seed: answers[seed % len(answers)]


def ask(rig: Rig, messages: Any = QUESTION, **more: Any) -> dict[str, Any]:
    reply = rig.post({"model": "any", "messages": messages, "seed": 0, **more})
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize(
    ("answers", "winner"),
    [
        (("Final answer: 41", "So #### 42", "The answer is 42.", "**Answer:** 42", "\\boxed{42}"), "42"),
        (("Final answer: B", "The answer is (A).", "Final answer: A", "Answer: A", "\\boxed{A}"), "A"),
        (("The answer is no.", "Final answer: Yes", "**Answer:** yes", "Answer: Yes.", "Answer: yes"), "yes"),
        (
            (
                "Final answer: Rome",
                "The answer is **Paris**.",
                "Final answer: paris",
                "Answer: Paris",
                "\\boxed{Paris}",
            ),
            "paris",
        ),
        (("3 May 1990", "4 May 1990", "4 May 1990", "4 May 1990", "4 May 1990"), "4 may 1990"),
        (
            ('{"a":1}', '{"b": 1.0,\n "a": 2}', '{"a": 2, "b": 1}', '```json\n{"b":1,"a":2}\n```') * 2,
            '{"a":2,"b":1}',
        ),
    ],
)
def test_each_request_is_voted_in_the_space_that_reads_its_paths(
    serve: Serve, answers: tuple[str, ...], winner: str
) -> None:
    script = Script(answer=says(*answers))
    told = ask(serve(script, planless=True))["keff"]
    assert told["answer"] == winner
    assert told["votes"][winner] - max([0, *(n for key, n in told["votes"].items() if key != winner)]) == 3
    assert (told["policy"], told["stop"]) == ("lead_k:3", "policy")
    assert len(script.requests) == told["paths"]


@pytest.mark.parametrize("text", [POEM, "Hello! How can I help you today?", "1. First\n2. Then\n\nDone."])
@pytest.mark.parametrize("stream", [False, True])
def test_free_text_passes_through_after_one_path(serve: Serve, text: str, stream: bool) -> None:
    script = Script(answer=says(text))
    rig = serve(script, planless=True)
    messages = [{"role": "user", "content": "Write something."}]
    if stream:
        chunks = list(rig.client().chat.completions.create(model="x", messages=messages, stream=True))  # type: ignore[call-overload]
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    else:
        reply = ask(rig, messages)
        assert reply["choices"][0]["message"]["content"] == text
        assert (reply["keff"]["stop"], reply["keff"]["paths"]) == ("free_text", 1)
    assert len(script.requests) == 1


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_request_too_short_for_an_answer_gets_one_path(serve: Serve, name: str) -> None:
    script = Script(answer=says("42"))
    rig = serve(script, planless=True)
    for length in (1, 16):
        assert ask(rig, **{name: length})["keff"]["paths"] == 1
    assert len(script.requests) == 2
    assert ask(rig, **{name: 17})["keff"]["paths"] == 3
    assert ask(rig, **{name: 1}, keff={"k": 2})["keff"]["paths"] == 2


def test_the_first_round_waits_for_its_first_path_only_where_the_prompt_asks_for_nothing(
    serve: Serve,
) -> None:
    script = Script(answer=says("Final answer: 42"), latency=0.1)
    rig = serve(script, planless=True)
    ask(rig, CONTRACT)
    assert script.most == 3
    script.most = 0
    ask(rig, [{"role": "user", "content": "6 times 7?"}])
    assert script.most == 2


def test_paths_that_were_cut_do_not_keep_a_free_text_going() -> None:
    body = body_of("Once upon a time there was")
    body["choices"][0]["finish_reason"] = "length"
    raw = json.dumps(body).encode()
    asked_for: list[Any] = []

    def give(_: int, body: dict[str, Any]) -> list[bytes]:
        asked_for.append(body)
        return http(raw)

    with raw_server(give) as url, gateway(url, planless=True) as rig:
        assert ask(rig, CONTRACT)["keff"]["stop"] == "free_text"
    assert len(asked_for) == 3


def test_the_policy_and_its_cap_are_the_operator_s(serve: Serve) -> None:
    rig = serve(Script(answer=says("1", "2", "3", "4")), planless=True, policy="fixed:4")
    assert ask(rig)["keff"]["paths"] == 4
    rig = serve(Script(answer=lambda _, seed: f"{seed}"), planless=True, policy="lead_k:3,cap=5")
    assert ask(rig)["keff"]["paths"] == 5


def test_a_plan_is_served_as_before(serve: Serve) -> None:
    script = Script(answer=says("The answer is 7."))
    assert ask(serve(script), max_tokens=1)["keff"]["paths"] == 3


def test_what_needs_a_plan_is_refused_without() -> None:
    for options in (Options(strict=True), Options(append_answer_format=True)):
        with (
            pytest.raises(UsageError, match="--plan"),
            gateway("http://127.0.0.1:9", planless=True, options=options),
        ):
            pass
    with (
        pytest.raises(PlanError, match="policy"),
        gateway("http://127.0.0.1:9", planless=True, policy="no:1"),
    ):
        pass


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"id": "x", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def path(text: str | None = None, *calls: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    message = {"role": "assistant", "content": text} | ({"tool_calls": list(calls)} if calls else {})
    return {"message": message, "finish_reason": finish}


TOOLS = asked({"messages": QUESTION, "tools": [{"type": "function"}]})


def test_tool_calls_vote_by_value_and_a_text_votes_for_no_call() -> None:
    reader = KindReader(frozenset({"when"}))
    one = reader.read(path(None, call("f", {"a": 1, "when": 5}), call("g", {})), TOOLS).readings
    two = reader.read(path(None, call("g", {}), call("f", {"when": 6, "a": 1.0})), TOOLS).readings
    assert one == two
    assert one != reader.read(path(None, call("f", {"a": 2}), call("g", {})), TOOLS).readings
    text = reader.read(path("I cannot tell without knowing where you are, so please say."), TOOLS).readings
    assert kind_of([one, text, text]) == "tool"
    assert kind_of([text, text]) is None


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("42", {"numeric", "text"}),
        ("It is 42 dollars in all.", {"numeric"}),
        (
            "<think>The answer is 7</think>A long story about 7 dwarfs who lived in the woods for 3 years.",
            set(),
        ),
        ("Final answer: Windows 11", {"text"}),
        ("Final answer: 3 May 1990", {"text"}),
        ("Final answer: 1/2", {"numeric", "text"}),
        ("Certainly! Here is a long letter to your landlord about the rent.", set()),
        ("Paris", {"text"}),
        ("Are you there?", set()),
        ("Final answer: no", {"binary", "text"}),
        ("", set()),
    ],
)
def test_kinds_of_a_text(text: str, kinds: set[str]) -> None:
    assert set(KindReader().read(path(text), asked({"messages": QUESTION})).readings) == kinds


def test_a_prompt_says_what_it_asks_for() -> None:
    def of(text: str, **more: Any) -> Any:
        return asked({"messages": [{"role": "user", "content": text}], **more})

    assert of("How many apples are left?").kinds == {"numeric"}
    assert of("True or false: ice floats.").kinds == {"binary"}
    assert of("Which one?\nA) Rome\nB) Paris").kinds == {"choice"}
    assert of("Put the result in \\boxed{}.").contract
    assert of("x", response_format={"type": "json_schema"}).as_json
    assert not of("Write me a poem about the sea.").known


def test_options_beyond_e_are_read_where_the_prompt_lists_them() -> None:
    listed = "Which?\n" + "\n".join(f"{letter}. this" for letter in "ABCDEFGHIJ")
    about = asked({"messages": [{"role": "user", "content": listed}]})
    reader = KindReader()
    assert reader.read(path("The answer is (H)."), about).readings["choice"] == "H"
    assert kind_of([reader.read(path(text), about).readings for text in ("A", "H", "J")]) == "choice"
    plain = asked({"messages": [{"role": "user", "content": "Which?\nA. this\nB. that"}]})
    assert "choice" not in reader.read(path("I cannot say."), plain).readings
    assert "choice" not in reader.read(path("The answer is (H)."), plain).readings
