"""Facts about an OpenAI-compatible server: address, key, request fields, refusals, retry times.

Addresses and keys are checked at the start, and never shown. A refusal becomes one line without keys, and
says whether asking again may help.
"""

from __future__ import annotations

import ipaddress
import json
import math
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import cast
from urllib.parse import quote, urlsplit, urlunsplit

from keff.errors import UsageError
from keff.narrow import Fields, fields
from keff.protocol.values import Object, decoded, storable, words
from keff.records import Message, Sampling, frozen


def json_object(given: str | Fields | None, option: str) -> Object:
    """Return a JSON-object option, given as text or mapping; raises UsageError otherwise."""
    try:
        read: object = json.loads(given) if isinstance(given, str) else dict(given or {})
    except ValueError as error:
        raise UsageError(f"{option} is not JSON: {error}") from None
    if not isinstance(read, dict):
        raise UsageError(f"{option} must be a JSON object")
    return cast("Object", read)


def chat_body(messages: Sequence[Message], sampling: Sampling, n: int) -> Object:
    """Return the chat request fields that every OpenAI-compatible server supports."""
    body: Object = {
        "messages": [dict(message) for message in messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
    }
    if n > 1:
        body["n"] = n
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    return body


def template_thinking(budget: int | None) -> Object:
    """Return the field that switches thinking in open servers' chat templates.

    It takes no number: ``max_tokens`` bounds thinking and answer together.
    """
    return {} if budget is None else {"chat_template_kwargs": {"enable_thinking": budget > 0}}


def effort_thinking(budget: int | None) -> Object:
    """Return the ``reasoning_effort`` of hosted servers for a token budget.

    0 is none, up to 2,048 low, up to 8,192 medium, beyond that high.
    """
    if budget is None:
        return {}
    levels = ((0, "none"), (2048, "low"), (8192, "medium"))
    return {"reasoning_effort": next((level for most, level in levels if budget <= most), "high")}


# Fields of a request that can leave a server nothing to choose, so that every path is the same.
GREEDY: dict[str, Callable[[float], bool]] = {
    # Below it servers take the most likely token.
    "temperature": lambda value: value < 1e-5,
    # Below one over the number of tokens that a model knows, the most likely one is enough.
    "top_p": lambda value: value <= 1e-6,
    "top_k": lambda value: value == 1,
    "min_p": lambda value: value >= 1,
    "do_sample": lambda value: value == 0,
    "use_beam_search": lambda value: value == 1,
}
# The two names of the limit on length; and values of other fields that do nothing, so that a request without
# them draws the same paths.
LENGTHS = ("max_tokens", "max_completion_tokens")
NEUTRAL: dict[str, tuple[float, ...]] = {
    "temperature": (1,),
    "top_p": (1,),
    "top_k": (0, -1),
    "min_p": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
}
_UNKNOWN = re.compile(
    r"un(?:supported|known|recogni[sz]ed|expected)|not (?:support|permit|allow)|extra", re.I
)

# What a server taught: fields of a request by the name that it takes them under (None: it takes none).
Parameters = Mapping[str, str | None]


def parameters_taught(body: Fields, refusal: str, known: Parameters) -> dict[str, str | None]:
    """Return what a refusal of a request says about its fields, of those that change no path.

    A limit on length under its other name, and fields that do nothing. ``known`` is what was taught before.
    """
    given, other = LENGTHS if LENGTHS[0] in body else LENGTHS[::-1]
    unknown = _UNKNOWN.search(refusal) is not None
    if given in body and LENGTHS[1] in refusal and other not in known and (given == LENGTHS[0] or unknown):
        return {given: other}
    return {
        name: None
        for name, values in NEUTRAL.items()
        if unknown and body.get(name) in values and re.search(rf"\b{name}\b", refusal)
    }


def taken_by(parameters: Parameters, body: Fields) -> Object:
    """Return a body in the fields that a server takes."""
    named = ((parameters.get(name, name), value) for name, value in body.items())
    return {name: value for name, value in named if name is not None}


# Names of the seed in a request.
SEEDS = ("seed", "random_seed")


def seed_of_path(seed: int, place: int) -> int:
    """Return the seed of the path at a place: the stated one counted up, from the largest of 64 bits down."""
    return (seed + place + 2**63) % 2**64 - 2**63


def greedy_field(body: Fields) -> str | None:
    """Return the field by which a request draws one and the same path, as ``temperature 0``; else None."""
    for name, is_greedy in GREEDY.items():
        try:
            # Servers read numbers that are written as texts.
            value = float(cast("str | float", body[name]))
        except (KeyError, ValueError, TypeError, OverflowError):
            continue
        if is_greedy(value):
            return f"{name} {value:g}"
    return None


# Answers in a row with too few paths, or with one twice, after which a server is taken to share no requests:
# one may be a passing fault, and the paths that it lacks are asked for again either way.
ODD = 3


class Sharing:
    """The largest number of paths per request that a server accepts, learned from its replies.

    Lowered when the server refuses ``n``, or ignores it several times in a row.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._odd_in_row = 0

    def refused(self, n: int) -> None:
        """Record that n paths were refused where one was accepted."""
        self.most = min(self.most, (n + 1) // 2 if n > 2 else 1)

    def came(self, n: int, paths: int) -> None:
        """Record how many of n requested paths came; repeated ones count as none."""
        if n == 1:
            return
        self._odd_in_row = self._odd_in_row + 1 if paths < n else 0
        if self._odd_in_row >= ODD:
            self.most = 1


# Headers by which caching proxies say that they gave an answer again, and what they say then.
CACHES = (
    *("cache-status", "x-cache", "x-cache-hit", "x-cache-status", "cf-cache-status", "cf-aig-cache-status"),
    *("helicone-cache", "x-portkey-cache-status"),
)
_HIT = re.compile(r"\b(?:hit|true)\b", re.I)


def is_cached(headers: Mapping[str, str]) -> bool:
    """Return whether an answer says that it came from a cache; ``headers`` have names in lower case."""
    return any(_HIT.search(headers.get(name, "")) for name in CACHES)


SHOWN = "***"

# Only so many times what is shown is searched for secrets: hostile bodies may be long.
SEARCHED = 100

# Characters of a key: fewer are no secret and may be any part of a word ("x" stands in "context"). So many
# are no word that anybody writes: such a key is masked wherever it stands, and so is a beginning of it of
# the first length, for servers quote keys that they have cut.
SHORTEST, LONG = 8, 20


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Return whether a host name denotes this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def base_url(url: str, option: str, key_option: str) -> str:
    """Return a base URL, with ``/v1`` appended if it has no path; raises UsageError unless http(s).

    A query is kept. The path of an interface itself, as it is often copied, is taken off.
    """
    url = url.strip()
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        usable = usable and not re.search(r"\s", url)
    except ValueError:
        raise UsageError(f"{option}: this is not an http address") from None
    if parts.username or parts.password:
        raise UsageError(f"{option}: put the key into the environment ({key_option}), not into the address")
    if not usable:
        raise UsageError(f"{option}: {url!r} is not an http address")
    path = re.sub("/(?:(?:chat/)?completions|responses)/*$", "", parts.path).rstrip("/")
    return urlunsplit(parts._replace(path=path or "/v1", fragment=""))


def checked_key(value: str, variable: str) -> str:
    """Return a key without surrounding whitespace.

    Raises UsageError, without the key, for one that cannot be.

    A file or a clipboard often leaves a line end behind. Inside a key nothing may stand that a header
    cannot carry.
    """
    key = value.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            f"${variable} holds whitespace or a character that no HTTP header can carry: set it again"
        )
    return key


def secret(variable: str | None, option: str) -> str:
    """Return the key in an environment variable, which ``option`` names; "" where none is named.

    Raises UsageError for a variable without a key.
    """
    if variable is None:
        return ""
    value = checked_key(os.environ.get(variable, ""), variable)
    if not value:
        raise UsageError(f"{option} {variable}: the environment has no such variable, or it is empty")
    return value


class Mask:
    """Hides keys in texts of others, before those are shortened."""

    def __init__(self, keys: Iterable[str]) -> None:
        kept = {form for key in keys if key for form in (key, quote(key, safe=""))}
        self._keys = sorted(kept, key=len, reverse=True)

    def __call__(self, text: str, most: int | None = None) -> str:
        """Return the text on one line with keys hidden, then cut to ``most`` characters."""
        if most is not None:
            # Enough to fill the line whatever is hidden; a body of many megabytes is not searched.
            text = text[: SEARCHED * most + SEARCHED]
        for key in self._keys:
            text = hidden(text, key)
        line = " ".join(text.split())
        return line if most is None else line[:most]


def hidden(text: str, key: str) -> str:
    """Return a text without a key: long keys and their beginnings anywhere, short ones as words."""
    if len(key) >= LONG:
        return _without_beginnings(text, key)
    if len(key) < SHORTEST or key not in text:
        return text
    return re.sub(rf"(?<![\w-]){re.escape(key)}(?![\w-])", SHOWN, text)


def _without_beginnings(text: str, key: str) -> str:
    start = text.find(key[:SHORTEST])
    while start >= 0:
        size = next(n for n in range(len(key), 0, -1) if text.startswith(key[:n], start))
        text = text[:start] + SHOWN + text[start + size :]
        start = text.find(key[:SHORTEST], start + len(SHOWN))
    return text


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Return the server's Retry-After in seconds, or None.

    ``headers`` have names in lower case, or ignore it.

    ``Retry-After`` is a number of seconds or a date (RFC 9110, 10.2.3); ``retry-after-ms`` is OpenAI's own.
    """
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        given = headers.get(name)
        if given is None:
            continue
        try:
            seconds = float(given) * unit
        except ValueError:
            seconds = _until(given)
        if seconds is not None and math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def _until(date: str) -> float | None:
    try:
        told = parsedate_to_datetime(date)
        # The oldest form of a date names no zone: all are of one (RFC 9110, 5.6.7).
        return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None


# A server that asks for a longer wait is waited for no longer than this.
LONGEST_ASKED = 60.0


def pause(
    tries: int, asked: float | None, *, first: float, longest: float, obeyed: float = LONGEST_ASKED
) -> float:
    """Return the seconds to wait before the next try (from 1) of a request.

    What the server asked for, up to ``obeyed``, and a little more at random, because it asked all for the
    same. Else half of ``first`` times 2^(tries - 1), at most ``longest``, and up to as much again at
    random: requests that failed together do not come back together.
    """
    if asked:
        # Never sooner than asked.
        return min(obeyed, asked * random.uniform(1.0, 1.1))
    # Bounded before the power: 2.0 ** 1024 overflows.
    return min(first * 2.0 ** min(tries - 1, 60), longest) * random.uniform(0.5, 1.0)


# Characters of a server's own words that are passed on.
LONGEST = 500
UNKNOWN = "no reason given"
# Timeout, conflict, too early, too many requests: the same request may succeed later (RFC 9110).
PASSING = frozenset({408, 409, 425, 429})
# Key, permission, address: no other request would fare better.
FATAL = frozenset({401, 403, 404})
SPENT = "insufficient_quota"


@frozen
class Refusal:
    """An HTTP answer that is not 200.

    ``message`` is one line, keys masked; ``code``, ``kind`` and ``param`` are the server's own, where it
    gives them; ``wait`` the seconds that it asks to wait; ``filtered``: a content filter stopped the
    request.
    """

    status: int
    message: str = UNKNOWN
    code: str | None = None
    kind: str | None = None
    param: str | None = None
    wait: float | None = None
    filtered: bool = False

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later."""
        # A quota that is spent comes as 429 too, and no wait brings it back.
        return (self.status in PASSING or self.status >= 500 or not self.status) and not self._is_spent

    @property
    def fatal(self) -> bool:
        """Whether every other request will fail as well: wrong key or model, or an address that redirects."""
        return self.status in FATAL or 300 <= self.status < 400 or self._is_spent

    @property
    def _is_spent(self) -> bool:
        return SPENT in (self.code, self.kind)


def refusal_of(status: int, raw: bytes, headers: Mapping[str, str], mask: Mask) -> Refusal:
    """Return the parsed error response: OpenAI's form, ``detail``, ``message``, or plain text."""
    if 300 <= status < 400:
        return Refusal(status, redirected(headers, mask))
    try:
        body: object = decoded(raw)
    except ValueError:
        return Refusal(status, _plain(raw, mask), wait=asked_wait(headers))
    if isinstance(body, list) and body:
        body = cast("list[object]", body)[0]
    said_of = cast("object", body)
    parts = fields(said_of)
    error = parts.get("error") or parts.get("detail") or said_of
    detail = fields(error)
    said = words(detail.get("message")) or (words(error) if not detail else None)
    return Refusal(
        status,
        mask(said or "", LONGEST) or UNKNOWN,
        _field_text(detail.get("code"), mask),
        _field_text(detail.get("type"), mask),
        _field_text(detail.get("param"), mask),
        asked_wait(headers),
        status == 400 and re.search(rb"content_filter|content_policy", raw) is not None,
    )


def redirected(headers: Mapping[str, str], mask: Mask) -> str:
    """Return what is wrong with an address that redirects: following it could carry the key elsewhere."""
    return mask(f"it redirects to {headers.get('location') or 'nowhere'}: name that address instead", LONGEST)


def _field_text(value: object, mask: Mask) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    # Python refuses to write an integer of thousands of digits.
    return mask(storable(str(value)), 100) if not isinstance(value, int) or abs(value) < 10**9 else None


def _plain(raw: bytes, mask: Mask) -> str:
    text = raw[: 16 * LONGEST].decode("utf-8", "replace")
    # The page that a proxy shows to people says nothing to a program.
    return UNKNOWN if text.lstrip().startswith("<") or not text.strip() else mask(text, LONGEST)
