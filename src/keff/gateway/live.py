"""The operator's pages: the traffic as it is now (``/keff``), and a plan made from it (``/keff/plan``)."""

from __future__ import annotations

import asyncio
import html
import json
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from keff.errors import KeffError
from keff.gateway.errors import Problem
from keff.gateway.exchange import JSON
from keff.gateway.service import Service

LIVE, PLAN = "/keff", "/keff/plan"
OPERATOR = frozenset({LIVE, PLAN})
POLICY = "default-src 'none'; style-src 'unsafe-inline'"

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="30">
<meta name="viewport" content="width=device-width"><title>keff gateway</title>
<style>body{{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}}
table{{border-collapse:collapse}}th,td{{text-align:left;padding:.2em 1em .2em 0;border-bottom:1px solid #ccc}}
</style><h1>keff gateway</h1>{state}<h2>Other rules, on the requests that were drawn on</h2>{others}
<p>Nothing changes by itself. <code>GET /keff/plan</code> gives a plan made from these requests.</p></html>"""


class Live:
    """The operator's pages of one gateway."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def page(self, request: Request) -> Response:
        """Show the traffic: HTML, or JSON for who accepts that and no HTML."""
        told = state(self.service)
        others = await asyncio.to_thread(self.service.traffic.others)
        if "html" not in request.headers.get("accept", "") and "json" in request.headers.get("accept", ""):
            return Response(json.dumps(told | {"others": others}), media_type=JSON)
        body = PAGE.format(state=_table(told), others=_rules(others))
        return Response(body, media_type="text/html", headers={"content-security-policy": POLICY})

    async def plan(self, _: Request) -> Response:
        """Return the plan that the traffic gives; 409 while that is too little."""
        from keff.gateway.traffic_plan import plan_of

        service = self.service
        rows, cap = list(service.traffic.drawn), service.options.shadow_paths
        try:
            made = await asyncio.to_thread(plan_of, rows, cap, service.space)
        except KeffError as error:
            problem = Problem(409, str(error), code="too_little_traffic")
            return Response(problem.body(), problem.status, media_type=JSON)
        return Response(made.model_dump_json(indent=2), media_type=JSON)


def state(service: Service) -> dict[str, Any]:
    """Return what the page and the hourly line say."""
    monitor = service.monitor
    drift = None if monitor is None else {"requests": monitor.seen, "alarms": monitor.alarms}
    branches = {} if service.board is None else {"branches": service.board.states()}
    return {"policy": service.policy.spec, **branches, **service.traffic.summary(), "drift": drift}


def _table(told: dict[str, Any]) -> str:
    rows = (f"<tr><th>{_escaped(name.replace('_', ' '))}<td>{_cell(value)}" for name, value in told.items())
    return f"<table>{''.join(rows)}</table>"


def _rules(others: list[dict[str, Any]]) -> str:
    if not others:
        return "<p>None so far: see --shadow-budget.</p>"
    head = "<tr><th>rule<th>requests<th>paths a request<th>same answer as all paths"
    rows = ("<tr>" + "".join(f"<td>{_cell(value)}" for value in row.values()) for row in others)
    return f"<table>{head}{''.join(rows)}</table>"


def _cell(value: Any) -> str:
    if value is None:
        return "not known yet"
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        if "value" not in named:
            return _escaped(", ".join(f"{name}: {inner}" for name, inner in named.items()) or "none")
        limits = "" if named["lo"] is None else f" [{named['lo']:.3g}, {named['hi']:.3g}]"
        return _escaped(f"{named['value']:.3g}{limits} ({named['method']})")
    return _escaped(f"{value:.3g}" if isinstance(value, float) else str(value))


def _escaped(text: str) -> str:
    return html.escape(text, quote=True)
