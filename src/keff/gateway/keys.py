"""Clients' keys from a file, and a soft fuse for each: requests a minute and dollars a day (UTC).

What a key has used is kept in memory: each gateway counts for itself and forgets it at a restart. For budgets
that must hold, teams, and keys made while serving, put a gateway such as LiteLLM in front.
"""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from keff.errors import UsageError
from keff.files import toml_of
from keff.gateway.http.errors import Problem
from keff.protocol.server import secret
from keff.records import frozen

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# The hash of no key at all: with it every caller would be this client.
EMPTY = hashlib.sha256(b"").digest()

MINUTE, DAY = 60, 86_400
KEY_LIMIT = "key_limit_reached"


@frozen
class ClientKey:
    """A client's name, the SHA-256 of its key, and its limits (None: unlimited)."""

    name: str
    digest: bytes = field(repr=False)
    requests_per_minute: int | None = None
    dollars_per_day: float | None = None


class Fuse:
    """Counts what one key uses in each minute and on each day (UTC), and refuses it beyond its limits."""

    def __init__(self, key: ClientKey) -> None:
        self.key = key
        self._minute = self._day = 0
        self._requests, self._dollars = 0, 0.0

    def admit(self) -> None:
        """Count a request; raises Problem (429) if the key has reached a limit."""
        now, key = self._turn(), self.key
        if key.dollars_per_day is not None and self._dollars >= key.dollars_per_day:
            used = f"{self._dollars:.4g} of {key.dollars_per_day:.4g} dollars of today (UTC)"
            raise _refusal(key.name, used, DAY - now % DAY, retry=False)
        if key.requests_per_minute is not None and self._requests >= key.requests_per_minute:
            raise _refusal(key.name, f"{self._requests} requests of this minute", MINUTE - now % MINUTE)
        self._requests += 1

    def charge(self, dollars: float) -> None:
        """Add the cost of a request that ended, however it ended."""
        self._turn()
        self._dollars += dollars

    def _turn(self) -> int:
        """Return the time in seconds; begins a new minute or day where one has come."""
        now = int(time.time())
        if now // MINUTE != self._minute:
            self._minute, self._requests = now // MINUTE, 0
        if now // DAY != self._day:
            self._day, self._dollars = now // DAY, 0.0
        return now


def _refusal(name: str, used: str, seconds: int, *, retry: bool = True) -> Problem:
    line = f"the key {name} has used {used}; try again in {seconds} seconds"
    headers = {"retry-after": str(seconds)} | ({} if retry else {"x-should-retry": "false"})
    return Problem(429, line, code=KEY_LIMIT, headers=headers)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    sha256: str | None = Field(default=None, pattern=r"^[0-9a-fA-F]{64}$")
    env: str | None = None
    requests_per_minute: int | None = Field(default=None, ge=1, strict=True)
    dollars_per_day: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    keys: dict[str, _Entry] = Field(min_length=1)


def read_keys(file: Path) -> tuple[ClientKey, ...]:
    """Return the keys of a key file; raises UsageError.

    Each table ``[keys.NAME]`` has ``sha256`` (of the key, in hexadecimal) or ``env`` (the environment
    variable that holds it), and may have ``requests_per_minute`` and ``dollars_per_day``.
    """
    try:
        given = _File.model_validate(toml_of(file))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "keys"
        line = f"--keys {file}: {where}: {first['msg']}"
        if where.endswith("paths_per_day"):
            line = (
                f"--keys {file}: {where} was removed: use dollars_per_day or requests_per_minute, "
                "or put LiteLLM in front for budgets (examples/deploy)"
            )
        raise UsageError(line) from None
    keys = tuple(_key(file, name, entry) for name, entry in given.keys.items())
    if len({key.digest for key in keys}) < len(keys):
        raise UsageError(f"--keys {file}: two names have the same key")
    return keys


def _key(file: Path, name: str, entry: _Entry) -> ClientKey:
    if not NAME.fullmatch(name):
        raise UsageError(f"--keys {file}: {name!r:.80} is not a name: use letters, digits, '_', '-' and '.'")
    if (entry.sha256 is None) == (entry.env is None):
        raise UsageError(f"--keys {file}: keys.{name} needs either sha256 or env")
    if entry.sha256 is not None:
        digest = bytes.fromhex(entry.sha256)
        if digest == EMPTY:
            raise UsageError(f"--keys {file}: keys.{name}: sha256 is that of an empty key")
    else:
        digest = hashlib.sha256(secret(entry.env, f"--keys {file}: keys.{name}: env").encode()).digest()
    return ClientKey(name, digest, entry.requests_per_minute, entry.dollars_per_day)
