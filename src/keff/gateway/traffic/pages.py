"""The operator's pages: metrics, what is saved (``/keff``), and a plan made from traffic (``/keff/plan``)."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple, TypeAlias

from jinja2 import Environment, StrictUndefined, Template

from keff.errors import KeffError
from keff.gateway.http.errors import Problem
from keff.gateway.traffic.ledger import TrafficLedger
from keff.gateway.traffic.metrics import MetricLabels, Metrics, exposed, series
from keff.gateway.traffic.savings import COMPARED
from keff.gateway.traffic.traffic import plan_of, reading_warning
from keff.narrow import Fields, fields, is_number
from keff.protocol.values import Object

log = logging.getLogger("keff.gateway")

POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class Compared(NamedTuple):
    """One cost per request, with keff and as deployed today, and how it changes in words."""

    name: str
    keff: float
    today: float

    @property
    def words(self) -> str:
        """The change in words, such as "26% fewer paths"."""
        return change_in_words(self.name, self.keff / self.today - 1 if self.today else 0.0)


def change_in_words(cost: str, share: float) -> str:
    """Return a relative change of a cost in words, such as "26% fewer paths"."""
    less, what = ("less", "time") if cost == "seconds" else ("fewer", cost)
    return f"{abs(share):.0%} {'more' if share > 0 else less} {what}"


def comparisons(state: Fields) -> list[Compared]:
    """Return the costs per request that are known with keff and as deployed today."""
    change, mean = fields(state.get("change")), fields(state.get("per_request"))
    found: list[Compared] = []
    for name in COMPARED:
        by, keff = fields(change.get(name)).get("value"), mean.get(name)
        if is_number(by) and is_number(keff):
            found.append(Compared(name, keff, keff - by))
    return found


def page(state: Fields) -> str:
    """Return the page of what is saved."""
    return _template().render(
        state=state,
        compared=comparisons(state),
        alarms=[name for name, on in fields(fields(state.get("drift")).get("alarms")).items() if on],
        at=time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        figure=figure,
        change_in_words=change_in_words,
        style=(files("keff.report") / "templates" / "page.css").read_text("utf-8"),
    )


@cache
def _template() -> Template:
    """Return the template."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = files(__package__ or "") / "templates" / "saved.html.j2"
    return environment.from_string(source.read_text("utf-8"))


def figure(value: object) -> str:
    """Return a number with three digits, or what else the value is; a dash where it is not known."""
    if value is None:
        return "–"
    if not is_number(value):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 or isinstance(value, int) else f"{value:.3g}"


METRICS, SAVED, PLAN = "/metrics", "/keff", "/keff/plan"
JSON = "application/json"
OPERATOR = frozenset({SAVED, PLAN})

# Counters, and gauges as they are now.
Numbers: TypeAlias = tuple[Metrics, Mapping[tuple[str, MetricLabels], float]]


# Of each branch of the plan: ``up``, or why it is down.
States: TypeAlias = Mapping[str, Mapping[str, str]]
KINDS = {"branches": "branch", "servers": "server"}


class PageView(NamedTuple):
    """One page: status, content type and body."""

    status: int
    kind: str
    body: bytes


# Shows the page of a path in the form that is accepted; raises OSError where it cannot be had.
Show: TypeAlias = Callable[[str, str], Awaitable[PageView]]
Work: TypeAlias = Callable[[], Coroutine[object, object, None]]

HOUR = 3600.0  # of seconds: one log line each


@dataclass(slots=True)
class Views:
    """The operator's pages: metrics, what is saved, and the plan from traffic."""

    ledger: TrafficLedger
    numbers: Callable[[], Numbers]
    states: Callable[[], States]

    async def show(self, path: str, accept: str) -> PageView:
        """Return one page in a content type that the client accepts."""
        if path == METRICS:
            metrics, now = self.numbers()
            monitor = self.ledger.monitor
            drift = monitor.gauges() if monitor is not None else {}
            change = self.ledger.traffic.change
            saved = {} if change is None else change.gauges()
            up = {
                series(f"keff_{KINDS[kind]}_up", **{KINDS[kind]: name}): float(state == "up")
                for kind, states in self.states().items()
                for name, state in states.items()
            }
            return PageView(200, *exposed(metrics, {**now, **drift, **saved, **up}, accept))
        return await self._plan() if path == PLAN else self._page(accept)

    @property
    def beside(self) -> tuple[Work, ...]:
        """Background tasks: the hourly log line."""
        return (self._hourly,)

    async def _hourly(self) -> None:
        while True:
            await asyncio.sleep(HOUR)
            log.info(json.dumps({"event": "summary", **self.state()}))

    def _page(self, accept: str) -> PageView:
        """Return what is saved: HTML, or JSON for clients that accept only that."""
        if "html" not in accept and "json" in accept:
            return PageView(200, JSON, json.dumps(self.state()).encode())
        return PageView(200, "text/html; charset=utf-8", page(self.state()).encode())

    async def _plan(self) -> PageView:
        """Return the plan made from traffic; 409 while there is too little."""
        ledger, rows = self.ledger, list(self.ledger.traffic.drawn)
        try:
            made = await asyncio.to_thread(plan_of, rows, ledger.cap, ledger.space)
        except KeffError as error:
            return PageView(409, JSON, Problem(409, str(error), code="too_little_traffic").body())
        return PageView(200, JSON, made.model_dump_json(indent=2).encode())

    def state(self) -> Object:
        """Return the values shown on the page and in the hourly log line."""
        ledger = self.ledger
        monitor, matching = ledger.monitor, ledger.traffic.matching
        drift = None if monitor is None else {"requests": monitor.seen, "alarms": monitor.alarms}
        known: Object = {kind: dict(states) for kind, states in self.states().items() if states}
        seen = ledger.traffic.summary(ledger.policy)
        shown: Object = {"policy": ledger.policy.spec, **known, **seen, "drift": drift}
        return shown | {"warning": reading_warning(matching.interval(), matching.n)}
