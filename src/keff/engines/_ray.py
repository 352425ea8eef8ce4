"""Distributed engine: workers of a Ray cluster, each with the real engine (extra ``ray``).

The driver keeps the work list, the run folder and every rule of sampling; a worker only draws. So a run on a
cluster resumes, stops and retries as any other, and has the same fingerprint. A completion is on its way to
the driver as soon as it is drawn. When a worker is lost, its requests fail, are recorded as such and are
tried again on the others, while a new worker takes its place.

A worker needs keff and the engine's extra on its node, and the key of a server in the node's environment.
"""

# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportFunctionMemberAccess=false

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

from keff.engine import Capabilities, Engine
from keff.errors import EngineError, KeffError, UsageError
from keff.narrow import Fields, Object
from keff.plugins import declares, load
from keff.records import Completion, Message, Sampling

# Seconds that a worker has to close its engine before it is killed.
FAREWELL = 10.0


def connect(on: str) -> None:
    """Join the Ray cluster of ``--on``: ``ray`` (an existing or local one) or ray://HOST:PORT.

    Ray takes over SIGTERM when it starts: call this before the event loop runs. Does nothing in a process
    that has joined one. Raises UsageError for another text, EngineError when the cluster cannot be reached.
    """
    if on != "ray" and not on.startswith("ray://"):
        raise UsageError(f"--on {on!r}: write ray, or ray://HOST:PORT")
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet = {"log_to_driver": False, "logging_level": "error"}
    try:
        if on == "ray":
            ray.init(include_dashboard=False, **quiet)
        else:
            ray.init(on, **quiet)
    except (OSError, RuntimeError, ValueError, ImportError, RayError) as error:
        reason = " ".join(str(error).split())[:300]
        raise EngineError(f"--on {on}: Ray cannot be used: {reason}", transient=False) from error


class EngineActor:
    """One engine in a worker process; its errors are returned as ``failure``."""

    def __init__(self, name: str, options: Fields) -> None:
        self._name, self._options = name, options
        self._engine: Engine | None = None

    async def start(self) -> tuple[Object, Capabilities]:
        """Make and start the engine; returns its identity and capabilities."""
        engine: Engine = load("engine", self._name, **self._options)
        self._engine = engine
        await engine.start()
        return engine.identity(), engine.capabilities

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        """Draw n paths."""
        assert self._engine is not None
        return await self._engine.generate(messages, sampling, n)

    async def close(self) -> None:
        """Close the engine."""
        if self._engine is not None:
            await self._engine.close()


@dataclass(slots=True, eq=False)
class _Seat:
    """A ready worker, with its current load and capacity in requests (or paths)."""

    actor: Any
    room: int
    busy: int = 0

    def takes(self, cost: int) -> bool:
        """Return whether it has room for this much more; an idle worker takes anything."""
        return not self.busy or self.busy + cost <= self.room


class Cluster:
    """The engine ``name`` with ``options``, on ``workers`` processes of the cluster.

    By default one worker for each accelerator (or group of ``tensor_parallel_size``) under an engine that
    uses them, else one for each node. ``connect`` comes first.
    """

    def __init__(self, name: str, options: Fields, workers: int | None = None) -> None:
        self.name = name
        self.local = declares("engine", name, "local")
        self.needs_gpu = declares("engine", name, "needs_gpu")
        self.capabilities = Capabilities()
        self.options, self._workers = dict(options), workers
        self._identity: Object = {}
        self._seats: list[_Seat] = []
        self._hiring: set[asyncio.Task[None]] = set()
        self._asked: set[asyncio.Task[object]] = set()
        self._refusal: KeffError | None = None
        self._room = 1
        self._changed = asyncio.Event()

    async def start(self) -> None:
        """Start the workers, and return when the first is ready; raises its engine's error."""
        gpus = self.gpus_each()
        self._identity, self._refusal = {}, None
        nodes = sum(bool(node["Alive"]) for node in ray.nodes())
        free = max(1, int(ray.cluster_resources()["GPU"]) // gpus) if gpus else nodes
        for _ in range(self._workers or free):
            self._hire(gpus)
        await self._free_seat(0)

    def identity(self) -> Object:
        """Return the engine's identity, which does not depend on where it runs."""
        return dict(self._identity)

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        """Draw n paths on the least busy worker; see ``Engine.generate``.

        A request waits here until a worker can begin it, so that none is flooded while the others load.
        """
        cost = n if self.capabilities.by_paths else 1
        seat = await self._free_seat(cost)
        seat.busy += cost
        request = seat.actor.generate.remote(list(messages), sampling, n)
        answer = asyncio.ensure_future(_answer_of(request))
        # One that nobody waits for any more still comes: Ray complains at length where it is cancelled here.
        self._asked.add(answer)
        answer.add_done_callback(self._asked.discard)
        try:
            drawn = await asyncio.shield(answer)
        except asyncio.CancelledError:
            ray.cancel(request)
            raise
        finally:
            seat.busy -= cost
            self._call_next()
        if isinstance(drawn, RayActorError):
            if seat in self._seats:
                self._seats.remove(seat)
                self._hire(self.gpus_each())
            raise EngineError("a worker of the cluster was lost, with the requests it was working on")
        if isinstance(drawn, RayError):
            raise failure(drawn)
        return drawn

    async def close(self) -> None:
        """Close the workers' engines, then end the workers."""
        hiring, self._hiring = self._hiring, set()
        for task in hiring:
            task.cancel()
        await asyncio.gather(*hiring, return_exceptions=True)
        seats, self._seats = self._seats, []
        await asyncio.gather(*(_dismiss(seat.actor) for seat in seats))
        await asyncio.gather(*self._asked, return_exceptions=True)

    def gpus_each(self) -> int:
        """Return the number of accelerators per worker."""
        if not self.needs_gpu or not ray.cluster_resources().get("GPU", 0):
            return 0
        return int(str(self.options.get("tensor_parallel_size", 1)))

    def _hire(self, gpus: int) -> None:
        task = asyncio.ensure_future(self._new_seat(gpus))
        self._hiring.add(task)
        task.add_done_callback(self._forget_start)

    def _forget_start(self, task: asyncio.Task[None]) -> None:
        """Remove a finished start of a worker, and wake those who wait, as it may have been the last."""
        self._hiring.discard(task)
        self._call_next()

    async def _new_seat(self, gpus: int) -> None:
        """Start one worker; an error is kept for the case that no worker is left."""
        options = {"num_cpus": 1, "num_gpus": gpus, "scheduling_strategy": "SPREAD"}
        actor = ray.remote(EngineActor).options(**options).remote(self.name, self.options)
        try:
            self._welcome(*await actor.start.remote())
            self._seats.append(_Seat(actor, self._room))
        except asyncio.CancelledError:
            ray.kill(actor)
            raise
        except (RayError, EngineError) as error:
            self._refusal = failure(error, transient=False) if isinstance(error, RayError) else error
            ray.kill(actor)

    def _welcome(self, identity: Object, can: Capabilities) -> None:
        """Adopt the first worker's identity; raises EngineError where another's differs."""
        if not self._identity:
            self._identity = identity
            self._room = can.parallel * (can.max_n if can.by_paths else 1)
            most = can.parallel * (len(self._seats) + len(self._hiring))
            self.capabilities = replace(can, parallel=most)
        if identity != self._identity:
            raise EngineError(
                f"workers run different models: {identity} and {self._identity}", transient=False
            )

    async def _free_seat(self, cost: int) -> _Seat:
        """Wait in turn for a worker with room; raises when none is left or coming."""
        while True:
            if not self._seats and not self._hiring:
                raise self._refusal or EngineError("the cluster has no worker left", transient=False)
            free = [seat for seat in self._seats if seat.takes(cost)]
            if free:
                return min(free, key=lambda seat: seat.busy)
            await self._changed.wait()

    def _call_next(self) -> None:
        """Wake those who wait for a worker, in order."""
        self._changed.set()
        self._changed = asyncio.Event()


async def _answer_of(request: Any) -> Any:
    """Return a request's answer, or Ray's error as a value."""
    try:
        return await request
    except RayError as error:
        return error


async def _dismiss(actor: Any) -> None:
    with suppress(RayError, TimeoutError):
        await asyncio.wait_for(actor.close.remote(), FAREWELL)
    ray.kill(actor)


def failure(error: RayError, *, transient: bool = True) -> KeffError:
    """Return our error raised by a worker or task, else one with Ray's message."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    if isinstance(cause, KeffError):
        return cause
    # Ray wraps an error in the stack of every worker it passed; the last line is the error itself.
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    return EngineError(f"a worker failed: {lines[-1][:300]}", transient=transient)
