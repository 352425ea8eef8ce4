"""Detection of a request's kind of answer without a plan, from its prompt and its paths.

A text holds an answer when it states one ("the answer is", a box, ...), when it is nothing but one, or when
the prompt asks for that kind. All else is free text, on which a vote means nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

from keff.answers import (
    Extracted,
    Space,
    VotingFields,
    canonical_json,
    choice_of,
    only_object,
    options_listed,
    space,
    strip_thinking,
    voting_fields,
)
from keff.gateway.vote.extraction import PathReading, read_choice
from keff.narrow import Fields, entries, fields, items
from keff.protocol.values import Object, question_of, text_of

Kind = Literal["tool", "json", "numeric", "choice", "binary", "text"]

# Of kinds that read the same number of paths, the first is taken: the one with the shortest answers.
ORDER: tuple[Kind, ...] = ("tool", "json", "numeric", "choice", "binary", "text")

# A JSON object that stands in a text: it votes where most of the first paths hold one with the same members.
OBJECT = "object"

# How a path that writes text votes where others call a tool.
NO_CALL, NO_CALL_KEY = "no call", '{"tool_calls":[]}'

# A request for at most this many tokens is a health check or a probe: it gets one path.
TINY = 16

# Paths on which a request's kind and fields are settled; texts that all differ by then are given up.
SETTLED = 4

# Only so much of the end is searched: final answers stand there, and the time stays bounded.
TAIL = 4000
# Words: of a reply that is one line around a number, of one that is itself the answer, of a stated text.
LONGEST_LINE, LONGEST_TEXT, LONGEST_SPAN = 12, 5, 12

# Lines at the end of a text that may be an option, empty ones among them, and the characters that show it.
LAST_LINES, LABELLED = 8, 60

STATED = frozenset({"boxed", "####", "tag", "marker", "verdict"})
# The rules of ``keff.answers`` that leave no doubt that a text holds an answer.
CLEAR: Mapping[str, frozenset[str]] = {
    "numeric": STATED | {"last bold number"},
    "choice": STATED | {"last line"},
    "binary": STATED,
    "text": STATED,
}

_CONTRACT = re.compile(r"final answer\s?[:\"'*]|\banswer\s?:\s?[<\[{]|####|\\boxed|<answer>", re.I)
_NUMBER = re.compile(r"\bhow (?:many|much|old|long|far)\b|\b(?:calculate|compute|evaluate)\b", re.I)
_BINARY = re.compile(r"\b(?:yes or no|true or false|yes/no|true/false)\b", re.I)
_DATE = re.compile(r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b|\d[:-]\d", re.I)
_DIGITS = re.compile(r"\d[\d.,]*(?:\s?/\s?\d+)?")
_MATHEMATICS = re.compile(r"[\d\\^=]")
_AT_ONCE = re.compile(
    r"(?:^|\b(?:is|are|equals|of|about|approximately|around|roughly|nearly|exactly)\b|=)"
    r"[^\w\\]{0,4}(?:US)?[$£€]?\s?(?:\\d?frac|\.?\d)",
    re.I,
)


class AskedKinds(NamedTuple):
    """Kinds of answer that a prompt asks for: JSON, a contract, tools, or by its question.

    ``options`` are the letters of those that it lists.
    """

    as_json: bool = False
    contract: bool = False
    kinds: frozenset[str] = frozenset()
    tools: bool = False
    options: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether an answer is to be expected, so that the first round need not start with one path."""
        return self.as_json or self.contract or bool(self.kinds)


def asked(body: Fields) -> AskedKinds:
    """Return the kinds of answer that a request asks for."""
    as_json = str(fields(body.get("response_format")).get("type")).startswith("json")
    messages = cast("list[Object]", body["messages"])
    system = [text_of(message.get("content"))[-TAIL:] for message in messages if message["role"] != "user"]
    question = question_of(messages)
    options, question = options_listed(question), question[-TAIL:]
    kinds = {
        "numeric": _NUMBER.search(question) is not None,
        "binary": _BINARY.search(question) is not None,
        "choice": len(options) > 1,
    }
    return AskedKinds(
        as_json,
        any(_CONTRACT.search(text) for text in (question, *system[:1])),
        frozenset(kind for kind, is_asked in kinds.items() if is_asked),
        bool(body.get("tools")),
        options,
    )


def is_tiny(body: Fields) -> bool:
    """Return whether a request is too short to hold an answer."""
    lengths = [body.get("max_tokens"), body.get("max_completion_tokens")]
    return any(isinstance(length, int) and 0 < length <= TINY for length in lengths)


class KindReader:
    """Reads one path as every kind of answer; the vote settles on one of them (``kind_of``)."""

    def __init__(self, tool_ignore: frozenset[str] = frozenset()) -> None:
        self._ignored = tool_ignore
        self._spaces = {kind: space(kind) for kind in ("numeric", "choice", "binary", "text")}

    def read(self, choice: Fields, about: AskedKinds) -> PathReading:
        """Return the keys of one choice by kind of answer; empty if it holds none."""
        text, truncated, call = read_choice(choice, self._ignored)
        if text is None:
            return PathReading(None, truncated, readings={} if call is None else {"tool": call})
        readings = self._of_text(text, truncated, about)
        if about.tools and not truncated:
            readings[NO_CALL] = NO_CALL_KEY
        return PathReading(None, truncated, readings=readings)

    def _of_text(self, text: str, truncated: bool, about: AskedKinds) -> dict[str, str]:
        shown = strip_thinking(text).strip()
        if about.as_json or shown[:1] in ("{", "[") or shown.startswith("```"):
            key = None if truncated else canonical_json(shown)
            if key is not None and (about.as_json or key[:1] in ("{", "[")):
                return {"json": key}
        found = None if truncated else only_object(shown)
        if about.as_json:
            return {} if found is None else {"json": found[0]}
        # Words behind an object may say what the answer is.
        behind = None if found is None else self._spaces["text"].extract(shown[found[1] :])
        whole = found is not None and (behind is None or behind.rule not in STATED)
        read = {OBJECT: found[0]} if found is not None and whole else {}
        span = self._spaces["text"].extract(text, truncated=truncated)
        is_line = _is_line(shown, LONGEST_TEXT)
        for kind, how in self._spaces.items():
            # Not for all requests: "I" is a word more often than an option.
            how = choice_of(about.options) if kind == "choice" else how
            # Of a long text a guess at an option that nobody asked for does not count: it is not made.
            stated = truncated or not (is_line or kind in about.kinds or kind == "numeric")
            told = span if kind == "text" else how.extract(text, truncated=stated)
            if told is None and kind == "choice" and stated and not truncated:
                told = how.extract("\n".join(line[:LABELLED] for line in shown.split("\n")[-LAST_LINES:]))
            if told is None or not _counts(kind, told, span, shown, about):
                continue
            key = how.key(told.answer)
            if key is not None:
                read[kind] = key
        return read


def _counts(kind: str, told: Extracted, span: Extracted | None, shown: str, about: AskedKinds) -> bool:
    """Return whether a parsed value is an answer, not just a number or word within a text."""
    if kind == "text":
        words = len(told.answer.split())
        bare = _is_line(shown, LONGEST_TEXT) and not shown.endswith(("?", "!"))
        return words <= LONGEST_SPAN if told.rule in STATED else bare
    if kind == "numeric" and told.rule in STATED:
        return span is None or span.rule not in STATED or _is_number(span.answer)
    if told.rule in CLEAR[kind] or kind in about.kinds:
        return True
    if kind == "numeric":
        return _is_line(shown, LONGEST_LINE) and _is_number(shown)
    return _is_line(shown, LONGEST_TEXT)


def _is_number(text: str) -> bool:
    """Return whether a text is one number, and not a name or date that contains one."""
    return len(_DIGITS.findall(text)) <= 2 and not _DATE.search(text) and _AT_ONCE.search(text) is not None


def _is_line(shown: str, words: int) -> bool:
    return "\n" not in shown and len(shown.split(maxsplit=words)) <= words


def holds(readings: Mapping[str, str]) -> bool:
    """Return whether a path's readings hold an answer of any kind."""
    return any(kind in readings for kind in (*ORDER, OBJECT))


def hold_objects(paths: Sequence[Mapping[str, str]]) -> bool:
    """Return whether most of these paths hold JSON objects with the same members."""
    said = [readings.get("json") or readings.get(OBJECT, "{}") for readings in paths]
    members = Counter(frozenset(fields(json.loads(text))) for text in said)
    return any(names and 2 * count > len(paths) for names, count in members.items())


def kind_of(paths: Sequence[Mapping[str, str]]) -> Kind | None:
    """Return a request's kind of answer: the first in ``ORDER`` that fits most of its paths."""
    counts = {kind: sum(kind in readings for readings in paths) for kind in ORDER}
    best = max(ORDER, key=lambda kind: counts[kind])
    return best if counts[best] else None


@dataclass(slots=True)
class Settlement:
    """The kind of answer that a request's paths vote on, and the JSON members that vote.

    The first ``SETTLED`` paths decide it, with the ``schema`` that they were asked to follow (for a tool
    call that of its tool among ``tools``). Until they are there, each path may change it.
    """

    schema: object = None
    tools: object = None
    kind: Kind | None = None
    voting: VotingFields | None = None
    _space: Space | None = None
    _tool: str | None = None
    _in_text: bool = False
    _is_settled: bool = False

    def settle(self, paths: Sequence[Mapping[str, str]]) -> None:
        """Determine the kind of answer from the paths consumed so far."""
        if self._is_settled or not paths:
            return
        first = paths[:SETTLED]
        self._in_text = any(OBJECT in path for path in first) and hold_objects(first)
        first = [self._read(path) for path in first]
        self.kind = "json" if self._in_text else kind_of(first)
        self._is_settled = len(first) == SETTLED
        said = [path[self.kind] for path in first if self.kind in path] if self.kind is not None else []
        self.voting = self._space = self._tool = None
        if len(set(said)) < 2:
            return
        if self.kind == "json":
            self.voting = voting_fields(said, self.schema)
        elif self.kind == "tool" and (calls := _same_tool(said)) is not None:
            self._tool, arguments = calls
            self.voting = voting_fields(arguments, _tool_schema(self.tools, self._tool))
        if self.voting is not None and self.voting.left_out and self.voting.space is not None:
            self._space = space(self.voting.space)

    def key(self, readings: Mapping[str, str]) -> str | None:
        """Return a path's vote key; None abstains."""
        if self.kind is None:
            return None
        said = self._read(readings).get(self.kind)
        if self.kind == "tool":
            return self._tool_key(said or readings.get(NO_CALL))
        if self.kind != "json" or said is None or self.voting is None or not self.voting.left_out:
            return said
        return None if self._space is None else self._space.key(said)

    def _read(self, readings: Mapping[str, str]) -> Mapping[str, str]:
        """Return a path's readings; an embedded object counts as JSON where such objects vote."""
        return {"json": readings[OBJECT], **readings} if self._in_text and OBJECT in readings else readings

    def _tool_key(self, said: str | None) -> str | None:
        calls = _same_tool([said]) if said is not None and self._space is not None else None
        if calls is None or calls[0] != self._tool or self._space is None:
            return said
        return self._space.key(calls[1][0]) or said

    def agrees_on_nothing(self, keys: Sequence[str | None]) -> bool:
        """Return whether no answer repeats among these paths, as with free text.

        Never of numbers, options, yes and no, tool calls or what may be mathematics: there paths that differ
        are a hard question (stopping at four would lose 2.7% of the accuracy).
        """
        if not self._is_settled:
            return False
        if self.kind == "json":
            return self.voting is not None and self.voting.space is None
        voted = [key for key in keys if key is not None]
        if self.kind != "text" or len(voted) < SETTLED or any(map(_MATHEMATICS.search, voted)):
            return False
        return len(set(voted)) == len(voted)

    def members_voted(self) -> Object | None:
        """Return which JSON members voted and why others did not; None where all did."""
        if self.voting is None or not self.voting.left_out:
            return None
        note = {"note": self.voting.note} if self.voting.note else {}
        return {"voted": list(self.voting.fields), "left_out": dict(self.voting.left_out), **note}


def _same_tool(keys: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the single tool that all calls name and each call's arguments, or None."""
    names: set[str] = set()
    arguments: list[str] = []
    for key in keys:
        calls = items(fields(json.loads(key)).get("tool_calls"))
        if len(calls) != 1:
            return None
        name, given = items(calls[0])
        names.add(str(name))
        arguments.append(json.dumps(given))
    return (names.pop(), arguments) if len(names) == 1 else None


def _tool_schema(tools: object, name: str) -> object:
    for tool in entries(tools):
        if fields(tool.get("function")).get("name", tool.get("name")) == name:
            return tool
    return None
