"""What policies cost at a price table, and how long their paths take: from recorded tokens and seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from keff.errors import UsageError
from keff.records import Note
from keff.sampling.cost import MILLION, Price, price_of
from keff.stats.votes import FloatArray, Votes

DAY = 86_400.0
"""A path that is said to have taken longer than a day is an error in the record."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a path takes where only its tokens are recorded: ``first`` + tokens / ``rate`` seconds.

    Raises UsageError for a negative time or a rate that is not above 0.
    """

    first: float = 0.0
    rate: float = 50.0

    def __post_init__(self) -> None:
        if not 0 <= self.first <= DAY:
            raise UsageError(f"seconds to the first token must be 0 to {DAY:g}, not {self.first:g}")
        if not 0 < self.rate < np.inf:
            raise UsageError(f"tokens per second must be above 0, not {self.rate:g}")


@dataclass(frozen=True, slots=True)
class Tariff:
    """A price table, and the file it came from (for messages)."""

    prices: Mapping[str, Price]
    file: str = "the price table"

    def of(self, model: str | None) -> tuple[str, Price]:
        """Return the price of a model, and its name; a record without a model takes the only price there is.

        Raises UsageError that names the model and the file.
        """
        if model is None and len(self.prices) == 1:
            return next(iter(self.prices.items()))
        price = price_of(model, self.prices)
        if model is None:
            raise UsageError(f"the record names no model, and {self.file} has prices of several: keep one")
        if price is None:
            raise UsageError(f"{self.file} has no price for {model!r}: add a section [{model!r}]")
        return model, price


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices of one record: ``prompt`` [n] are the prompt tokens of one request of each question."""

    model: str
    price: Price
    prompt: FloatArray
    notes: tuple[Note, ...] = field(default=())

    def dollars(
        self, paths: FloatArray, rounds: FloatArray, tokens: FloatArray | None, busy: FloatArray | None
    ) -> FloatArray:
        """Return the dollars of each question [n].

        Every round is one request, which bills the prompt once, without a discount for cached prompts; then
        output tokens, paths, and the seconds that paths run (``busy``).
        """
        dollars = rounds * self.prompt * self.price.prompt / MILLION + paths * self.price.path
        if self.price.output > 0 and tokens is not None:
            dollars = dollars + tokens * self.price.output / MILLION
        if self.price.second > 0 and busy is not None:
            dollars = dollars + busy * self.price.second
        return dollars

    def alone(self, votes: Votes) -> FloatArray:
        """Return the mean dollars of one path of each question [n], each drawn by a request of its own."""
        tokens = None if votes.tokens is None else votes.tokens.mean(axis=1)
        busy = None if votes.seconds is None else votes.seconds.mean(axis=1)
        ones = np.ones(votes.n)
        return self.dollars(ones, ones, tokens, busy)

    def recorded(self, votes: Votes) -> float:
        """Return what drawing the record cost: all its paths, and prompts as they were billed."""
        tokens = None if votes.tokens is None else votes.tokens.sum(axis=1)
        busy = None if votes.seconds is None else votes.seconds.sum(axis=1)
        none = np.zeros(votes.n)
        dollars = float(self.dollars(np.full(votes.n, votes.k), none, tokens, busy).sum())
        if votes.prompt_tokens is None:
            return dollars
        return dollars + float(votes.prompt_tokens.sum()) * self.price.prompt / MILLION


def rates(votes: Votes, model: str | None, tariff: Tariff) -> Rates:
    """Return the prices of a record; raises UsageError for a model or a count that is missing."""
    name, price = tariff.of(model)
    if price.output > 0 and votes.tokens is None:
        raise UsageError(
            f"{tariff.file} prices tokens of {name}, and the record counts none: "
            "price a path instead (path = dollars)"
        )
    if price.second > 0 and votes.seconds is None:
        raise UsageError(
            f"{tariff.file} prices seconds of {name}, and the record has none (all_seconds): "
            "price a path instead (path = dollars)"
        )
    if votes.prompt_tokens is not None:
        # A run bills the prompt with the first path of a request, so the largest count is its length.
        return Rates(name, price, votes.prompt_tokens.max(axis=1))
    note = Note("prompts_not_priced", f"prompts of {name} are not recorded, and not priced")
    return Rates(name, price, np.zeros(votes.n), (note,) if price.prompt > 0 else ())


def complete(votes: Votes, pace: Pace | None = None) -> Votes:
    """Return votes whose counts and times are known for every path.

    Where a path counts none, the mean of its question stands in, else that of the record. Without recorded
    seconds ``pace`` makes them of tokens. Raises UsageError for seconds above a day.
    """
    tokens, seconds = _filled(votes.tokens), _filled(votes.seconds)
    if seconds is not None and seconds.max() > DAY:
        raise UsageError(f"a path took {seconds.max():,.0f} seconds, more than a day: are they milliseconds?")
    if seconds is None and pace is not None:
        if tokens is None:
            raise UsageError("times need recorded seconds or tokens, and the record has neither")
        seconds = pace.first + tokens / pace.rate
    return replace(votes, tokens=tokens, seconds=seconds, prompt_tokens=_filled(votes.prompt_tokens))


def _filled(values: FloatArray | None) -> FloatArray | None:
    if values is None:
        return None
    known = np.isfinite(values)
    if known.all():
        return values
    if not known.any():
        return None
    counts, sums = known.sum(axis=1), np.where(known, values, 0.0).sum(axis=1)
    overall = sums.sum() / counts.sum()
    means = np.asarray(np.where(counts > 0, sums / np.maximum(counts, 1), overall), np.float64)
    return np.where(known, values, means[:, None])
