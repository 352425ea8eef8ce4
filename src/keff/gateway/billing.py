"""Billing of requests: what each answer costs, and an estimate for abandoned paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial

from keff.gateway.http.errors import Problem
from keff.gateway.keys import ClientKey
from keff.gateway.traffic.metrics import Metrics
from keff.narrow import Fields, is_array, items
from keff.protocol.reply import counts_of
from keff.protocol.server import LENGTHS
from keff.records import frozen
from keff.sampling.cost import VERIFIER, Price, Usage, price_of

# What an abandoned path is taken to have written whose request states no length.
UNSTATED = 4096
# Bytes of a prompt to a token.
BYTES_PER_TOKEN = 4

# The fields that state a length, in chat and in Responses.
LENGTH_FIELDS = (*LENGTHS, "max_output_tokens")

# What a request may state at all.
MOST_PATHS = 10**6
# Model names are the client's words: bounded, so that memory is.
KEPT_NAMES = 1024


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
class PathEstimate:
    """Estimated dollars of a path whose usage is unknown: for its tokens, its prompt's, and each second."""

    tokens: float = 0.0
    prompt: float = 0.0
    second: float = 0.0


NOTHING = PathEstimate()


def estimated(body: Fields, raw: bytes, price: Price, *, reads: bool = False) -> PathEstimate:
    """Return what a path of a request may cost, estimated from the bytes ``raw`` of its body.

    keff counts a prompt token for every four bytes, and as many answer tokens as the request allows. A
    request that only ``reads`` has no answer tokens.
    """
    stated = [number for name in LENGTH_FIELDS if (number := _number(body.get(name))) is not None]
    prompt = Usage(len(raw) // BYTES_PER_TOKEN)
    whole = prompt if reads else prompt + Usage(output=max(stated, default=UNSTATED))
    return PathEstimate(whole.dollars(price) + price.path, prompt.dollars(price), price.second)


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

    ``drawn`` paths came back, and the upstream billed ``tokens`` for them (at a price if ``priced``).
    ``uncounted`` answers are not in it: their usage cannot be right, or lacks the prompt. ``lost`` paths
    were cancelled, and ``hidden`` ones state no usage, so both may have cost anything, like the prompts
    of ``hidden_prompts``. ``cut`` are the tokens of streamed paths that were cancelled and not charged
    yet, ``cut_paths`` those that were. The prompts of the ``calls`` that came back had ``prompt_tokens`` for
    ``prompt_dollars``; ``shared`` says that one prompt was for several paths. ``estimate`` is what a path of
    this request may cost. ``key`` is the client's name.
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
    cut_paths: int = 0
    cut_tokens: int = 0
    cut_dollars: float = 0.0
    calls: int = 0
    prompt_tokens: int = 0
    prompt_dollars: float = 0.0
    shared: bool = False
    priced: bool = True
    estimate: PathEstimate = NOTHING
    key: str = ""

    def charged(self, seconds: float) -> tuple[int, float]:
        """Return the paths and dollars that the client pays for a request that took ``seconds``.

        A cancelled path costs as much as the others did on average. If none came back, it costs the
        estimate.
        """
        estimate = self.estimate
        path = estimate.tokens + estimate.second * seconds
        dollars = self.dollars + self.hidden * path
        each = dollars / self.drawn if self.drawn else path
        return self.drawn + self.lost, dollars + self.lost * each + self.hidden_prompts * estimate.prompt


@dataclass(slots=True, kw_only=True)
class Billing:
    """Prices, and the metrics of what was spent."""

    prices: PriceList = field(default_factory=lambda: PriceList({}))
    metrics: Metrics = field(default_factory=Metrics)

    def charge(
        self,
        spent: RequestSpending,
        usage: object,
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
        spent.dollars += dollars
        if paths:
            spent.calls, spent.shared = spent.calls + 1, spent.shared or paths > 1
            spent.prompt_tokens += bill.prompt
            spent.prompt_dollars += (
                0.0 if price is None else charge(Usage(bill.prompt, bill.cached), price, 0, 0.0)
            )
        spent.uncounted += paths > 0 and (given.odd or not stated or not bill.prompt)
        spent.priced = spent.priced and (price is not None or not paths)
        self.metrics.count("keff_tokens_total", bill.prompt, kind="prompt")
        self.metrics.count("keff_tokens_total", bill.output, kind="completion")
        if price is not None:
            self.metrics.count("keff_dollars_total", dollars)
        return bill, dollars

    def charge_cut(self, spent: RequestSpending, model: object) -> None:
        """Charge the tokens that cancelled paths generated, each with its prompt.

        The prompt is as long as that of the paths that came. If the price says that cancelled paths
        are billed whole, each counts as long as those were.
        """
        cut, spent.cut = spent.cut, []
        price = self.prices.of(model)
        tokens, dollars = spent.tokens, spent.dollars
        whole = (tokens // spent.drawn - (spent.prompt or 0)) if spent.drawn else 0
        for came in cut:
            spent.hidden_prompts += spent.prompt is None
            output = max(came, whole) if price is not None and price.cancelled == "whole" else came
            usage = {"prompt_tokens": spent.prompt or 0, "completion_tokens": output}
            self.charge(spent, usage, price)
        spent.cut_paths += len(cut)
        spent.cut_tokens += spent.tokens - tokens
        spent.cut_dollars += spent.dollars - dollars
        self.metrics.count("keff_cancelled_tokens_total", spent.tokens - tokens)


def no_price(key: ClientKey, model: object) -> Problem:
    """Return why a key limited in dollars may not use a model without a price."""
    named = f"the model {model!r:.100}" if isinstance(model, str) else "this request"
    line = f"the key {key.name} is limited in dollars, and {named} has no price at this gateway"
    return Problem(403, line, code="no_price", param="model")
