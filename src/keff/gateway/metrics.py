"""Counters and histograms in the Prometheus text format."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import cache

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
PATHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)

HELP = {
    "keff_requests_total": "Chat requests by HTTP status (499: the client left), and all that the "
    "guard refused.",
    "keff_passed_total": "Requests of other paths of the API, passed through, by HTTP status.",
    "keff_votes_total": "Voted requests by why they stopped.",
    "keff_paths_total": "Paths by what became of them: voted, abstained, unused, cancelled, shadow, relayed, "
    "abandoned (their request failed or was left).",
    "keff_upstream_failures_total": "Upstream calls that failed.",
    "keff_tokens_total": "Tokens that the upstream billed.",
    "keff_odd_usage_total": "Upstream answers whose usage cannot be right; it is not counted.",
    "keff_dollars_total": "Dollars that they cost, where a price is given.",
    "keff_stale_total": "Requests that state something else than the plan, by what.",
    "keff_vote_log_errors_total": "Rows of the vote log that could not be written.",
    "keff_request_seconds": "Seconds of a chat request.",
    "keff_request_paths": "Paths of a voted request.",
    "keff_requests_in_flight": "Chat requests being served.",
    "keff_drift_requests_total": "Requests that the drift alarm has seen.",
    "keff_drift_statistic": "What the drift alarm compares with its threshold.",
    "keff_drift_threshold": "Where it alarms.",
    "keff_drift_alarm": "1 from an alarm on, else 0.",
}

Gauges = Callable[[], Mapping[str, float]]


@cache
def series(name: str, **labels: str) -> str:
    """Return the name of a series with its labels."""
    return name + (
        "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}" if labels else ""
    )


class Metrics:
    """All numbers of one gateway. Label values come from the code, never from a request."""

    def __init__(self) -> None:
        self._counts: dict[str, float] = {}
        self._bounds: dict[str, tuple[float, ...]] = {
            "keff_request_seconds": SECONDS,
            "keff_request_paths": PATHS,
        }
        self._buckets = {name: [0] * (len(bounds) + 1) for name, bounds in self._bounds.items()}
        self._sums = dict.fromkeys(self._bounds, 0.0)

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Add to a counter."""
        key = series(name, **labels)
        self._counts[key] = self._counts.get(key, 0) + by

    def observe(self, name: str, value: float) -> None:
        """Add a value to a histogram."""
        self._buckets[name][bisect_left(self._bounds[name], value)] += 1
        self._sums[name] += value

    def render(self, gauges: Mapping[str, float]) -> bytes:
        """Return everything as text."""
        lines: list[str] = []
        kinds = dict.fromkeys(gauges, "gauge") | dict.fromkeys(self._counts, "counter")
        values = {**gauges, **self._counts}
        named = ""
        for key in sorted(values):
            name = key.partition("{")[0]
            if name != named:
                lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} {kinds[key]}"]
                named = name
            lines.append(f"{key} {values[key]:.10g}")
        for name in self._bounds:
            lines += self._histogram(name)
        return ("\n".join(lines) + "\n").encode()

    def _histogram(self, name: str) -> list[str]:
        lines = [f"# HELP {name} {HELP[name]}", f"# TYPE {name} histogram"]
        total = 0
        for bound, found in zip((*map(str, self._bounds[name]), "+Inf"), self._buckets[name], strict=True):
            total += found
            lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{name}_sum {self._sums[name]:.10g}", f"{name}_count {total}"]
