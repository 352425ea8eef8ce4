"""Put the chunks of a streamed response together, into what comes without streaming; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from keff.errors import EngineError
from keff.narrow import entries, fields, items
from keff.protocol.reply import RepeatedError
from keff.protocol.tokens import reasoning_of
from keff.protocol.values import Object, text_of, words


class Assembler:
    """Takes chunks and gives the response."""

    def __init__(self) -> None:
        self._choices: dict[int, Object] = {}
        self._ends: Counter[int] = Counter()
        self._usage: object = None
        self._error: object = None

    def take(self, chunk: Mapping[str, object]) -> None:
        """Add one chunk; raises EngineError for one that belongs to no path."""
        self._error = chunk.get("error") or self._error
        self._usage = chunk.get("usage") or self._usage
        for part in entries(chunk.get("choices")):
            index = part.get("index", 0)
            if not isinstance(index, int):
                raise EngineError("the server's stream has a malformed choice")
            empty: Object = {"message": {"content": ""}, "logprobs": {"content": []}}
            choice = self._choices.setdefault(index, {"index": index, **empty, "finish_reason": None})
            self._ends[index] += part.get("finish_reason") is not None
            _add_delta(choice, part)

    def response(self) -> Object:
        """Return the whole response; raises EngineError when it broke off before a path's end.

        A choice that ends twice is two paths mixed into one: RepeatedError.
        """
        if self._error is None and not all(self._ends[index] for index in self._choices):
            raise EngineError("the server closed the connection in the middle of a path")
        if max(self._ends.values(), default=0) > 1:
            raise RepeatedError("the server's stream ends a choice twice")
        return {"choices": list(self._choices.values()), "usage": self._usage, "error": self._error}


def _add_delta(choice: Object, part: Mapping[str, object]) -> None:
    delta = fields(part.get("delta"))
    message = fields(choice["message"])
    for name, value in (
        ("content", text_of(delta.get("content"))),
        ("reasoning_content", reasoning_of(delta)),
        ("refusal", words(delta.get("refusal"))),
    ):
        if value:
            message[name] = text_of(message.get(name)) + value
    # In place: a path of many thousand tokens has as many chunks.
    items(fields(choice["logprobs"])["content"]).extend(entries(fields(part.get("logprobs")).get("content")))
    choice["finish_reason"] = part.get("finish_reason") or choice["finish_reason"]
