"""Frozen values shared by all rooms: Item, Sampling, Completion, Path, Note, Estimate."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass
from pathlib import PurePath
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, cast, dataclass_transform

from keff.console import harmless

# What JSON can hold.
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

Class = TypeVar("Class")


def plain(value: object) -> Json:
    """Return a value in JSON's types.

    Dataclasses become objects in the order of their fields, keys become strings, NaN and infinities (which
    JSON does not have) become null. Raises TypeError for anything else that JSON cannot hold.
    """
    if isinstance(value, float):  # NumPy's float64 too
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Result):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(name): plain(inner) for name, inner in items}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in cast("Iterable[object]", value)]
    raise TypeError(f"JSON cannot hold a {type(value).__name__}")


class Result:
    """A frozen dataclass whose fields, in order, are a JSON object of the contract."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    def to_dict(self) -> dict[str, Json]:
        """Return the object printed by ``--json``; undefined and infinite numbers are None."""
        return {field.name: plain(getattr(self, field.name)) for field in fields(self)}


class Finding(Result):
    """A result shown to people: subclasses give one line and a table.

    The one line is what a console shows instead of hundreds of numbers.
    """

    __slots__ = ()

    def line(self) -> str:
        """Return the result as one sentence."""
        raise NotImplementedError

    def rows(self) -> Sequence[Sequence[str]]:
        """Return a small table, header first."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.line()}>"

    def statements(self) -> Iterable[str]:
        """Return what the command line prints: the line, then the table."""
        return self.line(), f"\n{text_table(self.rows())}"

    def __str__(self) -> str:
        notes: tuple[Note, ...] = getattr(self, "warnings", ())
        return "\n".join([*self.statements(), *map(str, notes)])

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows, with record texts escaped."""
        from html import escape

        head, *body = self.rows()
        titles = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        lines = ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in body]
        caption = escape(self.line())
        return harmless(
            f"<table><caption>{caption}</caption><thead><tr>{titles}</tr></thead>"
            f"<tbody>{''.join(lines)}</tbody></table>"
        )


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[Class]) -> type[Class]:
    """Return the class as a frozen dataclass with slots; the ``repr`` of a finding is its line."""
    return dataclass(frozen=True, slots=True, repr=not issubclass(cls, Finding))(cls)


# Columns of a terminal that has not said how many it has.
TERMINAL = 80


def terminal_width() -> int:
    """Return the output width: COLUMNS, else the terminal's, else 80."""
    wide = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return get_terminal_size((TERMINAL, 25)).columns if wide else TERMINAL


# A first column that has to fold keeps so many characters: fewer cannot be read down the column.
FOLDED = 16


def text_table(rows: Sequence[Sequence[str]], title: str = "", width: int | None = None) -> str:
    """Return rows as an aligned text table, header first.

    Nothing known is cut. Where ``width`` (default: the terminal's) is too small a first cell that is wider
    than its column stands on lines of its own, folded after ``/`` or ``,`` or a space if it can; and where
    that does not do, the columns that do not fit follow in another table with the same first column.
    """
    width = width or terminal_width()
    unknown = {place for place, column in enumerate(zip(*rows[1:], strict=True)) if set(column) == {"–"}}
    lines = [tuple(cell for place, cell in enumerate(line) if place not in unknown) for line in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rest = sum(widths[1:]) + 2 * len(widths[1:])
    if width - rest < FOLDED:
        rest = max(widths[1:], default=-2) + 2
    first = max(min(widths[0], width - rest), min(widths[0], FOLDED))
    parts, left = [list[int]()], width - first
    for place, needed in enumerate(widths[1:], 1):
        if parts[-1] and needed + 2 > left:
            parts.append([])
            left = width - first
        parts[-1].append(place)
        left -= needed + 2
    drawn = [
        "\n".join(_table_row(line, (first, width), widths, part) for line in lines if any(line))
        for part in parts
    ]
    drawn[0] = "\n".join([*wrap(title, width), drawn[0]])
    return "\n\n".join(drawn)


def _table_row(line: Sequence[str], room: tuple[int, int], widths: Sequence[int], part: Sequence[int]) -> str:
    first, width = room
    *before, last = [line[0]] if len(line[0]) <= first else [*_fold(line[0], width), ""]
    cells = "".join(f"  {line[place]:>{widths[place]}}" for place in part)
    return "\n".join([*before, f"{last:<{first}}{cells}".rstrip()])


def _fold(cell: str, width: int) -> list[str]:
    lines = list[str]()
    while len(cell) > width:
        # A line that would be less than half full is cut at the next mark, or between two characters.
        marked = (cell.rfind(mark, width // 2, width) + 1 for mark in "/ ,")
        after = next(filter(None, marked), width)
        lines.append(cell[:after].rstrip())
        cell = cell[after:]
    return [*lines, cell]


def percent(value: float | Interval | None, digits: int = 1) -> str:
    """Return a share in percent, with limits if it has them; a dash where unknown."""
    return value.percent(digits) if isinstance(value, Interval) else number(value, f".{digits}%")


def number(value: float | Interval | None, style: str = ".2f") -> str:
    """Return a number as text, with limits if it has them; a dash where unknown, ∞ where infinite."""
    if isinstance(value, Interval):
        return value.text(style)
    if value is None or math.isnan(value):
        return "–"
    return format(value, style) if math.isfinite(value) else "∞" if value > 0 else "-∞"


# How answers are compared, by name: ``numeric``, or with options, ``json:fields=a,b`` (keff list spaces).
AnswerSpace = str

# One chat message in the OpenAI form, ``{"role": ..., "content": ...}``.
Message = Mapping[str, Any]

# Why a path ended. ``length`` means truncated by max_tokens.
FinishReason = Literal["stop", "length", "content_filter", "tool_calls", "cancelled"]


# Made once: json.dumps would make an encoder for every call, and hashes are asked for by the million.
_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def stable_hash(*parts: object) -> str:
    """Return a hex SHA-256 of JSON-able parts, the same on every machine and in every process."""
    return hashlib.sha256(_JSON.encode(parts).encode("utf-8", "surrogatepass")).hexdigest()


@frozen
class Item:
    """One question.

    ``id`` is unique in its task (given by the data, else a content hash). ``gold`` is whatever the
    task's ``correct`` takes, JSON-able, or None when there is no label. ``cluster`` names what the item
    shares with others (a passage, a twin pair); items of one cluster are not independent. ``meta`` is
    JSON-able and carried along.
    """

    id: str
    messages: tuple[Message, ...]
    gold: object = None
    space: AnswerSpace = "exact"
    cluster: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])


@frozen
class Sampling:
    """Sampling parameters of a path.

    ``seed`` is the run's seed in a configuration, and the first path's seed in a request. ``thinking``
    is the token budget for a reasoning model's hidden thinking (None: the model's own default; 0: off).
    """

    temperature: float = 0.7
    top_p: float = 0.95
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    seed: int = 0
    thinking: int | None = None


@frozen
class Logprobs:
    """Summary of a path's token log-probabilities (natural log).

    ``mean`` over tokens, ``bottom`` the mean of the lowest tenth, ``total`` the sum, ``answer`` the mean over
    the tokens of the final answer (None: not known). ``tokens`` are the texts and the log-probabilities of
    the tokens, until the answer is read.
    """

    mean: float
    bottom: float
    total: float
    answer: float | None = None
    tokens: tuple[Sequence[str], Sequence[float]] | None = field(default=None, repr=False, compare=False)


@frozen
class Completion:
    """One path's output from an engine: text, tokens, time, log-probabilities.

    ``text`` is the visible answer text; ``reasoning`` is hidden thinking that the server kept apart.
    ``tokens`` counts generated tokens (thinking included), ``prompt_tokens`` the prompt of the request,
    ``cached_tokens`` the part of it that the server had cached. A prompt is billed once a request: when
    paths are kept, the first path of a request carries these two and its other paths carry 0, so sums add.
    ``refusal`` is set when the model or a filter declined. ``seconds`` is the wall time of the request.
    ``embedding`` is the path's hidden state as little-endian float16 (``np.frombuffer(..., "<f2")``), from
    engines that keep it. ``estimated``: the server gave no count of tokens that can be right, so ``tokens``
    is an estimate, and what it billed for the prompt may be unknown.
    """

    text: str
    finish: FinishReason = "stop"
    tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    reasoning: str | None = None
    refusal: str | None = None
    logprobs: Logprobs | None = None
    seconds: float = 0.0
    embedding: bytes | None = field(default=None, repr=False)
    estimated: bool = False


@frozen
class Path:
    """One attempt at one reasoning path of an item.

    ``slot`` is the prompt template (0 is the plain self-consistency prompt), ``index`` counts paths of an
    item within the slot, ``attempt`` counts tries at the same path. Exactly one of ``completion`` and
    ``error`` is set: a failed request is a row too, and is tried again as the next attempt.
    """

    item: str
    slot: int
    index: int
    attempt: int
    seed: int
    completion: Completion | None = None
    error: str | None = None


# Codes of notes that ask for nothing; all others are warnings.
INFORMATIVE = frozenset(
    {
        "columns",
        "copied_questions",
        "cost_in_paths",
        "dominates",
        "few_alike",
        "free_branch",
        "graded",
        "long_record",
        "no_gold",
        "no_report",
        "not_rescored",
        "numbered_requests",
        "prompts_not_priced",
        "prompts",
        "random_sources",
        "ragged",
        "rescored",
        "seconds_from_tokens",
        "several_branches",
        "sources",
        "stopped_run",
        "tried_again",
        "trimmed",
        "unequal_paths",
        "verdicts_of_the_log",
        "whole_completions",
    }
)


@frozen
class Note:
    """A note or warning: a stable ``code`` for programs and one sentence for people."""

    code: str
    message: str

    @property
    def informative(self) -> bool:
        """Whether it asks for nothing."""
        return self.code in INFORMATIVE

    def __str__(self) -> str:
        return f"{'note' if self.informative else 'warning'}: {self.message}"


@frozen
class Interval(Result):
    """A number with its limits, and the method of both.

    ``lo`` and ``hi`` are None when no trustworthy interval exists. An undefined ``value`` is NaN and an
    unbounded limit is infinite; both become ``null`` where JSON is written.
    """

    value: float
    lo: float | None
    hi: float | None
    method: str

    @property
    def limits(self) -> tuple[float, float] | None:
        """Both limits, or None where either is missing."""
        return None if self.lo is None or self.hi is None else (self.lo, self.hi)

    def mapped(self, function: Callable[[float], float], method: str = "") -> Interval:
        """Return the interval of a monotone function of the number; ``method`` as before unless given."""
        lo, hi = (None, None) if self.limits is None else sorted(map(function, self.limits))
        return Interval(function(self.value), lo, hi, method or self.method)

    def text(self, style: str = ".2f") -> str:
        """Return the value and its limits, such as ``0.42 [0.31, 0.54]``; a dash where it is undefined."""
        value = number(self.value, style)
        if value == "–" or (self.lo is None and self.hi is None):
            return value
        return f"{value} [{number(self.lo, style)}, {number(self.hi, style)}]"

    def percent(self, digits: int = 1) -> str:
        """Return a share in percent with its limits, such as ``42.0% [31.0, 54.0]``."""
        value = number(self.value, f".{digits}%")
        if value == "–" or self.limits is None:
            return value
        lo, hi = self.limits
        return f"{value} [{100 * lo:.{digits}f}, {100 * hi:.{digits}f}]"


@frozen
class Estimate(Interval):
    """A point estimate with its interval.

    ``lo`` and ``hi`` are None when no trustworthy interval exists; ``warnings`` then say why, and the value
    is still given. ``n`` is the number of independent units (items, or clusters when they repeat), ``k`` the
    number of paths. An undefined value is NaN, an unbounded limit is infinite.
    """

    n: int
    k: int
    warnings: tuple[Note, ...] = ()

    @property
    def interval(self) -> Interval:
        """The number and its uncertainty, without the counts and warnings."""
        return Interval(self.value, self.lo, self.hi, self.method)
