"""Extraction and comparison of path answers in the plan's answer space, as in the pilot."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from keff import plugins
from keff.answers import (
    ANSWER_MEMBERS,
    LETTERS,
    SLOW_SPACES,
    Space,
    UnreadError,
    choice_of,
    last_answer,
    names,
    of_unknown_options,
    options_listed,
    schema_of,
    space,
)
from keff.errors import KeffError, PlanError, TaskError
from keff.gateway.http.errors import Problem
from keff.gateway.vote.tool_calls import tool_key
from keff.narrow import Fields, fields, items
from keff.plan import Plan
from keff.protocol.reply import finish_reason, is_cut
from keff.protocol.values import Object, question_of, text_of
from keff.records import frozen
from keff.usercode import without_code

# Spaces that run programs, or a function of the operator's.
RUNS_CODE = frozenset({"code", "key"})


class PathReading(NamedTuple):
    """The reading of one path: its vote key (None: it abstains), and whether it was cut off.

    ``unread`` says that keff gave up reading its answer in time, so nobody knows whom it votes for.
    ``answer`` is as the text writes it (None: not known). ``readings`` are its keys by kind of answer if
    ``kinds`` finds the kind for each request. Its vote is known once that is settled.
    """

    key: str | None
    truncated: bool
    answer: str | None = None
    readings: Mapping[str, str] | None = None
    unread: bool = False


@frozen
class Reader:
    """Extracts answers from paths, and their keys in an answer space.

    ``space`` is the plan's answer space. ``regex`` (its last match, group 1 if it has one) finds the
    answer first if the pilot used one. ``task`` is a task of another package that reads answers itself.
    """

    space: Space
    regex: re.Pattern[str] | None = None
    task: Any = None
    tool_ignore: frozenset[str] = frozenset()

    @property
    def slow(self) -> bool:
        """Whether reading may be slow and belongs in a thread."""
        return self.space.name in SLOW_SPACES or self.task is not None

    def read(self, choice: Fields) -> PathReading:
        """Return the vote of one choice of a response.

        A tool call votes on its name and arguments, and a text as in the pilot, JSON too. A refusal and a cut
        text without an explicit answer abstain.
        """
        text, truncated, call = read_choice(choice, self.tool_ignore)
        if text is None:
            return PathReading(call, truncated)
        answer = self.answer(text, truncated)
        try:
            key = None if answer is None else (self.task or self.space).key(answer)
        except UnreadError:
            return PathReading(None, truncated, answer, unread=True)
        return PathReading(key, truncated, answer)

    def answer(self, text: str, truncated: bool) -> str | None:
        """Return the answer extracted from a text, or None."""
        if self.task is not None:
            return self.task.extract(text, truncated=truncated)
        if self.regex is not None:
            return last_answer(self.regex, text, truncated)
        found = self.space.extract(text, truncated=truncated)
        return None if found is None else found.answer


def read_choice(choice: Fields, ignored: frozenset[str]) -> tuple[str | None, bool, str | None]:
    """Return a choice's text, whether it was cut off, and the key of its tool calls.

    A refusal is neither.
    """
    message = fields(choice.get("message"))
    finish = finish_reason(choice.get("finish_reason"))
    cut = is_cut(finish)
    if message.get("refusal") or finish == "content_filter":
        return None, False, None
    # A function_call is the older form of a tool call.
    calls = message.get("tool_calls") or (
        [{"function": call}] if (call := message.get("function_call")) else ()
    )
    if calls:
        return None, cut, None if cut else tool_key(calls, ignored)
    return text_of(message.get("content")), cut, None


def reader_of(
    plan: Plan, answer_space: str | None = None, tool_ignore: frozenset[str] = frozenset()
) -> Reader:
    """Return the reader of a plan, or one in ``answer_space`` instead of the plan's.

    Raises PlanError when the plan does not say how an answer is read from a text, or reads it by what a
    gateway does not have: gold answers (a scorer) or a sandbox (code).
    """
    name = answer_space or plan.space
    if name == "code":
        raise PlanError(f"the answer space {name!r} cannot be served: name another with --answer-space")
    if answer_space is not None:
        return Reader(_space(name), tool_ignore=tool_ignore)
    task = fields(plan.task)
    options = fields(task.get("options"))
    if not plan.reads_texts:
        raise PlanError(
            "This plan was made from ready answers, so keff does not know how to find the answer in a "
            "model's reply. Add --answer-space numeric (or choice, json, ...; keff list spaces)"
        )
    if options.get("scorer") or "scorer" in fields(task.get("code")):
        raise PlanError("the plan's answers were read by a scorer, which needs gold answers: --answer-space")
    return Reader(_space(name), _compile(options.get("answer_regex")), _foreign(options), tool_ignore)


def reader_asked(name: str | None, named: Sequence[str], tool_ignore: frozenset[str] = frozenset()) -> Reader:
    """Return the reader a request asks for, by an answer space or by JSON fields.

    Names only: no request chooses code or a file. Raises Problem (400).
    """
    known = sorted(set(names()) - RUNS_CODE)
    if name is not None and name not in known:
        line = f"keff.answer_space is one of {', '.join(known)}, not {name!r:.40}"
        raise Problem(400, line, param="keff.answer_space")
    if named and name not in (None, "json"):
        raise Problem(400, "keff.fields needs the answer space json", param="keff.fields")
    try:
        made = space("json", fields=tuple(named)) if named else _space(str(name))
    except KeffError as error:
        raise Problem(400, str(error)[:300], param="keff.fields" if named else "keff.answer_space") from None
    return Reader(made, tool_ignore=tool_ignore)


def with_labels(reader: Reader, view: Fields) -> Reader:
    """Return the reader with the request's choice labels, where its space has none.

    Those of an enumeration in its schema, or of the options in its last message.
    """
    if reader.space.name != "choice" or getattr(reader.space, "labels", None) != LETTERS:
        return reader
    members = _members(view)
    stated = [str(each) for name in ANSWER_MEMBERS for each in items(fields(members.get(name)).get("enum"))]
    labels = tuple(stated) or options_listed(question_of(view.get("messages")))
    return replace(reader, space=choice_of(labels))


def lacking(reader: Reader | None, view: Fields) -> list[str]:
    """Return ["fields"] if the request's schema lacks JSON fields that the plan votes on, else []."""
    named = getattr(reader.space, "fields", ()) if reader is not None and reader.space.name == "json" else ()
    if not named:
        return []
    members = _members(view)
    heads = (re.split(r"[.\[]", str(field).removeprefix("$."), maxsplit=1)[0] for field in named)
    return ["fields"] if members and any(head not in members for head in heads) else []


def _members(view: Fields) -> Object:
    """Return the members of the JSON schema that a request states."""
    return fields(fields(schema_of(view.get("response_format"))).get("properties"))


def _compile(regex: Any) -> re.Pattern[str] | None:
    if regex is None or regex == "":
        return None
    try:
        return re.compile(regex)
    except (re.error, TypeError, OverflowError, RecursionError) as error:
        raise PlanError(f"the plan's answer expression cannot be used: {error}") from None


def _space(spec: str) -> Space:
    try:
        return of_unknown_options(spec)
    except TaskError as error:
        raise PlanError(f"{error}: name another with --answer-space") from None


def _foreign(options: Fields) -> Any:
    """Return the task that another package provides for reading answers, else None."""
    name = str(options.get("name") or "")
    if name not in entry_points(group="keff.tasks").names:
        return None
    # A plan may come from anybody: it never names code to run.
    given = {key: value for key, value in without_code(options).items() if key != "name"}
    return plugins.load("task", name, **given)
