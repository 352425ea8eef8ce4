"""Dates in any common form: 5 March 2024, March 5th, 2024, 2024-03-05."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Literal

from keff.answers.parts.base import TAIL, ByForm, Extracted, NotRead, fold, visible
from keff.answers.parts.statements import Statement, plain, stated
from keff.records import frozen

# Longer ones are not parsed: this bounds the time that a hostile answer can take.
MOST_CHARACTERS = 2000

_MONTHS = "january february march april may june july august september october november december"
# Three letters are the usual abbreviation; September alone has one of four.
_MONTH = {name[:size]: place for place, name in enumerate(_MONTHS.split(), 1) for size in (3, len(name))} | {
    "sept": 9
}
# The longest name first: an alternation takes the first that fits, and "mar" begins "march".
_NAME = rf"(?P<month>{'|'.join(sorted(_MONTH, key=len, reverse=True))})\b\.?"
_DAY, _YEAR = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?", r"(?P<year>\d{4})"
# A weekday is read over, never checked: a wrong one does not change which day is named.
_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b[.,]?\s+)?"
_CLOCK = re.compile(
    r"(?:,?\s+(?:at\s+)?|T)(\d{1,2}):(\d\d)(?::(\d\d))?\s*([ap]\.?m\b\.?)?\s*(Z|UTC|[-+]\d\d:?\d\d)?", re.I
)
# A date must stand alone: a part of a path, of a version or of a longer number is none.
_EDGE, _END = r"(?<![\w./-])", r"(?![\w/]|[.-]\d)"
# From the most to the least specific: the year of a full date is not the answer "2024".
_FORMS = {
    "named": re.compile(
        rf"{_EDGE}{_WEEKDAY}(?:the\s+)?{_DAY}\s*(?:of\s+|-)?\s*{_NAME}[\s,-]+{_YEAR}(?=T\d|{_END})", re.I
    ),
    "month first": re.compile(
        rf"{_EDGE}{_WEEKDAY}{_NAME}[\s-]*(?:the\s+)?{_DAY}\s*,?[\s-]+{_YEAR}{_END}", re.I
    ),
    "iso": re.compile(
        rf"{_EDGE}{_YEAR}(?P<cut>[-/.])(?P<month>\d{{1,2}})(?P=cut)(?P<day>\d{{1,2}})(?=T\d|[^\w/.-]|[.](?!\d)|$)"
    ),
    "numeric": re.compile(
        rf"{_EDGE}(?P<first>\d{{1,2}})(?P<cut>[-/.])(?P<second>\d{{1,2}})(?P=cut){_YEAR}{_END}"
    ),
    "month": re.compile(rf"{_EDGE}{_NAME}[\s,]+(?:of\s+)?{_YEAR}{_END}", re.I),
    "iso month": re.compile(rf"{_EDGE}{_YEAR}-(?P<month>\d\d){_END}"),
    "year": re.compile(rf"{_EDGE}(?:in\s+|the\s+year\s+)?{_YEAR}{_END}", re.I),
}
# At most four such words: more of them are a sentence in which the date stands by the way.
_LEAD = re.compile(r"\W*(?:(?:on|in|at|by|is|was|the|it|date|of|about|around|since)\W+){0,4}", re.I)


@frozen
class DateSpace(ByForm):
    """Answer space of dates: equal when they name the same day, month or year, and time if given.

    The key is ISO 8601: 2024-03-05, 2024-03, 2024, 2024-03-05T14:30 (in UTC where a zone is given). Months
    and weekdays are read in English. Of numeric dates ``order`` says which is which, "dmy" or "mdy"; without
    it 03/04/2024 abstains, and 25/12/2024 is read, for it has one meaning only. Two-digit years abstain.
    """

    order: Literal["dmy", "mdy", ""] = ""
    name = "date"
    by_key = True
    contract = 'End with a line "Final answer: <date as YYYY-MM-DD>".'

    def __post_init__(self) -> None:
        if self.order not in ("dmy", "mdy", ""):
            raise ValueError(f"order is dmy or mdy, not {self.order!r}")

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the last explicit statement's date; else, on whole text, the last full date."""
        text = visible(text)
        found = stated(text, _of_statement, truncated=truncated)
        if found or truncated:
            return found
        if whole := _whole(plain(text[: MOST_CHARACTERS + 1])):
            return Extracted(whole, "whole text")
        match = _last(plain(text[-TAIL:]))
        return Extracted(match, "last date") if match else None

    def form(self, answer: str) -> str:
        """Return the date in ISO 8601; raises NotRead."""
        text = plain(fold(answer[:MOST_CHARACTERS])).strip(" \t\n.\"'()*")
        for start in dict.fromkeys((0, _lead(text))):
            for form, pattern in _FORMS.items():
                match = pattern.match(text, start)
                if match is not None:
                    clock = _CLOCK.match(text, match.end())
                    if re.search(r"\d", text[(clock or match).end() :]):
                        raise NotRead("more than one date or number")
                    return self._canonical_date(form, match, clock)
        raise NotRead("no date")

    def _canonical_date(self, form: str, match: re.Match[str], clock: re.Match[str] | None) -> str:
        year = int(match["year"])
        if form == "year":
            return f"{year:04d}"
        if form == "numeric":
            day, month = self._day_and_month(int(match["first"]), int(match["second"]))
        else:
            month = int(match["month"]) if match["month"].isdigit() else _MONTH[match["month"].lower()]
            day = int(match.groupdict().get("day") or 0)
        try:
            if not day:
                return f"{date(year, month, 1):%Y-%m}".rjust(7, "0")
            return _with_clock(date(year, month, day), clock)
        except (ValueError, OverflowError):
            raise NotRead("no such day") from None

    def _day_and_month(self, first: int, second: int) -> tuple[int, int]:
        """Return day and month of a numeric date; raises NotRead where their order is ambiguous."""
        if self.order:
            return (first, second) if self.order == "dmy" else (second, first)
        # Written day first or month first, 3/3 is one day; and no month is above 12.
        if first == second or second > 12:
            return second, first
        if first > 12:
            return first, second
        raise NotRead("day or month first? say order=dmy or order=mdy")


def _with_clock(day: date, clock: re.Match[str] | None) -> str:
    """Return a date with the time that follows it, in UTC where it has a zone."""
    if clock is None:
        return day.isoformat()
    hour, half, zone = int(clock[1]), clock[4], clock[5]
    if half:
        hour = hour % 12 + (12 if half.lower().startswith("p") else 0)
    moment = datetime(day.year, day.month, day.day, hour, int(clock[2]), int(clock[3] or 0))
    if zone:
        offset = "+00:00" if zone.upper() in ("Z", "UTC") else zone
        moment = datetime.fromisoformat(f"{moment.isoformat()}{offset}").astimezone(UTC)
    shown = f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"
    return f"{moment.date().isoformat()}T{shown}{'Z' if zone else ''}"


def _of_statement(statement: Statement) -> str | None:
    payload = plain(statement.payload)
    return _leading(payload[:MOST_CHARACTERS]) or _last(payload)


def _end(match: re.Match[str]) -> int:
    """Return the position where a date, with its time, ends."""
    return (_CLOCK.match(match.string, match.end()) or match).end()


def _lead(text: str) -> int:
    """Return the position of a text's first meaningful word."""
    lead = _LEAD.match(text)
    return lead.end() if lead else 0


def _leading(payload: str) -> str | None:
    """Return the rest of a statement that begins with a date."""
    start = _lead(payload)
    for pattern in _FORMS.values():
        if match := pattern.match(payload, start):
            end = _end(match)
            # Another date behind it: which is meant nobody knows, and the key says so.
            return payload if _last(payload[end:]) else payload[match.start() : end]
    return None


def _whole(text: str) -> str | None:
    """Return the date, month or year that makes up a text; None for other text."""
    text = text.strip(" \t\n.\"'()*")
    matches = (pattern.fullmatch(text, at) for at in (0, _lead(text)) for pattern in _FORMS.values())
    return next((match[0] for match in matches if match), None)


def _last(text: str) -> str | None:
    """Return the last date in a text with at least a month, or None."""
    best: tuple[int, int] | None = None
    for form, pattern in _FORMS.items():
        for match in pattern.finditer(text) if form not in ("year", "iso month") else ():
            end = _end(match)
            if best is None or end > best[1]:
                best = match.start(), end
    return None if best is None else text[best[0] : best[1]]


space = DateSpace
