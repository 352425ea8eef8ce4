"""Metrics of a gateway: counted in dictionaries, rendered by prometheus-client.

Counting stands in the way of every request and is a dictionary's work; the client's own counters take a lock
and five times as long. Text, OpenMetrics and the series of the process are the client's (``exposed``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import version
from itertools import accumulate
from typing import TypeAlias

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

# Buckets from a cached short answer to a long chain of thought.
SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
# Buckets at the caps in use.
PATHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)

MetricLabels: TypeAlias = tuple[tuple[str, str], ...]

COUNTERS: Mapping[str, str] = {
    "keff_requests_total": "Chat requests by HTTP status (499: the client left), and all that the "
    "guard refused.",
    "keff_failed_requests_total": "Requests that the upstream or the gateway failed, by HTTP status and "
    "upstream.",
    "keff_passed_total": "Requests on other routes of the API, passed through, by HTTP status.",
    "keff_votes_total": "Voted requests, by why drawing stopped.",
    "keff_paths_total": "Paths by what became of them: voted, abstained, unread, unused, cancelled, shadow, "
    "relayed, repeated (given before), abandoned (their request failed or was left).",
    "keff_undecided_votes_total": "Votes that unread answers could have turned.",
    "keff_upstream_failures_total": "Upstream calls that failed.",
    "keff_verifier_paths_total": "Paths that the verifier rated, or failed on.",
    "keff_verifier_seconds_total": "Seconds that the verifier took.",
    "keff_tokens_total": "Tokens that the upstream billed.",
    "keff_cancelled_tokens_total": "Of these, the tokens of cancelled paths.",
    "keff_odd_usage_total": "Upstream answers with impossible token counts, which keff leaves out.",
    "keff_dollars_total": "Dollars that the upstream billed, where a price is given.",
    "keff_branch_paths_total": "Paths that each branch of the plan drew.",
    "keff_branch_tokens_total": "Tokens that each branch billed.",
    "keff_branch_dollars_total": "Dollars that each branch cost, where it has a price.",
    "keff_branch_seconds_total": "Seconds of the calls to each branch that came back.",
    "keff_branch_failures_total": "Calls to each branch that failed.",
    "keff_branch_escalations_total": "Requests that came to each branch unsettled by those before.",
    "keff_branch_settled_total": "Requests by the branch that settled them.",
    "keff_stale_total": "Requests that differ from the plan, by field.",
    "keff_vote_log_errors_total": "Rows of the vote log that could not be written.",
    "keff_key_requests_total": "Requests by the name of their key.",
    "keff_key_paths_total": "Paths drawn by the name of the key.",
    "keff_key_dollars_total": "Dollars by the name of the key, with an estimate of abandoned paths.",
    "keff_key_limited_total": "Requests refused because their key is over its limit, by its name.",
    "keff_drift_requests_total": "Requests that the drift alarm has seen.",
}
GAUGES: Mapping[str, str] = {
    "keff_requests_in_flight": "Chat requests being served.",
    "keff_branch_up": "1 while a branch's own servers answer, else 0.",
    "keff_server_up": "1 while a server of several answers, else 0.",
    "keff_change_paths": "Paths of a reply minus those of what is deployed today, mean; below 0 is saved.",
    "keff_change_tokens": "Tokens of a reply minus those of today's paths, mean; below 0 is saved.",
    "keff_change_dollars": "Dollars of a reply minus today's, mean; below 0 is saved.",
    "keff_change_seconds": "Seconds of a reply minus those of today's paths side by side, mean.",
    "keff_drift_statistic": "What the drift alarm compares with its threshold.",
    "keff_drift_threshold": "Where it alarms.",
    "keff_drift_alarm": "1 from an alarm on, else 0.",
}
HISTOGRAMS: Mapping[str, tuple[tuple[float, ...], str]] = {
    "keff_request_seconds": (SECONDS, "Seconds of a chat request."),
    "keff_request_paths": (PATHS, "Paths of a voted request."),
}


@cache
def series(name: str, **labels: str) -> tuple[str, MetricLabels]:
    """Return the key of a series: its name and its labels."""
    return name, tuple(labels.items())


class Metrics:
    """Counters and histograms of one process; labels never hold text of a request."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, MetricLabels], float] = {}
        self._buckets = {name: [0] * (len(bounds) + 1) for name, (bounds, _) in HISTOGRAMS.items()}
        self._sums = dict.fromkeys(HISTOGRAMS, 0.0)

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Add to a counter."""
        key = series(name, **labels)
        self._values[key] = self._values.get(key, 0) + by

    def observe(self, name: str, value: float) -> None:
        """Add a value to a histogram."""
        self._buckets[name][bisect_left(HISTOGRAMS[name][0], value)] += 1
        self._sums[name] += value

    def families(self, now: Mapping[tuple[str, MetricLabels], float]) -> Iterator[Metric]:
        """Yield all metric families for prometheus-client; ``now`` are gauges read at this moment."""
        by_name: dict[str, list[tuple[MetricLabels, float]]] = {}
        for (name, labels), value in {**self._values, **now}.items():
            by_name.setdefault(name, []).append((labels, value))
        for name in sorted(by_name):
            yield _family(name, by_name[name])
        for name, (bounds, told) in HISTOGRAMS.items():
            edges = (*map(str, map(float, bounds)), "+Inf")
            counted = list(zip(edges, accumulate(map(float, self._buckets[name])), strict=True))
            yield HistogramMetricFamily(name, told, buckets=counted, sum_value=self._sums[name])


def _family(name: str, rows: Iterable[tuple[MetricLabels, float]]) -> Metric:
    rows = sorted(rows)
    labels = [label for label, _ in rows[0][0]]
    family = (
        CounterMetricFamily(name, COUNTERS[name], labels=labels)
        if name in COUNTERS
        else GaugeMetricFamily(name, GAUGES[name], labels=labels)
    )
    for values, number in rows:
        family.add_metric([value for _, value in values], number)
    return family


class _Of(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def metrics_text(
    metrics: Metrics, now: Mapping[tuple[str, MetricLabels], float], accept: str
) -> tuple[str, bytes]:
    """Return content type and text of all metrics, with those of the process and the build.

    OpenMetrics for who accepts it, else the Prometheus text format.
    """
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    build = InfoMetricFamily("keff_build", "The version of keff.", {"version": version("keff")})
    registry.register(_Of((build, *metrics.families(now))))
    encode, kind = choose_encoder(accept)
    return kind, encode(registry)


# What a trace may say of a request.
Fact: TypeAlias = str | bool | int | float
