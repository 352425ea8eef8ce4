"""What a request may draw at the most, and what it drew: paths, tokens and dollars."""

from __future__ import annotations

import re
from collections.abc import Mapping

from keff.narrow import entries, fields, is_array, items
from keff.protocol.reply import Counts
from keff.protocol.responses import chat_usage
from keff.protocol.values import Events, Object, count, data_of, decoded
from keff.records import frozen
from keff.sampling.cost import VERIFIER, Price, Usage, price_of

# Tokens of an answer at the most whose request states no length, while too few answers tell what is usual:
# what most hosted models write at once.
UNSTATED = 16_384

# Answers from which it is told what is usual, the share of them that is not longer, and by how much more is
# reserved: a day's limit that paid for the longest thinkable answer would admit next to nobody.
ENOUGH_ANSWERS, USUAL_SHARE, MARGIN = 100, 0.99, 2

# Tokens of what a request only names (a file, an earlier response), at the most: a whole context window.
ELSEWHERE = 131_072

LENGTHS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_NAMED = re.compile(rb'"(?:image_url|video_url|file_url|file_id|previous_response_id|conversation)"\s*:')

# What a request may state at all; limits decide within.
MOST_PATHS = 10**6
# Model names are the client's words: bounded, so that memory is.
KEPT_NAMES = 1024
# Bytes of an answer that are kept to read its usage; a larger one counts as what was reserved for it.
MOST_JSON = 8 * 2**20

# How an event begins that holds a piece of an answer: of chat and completions, of responses and messages.
_DELTA = re.compile(rb"data:(?! ?\[DONE\])|event: ?[\w.]{1,64}[._]delta\b")


class PriceList:
    """Prices by model: of the one that answered, else of the one that was asked."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = prices
        self._found: dict[str, Price | None] = {}

    def __bool__(self) -> bool:
        """Whether anything has a price."""
        return bool(self._prices)

    def of(self, *models: object) -> Price | None:
        """Return the price of the first of these models that has one."""
        for model in models if self._prices else ():
            name = model if isinstance(model, str) else ""
            if name not in self._found:
                if len(self._found) >= KEPT_NAMES:
                    self._found.clear()
                self._found[name] = price_of(name, self._prices)
            if (price := self._found[name]) is not None:
                return price
        return None

    def rating(self, paths: int, seconds: float) -> float:
        """Return the dollars of paths that the verifier rated in so many seconds; 0 without a price."""
        price = self._prices.get(VERIFIER)
        return 0.0 if price is None else charge(Usage(), price, paths, seconds)


@frozen
class Ceiling:
    """The most dollars of one path, and of its prompt alone."""

    path: float = 0.0
    prompt: float = 0.0


FREE = Ceiling()


@frozen
class Bound:
    """The most tokens of one path: of its prompt (a token has at least one byte), and of its answer."""

    prompt: int
    output: int = UNSTATED

    def at(self, price: Price, seconds: float) -> Ceiling:
        """Return what a path of so many tokens and seconds costs at the most."""
        whole = charge(Usage(self.prompt, 0, self.output), price, 1, seconds)
        return Ceiling(whole, Usage(self.prompt).dollars(price))


class AnswerLengths:
    """How long the answers of each key and model were, in buckets that double: 20 numbers for each pair."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], list[int]] = {}

    def note(self, who: tuple[str, str], tokens: int, answers: int) -> None:
        """Take the tokens of some answers together."""
        if answers < 1 or (who not in self._seen and len(self._seen) >= KEPT_NAMES):
            return
        buckets = self._seen.setdefault(who, [0] * UNSTATED.bit_length())
        buckets[min((tokens // answers).bit_length(), len(buckets) - 1)] += answers

    def usual(self, who: tuple[str, str]) -> int:
        """Return what is reserved for an answer whose request states no length.

        Twice the end of the bucket within which 99% of the answers lie, from 100 of them on.
        """
        buckets = self._seen.get(who, ())
        total = sum(buckets)
        below = 0
        for place, answers in enumerate(buckets if total >= ENOUGH_ANSWERS else ()):
            below += answers
            if below >= USUAL_SHARE * total:
                return min(MARGIN << place, UNSTATED)
        return UNSTATED


def bound_of(body: Mapping[str, object], raw: bytes, usual: int = UNSTATED) -> Bound:
    """Return the bound of a request; ``raw`` are the bytes of its body.

    ``usual`` is the length of an answer for which it states none.
    """
    stated = [number for name in LENGTHS if (number := _number(body.get(name))) is not None]
    named = ELSEWHERE if _NAMED.search(raw) else 0
    return Bound(len(raw) + named, max(stated) if stated else usual)


def charge(usage: Usage, price: Price, paths: int, seconds: float) -> float:
    """Return the dollars of an answer: by its tokens, by path and by second."""
    return usage.dollars(price) + paths * price.path + seconds * price.second


def usage_of(counts: Counts) -> Usage:
    """Return what an answer was billed at."""
    return Usage(counts.prompt, counts.cached, counts.output or 0)


def paths_asked(body: Mapping[str, object]) -> int:
    """Return how many answers a body asks for: ``n`` or ``best_of`` of each of its prompts."""
    prompts = items(body["prompt"]) if is_array(body.get("prompt")) else []
    several = sum(isinstance(prompt, str) or is_array(prompt) for prompt in prompts) or 1
    each = max(_number(body.get(name)) or 1 for name in ("n", "best_of"))
    return min(several * each, MOST_PATHS)


def _number(value: object) -> int | None:
    """Return a number of at least 1 as an integer, also from a text that a lenient server would read."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value < 2**53:
        return None
    return int(value)


class EventMeter:
    """Passes the events of a stream on and counts what it cost.

    The upstream is always asked for its usage; the event that holds it is kept back from a client that did
    not ask. A stream that ends before its usage is counted by its events, about one per token.
    """

    def __init__(self, *, pass_usage: bool) -> None:
        self._events, self._pass_usage = Events(), pass_usage
        self.usage: Object = {}
        self.model: object = None
        self.deltas = 0

    def feed(self, part: bytes) -> bytes:
        """Return what of the stream goes on to the client."""
        return b"".join(event for event in self._events.feed(part) if self._goes_on(event))

    def rest(self) -> bytes:
        """Return what is left of an event that never ended."""
        return self._events.rest

    def _goes_on(self, event: bytes) -> bool:
        if b'"usage"' not in event:
            self.deltas += _DELTA.match(event) is not None
            return True
        try:
            chunk = fields(decoded(data_of(event)))
        except ValueError:
            return True
        self.note(chunk)
        empty = chunk.get("choices") == []
        self.deltas += not empty and "response" not in chunk
        return self._pass_usage or not empty

    def note(self, said: Mapping[str, object]) -> None:
        """Take the usage and the model that an answer, or an event of it, states."""
        for holder in (said, fields(said.get("response")), fields(said.get("message"))):
            self.usage |= _stated(holder.get("usage"))
            self.model = holder.get("model") or self.model

    def cost(self) -> object:
        """Return the usage, the upstream's own or what the events tell."""
        return self.usage or {"completion_tokens": self.deltas}


def _stated(usage: object) -> Object:
    """Return a usage in the words of chat; that of messages counts what its cache holds apart."""
    given = fields(chat_usage(usage))
    cached = [count(given.get(f"cache_{part}_input_tokens")) or 0 for part in ("read", "creation")]
    if any(cached):
        given["prompt_tokens"] = (count(given.get("prompt_tokens")) or 0) + sum(cached)
    return {name: value for name, value in given.items() if value}


class AnswerMeter:
    """Reads what an answer of any kind cost, from a copy of its bytes; ``paths`` are its choices."""

    def __init__(self, kind: str) -> None:
        self._events = EventMeter(pass_usage=True) if kind.startswith("text/event-stream") else None
        self._is_json, self._raw = kind.startswith("application/json"), bytearray()
        self.paths: int | None = None

    def feed(self, part: bytes) -> None:
        """Take a part of the body."""
        if self._events is not None:
            self._events.feed(part)
        elif self._is_json and len(self._raw) <= MOST_JSON:
            self._raw += part

    def stated(self) -> tuple[object, object]:
        """Return the usage that was stated (None: none was) and the model that answered."""
        meter = self._events or EventMeter(pass_usage=True)
        if self._raw and len(self._raw) <= MOST_JSON:
            try:
                body = fields(decoded(bytes(self._raw)))
            except ValueError:
                body = {}
            meter.note(body)
            self.paths = len(entries(body.get("choices"))) or None
        return meter.usage or None, meter.model

    @property
    def deltas(self) -> int:
        """How many events of an answer came."""
        return 0 if self._events is None else self._events.deltas
