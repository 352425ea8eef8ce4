"""Operator pages: metrics, live traffic (``/keff``), and a plan made from traffic (``/keff/plan``)."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import NamedTuple, TypeAlias

from keff.errors import KeffError
from keff.gateway.http.errors import Problem
from keff.gateway.traffic.ledger import TrafficLedger
from keff.gateway.traffic.metrics import MetricLabels, Metrics, exposed, series
from keff.gateway.traffic.savings import COMPARED
from keff.gateway.traffic.traffic import History, plan_of, reading_warning
from keff.narrow import Fields, entries, fields
from keff.protocol.values import Object

log = logging.getLogger("keff.gateway")

POLICY = "default-src 'none'; style-src 'unsafe-inline'"

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>keff gateway</title>
<style>:root{{color-scheme:light dark;--ink:#1b1f24;--soft:#5b6470;--line:#d4d9df;--back:#fff;--up:#17785a;
--down:#b3471d}}@media(prefers-color-scheme:dark){{:root{{--ink:#e7eaee;--soft:#a3acb8;--line:#3b424c;
--back:#15181d;--up:#4cc39a;--down:#f08a5d}}}}
body{{font:15px/1.5 system-ui,sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:var(--ink);
background:var(--back)}}h1,h2{{line-height:1.2}}.n,figcaption span{{color:var(--soft)}}
.w{{border-left:.3em solid var(--down);padding-left:.7em}}
.g{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(21em,100%),1fr));gap:1em 2em}}
.t{{overflow-x:auto}}table{{border-collapse:collapse}}td,th{{text-align:left;vertical-align:top;
padding:.25em 1.5em .25em 0;border-bottom:1px solid var(--line)}}.r td{{white-space:nowrap}}
figure{{margin:0}}figcaption strong{{font-size:1.35em}}svg{{width:100%;height:auto;display:block}}
a{{color:inherit}}svg text{{font-size:10px;fill:var(--soft)}}.up{{fill:var(--up)}}.down{{fill:var(--down)}}
svg line{{stroke:var(--line)}}
@media(max-width:40em){{h1{{font-size:1.5em}}h2{{font-size:1.2em}}table,tbody,tr{{display:block}}
.r tr:first-child{{position:absolute;width:1px;height:1px;overflow:hidden}}
tr{{padding:.4em 0;border-bottom:1px solid var(--line)}}td,th{{border:0;padding:.1em 0}}
td{{overflow-wrap:anywhere;text-align:right}}td .n{{white-space:nowrap}}
.r td,.f tr{{display:flex;gap:.4em}}.r td{{white-space:normal}}.f th{{margin-right:auto}}
.r td:before{{content:attr(data-label);color:var(--soft);margin-right:auto}}}}
@media print{{body{{margin:0;max-width:none}}h2{{break-after:avoid}}
figure,tr{{break-inside:avoid}}.t{{overflow:visible}}.r td{{white-space:normal}}
table{{font-size:.85em}}td,th{{padding-right:.8em}}*{{print-color-adjust:exact}}}}</style>
<main><h1>{headline}</h1><p class="n">keff gateway, {at} UTC. <a href="">Reload</a>{warning}
<div class="g">{charts}</div>
<h2>Since {since}</h2>{state}
<h2>By key and model</h2>{named}
<h2>Requests that cost most</h2>{dearest}
<h2>Other rules, on the requests that were drawn on</h2>
<p class="n">Paths of each request, and how often all of its paths give the same answer.{others}
<p class="n">In brackets: 95% intervals; normal for means over requests, Wilson's for shares. Sums and charts
are of this gateway since its start, in UTC.
<p>Nothing changes by itself. <code>GET /keff/plan</code> gives a plan made from these requests.
</main></html>"""

NO_OTHERS = "None so far: see the setting shadow_budget."

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 360, 120, 46, 8, 18
# So few bars are not drawn wider than this part of the chart.
FEWEST_BARS = 24

ROWS: tuple[tuple[str, str, str], ...] = (
    ("policy", "policy", ""),
    ("requests", "requests", ""),
    ("paths_per_request", "paths per request", ""),
    ("now", "without the gateway", ""),
    ("saved", "paths saved", "%"),
    ("dollars_per_request", "dollars per request", ""),
    ("seconds_p50", "seconds to answer, median", ""),
    ("seconds_p95", "seconds to answer, 95th percentile", ""),
    ("agreement", "two paths of a request agree", "%"),
    ("answers_match", "two answers of a request are equal", "%"),
    ("abstained", "paths that abstained", ""),
    ("failed_calls", "failed upstream calls", ""),
    ("kinds", "kinds of answers", ""),
    ("stops", "why requests stopped", ""),
    ("drawn_on", "requests drawn on", ""),
)


def page(state: Fields, others: list[Object], history: History) -> bytes:
    """Return the live page as HTML."""
    drift = _drift(fields(state.get("drift")))
    warnings = [str(state["warning"])] if state.get("warning") else []
    warnings += [f"drift: {drift}"] if drift.startswith("ALARM") else []
    said = "".join(f'<p class="w"><strong>{escape(line)}</strong>' for line in warnings)
    rows = [(words, _cell(state.get(name), unit)) for name, words, unit in ROWS]
    for name in ("servers", "branches"):
        if state.get(name):
            rows.insert(1, (name, _cell(state[name], "")))
    rows += _changes(fields(state.get("change")))
    rows.append(("drift", escape(drift)))
    table = "".join(f"<tr><th>{escape(words)}<td>{cell}" for words, cell in rows)
    money, told = ("dollars",) if history.total["dollars"] else (), history.told()
    saved = ("saved_paths", *(f"saved_{name}" for name in money))
    sums = ("key", "model", "requests", "paths", "tokens", *money, "seconds", *saved)
    request = ("id", "at", "key", "model", "paths", "tokens", *money, "seconds")
    return PAGE.format(
        headline=escape(_headline(state)),
        at=_clock(time.time()),
        warning=said,
        charts=_charts(history),
        since=escape(str(state.get("since"))),
        state=f'<div class="t" tabindex="0"><table class="f">{table}</table></div>',
        named=_table(told["by_key_and_model"], sums),
        dearest=_table(told["dearest"], request),
        others=_table(others, ("policy", "requests", "paths", "same_answer"), NO_OTHERS),
    ).encode()


def _headline(state: Fields) -> str:
    """Return the headline: requests, paths for each, and the saving."""
    requests, saved = state.get("requests") or 0, fields(state.get("saved")).get("value")
    paths = fields(state.get("paths_per_request")).get("value")
    if not requests or paths is None:
        return "No request has been voted on yet"
    told = f"{_number(requests, '')} requests, {_number(paths, '')} paths each"
    return (
        told if saved is None else f"{told}: {_number(saved, '%')} of paths saved against {state.get('now')}"
    )


def _charts(history: History) -> str:
    """Return charts over time of the savings that are known, and of agreement among paths."""
    total, spans = history.total, history.spans
    chart = partial(_chart, since=history.since, width=history.width)
    names = [f"saved_{name}" for name in COMPARED if total[f"saved_{name}"]] or ["paths"]
    drawn = [chart(_words(name), total[name], [span.get(name) for span in spans]) for name in names]
    return "".join(
        [*drawn, chart("of pairs of paths agree", _share(total), list(map(_share, spans)), unit="%")]
    )


def _share(sums: Counter[str]) -> float | None:
    return sums["agree"] / sums["voted"] if sums["voted"] else None


def _chart(
    words: str,
    total: float | None,
    values: Sequence[float | None],
    since: float,
    width: float,
    unit: str = "",
) -> str:
    """Return a bar chart, one bar per ``width`` seconds; negative bars hang down, None is a gap."""
    known = [(place, value) for place, value in enumerate(values) if value is not None]
    high = max([0.0, *(value for _, value in known)])
    low = min([0.0, *(value for _, value in known)])
    scale = (HEIGHT - TOP - BOTTOM) / ((high - low) or 1.0)
    step = (WIDTH - LEFT) / max(len(values), FEWEST_BARS)
    zero = TOP + high * scale
    bars = "".join(
        f'<rect class="{"up" if value >= 0 else "down"}" x="{LEFT + place * step:.1f}" '
        f'width="{step * 0.9:.1f}" y="{zero - max(value, 0) * scale:.1f}" '
        f'height="{max(abs(value) * scale, 0.5):.1f}">'
        f"<title>{_clock(since + place * width)}: {escape(_number(value, unit))}</title></rect>"
        for place, value in known
    )
    marks = "".join(
        f'<line x1="{LEFT}" x2="{WIDTH}" y1="{zero - value * scale:.1f}" y2="{zero - value * scale:.1f}"/>'
        f'<text x="{LEFT - 5}" y="{zero - value * scale + 3:.1f}" text-anchor="end">'
        f"{escape(_number(value, unit))}</text>"
        # One that stands where the zero does would hide it.
        for value in {0.0, *(_round(end) for end in (high, low) if abs(end) * scale > 24)}
    )
    times = f'<text x="{LEFT}" y="{HEIGHT - 4}">{_clock(since)}</text>'
    if len(values) >= FEWEST_BARS:
        end = _clock(since + len(values) * width)
        times += f'<text x="{WIDTH}" y="{HEIGHT - 4}" text-anchor="end">{end}</text>'
    shown = "not known" if total is None else _number(total, unit)
    return (
        f"<figure><figcaption><strong>{escape(shown)}</strong> <span>{escape(words)}</span></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(words)}, over time">'
        f"{bars}{marks}{times}</svg></figure>"
    )


def _round(end: float) -> float:
    """Return the axis limit: the next 1, 2 or 5 times a power of ten."""
    unit = 10.0 ** math.floor(math.log10(abs(end)))
    return math.copysign(max(unit * times for times in (1, 2, 5) if unit * times <= abs(end)), end)


def _words(name: str) -> str:
    """Return the label of a total, such as "paths saved" for ``saved_paths``."""
    bare = name.removeprefix("saved_").replace("_", " ")
    return f"{bare} saved" if name.startswith("saved_") else bare


def _clock(at: float) -> str:
    return time.strftime("%m-%d %H:%M", time.gmtime(at))


def _table(rows: object, columns: Sequence[str], none: str = "None so far.") -> str:
    """Return rows as an HTML table, shown on a phone as one card per row.

    A column of words that is empty throughout is left out.
    """
    given = entries(rows)
    kept = [name for name in columns if any(row.get(name) not in ("", None) for row in given)]
    if not kept:
        return f"<p>{none}"
    head = "".join(f"<th>{_words(name)}" for name in kept)
    body = "".join(
        "<tr>" + "".join(f'<td data-label="{_words(name)}">{_cell(row.get(name, 0), "")}' for name in kept)
        for row in given
    )
    return f'<div class="t" tabindex="0"><table class="r"><tr>{head}{body}</table></div>'


def _changes(change: Fields) -> list[tuple[str, str]]:
    """Return label and value of each change against today's policy; a saving has a minus."""
    return [
        (f"{name} per request, against {change.get('against')}", _cell(change[name], "+"))
        for name in COMPARED
        if change.get(name) is not None
    ]


def _drift(state: Fields) -> str:
    if not state:
        return "no profile yet"
    on = [name for name, alarm in fields(state.get("alarms")).items() if alarm]
    seen = f"{state.get('requests')} requests seen"
    return f"ALARM ({', '.join(on)}), {seen}" if on else f"no alarm, {seen}"


def _cell(value: object, unit: str) -> str:
    if value is None:
        return '<span class="n">not known</span>'
    if not isinstance(value, dict):
        return escape(_number(value, unit))
    named = fields(value)  # pyright: ignore[reportUnknownArgumentType]
    if "value" not in named:
        return escape(", ".join(f"{name} {count}" for name, count in named.items()) or "none")
    shown = escape(_number(named["value"], unit))
    if named.get("lo") is None:
        return shown
    ends = f"[{_number(named['lo'], unit)}, {_number(named['hi'], unit)}]"
    return f'{shown} <span class="n">{escape(ends)}</span>'


def _number(value: object, unit: str) -> str:
    if not isinstance(value, float | int) or isinstance(value, bool):
        return str(value)
    if unit == "+":
        return f"{value:+,.0f}" if abs(value) >= 1000 else f"{value:+.3g}"
    if unit == "%":
        return f"{value:.0%}" if abs(value) < 0.995 or value == 1 else f"{value:.1%}"
    # A sum of integers stays one; what is large needs no decimals.
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


METRICS, LIVE, PLAN = "/metrics", "/keff", "/keff/plan"
JSON = "application/json"
OPERATOR = frozenset({LIVE, PLAN})

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
    """The operator's pages: metrics, live page and plan."""

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
        return await (self._plan() if path == PLAN else self._page(accept))

    @property
    def beside(self) -> tuple[Work, ...]:
        """Background tasks: the hourly log line."""
        return (self._hourly,)

    async def _hourly(self) -> None:
        while True:
            await asyncio.sleep(HOUR)
            log.info(json.dumps({"event": "summary", **self.state()}))

    async def _page(self, accept: str) -> PageView:
        """Return the live page: HTML, or JSON for clients that accept only that."""
        told = self.state()
        history = self.ledger.traffic.history
        others = await asyncio.to_thread(self.ledger.traffic.others)
        if "html" not in accept and "json" in accept:
            return PageView(
                200, JSON, json.dumps(told | {"others": others, "history": history.told()}).encode()
            )
        return PageView(200, "text/html; charset=utf-8", page(told, others, history))

    async def _plan(self) -> PageView:
        """Return the plan made from traffic; 409 while there is too little."""
        ledger, rows = self.ledger, list(self.ledger.traffic.drawn)
        try:
            made = await asyncio.to_thread(plan_of, rows, ledger.cap, ledger.space)
        except KeffError as error:
            return PageView(409, JSON, Problem(409, str(error), code="too_little_traffic").body())
        return PageView(200, JSON, made.model_dump_json(indent=2).encode())

    def state(self) -> Object:
        """Return the values shown on the live page and in the hourly log line."""
        ledger = self.ledger
        monitor, matching = ledger.monitor, ledger.traffic.matching
        drift = None if monitor is None else {"requests": monitor.seen, "alarms": monitor.alarms}
        known: Object = {kind: dict(states) for kind, states in self.states().items() if states}
        seen = ledger.traffic.summary(ledger.policy)
        shown: Object = {"policy": ledger.policy.spec, **known, **seen, "drift": drift}
        return shown | {"warning": reading_warning(matching.interval(), matching.n)}
