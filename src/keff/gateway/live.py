"""The operator's pages: metrics, traffic (``/keff``), and a plan made from it (``/keff/plan``)."""

from __future__ import annotations

import asyncio
import html
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast

from keff.errors import KeffError
from keff.gateway.books import OwnBooks
from keff.gateway.errors import Problem
from keff.gateway.metrics import Labels, Metrics, exposed
from keff.protocol.values import Object

METRICS, LIVE, PLAN = "/metrics", "/keff", "/keff/plan"
JSON = "application/json"
OPERATOR = frozenset({LIVE, PLAN})
POLICY = "default-src 'none'; style-src 'unsafe-inline'"

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="30">
<meta name="viewport" content="width=device-width"><title>keff gateway</title>
<style>body{{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}}
table{{border-collapse:collapse}}th,td{{text-align:left;padding:.2em 1em .2em 0;border-bottom:1px solid #ccc}}
</style><h1>keff gateway</h1>{warning}{state}<h2>Other rules, on the requests that were drawn on</h2>{others}
<p>Nothing changes by itself. <code>GET /keff/plan</code> gives a plan made from these requests.</p></html>"""


Numbers: TypeAlias = tuple[Metrics, Mapping[tuple[str, Labels], float]]
"""Counters, and gauges as they are now."""


@dataclass(frozen=True, slots=True)
class View:
    """One page: status, content type and body."""

    status: int
    kind: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Kept:
    """What a plan made from traffic says of it: its answer space, and the most paths of a request."""

    space: str
    cap: int


class Viewer(Protocol):
    """Who can show the pages."""

    async def show(self, path: str, accept: str) -> View:
        """Return one page in the form that is accepted."""
        ...

    async def state(self) -> Object:
        """Return what the hourly line says."""
        ...


class Views:
    """What the process that keeps the books can show: metrics, the live page and the plan from traffic.

    ``branches`` says how the branches of a plan do, where this process asks them itself.
    """

    def __init__(
        self,
        books: OwnBooks,
        kept: Kept,
        numbers: Callable[[], Numbers],
        branches: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self.books, self.kept, self._numbers, self._branches = books, kept, numbers, branches

    async def show(self, path: str, accept: str) -> View:
        """Return one page in the form that is accepted."""
        if path == METRICS:
            metrics, now = self._numbers()
            monitor = self.books.monitor
            drift = monitor.gauges() if monitor is not None else {}
            return View(200, *exposed(metrics, {**now, **drift}, accept))
        return await (self._plan() if path == PLAN else self._page(accept))

    async def _page(self, accept: str) -> View:
        """Show the traffic: HTML, or JSON for who accepts that and no HTML."""
        told = await self.state()
        others = await asyncio.to_thread(self.books.traffic.others)
        if "html" not in accept and "json" in accept:
            return View(200, JSON, json.dumps(told | {"others": others}).encode())
        warning = f"<p><strong>{_escaped(str(told['warning']))}</strong>" if told["warning"] else ""
        page = PAGE.format(state=_table(told), others=_rules(others), warning=warning)
        return View(200, "text/html; charset=utf-8", page.encode())

    async def _plan(self) -> View:
        """Return the plan that the traffic gives; 409 while that is too little."""
        from keff.gateway.traffic_plan import plan_of

        rows = list(self.books.traffic.drawn)
        try:
            made = await asyncio.to_thread(plan_of, rows, self.kept.cap, self.kept.space)
        except KeffError as error:
            problem = Problem(409, str(error), code="too_little_traffic")
            return View(problem.status, JSON, problem.body())
        return View(200, JSON, made.model_dump_json(indent=2).encode())

    async def state(self) -> Object:
        """Return what the page and the hourly line say."""
        from keff.gateway.traffic_plan import reading_warning

        books = self.books
        monitor, matching = books.monitor, books.traffic.matching
        drift = None if monitor is None else {"requests": monitor.seen, "alarms": monitor.alarms}
        branches: Object = {} if self._branches is None else {"branches": dict(self._branches())}
        shown: Object = {"policy": books.policy.spec, **branches, **books.traffic.summary(), "drift": drift}
        return shown | {"warning": reading_warning(matching.interval(), matching.n)}


def _table(told: Object) -> str:
    rows = (f"<tr><th>{_escaped(name.replace('_', ' '))}<td>{_cell(value)}" for name, value in told.items())
    return f"<table>{''.join(rows)}</table>"


def _rules(others: list[Object]) -> str:
    if not others:
        return "<p>None so far: see --shadow-budget.</p>"
    head = "<tr><th>rule<th>requests<th>paths a request<th>same answer as all paths"
    rows = ("<tr>" + "".join(f"<td>{_cell(value)}" for value in row.values()) for row in others)
    return f"<table>{head}{''.join(rows)}</table>"


def _cell(value: object) -> str:
    if value is None:
        return "not known yet"
    if isinstance(value, dict):
        named = cast("Object", value)
        if "value" not in named:
            return _escaped(", ".join(f"{name}: {inner}" for name, inner in named.items()) or "none")
        limits = "" if named["lo"] is None else f" [{named['lo']:.3g}, {named['hi']:.3g}]"
        return _escaped(f"{named['value']:.3g}{limits} ({named['method']})")
    return _escaped(f"{value:.3g}" if isinstance(value, float) else str(value))


def _escaped(text: str) -> str:
    return html.escape(text, quote=True)
