"""Prices by model, and the dollars of token usage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from keff.records import frozen

MILLION = 1_000_000  # prices are per million tokens, as servers state them


@frozen
class Price:
    """Dollars per million tokens of one model: prompt, cached prompt (default: as prompt), and output.

    ``path`` is dollars per path and ``second`` dollars per second that a path runs, beside them: what one's
    own machines cost, or records that count no tokens. Either stands without prices per token. ``cancelled``
    says what a cancelled path is billed: its tokens until it ``stops``, or the ``whole`` of it.
    """

    prompt: float = 0
    output: float = 0
    cached: float | None = None
    path: float = 0
    second: float = 0
    cancelled: Literal["stops", "whole"] = "stops"


# The section of a price table for what rates paths: dollars by path and by second.
VERIFIER = "verifier"

# What paths cost that an engine draws on the user's own machine (``Engine.local``).
FREE = Price(prompt=0, output=0)


@frozen
class Usage:
    """Billed tokens: prompts, the cached part of them, and output; and the paths that have a price each."""

    prompt: int = 0
    cached: int = 0
    output: int = 0
    paths: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of both usages."""
        prompt, cached = self.prompt + other.prompt, self.cached + other.cached
        return Usage(prompt, cached, self.output + other.output, self.paths + other.paths)

    def dollars(self, price: Price) -> float:
        """Return (prompt - cached) p + cached q + output r, with prices per million tokens, and paths."""
        cached = price.prompt if price.cached is None else price.cached
        tokens = (
            (self.prompt - self.cached) * price.prompt + self.cached * cached + self.output * price.output
        )
        return tokens / MILLION + self.paths * price.path


def price_of(model: str | None, prices: Mapping[str, Price]) -> Price | None:
    """Return a model's price: under its own name, else the longest prefix of it, else None."""
    fitting = [name for name in prices if model is not None and model.startswith(name) and name != VERIFIER]
    return prices[max(fitting, key=len)] if fitting else None
