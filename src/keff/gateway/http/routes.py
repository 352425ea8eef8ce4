"""The small routes: models, health, and the operator's pages."""

from __future__ import annotations

import asyncio
import json
import time

from starlette.requests import Request
from starlette.responses import Response

from keff.gateway.http.errors import Problem
from keff.gateway.http.exchange import JSON
from keff.gateway.http.security import Guard
from keff.gateway.service import Service
from keff.gateway.traffic.live import Viewer
from keff.gateway.traffic.live_page import POLICY
from keff.gateway.upstream.server import UpstreamError
from keff.narrow import entries

# Orchestrators give a readiness probe about this long.
READY_SECONDS = 2.0


class Pages:
    """The small routes."""

    def __init__(self, service: Service, guard: Guard, viewer: Viewer) -> None:
        self.service, self.guard, self.viewer = service, guard, viewer
        self._ready: tuple[float, bool] = (-READY_SECONDS, False)

    async def models(self, request: Request) -> Response:
        """List the models of the upstream."""
        try:
            return Response(await self._listed(request), media_type=JSON)
        except UpstreamError as error:
            return _told(error.problem())

    async def model(self, request: Request) -> Response:
        """Describe one model of that list, for not every server can be asked for one."""
        name = request.path_params["name"]
        try:
            listed = entries(json.loads(await self._listed(request)).get("data"))
        except UpstreamError as error:
            return _told(error.problem())
        for model in listed:
            if model.get("id") == name:
                return Response(json.dumps(model).encode(), media_type=JSON)
        missing = "the upstream lists no model of that name: ask GET /v1/models"
        return _told(Problem(404, missing, code="model_not_found"))

    async def _listed(self, request: Request) -> bytes:
        query = request.scope.get("query_string", b"")
        caller = self.guard.caller(dict(request.scope["headers"]), query, ())
        return await self.service.upstream.models(caller.at(trusted=self.service.trusted))

    async def healthz(self, _: Request) -> Response:
        """Say that the process is alive."""
        return Response(b'{"status":"ok"}', media_type=JSON)

    async def readyz(self, _: Request) -> Response:
        """Return whether the upstream answers; asked of it every two seconds at most."""
        asked, ready = self._ready
        if time.monotonic() - asked >= READY_SECONDS:
            self._ready = (time.monotonic(), ready)
            ready = await self._upstream_answers()
            self._ready = (time.monotonic(), ready)
        body = b'{"status":"ready"}' if ready else b'{"status":"the upstream does not answer"}'
        return Response(body, 200 if ready else 503, media_type=JSON)

    async def _upstream_answers(self) -> bool:
        answers = await asyncio.gather(*(server.ready() for server in self.service.servers))
        board = self.service.board
        return all(answers) if board is None or not board.skip else any(answers)

    async def view(self, request: Request) -> Response:
        """Show metrics, the live page or the plan from traffic."""
        try:
            shown = await self.viewer.show(request.url.path, request.headers.get("accept", ""))
        except OSError:
            return _told(Problem(503, "the process that keeps the books does not answer: ask again"))
        return Response(
            shown.body, shown.status, {"content-type": shown.kind, "content-security-policy": POLICY}
        )


def _told(problem: Problem) -> Response:
    return Response(problem.body(), problem.status, problem.headers, media_type=JSON)
