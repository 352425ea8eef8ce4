"""What kind of answer a request has, where no plan says: found from its prompt and from what its paths say.

A text holds an answer when it states one ("the answer is", a box, ...), when it is nothing but one, or when
the prompt asks for that kind. All else is free text, on which a vote means nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from keff.answers import Extracted, Space, canonical_json, space, strip_thinking
from keff.gateway.extraction import LETTERS, Read, tool_key
from keff.narrow import fields
from keff.protocol.reply import finish_reason
from keff.protocol.values import Object, text_of

Kind = Literal["tool", "json", "numeric", "choice", "binary", "text"]

ORDER: tuple[Kind, ...] = ("tool", "json", "numeric", "choice", "binary", "text")
"""Of kinds that read the same number of paths, the first is taken: the one with the shortest answers."""

MANY_LETTERS = (*LETTERS, "F", "G", "H", "I", "J")

NO_CALL, NO_CALL_KEY = "no call", '{"tool_calls":[]}'
"""How a path that writes text votes where others call a tool."""

TINY = 16
"""A request for at most this many tokens is a health check or a probe: it gets one path."""

TAIL = 4000
LONGEST_LINE, LONGEST_TEXT, LONGEST_SPAN = 12, 5, 12
"""Words: of a reply that is one line around a number, of one that is itself the answer, of a stated text."""

STATED = frozenset({"boxed", "####", "tag", "marker", "verdict"})
CLEAR: Mapping[str, frozenset[str]] = {
    "numeric": STATED | {"last bold number"},
    "choice": STATED | {"last line"},
    "binary": STATED,
    "text": STATED,
}
"""The rules of ``keff.answers`` that leave no doubt that a text holds an answer."""

_CONTRACT = re.compile(r"final answer\s?[:\"'*]|\banswer\s?:\s?[<\[{]|####|\\boxed|<answer>", re.I)
_NUMBER = re.compile(r"\bhow (?:many|much|old|long|far)\b|\b(?:calculate|compute|evaluate)\b", re.I)
_BINARY = re.compile(r"\b(?:yes or no|true or false|yes/no|true/false)\b", re.I)
_OPTION = re.compile(r"^[ \t]*\(?([A-J])[).:]\s", re.M)
_DATE = re.compile(r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b|\d[:-]\d", re.I)
_DIGITS = re.compile(r"\d[\d.,]*(?:\s?/\s?\d+)?")
_AT_ONCE = re.compile(
    r"(?:^|\b(?:is|are|equals|of|about|approximately|around|roughly|nearly|exactly)\b|=)"
    r"[^\w\\]{0,4}(?:US)?[$£€]?\s?(?:\\d?frac|\.?\d)",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a prompt says of its answer: JSON or a contract, or which kinds its question has.

    ``many``: it lists options beyond E.
    """

    as_json: bool = False
    contract: bool = False
    kinds: frozenset[str] = frozenset()
    tools: bool = False
    many: bool = False

    @property
    def known(self) -> bool:
        """Whether an answer is to be expected: then the first round need not wait for the first path."""
        return self.as_json or self.contract or bool(self.kinds)


def asked(body: Mapping[str, object]) -> Asked:
    """Return what a request says of its answer."""
    as_json = str(fields(body.get("response_format")).get("type")).startswith("json")
    messages = cast("list[Object]", body["messages"])
    users = [text_of(message.get("content"))[-TAIL:] for message in messages if message["role"] == "user"]
    system = [text_of(message.get("content"))[-TAIL:] for message in messages if message["role"] != "user"]
    question = users[-1] if users else ""
    options = set(_OPTION.findall(question))
    kinds = {
        "numeric": _NUMBER.search(question) is not None,
        "binary": _BINARY.search(question) is not None,
        "choice": len(options) > 1,
    }
    return Asked(
        as_json,
        any(_CONTRACT.search(text) for text in (question, *system[:1])),
        frozenset(kind for kind, is_asked in kinds.items() if is_asked),
        bool(body.get("tools")),
        len(options) > 1 and max(options, default="") > LETTERS[-1],
    )


def is_tiny(body: Mapping[str, object]) -> bool:
    """Return whether a request is too short to hold an answer."""
    lengths = [body.get("max_tokens"), body.get("max_completion_tokens")]
    return any(isinstance(length, int) and 0 < length <= TINY for length in lengths)


class KindReader:
    """Reads one path in every kind of answer; the vote settles on one of them (``kind_of``)."""

    slow = False

    def __init__(self, tool_ignore: frozenset[str] = frozenset()) -> None:
        self._ignored = tool_ignore
        # Not for all requests: "I" is a word more often than an option.
        self._many = space("choice", labels=MANY_LETTERS)
        self._spaces: dict[str, Space] = {
            "numeric": space("numeric"),
            "choice": space("choice", labels=LETTERS),
            "binary": space("binary"),
            "text": space("text"),
        }

    def read(self, choice: Mapping[str, object], about: Asked) -> tuple[Read, dict[str, str]]:
        """Return the reading of one choice and its keys by kind; none where it holds no answer."""
        message = fields(choice.get("message"))
        finish = finish_reason(choice.get("finish_reason"))
        truncated = finish in ("length", "cancelled")
        if message.get("refusal") or finish == "content_filter":
            return Read(None, False), {}
        if message.get("tool_calls"):
            key = None if truncated else tool_key(message["tool_calls"], self._ignored)
            return Read(None, truncated), {} if key is None else {"tool": key}
        text = text_of(message.get("content"))
        readings = self._of_text(text, truncated, about)
        if about.tools and not truncated:
            readings[NO_CALL] = NO_CALL_KEY
        return Read(None, truncated), readings

    def _of_text(self, text: str, truncated: bool, about: Asked) -> dict[str, str]:
        shown = strip_thinking(text).strip()
        if about.as_json or shown[:1] in ("{", "[") or shown.startswith("```"):
            key = None if truncated else canonical_json(shown)
            if key is not None and (about.as_json or key[:1] in ("{", "[")):
                return {"json": key}
            if about.as_json:
                return {}
        read: dict[str, str] = {}
        span = self._spaces["text"].extract(text, truncated=truncated)
        for kind, how in self._spaces.items():
            how = self._many if kind == "choice" and about.many else how
            told = span if kind == "text" else how.extract(text, truncated=truncated)
            if told is None or not _counts(kind, told, span, shown, about):
                continue
            key = how.key(told.answer)
            if key is not None:
                read[kind] = key
        return read


def _counts(kind: str, told: Extracted, span: Extracted | None, shown: str, about: Asked) -> bool:
    """Return whether what a space read is an answer, not a number or a word in a text."""
    if kind == "text":
        words = len(told.answer.split())
        return words <= LONGEST_SPAN if told.rule in STATED else _is_bare(shown)
    if kind == "numeric" and told.rule in STATED:
        return span is None or span.rule not in STATED or _is_number(span.answer)
    if told.rule in CLEAR[kind] or kind in about.kinds:
        return True
    if kind == "numeric":
        return "\n" not in shown and len(shown.split()) <= LONGEST_LINE and _is_number(shown)
    return "\n" not in shown and len(shown.split()) <= LONGEST_TEXT


def _is_number(text: str) -> bool:
    """Return whether a text gives one number, and is not a name or a date that holds one."""
    return len(_DIGITS.findall(text)) <= 2 and not _DATE.search(text) and _AT_ONCE.search(text) is not None


def _is_bare(shown: str) -> bool:
    return "\n" not in shown and len(shown.split()) <= LONGEST_TEXT and not shown.endswith(("?", "!"))


def holds(readings: Mapping[str, str]) -> bool:
    """Return whether a path holds an answer of any kind."""
    return any(kind in readings for kind in ORDER)


def kind_of(paths: Sequence[Mapping[str, str]]) -> Kind | None:
    """Return the kind of answer of a request: the first in ``ORDER`` that reads most of its paths."""
    counts = {kind: sum(kind in readings for readings in paths) for kind in ORDER}
    best = max(ORDER, key=lambda kind: counts[kind])
    return best if counts[best] else None


def key_as(readings: Mapping[str, str], kind: str | None) -> str | None:
    """Return the vote of a path in a request of that kind; None abstains."""
    if kind is None:
        return None
    return readings.get(kind) or (readings.get(NO_CALL) if kind == "tool" else None)
