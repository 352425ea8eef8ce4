"""How many tokens an answer took, and how likely they were; pure.

One path in a request: the server's ``usage``. Several paths: the entries of each path's log-probabilities,
because some servers' usage counts the first path only; what a usage sum holds beyond that (hidden thinking)
is divided by the length of the hidden text. Several paths without log-probabilities: the usage sum divided
by the length of text. Neither: one token per four characters. A count that cannot be right (negative, a text,
10^30) is taken as missing, and the completion says that its tokens are an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from keff.narrow import entries, fields
from keff.protocol.values import count, is_logprob, text_of
from keff.records import Logprobs

Choice = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Counts:
    """The tokens of one response; ``output`` is None where the server gives no number that can be right.

    ``odd`` says that it gave something else than a number of tokens.
    """

    prompt: int = 0
    cached: int = 0
    output: int | None = None
    odd: bool = False


NOTHING = Counts()


def counts_of(usage: object) -> Counts:
    """Return the counts of a response's ``usage``."""
    if usage is None:
        return NOTHING
    stated = fields(usage)
    asked, more, gave = (
        stated.get("prompt_tokens"),
        stated.get("prompt_tokens_details"),
        stated.get("completion_tokens"),
    )
    reused = None if more is None else fields(more).get("cached_tokens")
    prompt, cached, output = count(asked), count(reused), count(gave)
    odd = (
        not isinstance(usage, dict)
        or (prompt is None and asked is not None)
        or (cached is None and reused is not None)
        or (output is None and gave is not None)
    )
    return Counts(prompt or 0, min(cached or 0, prompt or 0), output, odd)


def summarize(logprobs: Iterable[float]) -> Logprobs | None:
    """Summarise the token log-probabilities of one path; None when there are none.

    ``bottom`` is the mean of the lowest tenth, of at least one token. Values that are not finite are left
    out.
    """
    known = sorted(filter(math.isfinite, logprobs))
    if not known:
        return None
    tenth = known[: math.ceil(len(known) / 10)]
    total = math.fsum(known)
    return Logprobs(total / len(known), math.fsum(tenth) / len(tenth), total)


def token_logprobs(choice: Choice) -> list[float]:
    """Return the log-probability of each generated token, as far as the server gives them."""
    content = fields(choice.get("logprobs")).get("content")
    try:
        # By far the most of a long answer is this list: no check per entry where it is as it should be.
        values: list[Any] = [entry["logprob"] for entry in cast("list[Any]", content)]
    except (TypeError, KeyError):
        values = [entry.get("logprob") for entry in entries(content)]
    if set(map(type, values)) == {float} and is_logprob(min(values)) and is_logprob(max(values)):
        return values
    return [float(value) for value in values if is_logprob(value)]


def token_counts(choices: Sequence[Choice], usage: int | None) -> list[int]:
    """Return how many tokens each choice took; see the module for the rule."""
    if len(choices) == 1 and usage is not None:
        return [usage]
    counts = [len(token_logprobs(choice)) for choice in choices]
    hidden = [len(reasoning_of(fields(choice["message"]))) for choice in choices]
    if all(counts):
        extra = max(0, (usage or 0) - sum(counts))
        return [number + more for number, more in zip(counts, apportion(extra, hidden), strict=True)]
    lengths = [
        len(text_of(fields(choice["message"]).get("content"))) + more
        for choice, more in zip(choices, hidden, strict=True)
    ]
    return apportion(usage, lengths) if usage is not None else [math.ceil(length / 4) for length in lengths]


def reasoning_of(message: Mapping[str, object]) -> str:
    """Return the hidden thinking that a server keeps apart."""
    return text_of(message.get("reasoning_content") or message.get("reasoning"))


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Divide ``total`` into whole parts in proportion to ``weights`` (equally when they are all zero)."""
    shares = weights if any(weights) else [1] * len(weights)
    bounds = [0]
    for share in shares:
        bounds.append(bounds[-1] + share)
    cuts = [total * bound // bounds[-1] for bound in bounds]
    return [after - before for before, after in pairwise(cuts)]
