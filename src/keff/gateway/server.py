"""Run a gateway process: listen, serve, and drain on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from types import FrameType

import numpy as np
import uvicorn

from keff.errors import RunError
from keff.gateway.deployment import Deployment, ledger_of, service_of, summary, views_of
from keff.gateway.http.app import application, with_cors
from keff.gateway.http.protocol import TimedProtocol
from keff.gateway.http.security import Guard
from keff.gateway.service import Service
from keff.gateway.traffic.live import Show, Work
from keff.narrow import items

# As many as the usual net.core.somaxconn allows.
BACKLOG = 4096


@contextlib.contextmanager
def listeners(host: str, port: int, n: int = 1) -> Generator[list[socket.socket]]:
    """Return n sockets that listen on one address; the kernel distributes connections.

    Raises RunError when the address cannot be had. That another process of the same user listens there too
    would be allowed where sockets are shared, so it is looked for first.
    """
    with contextlib.ExitStack() as stack:
        if n > 1 and port:
            _listener(host, port, shared=False).close()
        first = stack.enter_context(contextlib.closing(_listener(host, port, shared=n > 1)))
        taken = first.getsockname()[1]
        rest = [_listener(host, taken, shared=True) for _ in range(n - 1)]
        for listener in rest:
            stack.enter_context(contextlib.closing(listener))
        yield [first, *rest]


def shown_url(listener: socket.socket) -> str:
    """Return the base URL for clients."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


def moved(listener: socket.socket) -> socket.socket:
    """Return a new socket bound to the same shared address, not yet listening; the old one is closed.

    What waits for a process that died is reset, and what comes goes to the other processes at once: for a
    socket that nobody serves, the kernel would hold it until the next process has started.
    """
    host, port = listener.getsockname()[:2]
    again = _listener(host, port, shared=True, listens=False)
    listener.close()
    return again


def _listener(host: str, port: int, *, shared: bool, listens: bool = True) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named; with it on, every reply that is
    # written in two pieces waits 40 ms for the client's delayed acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host.strip("[]"), port))
        if listens:
            listener.listen(BACKLOG)
    except (OSError, AttributeError) as error:
        listener.close()
        said = error.strerror if isinstance(error, OSError) else "this system shares no port (--workers 1)"
        raise RunError(f"cannot listen on {host}:{port}: {said or error}") from None
    return listener


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
        return head + message[1:]


def log_to_stderr(quiet: bool) -> None:
    """Set up logging as JSON lines on stderr; ``quiet`` leaves only warnings."""
    # No line says them, nor who called, and looking them up is half the time of a line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # pyright: ignore[reportPrivateUsage]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    for name in ("keff", "uvicorn.error"):
        logger = logging.getLogger(name)
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
# Requests make few reference cycles, so the collector need not look often.
COLLECT_EVERY = 10_000
# New objects between two garbage collections: a request leaves next to nothing to them.
M_MMAP_THRESHOLD, LARGE_BUFFER = -3, 64 * 1024


def serve(deployment: Deployment, rng: np.random.Generator) -> None:
    """Serve in this process until SIGTERM or SIGINT, then let requests in flight end.

    Raises UsageError when others could reach the gateway without a token, RunError when it cannot listen.
    """
    steady_heap()
    ledger = ledger_of(deployment)
    service = service_of(deployment, rng, ledger)
    warn(deployment)
    with listeners(deployment.host, deployment.port) as (listener,):
        log.info(json.dumps({"event": "listening", "url": shown_url(listener), **summary(service)}))
        views = views_of(service, ledger)
        run(deployment, service, listener, views.show, views.beside)


def warn(deployment: Deployment) -> None:
    """Log a warning where the service differs from how the plan was measured."""
    plan = deployment.plan
    if plan is not None and not plan.branches and len(items((plan.config or {}).get("templates"))) > 1:
        line = "the plan was measured over several prompt templates; here every path has the client's prompt"
        log.warning(json.dumps({"event": "warning", "message": line}))


def run(
    deployment: Deployment,
    service: Service,
    listener: socket.socket,
    show: Show,
    beside: Sequence[Work] = (),
    around: Callable[[uvicorn.Server], AbstractAsyncContextManager[None]] = contextlib.nullcontext,
) -> None:
    """Serve one process's share of the connections until stopped, inside the context ``around``.

    ``show`` gives the operator's pages, ``beside`` runs as long as requests are served.
    """
    options = deployment.options
    guard = Guard(options.token, options.admin_token, options.accounts, options.cors_origin)
    front = application(service, guard, show, beside)
    config = uvicorn.Config(
        with_cors(front, options.cors_origin),
        http=TimedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    server = _Server(config)
    _raise_limit()
    # What is there now stays: collections need not look at it again with every request.
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY)

    async def all_of_it() -> None:
        async with around(server):
            await server.serve(sockets=[listener])

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(all_of_it())


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


def steady_heap() -> None:
    """Keep large buffers out of glibc's heap, so that memory does not grow by fragmentation.

    It would raise its limit for them by itself, and the reads of asyncio (256 KiB, cut to what came) then
    leave holes in the heap: it grew by 2 MB a minute under load, with nothing in them.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BUFFER)


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
