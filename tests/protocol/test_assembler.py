"""Streams are put together as the server would have sent the reply whole: by a generator of dialects.

The message is drawn first; how it is cut into chunks, what is repeated and how the stream ends are drawn
after it. Where a stream keeps to OpenAI's own form, the official client's accumulator is asked as well.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from keff.errors import EngineError
from keff.protocol.assembler import SILENT, Assembler, StreamEnds
from keff.protocol.reply import RepeatedError, choices_of, finish_reason

NAMES = ("get_weather", "search", "f", "aa", "report_total")
WORDS = ("ha", "ha", " so ", "7", "{", "é", "💡", "\n", "na", '"', "\\")


def words(rng: random.Random, most: int = 9) -> str:
    return "".join(rng.choices(WORDS, k=rng.randrange(1, most)))


def cut(rng: random.Random, text: str) -> list[str]:
    """Return a text in pieces; some of them empty."""
    places = sorted(rng.choices(range(len(text) + 1), k=rng.randrange(4)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def calls(rng: random.Random, number: int) -> list[dict[str, Any]]:
    """Return tool calls with different ids."""
    return [
        {
            "id": f"call_{place}",
            "type": "function",
            "function": {
                "name": rng.choice(NAMES),
                "arguments": json.dumps({"city": words(rng), "n": rng.randrange(99)}),
            },
        }
        for place in range(number)
    ]


def message_of(rng: random.Random, plain: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": words(rng)}
    if rng.random() < 0.4:
        message[rng.choice(("reasoning", "reasoning_content"))] = words(rng)
    if rng.random() < 0.6:
        message["tool_calls"] = calls(rng, rng.randrange(1, 4))
    if rng.random() < 0.3:
        message["audio"] = {"id": "audio_1", "data": "AAAA" * rng.randrange(1, 4), "transcript": words(rng)}
    if plain:
        return message
    if rng.random() < 0.5:
        message["reasoning_details"] = [
            {"type": "reasoning.text", "format": "some-v1", "index": place, "text": words(rng)}
            for place in range(rng.randrange(1, 3))
        ]
    if rng.random() < 0.5:
        message["extra_content"] = {"google": {"thought_signature": words(rng), "n": 1}}
    if rng.random() < 0.5:
        message["annotations"] = [{"type": "url_citation", "url_citation": {"url": words(rng)}} for _ in "ab"]
    return message


def deltas(rng: random.Random, message: dict[str, Any], plain: bool) -> Iterator[dict[str, Any]]:
    """Yield the deltas of a message; not ``plain``: in a dialect that the official client misreads."""
    repeats = not plain and rng.random() < 0.5
    yield {"role": "assistant", "content": ""}
    for name in sorted(message.keys() & {"reasoning", "reasoning_content", "content"}):
        for piece in cut(rng, message[name]):
            yield {name: piece} | ({"role": "assistant"} if repeats else {})
    if audio := message.get("audio"):
        yield {"audio": {"id": audio["id"]}}
        yield from ({"audio": {"transcript": piece}} for piece in cut(rng, audio["transcript"]))
        for place in range(0, len(audio["data"]), 4):
            data = audio["data"][place : place + 4]
            yield {"audio": {"data": data} | ({"id": "audio_1"} if repeats else {})}
    for detail in message.get("reasoning_details", ()):
        for piece in cut(rng, detail["text"]):
            yield {"reasoning_details": [detail | {"text": piece}]}
    for annotation in message.get("annotations", ()):
        yield {"annotations": [annotation]}
    if "extra_content" in message:
        yield {"extra_content": message["extra_content"]}
    yield from call_deltas(rng, message.get("tool_calls", ()), plain, repeats)


def call_deltas(
    rng: random.Random, calls: Iterable[dict[str, Any]], plain: bool, repeats: bool
) -> Iterator[dict[str, Any]]:
    one_index, ids_of_pieces = (not plain and rng.random() < 0.5 for _ in range(2))
    for place, call in enumerate(calls):
        index = 0 if one_index else place
        said = call["function"]
        yield {"tool_calls": [call | {"index": index, "function": {"name": said["name"], "arguments": ""}}]}
        for number, piece in enumerate(cut(rng, said["arguments"])):
            part: dict[str, Any] = {"index": index, "function": {"arguments": piece}}
            if repeats:
                part["function"]["name"] = said["name"]
                part["id"] = call["id"]
            elif ids_of_pieces and piece:
                part["id"] = f"piece_{place}_{number}"
            yield {"tool_calls": [part]}


def events(rng: random.Random, message: dict[str, Any], plain: bool, finish: str) -> bytes:
    """Return a message as the bytes of a stream, with an end in one of many forms."""
    ends = ("own",) if plain else ("own", "twice", "done", "usage", "no gap", "empty", "null", "with text")
    end = rng.choice(ends)
    unsaid = {"empty": "", "null": "null"}.get(end)
    chunks = [(delta, unsaid) for delta in deltas(rng, message, plain)]
    if end == "with text":
        chunks[-1] = (chunks[-1][0], finish)
    elif end not in ("done", "usage"):
        chunks += [({}, finish)] * (2 if end == "twice" else 1)
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    lines = [
        json.dumps({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
        for delta, reason in chunks
    ]
    lines.append(json.dumps({**head, "choices": [], "usage": USAGE}))
    if not plain and rng.random() < 0.5:
        lines = with_usage_elsewhere(rng, lines[:-1], last=end == "usage")
    if end != "usage":
        lines.append("[DONE]")
    if plain:
        return "".join(f"data: {line}\n\n" for line in lines).encode()
    index, mark = OWN_INDEX[:-1] + rng.choice(("0", "null", '"0"')), rng.choice(("", "\ufeff"))
    gap = rng.choice(("\n\n", "\r\n\r\n", "\n\r\n", "\r\r"))
    said = mark + "".join(f"data: {line.replace(OWN_INDEX, index)}{gap}" for line in lines)
    return (said.rstrip() if end == "no gap" else said).encode()


OWN_INDEX = '"choices": [{"index": 0'
USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def with_usage_elsewhere(rng: random.Random, lines: list[str], *, last: bool) -> list[str]:
    """Return chunks of which the first, the last or several state the usage; ``last``: it ends the stream."""
    chunks = [json.loads(line) for line in lines]
    where = "parts" if last else rng.choice(("first", "group", "choice", "running", "parts", "zeros"))
    if where == "group":
        chunks[-1]["x_groq"] = {"usage": USAGE}
    elif where == "choice":
        chunks[-1]["choices"][0]["usage"] = USAGE
    else:
        chunks[0]["usage"] = USAGE
    if where == "running":
        for chunk in chunks[:-1]:
            chunk["usage"] = USAGE | {"completion_tokens": 1, "total_tokens": 4}
        chunks[-1]["usage"] = USAGE
    elif where == "parts":
        chunks[0]["usage"] = {"prompt_tokens": 3, "completion_tokens": 0}
        chunks.append({"choices": [], "usage": {"completion_tokens": 4, "total_tokens": 7}})
    elif where == "zeros":
        chunks.append({"choices": [], "usage": dict.fromkeys(USAGE, 0)})
    return [json.dumps(chunk) for chunk in chunks]


def assembled(rng: random.Random, raw: bytes) -> dict[str, Any]:
    parts = Assembler()
    while raw:
        size = rng.randrange(1, 80)
        parts.feed(raw[:size])
        raw = raw[size:]
    return dict(parts.response())


def by_the_official_client(raw: bytes) -> dict[str, Any]:
    state: Any = ChatCompletionStreamState()
    for event in raw.decode().split("\n\n"):
        if event and (said := event.removeprefix("data: ")) != "[DONE]":
            state.handle_chunk(ChatCompletionChunk.model_validate_json(said))
    message = state.current_completion_snapshot.choices[0].message
    return message.model_dump(exclude_none=True)  # type: ignore[no-any-return]


def without_index(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without what the official client adds to it."""
    named = {name: value for name, value in message.items() if name != "parsed"}
    if "tool_calls" in named:
        kept = [dict(call, function=dict(call["function"])) for call in named["tool_calls"]]
        for call in kept:
            call.pop("index", None)
            call["function"].pop("parsed_arguments", None)
        named["tool_calls"] = kept
    return named


@pytest.mark.parametrize("seed", range(60))
def test_a_plain_stream_is_what_the_official_client_makes_of_it(seed: int) -> None:
    rng = random.Random(seed)
    message = message_of(rng, plain=True)
    raw = events(rng, message, plain=True, finish="stop")
    made = assembled(rng, raw)["choices"][0]["message"]
    assert made == message
    assert made == without_index(by_the_official_client(raw))


@pytest.mark.parametrize("seed", range(200))
def test_a_stream_in_any_dialect_is_the_message_that_was_cut(seed: int) -> None:
    rng = random.Random(seed)
    message = message_of(rng, plain=False)
    finish = "tool_calls" if "tool_calls" in message else "stop"
    whole = assembled(rng, events(rng, message, plain=False, finish=finish))
    (choice,) = choices_of(whole)
    assert choice["message"] == message
    assert finish_reason(choice["finish_reason"]) in (finish, "stop")
    assert whole["usage"] == USAGE
    assert (whole["id"], whole["model"]) == ("c1", "m")


@pytest.mark.parametrize("ids", [("", ""), (None, None)])
def test_calls_without_ids_are_divided_by_complete_arguments(ids: tuple[Any, Any]) -> None:
    parts = Assembler()
    for call_id, city in zip(ids, ("Paris", "Rome"), strict=True):
        function = {"name": "weather", "arguments": json.dumps({"city": city})}
        call = {"index": 0, "id": call_id, "type": "function", "function": function}
        parts.take({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    parts.take({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    made = choices_of(parts.response())[0]["message"]["tool_calls"]  # type: ignore[index]
    assert [json.loads(call["function"]["arguments"])["city"] for call in made] == ["Paris", "Rome"]


@pytest.mark.parametrize("cut", range(1, 8))
@pytest.mark.parametrize("ids", [(None, None), ("a", "b")])
def test_names_that_are_cut_are_joined_without_an_index(cut: int, ids: tuple[Any, Any]) -> None:
    """Of two calls, each a name in two pieces and then its arguments, in pieces or none."""
    parts, drawn = Assembler(), [("get_weather", "{}"), ("get_time", '{"zone": {"name": "UTC"}}')]
    for call_id, (name, arguments) in zip(ids, drawn, strict=True):
        said = [{"name": name[:cut]}, {"name": name[cut:], "arguments": ""}, {"arguments": arguments[:cut]}]
        for place, function in enumerate([*said, {"arguments": arguments[cut:]}]):
            call = {"function": function} | ({"id": call_id} if call_id and not place else {})
            parts.take({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    parts.take({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    made = choices_of(parts.response())[0]["message"]["tool_calls"]  # type: ignore[index]
    assert [(call["function"]["name"], call["function"]["arguments"]) for call in made] == drawn


@pytest.mark.parametrize("reason", [None, "", "null", "None"])
@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 3}])
def test_a_stream_that_just_ends_is_cut_off(reason: str | None, usage: Any) -> None:
    """Though it began by its usage."""
    parts = Assembler()
    parts.take({"choices": [], "usage": usage})
    parts.take({"choices": [{"index": 0, "delta": {"content": "The answer is 4"}, "finish_reason": reason}]})
    with pytest.raises(EngineError, match="in the middle of a path"):
        parts.response({"transfer-encoding": "chunked"})


@pytest.mark.parametrize(
    ("headers", "said_before", "cut"),
    [
        ({"content-length": "9"}, False, True),
        ({}, False, False),
        ({"transfer-encoding": "chunked"}, True, False),
    ],
)
def test_a_server_that_never_says_the_end_gives_paths_of_unknown_end(
    headers: dict[str, Any], said_before: bool, cut: bool
) -> None:
    ends, made = StreamEnds(), list[str]()
    for number in range(SILENT + 5):
        parts = Assembler(ends=ends)
        reason = "stop" if said_before and not number else None
        parts.take({"choices": [{"index": 0, "delta": {"content": "4"}, "finish_reason": reason}]})
        try:
            made.append(finish_reason(choices_of(parts.response(headers))[0]["finish_reason"]))
        except EngineError:
            made.append("fault")
    assert made == (
        [("stop" if said_before else "fault")] + ["fault"] * (SILENT - 1) + ["length" if cut else "fault"] * 5
    )


def test_a_choice_that_does_not_end_beside_one_that_does_is_a_fault_of_its_own() -> None:
    parts = Assembler(2)
    for index, reason in ((0, "stop"), (1, None)):
        parts.take({"choices": [{"index": index, "delta": {"content": str(index)}, "finish_reason": reason}]})
    parts.feed(b"data: [DONE]\n\n")
    assert [choice["index"] for choice in choices_of(parts.response())] == [0]


def test_two_paths_under_one_index_are_no_path() -> None:
    parts = Assembler(2)
    for _ in range(2):
        parts.take({"choices": [{"index": 0, "delta": {"content": "4"}, "finish_reason": "stop"}]})
    with pytest.raises(RepeatedError):
        parts.response()
