"""Assembly of streamed chat chunks into the response the server would have sent whole; pure.

A field is put together by what its values are: objects member by member, lists by the ``index`` of their
entries (entries without one are appended), texts piece by piece; of anything else the last value counts.
A text that some servers repeat with every piece (``name``, ``format``, a field that keff does not know) is
kept once where all its pieces are equal. No field is left out or renamed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import cast

from keff.errors import EngineError
from keff.narrow import Fields, entries, fields, items
from keff.protocol.reply import RepeatedError, error_in, is_end, is_fault, note_usage
from keff.protocol.values import (
    DONE,
    Events,
    Object,
    data_of,
    decoded,
    index_of,
    is_error_event,
    text_of,
    words,
)

# More calls of tools in one message are an error of the server.
MOST_CALLS = 256

# Texts that always come piece by piece, and texts of which the last one counts.
PIECES = frozenset(
    {"arguments", "content", "data", "input", "reasoning", "reasoning_content", "refusal", "text", "thinking"}
    | {"transcript"}
)
LABELS = frozenset({"format", "id", "object", "role", "status", "type"})
# Of the response's own fields the first value counts: Azure begins with a chunk that names nothing.
FIRST = frozenset({"created", "id", "model"})
# Times that the arguments of a call without an id are read to see whether they are complete.
MOST_CHECKS = 1000


# Streams in a row that just end, without one that says so, after which a server is taken to say nothing.
SILENT = 16


class StreamEnds:
    """How the streams of one server end: most say so; of some servers, none does."""

    def __init__(self) -> None:
        self._says, self._silent = False, 0

    def is_cut(self, headers: Fields, *, says: bool) -> bool:
        """Note how a stream ended; return whether one that just ends is a path of unknown end, not a fault.

        Only where HTTP says that the response is complete.
        """
        self._says, self._silent = self._says or says, self._silent + (not says)
        framed = "content-length" in headers or "transfer-encoding" in headers
        return framed and not self._says and self._silent > SILENT


class PartedList(list[object]):
    """A list that comes in pieces; ``known`` are its entries by their index."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, Object] = {}


class Pieces(list[str]):
    """A text that comes in pieces."""

    def joined(self, name: str) -> str:
        """Return the whole text; once, where a field that may be repeated has equal pieces."""
        repeated = name not in PIECES and len(set(self)) == 1
        return self[0] if repeated else "".join(self)


@dataclass(slots=True)
class _Call:
    """A tool call in progress: its index and id, where it has them, and its fields."""

    index: int | None
    id: str
    told: Object = field(default_factory=Object)

    def so_far(self, name: str) -> str:
        """Return the function's name, or its arguments, so far."""
        said = fields(self.told.get("function")).get(name)
        return said.joined(name) if isinstance(said, Pieces) else ""


@dataclass(slots=True)
class _ChoiceParts:
    """A choice in progress: its message, its tool calls, its other fields, and its reason to finish."""

    message: Object = field(default_factory=Object)
    calls: list[_Call] = field(default_factory=list[_Call])
    rest: Object = field(default_factory=Object)
    finish: object = None


class Assembler:
    """Builds a whole chat response, of ``n`` choices, from its stream."""

    def __init__(self, n: int = 1, ends: StreamEnds | None = None) -> None:
        self._n, self._streams = n, ends or StreamEnds()
        self._events = Events()
        self._choices: dict[int, _ChoiceParts] = {}
        self._ends: Counter[int] = Counter()
        self._head: Object = {}
        self._usage: Object = {}
        self._done = False
        self._checks = 0

    def feed(self, part: bytes) -> list[Object]:
        """Add bytes and return the chunks they complete; raises ValueError for invalid JSON."""
        return [chunk for event in self._events.feed(part) for chunk in self._chunks(event)]

    def _chunks(self, event: bytes) -> list[Object]:
        said = data_of(event).strip()
        if said == DONE:
            self._done = True
        if not said or said == DONE:
            return []
        chunk = fields(decoded(said))
        self.take({"error": error_in(chunk) or chunk} if is_error_event(event) else chunk)
        return [chunk]

    def take(self, chunk: Fields) -> None:
        """Add one chunk; raises EngineError for one without a path."""
        for name, value in chunk.items():
            kept = name in FIRST and self._head.get(name)
            if name not in ("choices", "usage") and not kept and (value or name not in self._head):
                self._head[name] = value
        if (error := error_in(chunk)) is not None:
            self._head["error"] = error
        parts = entries(chunk.get("choices"))
        note_usage(self._usage, chunk)
        # A stream may end by its usage; some servers state the usage so far with every piece.
        if parts or chunk.get("usage"):
            self._done = not parts and bool(self._choices)
        for part in parts:
            index = index_of(part.get("index"), 0)
            if index is None:
                raise EngineError("the server's stream has a malformed choice")
            self._add(self._choices.setdefault(index, _ChoiceParts()), part, index)

    def _add(self, choice: _ChoiceParts, part: Fields, index: int) -> None:
        # Some servers give the message whole, and some of these after it came in pieces.
        spoke = bool(choice.calls) or any(said for name, said in choice.message.items() if name != "role")
        delta = fields(part.get("delta") or (None if spoke else part.get("message")))
        _merge(
            choice.message,
            {name: value for name, value in delta.items() if name != "tool_calls"},
            pieces=True,
        )
        if "tool_calls" in delta and not choice.calls:
            choice.message.setdefault("tool_calls", None)
        named: list[_Call] = []
        for call in entries(delta.get("tool_calls")):
            self._add_call(choice.calls, call, named)
        own = ("index", "delta", "message", "finish_reason")
        rest = {name: value for name, value in part.items() if name not in own}
        _merge(choice.rest, rest, pieces=False)
        reason = part.get("finish_reason")
        if is_end(reason) or part.get("error"):
            self._ends[index] += 1
            if choice.finish is None or is_fault(part):
                choice.finish = reason

    def _add_call(self, calls: list[_Call], part: Fields, named: list[_Call]) -> None:
        """Add a piece of a tool call to the call that it belongs to; ``named`` are those this chunk named."""
        place, call_id = part.get("index"), words(part.get("id")) or ""
        index = None if place is None else index_of(place, 0)
        if place is not None and index is None:
            raise EngineError("the server's stream has a malformed tool call")
        said = fields(part.get("function") or part.get("custom"))
        call = self._call_of(calls, index, call_id, said)
        if call is None or (said.get("name") and any(call is each for each in named)):
            if len(calls) >= MOST_CALLS:
                raise EngineError(f"the server's stream has more than {MOST_CALLS} tool calls")
            call = _Call(index, call_id)
            calls.append(call)
        if said.get("name"):
            named.append(call)
        call.id = call.id or call_id
        told = {name: value for name, value in part.items() if name not in ("index", "id")}
        _merge(call.told, told, pieces=True)

    def _call_of(self, calls: list[_Call], index: int | None, call_id: str, said: Fields) -> _Call | None:
        """Return the call that a piece goes on with; None where it begins one.

        A new id at a used index is a new call, but for servers that give every piece of the arguments an id.
        Without an id a name after complete arguments begins a new call, with arguments of its own or another
        name.
        """
        same = [call for call in calls if index is None or call.index == index]
        if call_id and (known := next((call for call in same if call.id == call_id), None)):
            return known
        if not same:
            return None
        last = same[-1]
        if not said.get("name"):
            # Arguments alone, under whatever id; an id alone is the head of a call.
            return last if said.get("arguments") or not (call_id and last.id) else None
        if call_id and last.id:
            return None
        return None if self._is_complete(last, said) else last

    def _is_complete(self, call: _Call, said: Fields) -> bool:
        self._checks += 1
        own, given = text_of(said.get("arguments")).lstrip(), call.so_far("arguments")
        begins = own.startswith("{") or (not own and said.get("name") != call.so_far("name"))
        if self._checks > MOST_CHECKS or not begins or not given.rstrip().endswith("}"):
            return False
        try:
            decoded(given.encode())
        except ValueError:
            return False
        return True

    def response(self, headers: Fields | None = None) -> Object:
        """Return the whole response; raises EngineError when a path is incomplete.

        Some streams end by ``[DONE]`` or by their usage, without a reason to finish. One that just ends was
        cut off, or counts as cut (``StreamEnds``, which reads the ``headers``). A choice that ends twice
        among too few of several is two paths mixed into one: RepeatedError.
        """
        torn = False
        try:
            self._chunks(self._events.rest)
        except ValueError:
            torn = True
        self._events = Events()
        says = self._done or (bool(self._choices) and all(self._ends[index] for index in self._choices))
        cut = self._streams.is_cut(headers or {}, says=says) and not torn
        if self._choices and not (self._head.get("error") or says or cut):
            raise EngineError("the server closed the connection in the middle of a path")
        if max(self._ends.values(), default=0) > 1 and len(self._choices) < self._n:
            raise RepeatedError("the server's stream ends a choice twice")
        # Beside paths that say why they ended, one that does not is broken off.
        missing = "error" if any(self._ends.values()) else "stop" if self._done else "length"
        choices = [
            _whole_choice(index, choice, choice.finish or missing) for index, choice in self._choices.items()
        ]
        return {**self._head, "choices": choices, "usage": self._usage or None}


def _merge(whole: Object, more: Fields, *, pieces: bool) -> None:
    """Add the fields of a piece to what came before; ``pieces``: texts are joined."""
    for name, value in more.items():
        before = whole.get(name)
        if value is None:
            whole.setdefault(name, None)
        elif isinstance(value, str) and name not in LABELS and pieces:
            _add_text(whole, name, value)
        elif isinstance(value, dict):
            if not isinstance(before, dict):
                whole[name] = before = Object()
            _merge(cast("Object", before), fields(cast("object", value)), pieces=pieces)
        elif isinstance(value, list):
            if not isinstance(before, PartedList):
                whole[name] = joined = PartedList()
                joined += _parts(before)
                before = joined
            _extend(before, items(cast("object", value)), pieces=pieces)
        elif value != "" or name not in whole:
            whole[name] = value


def _add_text(whole: Object, name: str, value: str) -> None:
    before = whole.get(name)
    if isinstance(before, PartedList):
        before += _parts(value)
        return
    if not isinstance(before, Pieces):
        whole[name] = before = Pieces()
    if value:
        before.append(value)


def _parts(said: object) -> list[object]:
    """Return a text as the parts of a content that goes on as a list."""
    text = "".join(said) if isinstance(said, Pieces) else said
    return [{"type": "text", "text": text}] if isinstance(text, str) and text else []


def _extend(whole: PartedList, more: list[object], *, pieces: bool) -> None:
    # In place: a path of many thousand tokens has as many chunks.
    for entry in more:
        index = fields(entry).get("index")
        if not isinstance(index, int) or not pieces:
            whole.append(entry)
            continue
        if index not in whole.known:
            whole.known[index] = Object()
            whole.append(whole.known[index])
        _merge(whole.known[index], fields(entry), pieces=pieces)


def _whole_choice(index: int, choice: _ChoiceParts, finish: object) -> Object:
    message: Object = {"role": "assistant", "content": "", **_resolved(choice.message)}
    if choice.calls:
        ordered = sorted(choice.calls, key=lambda call: -1 if call.index is None else call.index)
        message |= {
            "content": message["content"] or None,
            "tool_calls": [_whole_call(call) for call in ordered],
        }
    rest = _resolved(choice.rest)
    return {"index": index, "message": message, "logprobs": None, **rest, "finish_reason": finish}


def _whole_call(call: _Call) -> Object:
    function: Object = {"name": "", "arguments": ""}
    told = _resolved(call.told)
    named: Object = {"id": call.id} if call.id else {}
    if "custom" in told:
        return {**named, **told}
    return {**named, "type": "function", **told, "function": function | fields(told.get("function"))}


def _resolved(told: Fields) -> Object:
    """Return fields with their texts put together."""
    return {name: _value(name, value) for name, value in told.items()}


def _value(name: str, value: object) -> object:
    if isinstance(value, Pieces):
        return value.joined(name)
    if isinstance(value, dict):
        return _resolved(fields(cast("object", value)))
    if isinstance(value, PartedList):
        return [_value("", each) for each in value] if value.known else list(value)
    return value
