"""Run a gateway process: listen, serve, and drain on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
import sys
import time
from collections.abc import Generator
from functools import lru_cache
from types import FrameType

import numpy as np
import uvicorn

from keff.console import harmless_json
from keff.errors import RunError
from keff.gateway.deployment import Deployment, service_of, summary, views_of
from keff.gateway.http.app import application, with_cors
from keff.gateway.http.bounds import LARGEST_HEAD, App, RequestBounds
from keff.gateway.http.protocol import ClientConnection
from keff.gateway.http.security import Guard
from keff.gateway.service import Service
from keff.narrow import items

# As many as the usual net.core.somaxconn allows.
BACKLOG = 4096


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raises RunError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named; with it on, every reply that is
    # written in two pieces waits 40 ms for the client's delayed acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise RunError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    return listener


def shown_url(listener: socket.socket) -> str:
    """Return the base URL for clients."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


@lru_cache(maxsize=1)
def clock(seconds: int) -> str:
    """Return a UTC time for the log; cached, since many lines share a second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


class Lines(logging.Formatter):
    """Log formatter: one line of JSON a record; messages that are JSON stay as they are."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        at = f"{clock(int(record.created))}.{int(record.msecs):03d}Z"
        head = f'{{"time":"{at}","level":"{record.levelname.lower()}",'
        message = record.getMessage()
        if not (message.startswith("{") and message.endswith("}") and len(message) > 2):
            message = json.dumps({"event": "server", "message": message})
        if record.exc_info:
            trace = json.dumps(self.formatException(record.exc_info))
            message = f'{message[:-1]}, "traceback": {trace}}}'
        return harmless_json(head + message[1:])


def log_to_stderr(quiet: bool) -> None:
    """Set up logging as JSON lines on stderr, once in a process; ``quiet`` leaves only warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    for name in ("keff", "uvicorn.error"):
        logger = logging.getLogger(name)
        for earlier in [each for each in logger.handlers if isinstance(each.formatter, Lines)]:
            logger.removeHandler(earlier)
        logger.addHandler(handler)
        logger.propagate = False
    logging.getLogger("keff.gateway").setLevel(logging.WARNING if quiet else logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)


log = logging.getLogger("keff.gateway")

# Clients and upstream calls each take one; the usual soft limit of 1024 is too few.
DESCRIPTORS = 65_536
# Longer than the usual 60 s of load balancers, so that they close first.
KEEP_ALIVE = 65
# So long a stop waits for requests in flight.
DRAIN_SECONDS = 60


def serve(deployment: Deployment, rng: np.random.Generator) -> None:
    """Serve in this process until SIGTERM or SIGINT, then let requests in flight end.

    Raises UsageError when others could reach the gateway without a token, RunError when it cannot listen.
    """
    service = service_of(deployment, rng)
    warn(deployment)
    with contextlib.closing(listening_socket(deployment.host, deployment.port)) as listener:
        log.info(json.dumps({"event": "listening", "url": shown_url(listener), **summary(service)}))
        run(deployment, service, listener)


def warn(deployment: Deployment) -> None:
    """Log a warning where the service differs from how the plan was measured."""
    plan = deployment.plan
    if plan is not None and not plan.branches and len(items((plan.config or {}).get("templates"))) > 1:
        line = "the plan was measured over several prompt templates; here every path has the client's prompt"
        log.warning(json.dumps({"event": "warning", "message": line}))


def run(deployment: Deployment, service: Service, listener: socket.socket) -> None:
    """Serve until stopped."""
    options, views = deployment.options, views_of(service)
    guard = Guard(options.token, options.admin_token, options.client_keys, options.cors_origin)
    front = application(service, guard, views.show, views.beside)
    config = http_config(with_cors(front, options.cors_origin))
    server = _Server(config)
    _raise_limit()
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(server.serve(sockets=[listener]))


def http_config(app: App, port: int = 0, drain: int = DRAIN_SECONDS) -> uvicorn.Config:
    """Return the settings of the HTTP server of an application, which has ``drain`` seconds to end."""
    return uvicorn.Config(
        RequestBounds(app),
        port=port,
        http=ClientConnection,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=drain,
    )


class _Server(uvicorn.Server):
    """uvicorn server that exits cleanly: the signal is not raised again after the drain.

    A second signal answers what is still in flight with 503, and saves what must outlive the process all
    the same.
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain, then close connections that are still open."""
        await super().shutdown(sockets)
        for connection in self.server_state.connections:
            connection.transport.abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start the drain; a second signal ends it."""
        del sig, frame
        for task in self.server_state.tasks if self.should_exit else ():
            task.cancel()
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Handle SIGTERM and SIGINT by draining."""
        before = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _raise_limit() -> None:
    """Raise the limit of open files to the system's maximum, where there is one."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
