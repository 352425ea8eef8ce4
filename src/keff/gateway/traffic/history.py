"""What requests took and saved over time, by key and model, and which cost most; in bounded memory."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from dataclasses import dataclass, field

from keff.gateway.traffic.savings import GatewayChange, Spent
from keff.protocol.values import Object

# Spans of the charts: when there are more, each two become one, so that the whole time is always shown. The
# first are minutes; after a day they are a quarter of an hour.
MOST_SPANS, FIRST_SPAN = 96, 60.0

# Keys and models that are counted apart; what comes after them counts together.
MOST_NAMES, OTHERS = 100, ("others", "others")

# Requests that are kept of those that cost most.
DEAREST = 10


@dataclass(slots=True)
class History:
    """Sums over requests: of spans of time, and of keys and models; and the dearest requests.

    A sum holds ``requests``, ``paths``, ``tokens``, ``dollars``, ``seconds``, what was ``saved_...`` of each
    against what is deployed today, and over the ``voted`` requests the share of paths that ``agree``.
    """

    width: float = FIRST_SPAN
    since: float = field(default_factory=time.time)
    spans: list[Counter[str]] = field(default_factory=list[Counter[str]])
    named: dict[tuple[str, str], Counter[str]] = field(default_factory=dict[tuple[str, str], Counter[str]])
    dearest: list[tuple[float, int, Object]] = field(default_factory=list[tuple[float, int, Object]])
    _seen: int = 0

    def agreed(self, share: float, at: float) -> None:
        """Take how far the paths of a voted request agree."""
        _add(self._span(at), {"voted": 1, "agree": share})

    def add(self, spent: Spent, change: GatewayChange | None, at: float) -> None:
        """Take one request that was answered."""
        took = {"paths": spent.paths, "tokens": spent.tokens, "dollars": spent.dollars or 0.0}
        saved = {} if change is None else {f"saved_{name}": -by for name, by in change.of(spent).items()}
        for sums in (self._span(at), self._named((spent.key, spent.model))):
            _add(sums, {"requests": 1, "seconds": spent.seconds, **took, **saved})
        self._seen += 1
        # By dollars where there are prices, else by tokens.
        cost = float(spent.tokens) if spent.dollars is None else spent.dollars
        told: Object = {
            "id": spent.id,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)),
            "key": spent.key,
            "model": spent.model,
            "seconds": spent.seconds,
            **took,
        }
        entry = (cost, -self._seen, told)
        if len(self.dearest) < DEAREST:
            heapq.heappush(self.dearest, entry)
        elif entry > self.dearest[0]:
            heapq.heapreplace(self.dearest, entry)

    def _named(self, name: tuple[str, str]) -> Counter[str]:
        known = name in self.named or len(self.named) < MOST_NAMES
        return self.named.setdefault(name if known else OTHERS, Counter())

    def _span(self, at: float) -> Counter[str]:
        while (place := max(0, int((at - self.since) / self.width))) >= MOST_SPANS:
            # Not the sum of counters, which drops what is not above 0.
            for even, odd in zip(self.spans[::2], self.spans[1::2], strict=False):
                _add(even, odd)
            self.spans, self.width = self.spans[::2], 2 * self.width
        while len(self.spans) <= place:
            self.spans.append(Counter())
        return self.spans[place]

    def told(self) -> Object:
        """Return what the page shows."""
        total: Counter[str] = Counter()
        for span in self.spans:
            _add(total, span)
        named = sorted(self.named.items(), key=lambda pair: (-pair[1]["dollars"], -pair[1]["tokens"]))
        return {
            "total": dict(total),
            "since": self.since,
            "span_seconds": self.width,
            "spans": [dict(span) for span in self.spans],
            "by_key_and_model": [{"key": key, "model": model, **sums} for (key, model), sums in named],
            "dearest": [told for _, _, told in sorted(self.dearest, key=lambda entry: entry[:2])[::-1]],
        }


def _add(sums: Counter[str], more: dict[str, float] | Counter[str]) -> None:
    for name, value in more.items():
        sums[name] += value  # pyright: ignore[reportArgumentType]
