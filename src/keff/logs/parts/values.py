"""Conversion of single values: answers, numbers, truths, slots and tasks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import NoneType
from typing import Any, SupportsFloat, TypeVar

from keff import plugins
from keff.answers import says_none
from keff.errors import LogError
from keff.narrow import Object, entries, fields, is_array


def inner(row: object, *names: str) -> Object:
    """Return the nested object at some names; empty where there is none."""
    for name in names:
        row = fields(row).get(name)
    return fields(row)


def at(row: object, *places: str) -> object:
    """Return the first nonempty value at some paths, such as ``usage/output_tokens`` or ``messages/-1``."""
    for place in places:
        value = row
        for name in place.split("/"):
            value = _part(value, name)
        if value not in (None, "", []):
            return value
    return None


def _part(value: object, name: str) -> object:
    """Return a member of an object, or an entry of a list; None where there is none."""
    if is_array(value):
        place = int(name) if name.removeprefix("-").isdigit() else len(value)
        return value[place] if -len(value) <= place < len(value) else None
    return fields(value).get(name)


def thousandth(value: object) -> float | None:
    """Return milliseconds as seconds; None where not a number."""
    number = number_or_none(value)
    return None if number is None else number / 1000


def seconds_between(begin: object, end: object) -> float | None:
    """Return the seconds between two times in ISO 8601; None where one is none, or has no zone alone."""
    try:
        return (datetime.fromisoformat(str(end)) - datetime.fromisoformat(str(begin))).total_seconds()
    except (ValueError, TypeError):
        return None


def real(value: object) -> float:
    """Return a number, also from text; raises ValueError for other values."""
    # Numbers of NumPy and decimals, as frames hold them, among others: to ask for the protocol takes long.
    if isinstance(value, float | int | str):
        return float(value)
    if isinstance(value, SupportsFloat):
        return float(value)
    raise ValueError(f"{type(value).__name__} is no number")


def number_or_none(value: object) -> float | None:
    """Return a finite number; None for anything else, true and false too."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


# Truths as tables hold them (pandas writes 1.0 for 1 where a value of the column is missing), and in the
# words of judges and graders.
# Words that judge an answer, and are seldom one.
JUDGEMENTS = {
    **dict.fromkeys(("fail", "failed", "incorrect", "wrong", "✗", "✘", "❌"), 0),
    **dict.fromkeys(("pass", "passed", "correct", "✓", "✔", "✅"), 1),
}
TRUTHS = JUDGEMENTS | {
    **dict.fromkeys(("0", "0.0", "false", "no"), 0),
    **dict.fromkeys(("1", "1.0", "true", "yes"), 1),
}

# Larger counts are no longer exact, and stand for an error in the file.
MOST_COUNT = 2**53

T = TypeVar("T")

_TEXTS, _NUMBERS = {str, NoneType}, {int, float}


def is_missing(value: object) -> bool:
    """Return whether a value is missing: None, "" or NaN (as pandas writes it)."""
    return value is None or value == "" or is_nan(value)


def is_nan(value: object) -> bool:
    """Return whether a value is NaN."""
    return isinstance(value, float) and math.isnan(value)


def is_structured(value: object) -> bool:
    """Return whether a value is a list or an object."""
    return isinstance(value, list | tuple | dict)


def optional_text(value: object) -> str | None:
    """Return an answer as text; None, "" and NaN abstain.

    A number without a fraction is written without one: where one value is missing, pandas turns 4 into 4.0.
    Lists and objects become canonical JSON.
    """
    if value is None or type(value) is str:
        return value or None
    if is_missing(value):
        return None
    if is_structured(value):
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return str(_scalar(value))


def _utf8_text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise LogError(f"not UTF-8 text: {short(value)}") from None


def spoken(value: object) -> str | None:
    """Return a message's text: its string, or its joined text parts; JSON for other content."""
    message = inner(value)
    if message:
        value = message.get("content", message.get("parts", message.get("text", value)))
    if is_array(value):
        parts = [fields(part).get("text", fields(part).get("content")) for part in value]
        if all(isinstance(part, str) for part in parts):
            return "".join(map(str, parts))
    return optional_text(value)


def conversation_text(value: object) -> object:
    """Return what the model said last where a value is a list of messages; other values unchanged."""
    if not is_array(value) or not value or not all("role" in fields(message) for message in value):
        return value
    said = [message for message in entries(value) if message["role"] == "assistant"] or entries(value)
    return spoken(said[-1])


def integral(value: object) -> object:
    """Return a float without fraction as int; other values unchanged."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= MOST_COUNT:
        return int(value)
    return value


def _scalar(value: object) -> object:
    return _utf8_text(value) if isinstance(value, bytes) else integral(value)


def gold_of(value: object) -> object:
    """Return a gold answer: one value or a list of acceptable ones, None where it is missing.

    Raises LogError for bytes, as Parquet may hold, that are not UTF-8 text.
    """
    if value is None or type(value) is str:
        return value or None
    if is_array(value):
        return [_scalar(each) for each in value if not is_missing(each)] or None
    return None if is_missing(value) else _scalar(value)


def name_of(value: object) -> str:
    """Return an id or name as text; raises ValueError for other values."""
    if type(value) is str and value:
        return value
    infinite = isinstance(value, float) and math.isinf(value)
    if is_missing(value) or is_structured(value) or isinstance(value, bool) or infinite:
        raise ValueError
    return optional_text(value) or ""


def converted(
    where: str, name: str, values: Sequence[object], convert: Callable[[object], T]
) -> tuple[T, ...]:
    """Convert each entry of a list; raises LogError that names ``where``, the list and the bad entry."""
    kinds = {*map(type, values)}
    if (plain := _plain(values, kinds, convert)) is not None:
        return plain
    with suppress(TypeError, ValueError, OverflowError):
        # Each distinct value once; of several kinds some are equal that have other texts, as 1 and true.
        if len({NoneType, *kinds}) < 3:
            known = {value: convert(value) for value in set(values)}
            return tuple(map(known.__getitem__, values))
    result: list[T] = []
    for value in values:
        try:
            result.append(convert(value))
        except (TypeError, ValueError, OverflowError) as error:
            needs = NEEDS.get(convert, str(error))
            remedy = REMEDIES.get(convert, "") if not is_missing(value) else ""
            raise LogError(f"{where}: {name} must hold {needs} only, not {short(value)}{remedy}") from None
    return tuple(result)


def _plain(values: Sequence[Any], kinds: set[type], convert: Callable[..., Any]) -> tuple[Any, ...] | None:
    """Return a list of texts or numbers as it is, where converting its entries would change none of them."""
    if convert is optional_text:
        return tuple(values) if kinds <= _TEXTS and "" not in values else None
    if not values or not kinds <= _NUMBERS:
        return None
    if convert is truth:
        return tuple(values) if kinds == {int} and min(values) >= 0 and max(values) <= 1 else None
    # NaN, which is smaller and larger than nothing, is a count that is missing.
    if convert in (count, seconds) and min(values) >= 0 and max(values) <= MOST_COUNT:
        return tuple(map(float, values))
    return None


def completion_text(text: object) -> str:
    """Return a completion as text, None as ""."""
    return optional_text(text) or ""


def as_truth(value: object) -> object:
    """Return 0 or 1 for a text such as "true" or "no"; other values unchanged."""
    return TRUTHS.get(value.strip().lower(), value) if isinstance(value, str) else value


def truth(value: object) -> int:
    """Return 0 or 1, also from text."""
    value = as_truth(value)
    if value not in (0, 1):
        raise ValueError
    return int(value)


def number(value: object) -> float:
    """Return a finite number; NaN where missing."""
    result = rating(value)
    if math.isinf(result):
        raise ValueError
    return result


def grade(value: object) -> float:
    """Return a graded score, also from a truth in words; NaN where missing."""
    return number(as_truth(value))


def rating(value: object) -> float:
    """Return a confidence, any number; NaN where missing, also in words."""
    missing = value is None or value == "" or (isinstance(value, str) and says_none(value))
    return float("nan") if missing else real(value)


def count(value: object) -> float:
    """Return a number of tokens; NaN where missing."""
    result = number(value)
    if not (math.isnan(result) or 0 <= result <= MOST_COUNT):
        raise ValueError
    return result


def seconds(value: object) -> float:
    """Return a duration; NaN where missing."""
    return count(value)


def slot(value: object) -> int:
    """Return the number of a template slot."""
    result = real(value)
    if not (result.is_integer() and 0 <= result <= MOST_COUNT):
        raise ValueError
    return int(result)


def short(value: object) -> str:
    """Return a value shortened for a message."""
    text = repr(value) if not isinstance(value, int) or abs(value) <= MOST_COUNT else "a huge number"
    return text if len(text) <= 40 else f"{text[:40]}..."


NEEDS: Mapping[Callable[[object], object], str] = {
    truth: "0 and 1",
    number: "finite numbers",
    grade: "finite numbers",
    rating: "numbers",
    count: "counts",
    seconds: "durations",
    slot: "integers",
    name_of: "names",
}

# What to do with values that mean something else.
REMEDIES: Mapping[Callable[[object], object], str] = {
    count: " (leave out what you do not know, or write null)",
    truth: " (a wrong path is 0): graded scores are all_scores, in a table --columns score=NAME",
}


# Other tools' names of benchmarks that keff knows.
ALIASES = {
    "minerva_math": "math",
    "hendrycks_math": "math",
    "math500": "math",
    "math_500": "math",
    "ai2_arc": "arc_challenge",
    "hotpot_qa": "hotpotqa",
    "trivia_qa": "triviaqa",
    "crux_eval": "cruxeval",
}


def known_task(name: str) -> str | None:
    """Return the keff task of a name such as ``gsm8k_cot`` or ``inspect_evals/gsm8k``, or None."""
    plain = name.rpartition("/")[2].lower().replace("-", "_")
    for word, task in sorted(
        [*ALIASES.items(), *((name, name) for name in plugins.names("task"))], reverse=True
    ):
        if plain == word or plain.startswith((f"{word}_", f"{word}@")):
            return task if task not in ("jsonl", "starter") else None
    return None
