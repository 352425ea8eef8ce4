"""Drawing orders (how many paths, from which slots) and their progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from keff.engine import Capabilities
from keff.policy import Policy
from keff.records import Sampling, frozen


@frozen
class Order:
    """How many paths to draw: K per question, cycling through slots, or as a policy asks.

    ``concurrency`` limits the requests in flight (None: the engine's own advice), ``attempts`` the tries
    at one path in this session. ``breaker`` failed requests in a row stop the run (None: 8 more than are
    in flight, so that one event that fails all of them does not stop it).
    """

    sampling: Sampling
    k: int
    slots: tuple[int, ...] = (0,)
    policy: Policy | None = None
    concurrency: int | None = None
    attempts: int = 6
    backoff: float = 0.5
    breaker: int | None = None
    halt: Halt | None = None


@dataclass(slots=True)
class Progress:
    """Counts of a drawing session so far.

    ``total`` paths are wanted (None under a policy); ``kept`` were there before; ``done`` were drawn now;
    ``failed`` counts failed attempts; ``estimated`` paths have no count of tokens from the server that can
    be right; ``refused`` names the questions that it did not take, with its reason; ``rules`` says how
    answers were found; ``unfinished`` questions still need paths that failed, under a policy; ``rated`` are
    the paths that a verifier rated; ``why`` is what the last attempt that failed failed with.
    """

    total: int | None = None
    items: int = 0
    kept: int = 0
    done: int = 0
    failed: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    abstained: int = 0
    truncated: int = 0
    estimated: int = 0
    refused: dict[str, str] = field(default_factory=dict[str, str])
    rules: Counter[str] = field(default_factory=Counter[str])
    stopped: str | None = None
    unfinished: int = 0
    rated: int = 0
    why: str = ""

    def after(self, before: Progress) -> Progress:
        """Return the sum of this session and an earlier one of the same run."""
        now = replace(self, kept=self.kept - before.done, refused=before.refused | self.refused)
        now.rules = before.rules + self.rules
        for name in SUMMED:
            setattr(now, name, getattr(before, name) + getattr(self, name))
        return now


# What sessions add up to; the other counts are of the run as it is.
SUMMED = (
    "done",
    "failed",
    "tokens",
    "prompt_tokens",
    "cached_tokens",
    "abstained",
    "truncated",
    "estimated",
    "rated",
)

OnProgress = Callable[[Progress], None]
# Says why no more paths may be asked for (a budget is spent), or None to go on.
Halt = Callable[[Progress], str | None]


def paths_per_slot(k: int, slots: Sequence[int]) -> list[tuple[int, int]]:
    """Return how many of K paths each slot gets when path i uses ``slots[i % len(slots)]``."""
    return [(slot, len(range(position, k, len(slots)))) for position, slot in enumerate(slots)]


def advised(engine: Capabilities, order: Order) -> int:
    """Return the recommended number of concurrent requests for an engine."""
    if not engine.by_paths or order.policy:
        return engine.parallel
    most = min(engine.max_n, -(-order.k // len(order.slots)))
    return engine.parallel * engine.max_n // most
