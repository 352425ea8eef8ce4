"""The live page as HTML: what the JSON of ``/keff`` says, in words and units; nothing in it is unescaped."""

from __future__ import annotations

import html
from collections.abc import Mapping

from keff.narrow import fields
from keff.protocol.values import Object

POLICY = "default-src 'none'; style-src 'unsafe-inline'"

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="30">
<meta name="viewport" content="width=device-width"><title>keff gateway</title>
<style>body{{font:15px/1.5 system-ui,sans-serif;max-width:56em;margin:2em auto;padding:0 1em}}
table{{border-collapse:collapse}}.n{{color:#666}}.w{{border-left:.3em solid #b00;padding-left:.7em}}
td,th{{text-align:left;padding:.25em 1.5em .25em 0;border-bottom:1px solid #ccc}}</style>
<h1>keff gateway</h1>{warning}{state}
<h2>Other rules, on the requests that were drawn on</h2>{others}
<p class="n">In brackets: 95% intervals; normal for means over requests, Wilson's for shares.
<p>Nothing changes by itself. <code>GET /keff/plan</code> gives a plan made from these requests.</p></html>"""

ROWS: tuple[tuple[str, str, str], ...] = (
    ("policy", "policy", ""),
    ("since", "since", ""),
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


def page(state: Mapping[str, object], others: list[Object]) -> bytes:
    """Return the page."""
    warning = state.get("warning")
    said = "" if warning is None else f'<p class="w"><strong>{_escaped(str(warning))}</strong>'
    rows = [(words, _cell(state.get(name), unit)) for name, words, unit in ROWS]
    for name in ("servers", "branches"):
        if state.get(name):
            rows.insert(1, (name, _cell(state[name], "")))
    rows += _changes(fields(state.get("change")))
    rows.append(("drift", _escaped(_drift(fields(state.get("drift"))))))
    table = "".join(f"<tr><th>{_escaped(words)}<td>{cell}" for words, cell in rows)
    return PAGE.format(warning=said, state=f"<table>{table}</table>", others=_rules(others)).encode()


def _changes(change: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the rows that compare with today; what is saved has a minus."""
    return [
        (f"{name} per request, against {change.get('against')}", _cell(change[name], "+"))
        for name in ("paths", "dollars", "seconds")
        if change.get(name) is not None
    ]


def _drift(state: Mapping[str, object]) -> str:
    if not state:
        return "no profile yet"
    on = [name for name, alarm in fields(state.get("alarms")).items() if alarm]
    seen = f"{state.get('requests')} requests seen"
    return f"ALARM ({', '.join(on)}), {seen}" if on else f"no alarm, {seen}"


def _rules(others: list[Object]) -> str:
    if not others:
        return "<p>None so far: see the setting shadow_budget.</p>"
    head = "<tr><th>rule<th>requests<th>paths per request<th>same answer as all paths"
    units = ("", "", "", "%")
    rows = (
        "<tr>" + "".join(f"<td>{_cell(cell, unit)}" for cell, unit in zip(row.values(), units, strict=True))
        for row in others
    )
    return f"<table>{head}{''.join(rows)}</table>"


def _cell(value: object, unit: str) -> str:
    if value is None:
        return '<span class="n">not known</span>'
    if not isinstance(value, dict):
        return _escaped(_number(value, unit))
    named = fields(value)  # pyright: ignore[reportUnknownArgumentType]
    if "value" not in named:
        return _escaped(", ".join(f"{name} {count}" for name, count in named.items()) or "none")
    shown = _escaped(_number(named["value"], unit))
    if named.get("lo") is None:
        return shown
    ends = f"[{_number(named['lo'], unit)}, {_number(named['hi'], unit)}]"
    return f'{shown} <span class="n">{_escaped(ends)}</span>'


def _number(value: object, unit: str) -> str:
    if not isinstance(value, float | int) or isinstance(value, bool):
        return str(value)
    if unit == "+":
        return f"{value:+.3g}"
    if unit == "%":
        return f"{value:.0%}" if abs(value) < 0.995 or value == 1 else f"{value:.1%}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _escaped(text: str) -> str:
    return html.escape(text, quote=True)
