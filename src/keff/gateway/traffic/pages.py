"""The operator's pages: metrics, what is saved (``/keff``), and a plan made from traffic (``/keff/plan``)."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import NamedTuple, TypeAlias

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template

from keff.analysis.results.bars import BarPair, accuracy_pair, bar_pair, in_percent
from keff.analysis.results.words import change_in_words, in_words, reference_words
from keff.console import harmless
from keff.errors import KeffError
from keff.gateway.http.errors import Problem
from keff.gateway.traffic.ledger import TrafficLedger
from keff.gateway.traffic.metrics import MetricLabels, Metrics, metrics_text, series
from keff.gateway.traffic.savings import COMPARED
from keff.gateway.traffic.traffic import plan_of, reading_warning
from keff.narrow import Fields, fields, is_number, number
from keff.protocol.values import Object
from keff.records import Interval

log = logging.getLogger("keff.gateway")

POLICY = "default-src 'none'; style-src 'unsafe-inline'"


TITLES = {
    "dollars": ("Dollars per request", ".3g", "$"),
    "tokens": ("Tokens per request", ",.0f", ""),
    "paths": ("Answers per request", ".3g", ""),
    "seconds": ("Mean time to answer", ".3g", " s"),
}


def bar_pairs(state: Fields, decision: Fields) -> list[BarPair]:
    """Return cost and time with keff and as deployed today, and the accuracies that the pilot expects.

    ``decision`` is the plan's; its accuracies are shown where its own rule is served in place of its own
    reference.
    """
    change, mean = fields(state.get("change")), fields(state.get("per_request"))
    known: dict[str, tuple[float, float]] = {}
    for name in COMPARED:
        by, keff, today = (
            fields(of).get(key)
            for of, key in ((change.get(name), "value"), (mean, name), (change.get("today"), name))
        )
        if is_number(by) and is_number(today):
            known[name] = today, today + by
        elif is_number(by) and is_number(keff):
            known[name] = keff - by, keff
    cost = next((name for name in ("dollars", "tokens", "paths") if name in known), None)
    pairs: list[BarPair] = []
    for name in (cost, "seconds"):
        if name is not None and name in known:
            today, keff = known[name]
            title, style, unit = TITLES[name]
            pairs.append(
                bar_pair(title, _changed(name, keff / today - 1 if today else 0.0), today, keff, style, unit)
            )
    if (decision.get("policy"), decision.get("reference")) == (state.get("policy"), state.get("now")):
        accuracy, points = (
            _interval(decision.get("accuracy")),
            _interval(fields(decision.get("change")).get("points")),
        )
        if accuracy is not None and points is not None:
            pairs.append(replace(accuracy_pair(accuracy, points), title="Accuracy, as the pilot expects"))
    return pairs


def _changed(cost: str, share: float) -> str:
    """Return a relative change of a cost in words, such as "26% fewer tokens"."""
    if cost in ("dollars", "seconds"):
        return f"{in_percent(share)}{' time' if cost == 'seconds' and round(100 * share) else ''}"
    return change_in_words(share, "answers" if cost == "paths" else cost)


def _interval(value: object) -> Interval | None:
    """Return the interval of a JSON object; None where it is none."""
    of = fields(value)
    middle, lo, hi = (number(of.get(name)) for name in ("value", "lo", "hi"))
    return None if middle is None else Interval(middle, lo, hi, "the pilot's")


def page(state: Fields, decision: Fields | None = None) -> str:
    """Return the page of what is saved; ``decision`` is the plan's."""
    saved, now = fields(state.get("saved")), state.get("now")
    verb = "costs" if saved.get("of") == "dollars" else "takes"
    shown = _template().render(
        state=state,
        pairs=bar_pairs(state, decision or {}),
        words=in_words(str(state.get("policy"))),
        saving=f"{verb} {_changed(str(saved.get('of')), -float(str(saved['value'])))}" if saved else "",
        today=reference_words(now) if isinstance(now, str) else "",
        alarms=[name for name, on in fields(fields(state.get("drift")).get("alarms")).items() if on],
        at=time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        figure=figure,
        style=(files("keff.report") / "templates" / "page.css").read_text("utf-8"),
    )
    return harmless(shown)


@cache
def _template() -> Template:
    """Return the template, which draws its bars as the report does."""
    environment = Environment(
        autoescape=True,
        loader=ChoiceLoader([PackageLoader("keff.gateway.traffic"), PackageLoader("keff.report")]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("saved.html.j2")


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
            return PageView(200, *metrics_text(metrics, {**now, **drift, **saved, **up}, accept))
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
        return PageView(200, "text/html; charset=utf-8", page(self.state(), self.ledger.decision).encode())

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
