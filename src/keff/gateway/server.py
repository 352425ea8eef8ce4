"""Run a gateway: from a plan and options to a listening process that drains when it is told to stop."""

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
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

import numpy as np
import uvicorn

from keff.errors import RunError, UsageError
from keff.gateway.app import Front, application, with_cors
from keff.gateway.board import Site, board_of
from keff.gateway.extraction import reader_of
from keff.gateway.kinds import KindReader
from keff.gateway.monitor import Monitor, StateFile, saved_profile
from keff.gateway.options import Options
from keff.gateway.plan_defaults import Terms, terms_of
from keff.gateway.protocol import LARGEST_HEAD, TimedProtocol
from keff.gateway.request_policy import Maker, policy_of_plan
from keff.gateway.security import Guard, check_exposure
from keff.gateway.service import Service
from keff.gateway.traffic import PER_REQUEST, Learner, Traffic, first_draw
from keff.gateway.upstream import Address, Upstream
from keff.gateway.upstreams import Watched
from keff.gateway.votelog import VoteLog
from keff.plan import Plan
from keff.protocol.sharing import Sharing

log = logging.getLogger("keff.gateway")

POLICY = "lead_k:3"
"""What answers where no plan is: on recorded workloads a quarter of the paths keeps 99% of the plurality."""

MOST_PROFILED = 16
"""Paths at which a profile holds patterns at most."""

DESCRIPTORS = 65_536
KEEP_ALIVE = 65
BACKLOG = 4096
COLLECT_EVERY = 10_000
M_MMAP_THRESHOLD, LARGE_BUFFER = -3, 64 * 1024
"""New objects between two garbage collections: a request leaves next to nothing to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What is served, where, and what is kept.

    A plan, or None: then ``policy`` answers every request, with the answer found per request. ``address`` is
    that of the upstream (None: every branch of the plan has its own), ``fallback`` that of a second one, and
    ``keys`` are those of the environment variables that branches name.

    ``model`` is the model's name upstream (default: the plan's), ``answer_space`` reads answers otherwise
    than the plan, ``upstream_n`` is the most paths that one upstream call asks for, ``state`` the file of
    the drift alarm (None: not kept), ``drain_seconds`` how long a stop waits for requests.
    """

    plan: Plan | None = None
    policy: str = POLICY
    address: Address | None
    fallback: Address | None = None
    keys: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    options: Options = field(default_factory=Options)
    host: str = "127.0.0.1"
    port: int = 8080
    model: str | None = None
    answer_space: str | None = None
    upstream_n: int = 1
    state: Path | None = None
    vote_log: Path | None = None
    log_answers: bool = False
    drain_seconds: int = 60


def service_of(deployment: Deployment, rng: np.random.Generator) -> Service:
    """Make the service; raises PlanError for a plan that cannot be served, UsageError for files."""
    options, ignored = deployment.options, frozenset(deployment.options.tool_ignore)
    plan = deployment.plan or Plan(policy=deployment.policy, space=PER_REQUEST, estimates={})
    policy = policy_of_plan(plan.policy, [branch.name for branch in plan.branches])
    board = board_of(plan, policy, _site(deployment))
    reader = None
    if deployment.answer_space is not None or plan.space != PER_REQUEST:
        reader = reader_of(plan, deployment.answer_space, ignored)
    if deployment.plan is None and options.strict:
        raise UsageError("--strict serves a plan only: name one with --plan")
    if reader is None and options.append_answer_format:
        raise UsageError("--append-answer-format needs to know the answer: set --answer-space, or a --plan")
    file = StateFile(deployment.state) if deployment.state is not None else None
    profile = plan.profile
    if deployment.plan is None and file is not None:
        profile = saved_profile(file, policy)
        plan = plan.model_copy(update={"profile": profile})
    monitor = learner = None
    if profile is not None and (deployment.plan is None or deployment.answer_space in (None, plan.space)):
        monitor = Monitor(plan, policy, file)
    elif deployment.plan is None and 2 <= (m := first_draw(policy)) <= MOST_PROFILED:
        learner = Learner(m)
    vote_log = deployment.vote_log
    return Service(
        policy=policy,
        reader=reader,
        terms=_terms(deployment),
        upstream=_upstream(deployment) if board is None else board.servers[0],
        board=board,
        maker=Maker([branch.name for branch in plan.branches]),
        options=options,
        rng=rng,
        kinds=KindReader(ignored),
        monitor=monitor,
        learner=learner,
        state=file,
        traffic=Traffic(now=options.now),
        vote_log=None if vote_log is None else VoteLog(vote_log, answers=deployment.log_answers),
        sharing=Sharing(deployment.upstream_n),
    )


def _site(deployment: Deployment) -> Site:
    spare, keys, options = deployment.fallback, deployment.keys, deployment.options
    return Site(deployment.address, spare, keys, deployment.upstream_n, options.price, options.branch_down)


def _upstream(deployment: Deployment) -> Upstream:
    if deployment.address is None:
        raise UsageError("name the server that draws the paths: --upstream URL")
    if deployment.fallback is None:
        return Upstream(deployment.address)
    return Watched(deployment.address, Watched(deployment.fallback))


def _terms(deployment: Deployment) -> Terms:
    plan = deployment.plan
    if plan is not None and plan.branches and plan.config is None:
        # Each branch brings its own model: by one of their names, or by keff's, all of them are asked.
        names = (name for branch in plan.branches for name in (branch.name, branch.model) if name)
        return Terms(upstream=deployment.model, names=frozenset(names))
    if deployment.plan is not None:
        return terms_of(deployment.plan, deployment.model)
    # Without a plan a request differs from nothing: the model is only what one that names none gets.
    return Terms(upstream=deployment.model)


def check(deployment: Deployment, rng: np.random.Generator) -> dict[str, object]:
    """Check what would be served, and return it in short; opens no file and asks nobody.

    Raises what ``serve`` raises before it listens.
    """
    check_exposure(deployment.host, deployment.options.token)
    return _summary(service_of(replace(deployment, state=None, vote_log=None), rng))


def serve(deployment: Deployment, rng: np.random.Generator) -> None:
    """Serve until SIGTERM or SIGINT, then let requests in flight end.

    Raises UsageError when others could reach the gateway without a token, RunError when it cannot listen.
    """
    options = deployment.options
    check_exposure(deployment.host, options.token)
    service = service_of(deployment, rng)
    plan = deployment.plan
    if plan is not None and not plan.branches and len((plan.config or {}).get("templates") or ()) > 1:
        line = "the plan was measured over several prompt templates; here every path has the client's prompt"
        log.warning(json.dumps({"event": "warning", "message": line}))
    _raise_limit()
    with _listening(deployment.host, deployment.port) as listener:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        log.info(json.dumps({"event": "listening", "url": f"http://{shown}:{port}/v1", **_summary(service)}))
        front = application(service, Guard(options.token, options.admin_token))
        config = uvicorn.Config(
            with_cors(front, options.cors),
            http=TimedProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=deployment.drain_seconds,
            h11_max_incomplete_event_size=LARGEST_HEAD,
        )
        _steady_heap()
        # What is there now stays: collections need not look at it again with every request.
        gc.collect()
        gc.freeze()
        gc.set_threshold(COLLECT_EVERY)
        _Server(config, front).run(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that ends well when it is told to: the signal is not raised again after the drain.

    A second signal answers what is still in flight with 503, and saves what must outlive the process all
    the same.
    """

    def __init__(self, config: uvicorn.Config, front: Front) -> None:
        super().__init__(config)
        self._front = front
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the drain; at the second signal, end it."""
        if self.should_exit and self._loop is not None:
            self._loop.call_soon_threadsafe(self._front.chat.break_off)
        else:
            super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Let SIGTERM and SIGINT begin the drain."""
        before = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _summary(service: Service) -> dict[str, object]:
    monitor = service.monitor
    return {
        "policy": service.policy.spec,
        "upstream": service.upstream.address.url,
        "branches": None if service.board is None else service.board.addresses(),
        "model": service.terms.upstream,
        "drift_paths": None if monitor is None else monitor.m,
    }


def _listening(host: str, port: int) -> contextlib.closing[socket.socket]:
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
    return contextlib.closing(listener)


def _steady_heap() -> None:
    """Keep large buffers out of the heap of glibc.

    It would raise its limit for them by itself, and the reads of asyncio (256 KiB, cut to what came) then
    leave holes in the heap: it grew by 2 MB a minute under load, with nothing in them.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BUFFER)


def _raise_limit() -> None:
    """Allow as many connections as the system does (where it has such a limit)."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
