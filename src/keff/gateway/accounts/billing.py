"""Billing of requests: reserve the most before, charge each answer, settle after."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TypeAlias, TypeVar

from keff.gateway.accounts.accounts import RESERVED, Account, AccountLedger, Reservation, day_now
from keff.gateway.http.errors import Problem
from keff.gateway.traffic.metrics import Metrics
from keff.narrow import Fields, is_array, items
from keff.protocol.reply import counts_of
from keff.records import frozen
from keff.sampling.cost import VERIFIER, Price, Usage, price_of

log = logging.getLogger("keff.gateway")

# Seconds within which settlements are entered together: a commit costs more than all else of an account, and
# nobody waits for these, but for who would be refused until then.
SETTLING = 0.02

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
T = TypeVar("T")

# Who asks for how many paths and dollars, what became of it, and what a request that ended drew.
_Asked: TypeAlias = tuple[Account, int, float]
_Told: TypeAlias = Reservation | Problem
_Ended: TypeAlias = tuple[Reservation, int, float]


class PriceList:
    """Prices by model: of the model that answered, else of the one asked."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = prices
        self._found = lru_cache(KEPT_NAMES)(partial(price_of, prices=prices))

    def __bool__(self) -> bool:
        """Whether anything has a price."""
        return bool(self._prices)

    def of(self, *models: object) -> Price | None:
        """Return the price of the first of some models that has a price."""
        named = (model if isinstance(model, str) else "" for model in models if self._prices)
        return next((price for name in named if (price := self._found(name)) is not None), None)

    def rating(self, paths: int, seconds: float) -> float:
        """Return the dollars of the verifier for rating ``paths`` paths in ``seconds``; 0 without a price."""
        price = self._prices.get(VERIFIER)
        return 0.0 if price is None else charge(Usage(), price, paths, seconds)


@frozen
class Ceiling:
    """Upper bound on the dollars of one path, and of its prompt alone."""

    path: float = 0.0
    prompt: float = 0.0


FREE = Ceiling()


class AnswerLengths:
    """Histograms of answer lengths by key and model, in buckets that double."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], list[int]] = {}

    def note(self, who: tuple[str, str], tokens: int, answers: int) -> None:
        """Count the tokens of some answers."""
        if answers < 1 or (who not in self._seen and len(self._seen) >= KEPT_NAMES):
            return
        buckets = self._seen.setdefault(who, [0] * UNSTATED.bit_length())
        buckets[min((tokens // answers).bit_length(), len(buckets) - 1)] += answers

    def usual(self, who: tuple[str, str]) -> int:
        """Return the tokens to reserve for an answer whose request states no maximum.

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


def ceiling(body: Fields, raw: bytes, price: Price, seconds: float, usual: int = UNSTATED) -> Ceiling:
    """Return the upper bound on the cost of a request's path; ``raw`` are the bytes of its body.

    Its prompt has at most a token for each byte, its answer the length that it states, or the ``usual`` one.
    """
    stated = [number for name in LENGTHS if (number := _number(body.get(name))) is not None]
    prompt = len(raw) + (ELSEWHERE if _NAMED.search(raw) else 0)
    whole = charge(Usage(prompt, 0, max(stated, default=usual)), price, 1, seconds)
    return Ceiling(whole, Usage(prompt).dollars(price))


def charge(usage: Usage, price: Price, paths: int, seconds: float) -> float:
    """Return the dollars of an answer: by its tokens, by path and by second."""
    return usage.dollars(price) + paths * price.path + seconds * price.second


def paths_asked(body: Fields) -> int:
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


@dataclass(slots=True, kw_only=True)
class RequestSpending:
    """Running total of what one request has drawn.

    ``drawn`` paths came back and ``tokens`` were billed (at a price if ``priced``), but for ``uncounted``
    answers, whose usage cannot be right; ``lost`` paths were cancelled and may have cost anything, as may
    ``hidden`` ones, which state no usage, and the prompts of ``hidden_prompts``. ``cut`` are the tokens of
    cancelled paths that were streamed, not charged yet. ``most`` is what a path can cost at the most, on the
    account of ``key``.
    """

    drawn: int = 0
    lost: int = 0
    hidden: int = 0
    hidden_prompts: int = 0
    tokens: int = 0
    uncounted: int = 0
    dollars: float = 0.0
    cut: list[int] = field(default_factory=list[int])
    prompt: int | None = None
    cut_tokens: int = 0
    cut_dollars: float = 0.0
    priced: bool = True
    most: Ceiling = FREE
    key: str = ""

    def account(self) -> tuple[int, float]:
        """Return the paths and dollars to charge this request with.

        A cancelled path costs what those that came back did on average, or the most that one can.
        """
        most = self.most
        dollars = self.dollars + self.hidden * most.path
        each = dollars / self.drawn if self.drawn else most.path
        return self.drawn + self.lost, dollars + self.lost * each + self.hidden_prompts * most.prompt


@dataclass(slots=True, kw_only=True)
class Billing:
    """Prices, the account ledger, and usual answer lengths."""

    prices: PriceList = field(default_factory=lambda: PriceList({}))
    ledger: AccountLedger | None = None
    lengths: AnswerLengths = field(default_factory=AnswerLengths)
    metrics: Metrics = field(default_factory=Metrics)
    _ended: list[_Ended] = field(default_factory=list[_Ended])
    _entering: set[asyncio.Task[object]] = field(default_factory=set[asyncio.Task[object]])
    _timer: asyncio.TimerHandle | None = None

    async def hold(self, account: Account, paths: int, dollars: float) -> Reservation | None:
        """Reserve paths and dollars on an account; raises Problem.

        Nobody is admitted before what holds it is committed: 503 where it cannot be.
        """
        if self.ledger is None:
            return None
        if not account.limited:
            return Reservation(account, day_now())
        asked = (account, paths, dollars)
        told = await self._told(self.ledger, asked, ())
        if isinstance(told, Problem) and told.code == RESERVED and self._ended:
            # What stands in the way may have ended already.
            told = await self._told(self.ledger, asked, self._taken())
        if isinstance(told, Problem):
            raise told
        return told

    async def _told(self, ledger: AccountLedger, asked: _Asked, ended: Sequence[_Ended]) -> _Told:
        if not ledger.remote:
            # At once: to share a commit with others is to wait for turns of a busy loop, which cost more.
            return self._reserved(ledger, asked, ended)
        entering = self._elsewhere(partial(self._reserved, ledger, asked, ended))
        try:
            return await asyncio.shield(entering)
        except asyncio.CancelledError:
            entering.add_done_callback(self._give_back)
            raise

    def _elsewhere(self, work: Callable[[], T]) -> asyncio.Task[T]:
        task = asyncio.create_task(asyncio.to_thread(work))
        self._entering.add(task)
        task.add_done_callback(self._entering.discard)
        return task

    def _give_back(self, entering: asyncio.Task[_Told]) -> None:
        if not entering.cancelled() and isinstance(told := entering.result(), Reservation):
            self.settle(told, 0, 0.0)

    def settle(self, held: Reservation, paths: int, dollars: float) -> None:
        """Queue a request's final cost for entry on its account."""
        self._ended.append((held, paths, dollars))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SETTLING, self._settle)

    def _settle(self) -> None:
        self._timer, ledger = None, self.ledger
        assert ledger is not None, "who settles has one"
        enter = partial(self._enter_queued, ledger, self._taken())
        if ledger.remote:
            self._elsewhere(enter)
        else:
            enter()

    def _taken(self) -> Sequence[_Ended]:
        ended, self._ended = self._ended, []
        return ended

    def _reserved(self, ledger: AccountLedger, asked: _Asked, ended: Sequence[_Ended]) -> _Told:
        self._enter_queued(ledger, ended)
        try:
            return ledger.reserve(*asked)
        except Exception as error:
            # Whatever went wrong, it waits for an answer.
            _not_written(error)
            line = "the account of this key cannot be written: ask again"
            return Problem(503, line, code="account_unavailable")

    def _enter_queued(self, ledger: AccountLedger, ended: Sequence[_Ended]) -> None:
        """Enter queued costs in one transaction."""
        if not ended:
            return
        try:
            with ledger.transaction():
                for each in ended:
                    ledger.settle(*each)
        except Exception as error:
            self.metrics.count("keff_spend_errors_total", len(ended))
            _not_written(error)

    def most(self, body: Fields, raw: bytes, key: str, model: object, seconds: float) -> Ceiling | None:
        """Return the upper bound on a path's cost for a request of this key; None without a price."""
        price = self.prices.of(model)
        return price and ceiling(body, raw, price, seconds, self.lengths.usual((key, str(model))))

    def charge(
        self,
        spent: RequestSpending,
        usage: object,
        model: object,
        price: Price | None,
        paths: int = 0,
        seconds: float = 0.0,
    ) -> tuple[Usage, float]:
        """Charge one upstream answer, and return its usage and dollars."""
        given = counts_of(usage)
        bill, stated = Usage(given.prompt, given.cached, given.output or 0), given.output is not None
        spent.tokens += bill.prompt + bill.output
        if paths == 1:
            spent.prompt = bill.prompt or None
        if paths and not bill.prompt:
            spent.hidden += paths * (not stated)
            spent.hidden_prompts += stated
        if given.odd:
            self.metrics.count("keff_odd_usage_total")
        dollars = 0.0 if price is None else charge(bill, price, paths, seconds)
        if spent.key and stated:
            self.lengths.note((spent.key, str(model)), bill.output, paths)
        spent.dollars += dollars
        spent.uncounted += paths > 0 and (given.odd or not stated)
        spent.priced = spent.priced and (price is not None or not paths)
        self.metrics.count("keff_tokens_total", bill.prompt, kind="prompt")
        self.metrics.count("keff_tokens_total", bill.output, kind="completion")
        if price is not None:
            self.metrics.count("keff_dollars_total", dollars)
        return bill, dollars

    def charge_cut(self, spent: RequestSpending, model: object) -> None:
        """Charge the tokens generated by cancelled paths, each with its prompt.

        The prompt is that of the paths that came. Where the price says so, a cancelled path is billed whole:
        then it is taken to be as long as those were.
        """
        cut, spent.cut = spent.cut, []
        price = self.prices.of(model)
        tokens, dollars = spent.tokens, spent.dollars
        whole = (tokens // spent.drawn - (spent.prompt or 0)) if spent.drawn else 0
        for came in cut:
            spent.hidden_prompts += spent.prompt is None
            output = max(came, whole) if price is not None and price.cancelled == "whole" else came
            usage = {"prompt_tokens": spent.prompt or 0, "completion_tokens": output}
            self.charge(spent, usage, model, price)
        spent.cut_tokens += spent.tokens - tokens
        spent.cut_dollars += spent.dollars - dollars
        self.metrics.count("keff_cancelled_tokens_total", spent.tokens - tokens)

    async def close(self) -> None:
        """Wait until queued costs are entered, and close the ledger."""
        while self._timer is not None or self._entering:
            if self._timer is not None:
                self._timer.cancel()
                self._settle()
            if self._entering:
                await asyncio.wait(self._entering)
        if self.ledger is not None:
            self.ledger.close()


def _not_written(error: Exception) -> None:
    log.warning(json.dumps({"event": "account not written", "message": str(error)}))


def no_price(account: Account, model: object) -> Problem:
    """Return why a key limited in dollars may not use a model without a price."""
    named = f"the model {model!r:.100}" if isinstance(model, str) else "this request"
    line = f"the key {account.name} is limited in dollars, and {named} has no price at this gateway"
    return Problem(403, line, code="no_price", param="model")
