"""State shared by gateways on several hosts through Redis: accounts, drift alarm and profile.

Accounts need Redis for every request of a key with a limit: while it is away, such keys are refused. Drift
does not: what was seen meanwhile is kept, and entered when it is back.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from keff.gateway.accounts.accounts import Account, AccountLedger, Balance, Reservation, day_now
from keff.gateway.traffic.ledger import OwnLedger
from keff.gateway.traffic.monitor import StateFile
from keff.gateway.traffic.traffic import Learner
from keff.narrow import Fields, fields, items
from keff.protocol.values import Object, decoded

log = logging.getLogger("keff.gateway")

# A request waits so long for Redis; after it failed nobody asks again for as long, so that a server that is
# away does not hold up one request after the other.
WAIT_SECONDS = 0.5

# A balance is kept for a day after its own, for requests that end after midnight.
KEPT_SECONDS = 2 * 86_400

# Between two turns of a host at the shared alarm.
TURN_SECONDS = 1.0

# Requests that wait for a turn at most; the oldest go first.
MOST_WAITING = 10_000

_RESERVE = """
local function n(name) return tonumber(redis.call('HGET', KEYS[1], name) or '0') end
if ARGV[3] ~= '' and n('paths') + n('held_paths') >= tonumber(ARGV[3]) then return 0 end
if ARGV[4] ~= '' and n('dollars') + n('held_dollars') >= tonumber(ARGV[4]) then return 0 end
redis.call('HINCRBY', KEYS[1], 'held_paths', ARGV[1])
redis.call('HINCRBYFLOAT', KEYS[1], 'held_dollars', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[5])
return 1"""
_SETTLE = """
redis.call('HINCRBY', KEYS[1], 'requests', 1)
redis.call('HINCRBY', KEYS[1], 'paths', ARGV[1])
redis.call('HINCRBYFLOAT', KEYS[1], 'dollars', ARGV[2])
redis.call('HINCRBY', KEYS[1], 'held_paths', -ARGV[3])
redis.call('HINCRBYFLOAT', KEYS[1], 'held_dollars', -ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[5])"""


class LedgerError(Exception):
    """The account ledger cannot be read or written."""


class RedisStore:
    """Redis connection with short timeouts and no retries."""

    def __init__(self, url: str) -> None:
        self._client: Any = Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
            url,
            decode_responses=True,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=WAIT_SECONDS,
            socket_connect_timeout=WAIT_SECONDS,
        )
        self._until = 0.0

    def ask(self, command: str, *given: object) -> Any:
        """Return Redis's reply to a command; raises LedgerError."""
        if time.monotonic() < self._until:
            raise LedgerError("Redis cannot be reached")
        try:
            return getattr(self._client, command)(*given)
        except (RedisError, OSError) as error:
            self._until = time.monotonic() + WAIT_SECONDS
            raise LedgerError(f"Redis cannot be reached ({type(error).__name__})") from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class RedisLedger(AccountLedger):
    """Ledger of spending and reservations on all hosts: a Redis hash for each key and day (UTC).

    Each of reserving and settling is one script, which Redis runs alone.
    """

    remote = True

    def __init__(self, store: RedisStore) -> None:
        self._store = store

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Return a context without effect: each Redis command is atomic by itself."""
        yield

    def today(self, name: str) -> Balance:
        """Return the balance of today; raises LedgerError."""
        told: Mapping[str, str] = self._store.ask("hgetall", _key(day_now(), name))
        kinds: Mapping[str, Any] = {"dollars": float, "held_dollars": float}
        return Balance(**{name: kinds.get(name, int)(value) for name, value in told.items()})

    def held(self, day: int, account: Account, paths: int, dollars: float) -> bool:
        """Reserve paths and dollars unless a limit is reached; raises LedgerError."""
        most = ("" if limit is None else repr(limit) for limit in (account.paths, account.dollars))
        given = (paths, repr(dollars), *most, KEPT_SECONDS)
        return bool(self._store.ask("eval", _RESERVE, 1, _key(day, account.name), *given))

    def settle(self, held: Reservation, paths: int, dollars: float) -> None:
        """Enter what a request drew, and release its reservation; raises LedgerError."""
        given = (paths, repr(dollars), held.paths, repr(held.dollars), KEPT_SECONDS)
        self._store.ask("eval", _SETTLE, 1, _key(held.day, held.account.name), *given)

    def close(self) -> None:
        """Close the connections."""
        self._store.close()


def _key(day: int, name: str) -> str:
    return f"keff:spend:{day}:{name}"


class HeldState(StateFile):
    """State file in memory: the alarm's state as read from Redis, to be written back."""

    def __init__(self) -> None:
        self.states: Object = {}

    def load(self, plan: str) -> Object | None:
        """Return the state that was saved for a plan, or None."""
        return fields(self.states[plan]) if plan in self.states else None

    def save(self, plan: str, state: Fields) -> None:
        """Replace the state of a plan."""
        self.states[plan] = dict(state)

    def close(self) -> None:
        """Do nothing: there is no file to release."""


@dataclass(slots=True, kw_only=True)
class SharedLedger(OwnLedger):
    """Traffic ledger of one host whose drift alarm and profile are shared by all hosts.

    A host takes its turn every second: in one transaction it reads the shared state, enters what it saw since
    its last turn, and writes it back. Requests are exchangeable for the alarm, so it does not matter whose
    turn comes first.
    """

    store: RedisStore
    name: str
    made: Callable[[HeldState], OwnLedger]
    _waiting: deque[tuple[str | None, ...]] = field(
        default_factory=lambda: deque[tuple[str | None, ...]](maxlen=MOST_WAITING)
    )

    def observe(self, keys: Sequence[str | None], *, stopped: bool = False) -> None:
        """Queue a request's votes for the shared drift alarm."""
        del stopped
        self._waiting.append(tuple(keys))

    def learn(self, learner: Learner, keys: Sequence[str | None]) -> None:
        """Queue a request's votes for the shared profile."""
        self._waiting.append(tuple(keys[: learner.m]))

    async def turns(self) -> None:
        """Synchronise with Redis every second."""
        while True:
            await asyncio.sleep(TURN_SECONDS)
            await asyncio.to_thread(self.turn)

    def turn(self) -> None:
        """Merge queued votes into the shared state; kept for later while Redis cannot be reached."""
        waiting = list(self._waiting)

        def enter(redis: Any) -> None:
            raw = redis.get(self.name)
            state = self._entered(raw, waiting)
            redis.multi()
            if waiting or raw is None:
                redis.set(self.name, json.dumps(state))

        try:
            # Begun again where another host writes meanwhile.
            self.store.ask("transaction", enter, self.name)
        except LedgerError as error:
            if not self.away:
                line = f"{error}: the drift alarm waits for it, requests are served"
                log.warning(json.dumps({"event": "drift not shared", "message": line}))
            self.away = str(error)
            return
        self.away = ""
        for _ in waiting:
            self._waiting.popleft()

    def _entered(self, raw: str | None, waiting: Sequence[tuple[str | None, ...]]) -> Object:
        """Return the shared state with these requests merged in, and adopt its alarm and profile."""
        held = HeldState()
        held.states = fields(decoded(raw.encode())) if raw else {}
        shared = self.made(held)
        if shared.learner is not None:
            rows = (items(row) for row in items(held.states.get("rows")))
            shared.learner.rows = [tuple(None if key is None else str(key) for key in row) for row in rows]
        for keys in waiting:
            if shared.monitor is not None:
                shared.monitor.observe(keys)
            elif shared.learner is not None:
                shared.learn(shared.learner, keys)
        if shared.monitor is not None:
            shared.monitor.save()
        held.states["rows"] = [] if shared.learner is None else [list(row) for row in shared.learner.rows]
        self.monitor, self.learner = shared.monitor, shared.learner
        return held.states

    async def close(self) -> None:
        """Synchronise a last time, and close."""
        await asyncio.to_thread(self.turn)
        self.store.close()
