"""Prices and times: dollars and seconds of policies, from recorded tokens and seconds.

Per question, per thousand, and per step of the curve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from itertools import pairwise

import numpy as np

from keff.analysis.results.decision import Bill, Seconds, Step
from keff.errors import PolicyError, UsageError
from keff.records import Interval, Note, frozen
from keff.sampling.cost import MILLION, VERIFIER, Price, price_of
from keff.stats.intervals import interval_mean
from keff.stats.time import quantiles
from keff.stats.votes import RATING_SECONDS, FloatArray, IntArray, Votes
from keff.stats.voting.plurality import plurality_at_k

# A path that is said to have taken longer than a day is an error in the record.
DAY = 86_400.0


@frozen
class StatedAim:
    """An aim in dollars or paths: a share of accuracy to keep, a budget, or the worth of a right answer.

    Raises PolicyError for several aims, and outside the ranges.
    """

    retain: float | None = None
    budget: float | None = None
    value_per_correct: float | None = None
    cost_per_path: float | None = None

    def __post_init__(self) -> None:
        if sum(aim is not None for aim in (self.retain, self.budget, self.value_per_correct)) > 1:
            raise PolicyError("state one aim: retain, budget, or value_per_correct")
        if self.retain is not None and not 0 < self.retain <= 1:
            raise PolicyError(f"retain must be above 0 and at most 1, not {self.retain:g}")
        for name, value in (("budget", self.budget), ("value_per_correct", self.value_per_correct)):
            if value is not None and not 0 < value < np.inf:
                raise PolicyError(f"{name} must be above 0, not {value:g}")
        if self.cost_per_path is not None and not 0 <= self.cost_per_path < np.inf:
            raise PolicyError("cost_per_path must not be negative")

    @property
    def is_stated(self) -> bool:
        """Whether an aim is stated."""
        return (self.retain, self.budget, self.value_per_correct) != (None, None, None)


@frozen
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

    @classmethod
    def of(cls, text: str) -> Pace:
        """Read seconds to the first token + tokens per second, such as ``0.5+60``; raises UsageError."""
        first, _, rate = text.partition("+")
        try:
            return cls(float(first), float(rate))
        except ValueError:
            how = "write seconds to the first token + tokens per second: 0.5+60"
            raise UsageError(f"--pace {text!r}: {how}") from None


@frozen
class Tariff:
    """A price table, and the file it came from (for messages)."""

    prices: Mapping[str, Price]
    file: str = "the price table"

    def of(self, model: str | None) -> tuple[str, Price]:
        """Return the price of a model, with its name; without a model, the only price in the table.

        Raises UsageError that names the model and the file.
        """
        models = [name for name in self.prices if name != VERIFIER]
        if model is None and len(models) == 1:
            return models[0], self.prices[models[0]]
        price = price_of(model, self.prices)
        if model is None:
            raise UsageError(f"the record names no model, and {self.file} has prices of several: keep one")
        if price is None:
            raise UsageError(f"{self.file} has no price for {model!r}: add a section [{model!r}]")
        return model, price


@frozen
class Rates:
    """The prices that apply to one record, with its prompt tokens.

    ``prompt`` [n] are the prompt tokens of one request of each question, and ``cached`` the share of them
    that the server had cached, as recorded, when the question was asked again. ``rating`` [n] are the dollars
    of one rating by the verifier (None: nothing that is priced rates paths).
    """

    model: str
    price: Price
    prompt: FloatArray
    notes: tuple[Note, ...] = field(default=())
    cached: float = 0.0
    rating: FloatArray | None = None

    def dollars(
        self,
        paths: FloatArray,
        rounds: FloatArray,
        tokens: FloatArray | None,
        busy: FloatArray | None,
        rated: FloatArray | None = None,
    ) -> FloatArray:
        """Return the dollars of each question [n].

        Every round is one request, which bills the prompt once: the first in full, the others with the part
        that is cached; then output tokens, paths, the seconds that paths run (``busy``), and ``rated`` paths.
        """
        first, again = self.prompts
        dollars = np.minimum(rounds, 1) * first + np.maximum(rounds - 1, 0) * again + paths * self.price.path
        if self.price.output > 0 and tokens is not None:
            dollars = dollars + tokens * self.price.output / MILLION
        if self.price.second > 0 and busy is not None:
            dollars = dollars + busy * self.price.second
        return dollars if rated is None or self.rating is None else dollars + rated * self.rating

    def fixed(self, votes: Votes, k: int, requests: int = 1) -> FloatArray:
        """Return the mean dollars of ``k`` paths of each question [n], sent in ``requests`` requests."""
        tokens = None if votes.tokens is None else k * votes.tokens.mean(axis=1)
        busy = None if votes.seconds is None else k * votes.seconds.mean(axis=1)
        ones = np.ones(votes.n)
        return self.dollars(k * ones, requests * ones, tokens, busy)

    def prompts_apart(self, paths: FloatArray, rounds: FloatArray) -> FloatArray:
        """Return the extra dollars [n] for prompts if every path were a request of its own."""
        return (paths - rounds) * self.prompts[1]

    @property
    def prompts(self) -> FloatArray:
        """The dollars of the prompt of each question [2, n]: in its first request, and in a further one."""
        again = self.cached * _cached_price(self.price) + (1 - self.cached) * self.price.prompt
        return np.multiply.outer([self.price.prompt, again], self.prompt) / MILLION

    def alone(self, votes: Votes) -> FloatArray:
        """Return the mean dollars of one path of each question [n], each path a request of its own."""
        return path_dollars(votes, self.price).mean(axis=1)

    def cost_of_record(self, votes: Votes) -> float:
        """Return the dollars that drawing the record cost, with prompts as billed."""
        dollars = float(path_dollars(replace(votes, prompt_tokens=None), self.price).sum())
        if self.rating is not None:
            dollars += votes.k * float(self.rating.sum())
        if votes.prompt_tokens is None:
            return dollars
        sent = float(votes.prompt_tokens.sum())
        known = 0.0 if votes.cached_tokens is None else float(np.nansum(votes.cached_tokens))
        return dollars + ((sent - known) * self.price.prompt + known * _cached_price(self.price)) / MILLION


def path_dollars(votes: Votes, price: Price) -> FloatArray:
    """Return the dollars of each path [n, K], each a request of its own, where tokens are recorded."""
    dollars = np.full((votes.n, votes.k), float(price.path))
    if votes.prompt_tokens is not None:
        dollars += request_prompts(votes)[:, None] * price.prompt / MILLION
    if votes.tokens is not None:
        dollars += votes.tokens * price.output / MILLION
    if votes.seconds is not None:
        dollars += votes.seconds * price.second
    return dollars


def request_prompts(votes: Votes) -> FloatArray:
    """Return the prompt tokens of one request of each question [n].

    A run bills the prompt with the first path of a request, so the largest count is its length.
    """
    return np.zeros(votes.n) if votes.prompt_tokens is None else votes.prompt_tokens.max(axis=1)


def check_counts(votes: Votes, name: str, price: Price, file: str) -> None:
    """Raise UsageError where a price needs tokens or seconds that the record lacks."""
    if price.output > 0 and votes.tokens is None:
        raise UsageError(
            f"{file} prices tokens of {name}, and the record counts none: "
            "price a path instead (path = dollars)"
        )
    if price.second > 0 and votes.seconds is None:
        raise UsageError(
            f"{file} prices seconds of {name}, and the record has none (all_seconds): "
            "price a path instead (path = dollars)"
        )


def prompt_notes(votes: Votes, name: str, price: Price) -> tuple[Note, ...]:
    """Return a note where prompts have a price but no recorded tokens."""
    if price.prompt == 0 or votes.prompt_tokens is not None:
        return ()
    return (
        Note("prompts_not_priced", f"your log has no prompt tokens of {name}, so keff does not price them"),
    )


def rates(votes: Votes, model: str | None, tariff: Tariff) -> Rates:
    """Return the prices of a record; raises UsageError for a model or a count that is missing."""
    name, price = tariff.of(model)
    check_counts(votes, name, price, tariff.file)
    notes = prompt_notes(votes, name, price)
    rating = _rating(votes, tariff)
    return Rates(name, price, request_prompts(votes), notes, _cached_again(votes), rating)


def _rating(votes: Votes, tariff: Tariff) -> FloatArray | None:
    """Return the dollars of rating one path of each question [n] by the verifier."""
    price, spent = tariff.prices.get(VERIFIER), _fill_missing(votes.named.get(RATING_SECONDS))
    given = votes.confidences
    # Numbers that nobody timed and none of which is above 0 pass for log-probabilities, which are free.
    if price is None or given is None or (spent is None and not np.any(given > 0)):
        return None
    if price.second > 0 and spent is None:
        raise UsageError(
            f"{tariff.file} prices seconds of the verifier, and the record has none "
            "(confidence.rating_seconds): price a path instead (path = dollars)"
        )
    return price.path + price.second * (np.zeros(votes.n) if spent is None else spent.mean(axis=1))


def _cached_price(price: Price) -> float:
    return price.prompt if price.cached is None else price.cached


def _cached_again(votes: Votes) -> float:
    """Return the share of the prompt that was cached in requests after the first of a question.

    0 where a record does not say, or drew every question by one request.
    """
    if votes.prompt_tokens is None or votes.cached_tokens is None:
        return 0.0
    sent = np.nan_to_num(votes.prompt_tokens)
    again = (sent > 0) & (np.cumsum(sent > 0, axis=1) > 1)
    total = float(sent[again].sum())
    cached = np.minimum(np.nan_to_num(votes.cached_tokens), sent)
    return float(cached[again].sum()) / total if total > 0 else 0.0


def complete(votes: Votes, pace: Pace | None = None) -> Votes:
    """Return votes whose missing tokens and seconds are filled by the mean of their question.

    Where a path counts none, the mean of its question stands in, else that of the record. Without recorded
    seconds ``pace`` makes them of tokens. Raises UsageError for seconds above a day.
    """
    tokens, seconds = _fill_missing(votes.tokens), _fill_missing(votes.seconds)
    if seconds is not None and seconds.max() > DAY:
        raise UsageError(f"a path took {seconds.max():,.0f} seconds, more than a day: are they milliseconds?")
    if seconds is None and pace is not None:
        if tokens is None:
            raise UsageError("times need recorded seconds or tokens, and the record has neither")
        seconds = pace.first + tokens / pace.rate
    prompts = _fill_missing(votes.prompt_tokens)
    if tokens is votes.tokens and seconds is votes.seconds and prompts is votes.prompt_tokens:
        return votes  # nothing to fill in: no second copy, and what is known of these votes is kept
    return replace(votes, tokens=tokens, seconds=seconds, prompt_tokens=prompts)


def with_prices(
    votes: Votes, model: str | None, tariff: Tariff | None, pace: Pace | None
) -> tuple[Votes, Rates | None, tuple[Note, ...]]:
    """Return completed votes, their prices, and notes on both.

    Raises UsageError for prices, counts or times that are missing.
    """
    full = complete(votes, pace)
    known = None if tariff is None else rates(full, model, tariff)
    notes = () if known is None else known.notes
    if pace is not None and votes.seconds is None:
        how = f"your log has no seconds, so keff takes {pace.first:g} + tokens / {pace.rate:g}"
        notes = (*notes, Note("seconds_from_tokens", how))
    return full, known, notes


def _fill_missing(values: FloatArray | None) -> FloatArray | None:
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


# Bills are told per question and per so many.
THOUSAND = 1000


def bill_of(
    cost: Interval | None, saved: Interval | None, votes: Votes, rates: Rates, volume: int | None
) -> Bill:
    """Return the bill of a rule by its mean cost per question, and the change of it: a saving is below 0."""
    record = rates.cost_of_record(votes)
    return Bill(
        model=rates.model,
        per_path=mean_of(rates.alone(votes), votes, "recorded cost of a path"),
        per_question=cost,
        per_1000=_times(cost, THOUSAND),
        volume=volume,
        for_volume=None if volume is None else _times(cost, volume),
        steps=steps_of(votes, rates),
        record=record,
        pays_back_after=None if saved is None or saved.value >= 0 else record / -saved.value,
    )


def doublings(k: int) -> list[int]:
    """Return the powers of two below k, and k."""
    return [*(2**power for power in range(k.bit_length()) if 2**power < k), k]


def steps_of(votes: Votes, rates: Rates) -> tuple[Step, ...]:
    """Return the steps of the plurality curve at powers of two: points gained and dollars for them."""
    if votes.correct is None or votes.answers is None:
        return ()
    curve = plurality_at_k(votes)
    # Fixed K is one request, so a further path adds no prompt.
    extra = float(rates.fixed(votes, 1, requests=0).mean())
    return tuple(
        step(low, high, float(curve[high - 1] - curve[low - 1]), (high - low) * extra)
        for low, high in pairwise(doublings(votes.k))
    )


def step(low: int, high: int, points: float, dollars: float) -> Step:
    """Return one step of the curve; without a rise, its price per right answer is None."""
    # A rise of less is rounding, and would have an absurd price.
    return Step(low, high, points, dollars, dollars / points if points > 1e-9 else None)


def mean_of(values: FloatArray, votes: Votes, method: str) -> Interval:
    """Return the mean of one value per question [n], with its cluster-robust interval."""
    mean = interval_mean(values, votes.cluster_ids)
    return Interval(mean.value, mean.lo, mean.hi, f"{method}, {mean.method}")


def waits_of(times: FloatArray | None, clusters: IntArray) -> Seconds | None:
    """Return the median and 95th percentile of times to answer [n, R]; None where unknown.

    What users of a service feel: the usual wait, and the long one that they remember.
    """
    if times is None or not np.all(np.isfinite(times)):
        return None
    return Seconds(*quantiles(times, (0.5, 0.95), clusters))


def _times(value: Interval | None, times: int) -> Interval | None:
    return value and value.mapped(lambda dollars: dollars * times)
