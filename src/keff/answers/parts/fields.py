"""Voting fields of JSON answers, and reading of a completion into a vote with its reason.

A reasoning that is written anew each time, a title that was made up and ``confidence: 0.83`` make every
answer a vote of its own. Members whose type leaves no wording (numbers, integers, booleans, enumerations,
dates) vote; strings vote where they are short in most answers; what does not repeat in the first four answers
does not vote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import TypeVar, cast

from keff import narrow
from keff.answers.parts import json_text
from keff.answers.parts.base import Explains, Space
from keff.answers.parts.json_text import ANSWER_MEMBERS, MISSING, Number, find, look_up, steps
from keff.answers.parts.thinking import strip_thinking
from keff.answers.parts.workers import UnreadError
from keff.errors import TaskError
from keff.records import frozen

# So many answers are drawn before a vote is settled: of fewer, those that agree may not be there yet.
FIRST = 4
# Characters: names, titles of works and addresses fit; a sentence of explanation does not.
SHORT = 60
# What a schema of an answer stays far below; beyond it nothing is asked of the schema.
MOST_FIELDS, MOST_NODES, DEEPEST = 64, 2000, 8
# Of a record, so many questions and answers of each are looked at: shares settle long before.
MOST_QUESTIONS, MOST_ANSWERS = 200, 16

_TYPED, _STRING = "typed", "string"
_RECURSIVE, _CONSTANT = "it refers to itself", "it is the same in all answers"
_NOT_A_PATH = "its name cannot be written as a path"
_LONG = f"it is longer than {SHORT} characters in most answers"
_NEW = f"it does not repeat in the first {FIRST} answers"
_ABSENT = "it is missing in most answers"
# A string in one of these formats of JSON Schema is a value like a number, not free text.
_DATES = frozenset(("date", "date-time", "time"))
_SIMPLE = re.compile(r"[\w.\[\]*-]+")
# A string that is a number, the letter of an option, or mathematics: those that differ are a hard question.
_VALUE = re.compile(r"\W{0,3}(?:\d[\d.,:/%-]*|[A-Za-z])\W{0,3}|.*[\\^=].*", re.DOTALL)


class _Unusable(ValueError):
    """Raised where a schema does not determine fields."""


@frozen
class VotingFields:
    """The fields of JSON answers that vote, and those left out with reasons.

    ``fields`` are paths as the space ``json`` takes them (``result.total``, ``items[*].id``), ``left_out``
    the others, each with the reason. ``space`` is the answer space: ``json:fields=...``, ``json`` where the
    answers are no objects, None where nothing is left to vote on (free text). ``note`` says why a schema was
    not used.
    """

    fields: tuple[str, ...]
    left_out: Mapping[str, str]
    space: str | None
    note: str = ""


def voting_fields(answers: Sequence[str], schema: object = None) -> VotingFields:
    """Return the voting fields of one question's answers, by their JSON schema if given.

    ``answers`` are the texts (or tool arguments) drawn so far; texts without JSON say nothing. Before there
    are four, no field is left out for not repeating. ``schema`` is a JSON schema, or the ``response_format``,
    ``text.format`` or tool that holds one; where it is too large or no schema, fields are read from the
    answers instead, as without one; a field that refers to itself does not vote. Of several fields in which
    nothing repeats none is left; the one that is called the answer, or the only one, stays where it is a
    number, boolean, enumeration or date (or a string that is a number, an option's letter or mathematics).
    """
    return _fields_of_questions([answers], schema)


def proposed_fields(questions: Sequence[Sequence[str]]) -> VotingFields:
    """Return the voting fields for a record of JSON answers, a sequence per question.

    A field votes when its values repeat among the first four answers of at least half of the questions.
    """
    return _fields_of_questions([answers[:MOST_ANSWERS] for answers in questions[:MOST_QUESTIONS]], None)


def schema_of(request: object) -> object:
    """Return the JSON schema in a ``response_format``, ``text.format``, tool or function, or None."""
    given = narrow.fields(request)
    for name in ("json_schema", "function"):
        given = narrow.fields(given[name]) if name in given else given
    for name in ("schema", "parameters", "input_schema"):
        if narrow.is_object(given.get(name)):
            return given[name]
    is_format = given.get("type") in ("json_object", "json_schema", "text", "function")
    return None if is_format or not given else given


def _fields_of_questions(questions: Sequence[Sequence[str]], schema: object) -> VotingFields:
    values = [[value for text in answers if (value := _value(text)) is not MISSING] for answers in questions]
    every = [value for some in values for value in some]
    kinds, note = _kinds(schema_of(schema), every)
    if set(kinds) == {""}:
        reason = _reason("", kinds[""], values, every)
        return VotingFields((), {"": reason} if reason else {}, None if reason else "json", note)
    kinds = {
        path: _TYPED if kind == _STRING and _is_value(path, every) else kind for path, kind in kinds.items()
    }
    left_out = {path: _reason(path, kind, values, every) for path, kind in kinds.items()}
    fields = tuple(path for path, reason in left_out.items() if not reason)
    if not fields:
        fields = _only_answer(kinds, left_out)
    kept = {path: reason for path, reason in left_out.items() if path not in fields}
    return VotingFields(fields, MappingProxyType(kept), _spec(fields) if fields else None, note)


def _value(text: str) -> object:
    """Return a text's JSON value; MISSING where it has none."""
    try:
        return json_text.value_of(find(strip_thinking(text))[0])
    except json_text.NotRead:
        return MISSING


def _kinds(schema: object, values: Sequence[object]) -> tuple[dict[str, str], str]:
    """Return each field's kind, or why it cannot vote, from answers without a schema."""
    note = ""
    if schema is not None:
        try:
            return _kind_by_path(_Schema(schema, values).leaves(schema, "", ("#",))), ""
        except _Unusable as error:
            note = f"the schema was not used: {error}"
    try:
        return _kind_by_path(leaf for value in values for leaf in _of_value(value, "", 0)), note
    except _Unusable as error:
        return {}, note or str(error)


def _kind_by_path(leaves: Iterator[tuple[str, str]]) -> dict[str, str]:
    """Return one kind per path; a reason overrides a string, a string the others."""
    kinds: dict[str, str] = {}
    for path, kind in leaves:
        before = kinds.get(path, kind)
        kinds[path] = kind if before == _TYPED or (before == _STRING and kind != _TYPED) else before
        if len(kinds) > MOST_FIELDS:
            raise _Unusable(f"more than {MOST_FIELDS} fields")
    return {path: kind if not path or _is_path(path) else _NOT_A_PATH for path, kind in kinds.items()}


def _is_path(path: str) -> bool:
    try:
        parsed = steps(path)
    except TaskError:
        return False
    return len(parsed) <= 2 * DEEPEST


def _child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


@dataclass(slots=True)
class _Schema:
    """Walks a schema with its references; ``values`` are answers that follow it.

    ``nodes`` counts what was visited, for a small one may unfold.
    """

    root: object
    values: Sequence[object]
    nodes: int = 0

    def leaves(self, node: object, path: str, above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Yield (field, kind) below a schema node; ``above`` are the references followed so far."""
        self.nodes += 1
        if self.nodes > MOST_NODES or path.count(".") > DEEPEST:
            raise _Unusable("it is too large")
        if not isinstance(node, bool) and not narrow.is_object(node):
            raise _Unusable("it is not a JSON schema")
        given = narrow.fields(node)
        reference = given.get("$ref")
        if isinstance(reference, str):
            if reference in above:
                yield path, _RECURSIVE
            else:
                yield from self.leaves(self._target(reference), path, (*above, reference))
            return
        alternatives = [
            each
            for name in ("anyOf", "oneOf", "allOf")
            for each in narrow.items(given.get(name))
            if narrow.fields(each).get("type") != "null"
        ]
        for each in alternatives:
            yield from self.leaves(each, path, above)
        if not alternatives or "properties" in given:
            yield from self._own(given, path, above)

    def _own(self, given: dict[str, object], path: str, above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        said = given.get("type")
        types = {each for each in [*narrow.items(said), said] if isinstance(each, str)} - {"null"}
        if "const" in given:
            yield path, _CONSTANT
        elif "enum" in given or types & {"number", "integer", "boolean"}:
            yield path, _STRING if "string" in types and "enum" not in given else _TYPED
        elif types == {"string"}:
            yield path, _TYPED if given.get("format") in _DATES else _STRING
        elif members := narrow.fields(given.get("properties")):
            for name, each in members.items():
                yield from self.leaves(each, _child(path, name), above)
        elif "array" in types and "items" in given:
            # An array as a whole, but of objects each of their fields.
            for inner, kind in self.leaves(given["items"], f"{path}[*]", above):
                yield path if inner == f"{path}[*]" else inner, kind
        else:
            # The schema leaves open what stands here: the answers say it.
            for part in _parts(self.values, path):
                yield from _of_value(part, path, 0)

    def _target(self, reference: str) -> object:
        node = self.root
        for step in reference.removeprefix("#").strip("/").split("/") if reference != "#" else ():
            step = step.replace("~1", "/").replace("~0", "~")
            if not narrow.is_object(node) or step not in node:
                raise _Unusable(f"{reference[:60]!r} is not in it")
            node = node[step]
        return node


def _of_value(value: object, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield (field, kind) of a value."""
    if depth > DEEPEST:
        raise _Unusable("the answers are nested too deep")
    if narrow.is_object(value) and value:
        for name in islice(value, MOST_FIELDS + 1):
            yield from _of_value(value[name], _child(path, name), depth + 1)
    elif narrow.is_array(value) and any(narrow.is_object(each) for each in value):
        for each in value[:MOST_FIELDS]:
            yield from _of_value(each, f"{path}[*]", depth + 1)
    elif value is not None:
        yield path, _STRING if _longest(value) else _TYPED


def _reason(path: str, kind: str, values: Sequence[Sequence[object]], every: Sequence[object]) -> str:
    """Return why a field does not vote; empty when it does."""
    if kind not in (_TYPED, _STRING):
        return kind
    found = _parts(every, path)
    if 2 * len(found) < len(every):
        return _ABSENT
    if kind == _STRING and 2 * sum(_longest(part) <= SHORT for part in found) <= len(found):
        return _LONG
    firsts = [_parts(some[:FIRST], path) for some in values]
    judged = [[json_text.canonical(part) for part in first] for first in firsts if len(first) == FIRST]
    return _NEW if 2 * sum(len(set(keys)) < FIRST for keys in judged) < len(judged) else ""


def _is_value(path: str, every: Sequence[object]) -> bool:
    """Return whether a field's strings are values, not free wording."""
    found = [part for part in _parts(every, path) if isinstance(part, str)]
    return bool(found) and all(len(part) <= SHORT and _VALUE.fullmatch(part) for part in found)


def _parts(values: Sequence[object], path: str) -> list[object]:
    """Return the parts at a path, of the values that have it."""
    parts = [look_up(value, path) if path else value for value in values]
    return [part for part in parts if part is not MISSING]


def _longest(value: object) -> int:
    """Return the length of a value's longest string; 0 without strings."""
    if isinstance(value, str):
        return 0 if isinstance(value, Number) else len(value)
    return max(map(_longest, narrow.items(value)), default=0)


def _only_answer(kinds: Mapping[str, str], left_out: Mapping[str, str]) -> tuple[str, ...]:
    """Return the single field that can be the answer, if other strings are wording."""
    new = [path for path, reason in left_out.items() if reason == _NEW]
    new = [path for path in new if path.lower() in ANSWER_MEMBERS] or new
    return (new[0],) if len(new) == 1 and kinds[new[0]] == _TYPED else ()


def _spec(fields: Sequence[str]) -> str:
    if all(_SIMPLE.fullmatch(field) for field in fields):
        return f"json:fields={','.join(fields)}"
    return f"json:{json.dumps({'fields': list(fields)}, ensure_ascii=False)}"


T = TypeVar("T")

# The rule of a text in which no answer was found.
ABSTAINED = "no answer"
# The rule of an answer that was given up for a reason that is not in it (a worker process was killed).
UNREAD = "unread"

# So many texts, up to so many characters each, are not read again within one reading: together they bound
# its memory. Longer ones are seldom the same.
REMEMBERED, LONGEST_REMEMBERED = 2**16, 1000


@frozen
class Read:
    """The reading of one text: answer, key, rule, or why it abstains.

    ``answer`` as written (None: none was found), ``key`` its canonical vote key (None: abstains), ``rule``
    how the answer was found, or why the text abstains.
    """

    answer: str | None
    key: str | None
    rule: str


def read(space: Space, text: str, *, truncated: bool = False) -> Read:
    """Return the reading of a completion: its answer, key and rule, or why it abstains (UNREAD: unknown)."""
    extracted = space.extract(text, truncated=truncated)
    if extracted is None:
        return Read(None, None, "truncated" if truncated else why(space, text))
    try:
        key = space.key(extracted.answer)
    except UnreadError:
        return Read(extracted.answer, None, UNREAD)
    if key is None:
        return Read(extracted.answer, None, why(space, extracted.answer))
    return Read(extracted.answer, key, extracted.rule)


# Rules of statements that no answer holds but as its end.
_ENDS = ("boxed", "####", "tag")
_STATES = re.compile(r"\\f?boxed|####|answer", re.IGNORECASE)


def stated_gold(space: Space, gold: object) -> object:
    """Return a gold cell with the answer that a whole solution states at its end in place of the solution.

    A list stays a list: what it means (several acceptable answers, or the items of one) is the space's own.
    """
    if isinstance(gold, str):
        return _answer_of_gold(space, gold)
    if isinstance(gold, list | tuple):
        return [
            _answer_of_gold(space, each) if isinstance(each, str) else each
            for each in cast("list[object]", gold)
        ]
    return gold


def _answer_of_gold(space: Space, gold: str) -> str:
    found = space.extract(gold) if _STATES.search(gold) else None
    # In free text "the answer is blowing in the wind" may be the answer.
    ends = _ENDS if space.name == "text" else (*_ENDS, "marker")
    return found.answer if found and found.rule in ends else gold


def why(space: Space, text: str) -> str:
    """Return why a text or an answer abstains, in a few words."""
    return (space.why(text) if isinstance(space, Explains) else None) or ABSTAINED


def last_answer(regex: re.Pattern[str], text: str, truncated: bool = False) -> str | None:
    """Return a user regex's last match (group 1 if it has one) outside thinking.

    On truncated text a match that reaches the end is not used: it may be cut.
    """
    text, last = strip_thinking(text), None
    for match in regex.finditer(text):
        if match[bool(regex.groups)] and not (truncated and match.end() == len(text)):
            last = match
    return None if last is None else last[bool(regex.groups)].strip()


def once(function: Callable[[str], T]) -> Callable[[str], T]:
    """Return the function memoised on distinct texts."""
    remembered = lru_cache(maxsize=REMEMBERED)(function)
    return lambda text: remembered(text) if len(text) <= LONGEST_REMEMBERED else function(text)
