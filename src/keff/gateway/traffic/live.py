"""The operator's pages: metrics, traffic (``/keff``), and a plan made from it (``/keff/plan``)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from keff.errors import KeffError
from keff.gateway.http.errors import Problem
from keff.gateway.traffic.ledger import OwnBooks
from keff.gateway.traffic.live_page import page
from keff.gateway.traffic.metrics import Labels, Metrics, exposed, series
from keff.protocol.values import Object

METRICS, LIVE, PLAN = "/metrics", "/keff", "/keff/plan"
JSON = "application/json"
OPERATOR = frozenset({LIVE, PLAN})

# Counters, and gauges as they are now.
Numbers: TypeAlias = tuple[Metrics, Mapping[tuple[str, Labels], float]]


# Of each branch of the plan: ``up``, or why it is down.
States: TypeAlias = Mapping[str, Mapping[str, str]]
KINDS = {"branches": "branch", "servers": "server"}


@dataclass(frozen=True, slots=True)
class PageView:
    """One page: status, content type and body."""

    status: int
    kind: str
    body: bytes


@dataclass(frozen=True, slots=True)
class TrafficTerms:
    """What a plan made from traffic says of it: its answer space, and the most paths of a request."""

    space: str
    cap: int


class Viewer(Protocol):
    """Who can show the pages."""

    async def show(self, path: str, accept: str) -> PageView:
        """Return one page in the form that is accepted."""
        ...

    async def state(self) -> Object:
        """Return what the hourly line says."""
        ...

    async def turns(self) -> None:
        """Share what was seen with other hosts, again and again."""
        ...


class Views:
    """What the process that keeps the books can show: metrics, the live page and the plan from traffic."""

    def __init__(
        self,
        books: OwnBooks,
        kept: TrafficTerms,
        numbers: Callable[[], Numbers],
        states: Callable[[], States],
    ) -> None:
        self.books, self.kept, self._numbers, self._states = books, kept, numbers, states

    async def show(self, path: str, accept: str) -> PageView:
        """Return one page in the form that is accepted."""
        if path == METRICS:
            metrics, now = self._numbers()
            monitor = self.books.monitor
            drift = monitor.gauges() if monitor is not None else {}
            change = self.books.traffic.change
            saved = {} if change is None else change.gauges()
            up = {
                series(f"keff_{KINDS[kind]}_up", **{KINDS[kind]: name}): float(state == "up")
                for kind, states in self._states().items()
                for name, state in states.items()
            }
            return PageView(200, *exposed(metrics, {**now, **drift, **saved, **up}, accept))
        return await (self._plan() if path == PLAN else self._page(accept))

    async def turns(self) -> None:
        """Share what was seen with other hosts, again and again."""
        await self.books.turns()

    async def _page(self, accept: str) -> PageView:
        """Show the traffic: HTML, or JSON for who accepts that and no HTML."""
        told = await self.state()
        history = self.books.traffic.history.told()
        others = await asyncio.to_thread(self.books.traffic.others)
        if "html" not in accept and "json" in accept:
            return PageView(200, JSON, json.dumps(told | {"others": others, "history": history}).encode())
        return PageView(200, "text/html; charset=utf-8", page(told, others, history))

    async def _plan(self) -> PageView:
        """Return the plan that the traffic gives; 409 while that is too little."""
        from keff.gateway.traffic.traffic_plan import plan_of

        rows = list(self.books.traffic.drawn)
        try:
            made = await asyncio.to_thread(plan_of, rows, self.kept.cap, self.kept.space)
        except KeffError as error:
            problem = Problem(409, str(error), code="too_little_traffic")
            return PageView(problem.status, JSON, problem.body())
        return PageView(200, JSON, made.model_dump_json(indent=2).encode())

    async def state(self) -> Object:
        """Return what the page and the hourly line say."""
        from keff.gateway.traffic.traffic_plan import reading_warning

        books = self.books
        monitor, matching = books.monitor, books.traffic.matching
        drift = None if monitor is None else {"requests": monitor.seen, "alarms": monitor.alarms}
        known: Object = {kind: dict(states) for kind, states in self._states().items() if states}
        if books.away:
            known["hosts"] = f"what other hosts see is missing: {books.away}"
        seen = books.traffic.summary(books.policy)
        shown: Object = {"policy": books.policy.spec, **known, **seen, "drift": drift}
        return shown | {"warning": reading_warning(matching.interval(), matching.n)}
