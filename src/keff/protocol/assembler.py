"""Assembly of streamed chat chunks into the response the server would have sent whole; pure."""

from __future__ import annotations

from collections import Counter

from keff.errors import EngineError
from keff.narrow import Fields, entries, fields, items
from keff.protocol.reply import RepeatedError, reasoning_of
from keff.protocol.values import DONE, Events, Object, data_of, decoded, text_of, words

# More calls of tools in one message are an error of the server.
MOST_CALLS = 256


class Assembler:
    """Builds a whole chat response from its stream."""

    def __init__(self) -> None:
        self._events = Events()
        self._choices: dict[int, Object] = {}
        self._ends: Counter[int] = Counter()
        self._head: Object = {}
        self._usage: object = None

    def feed(self, part: bytes) -> list[Object]:
        """Add bytes and return the chunks they complete; raises ValueError for invalid JSON."""
        data = (data_of(event) for event in self._events.feed(part))
        chunks = [fields(decoded(said)) for said in data if said and said != DONE]
        for chunk in chunks:
            self.take(chunk)
        return chunks

    def take(self, chunk: Fields) -> None:
        """Add one chunk; raises EngineError for one without a path."""
        # Azure begins with a chunk that names nothing.
        if not self._head.get("id"):
            self._head |= {name: value for name, value in chunk.items() if name != "choices"}
        if error := chunk.get("error"):
            self._head["error"] = error
        self._usage = chunk.get("usage") or self._usage
        for part in entries(chunk.get("choices")):
            index = part.get("index", 0)
            if not isinstance(index, int):
                raise EngineError("the server's stream has a malformed choice")
            empty: Object = {"message": {"role": "assistant", "content": ""}, "logprobs": None}
            choice = self._choices.setdefault(index, {"index": index, **empty, "finish_reason": None})
            self._ends[index] += part.get("finish_reason") is not None
            _add_delta(choice, part)

    def response(self) -> Object:
        """Return the whole response; raises EngineError when a path is incomplete.

        A choice that ends twice is two paths mixed into one: RepeatedError.
        """
        if not self._head.get("error") and not all(self._ends[index] for index in self._choices):
            raise EngineError("the server closed the connection in the middle of a path")
        if max(self._ends.values(), default=0) > 1:
            raise RepeatedError("the server's stream ends a choice twice")
        return {**self._head, "choices": list(self._choices.values()), "usage": self._usage}


# Of a message, what comes bit by bit; all else is taken as it is said.
PIECES = frozenset({"content", "reasoning_content", "reasoning", "refusal", "tool_calls"})


def _add_delta(choice: Object, part: Fields) -> None:
    delta = fields(part.get("delta"))
    message = fields(choice["message"])
    for name, value in (
        ("content", text_of(delta.get("content"))),
        ("reasoning_content", reasoning_of(delta)),
        ("refusal", words(delta.get("refusal"))),
    ):
        if value:
            message[name] = text_of(message.get(name)) + value
    for name in delta.keys() - PIECES:
        message[name] = delta[name] or message.get(name)
    for call in entries(delta.get("tool_calls")):
        _add_call(message, call)
    if tokens := entries(fields(part.get("logprobs")).get("content")):
        choice["logprobs"] = choice["logprobs"] or {"content": []}
        # In place: a path of many thousand tokens has as many chunks.
        items(fields(choice["logprobs"])["content"]).extend(tokens)
    choice["finish_reason"] = part.get("finish_reason") or choice["finish_reason"]


def _add_call(message: Object, part: Fields) -> None:
    """Add a fragment of a tool call: the name once, arguments piece by piece."""
    calls = entries(message.setdefault("tool_calls", []))
    place = part.get("index", 0)
    while isinstance(place, int) and len(calls) <= place < MOST_CALLS:
        calls.append({"type": "function", "function": {"name": "", "arguments": ""}})
    if not isinstance(place, int) or not 0 <= place < len(calls):
        raise EngineError("the server's stream has a malformed tool call")
    message |= {"content": message["content"] or None, "tool_calls": calls}
    call, function, more = calls[place], fields(calls[place].get("function")), fields(part.get("function"))
    call |= {name: part[name] for name in ("id", "type") if part.get(name)}
    for name in ("name", "arguments"):
        function[name] = text_of(function.get(name)) + (words(more.get(name)) or "")
    call["function"] = function
