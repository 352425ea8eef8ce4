"""Accounts of named clients: the key file, and the SQLite ledger of each day's spending (UTC).

Before a request draws anything, the most that it may draw is reserved on its account; when it ends, what it
drew is entered and the rest is given back. Each of the two is one statement within a transaction, whichever
process of the gateway makes it: an account that is limited goes past its limit by one reservation at most.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from keff.errors import UsageError
from keff.files import toml_of
from keff.gateway.http.errors import Problem
from keff.protocol.server import secret
from keff.records import frozen

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# The hash of no key at all: with it every caller would be this client.
EMPTY = hashlib.sha256(b"").digest()

# Raised with the table's columns: an older file is refused, never misread.
VERSION = 2
# Seconds: limits are per day, UTC.
DAY = 86_400
# So long a write waits for another process of the gateway.
BUSY_SECONDS = 0.5

# Codes of what is refused because of an account.
RESERVED = "key_limit_reserved"
REFUSED = frozenset({"key_limit_reached", RESERVED, "no_price"})

_TABLE = """CREATE TABLE IF NOT EXISTS spend (
  day INTEGER NOT NULL, key TEXT NOT NULL, requests INTEGER NOT NULL, paths INTEGER NOT NULL,
  dollars REAL NOT NULL, held_paths INTEGER NOT NULL DEFAULT 0, held_dollars REAL NOT NULL DEFAULT 0,
  PRIMARY KEY (day, key)) STRICT, WITHOUT ROWID"""
_RESERVE = """INSERT INTO spend VALUES (:day, :key, 0, 0, 0, :paths, :dollars) ON CONFLICT DO UPDATE SET
  held_paths = held_paths + excluded.held_paths, held_dollars = held_dollars + excluded.held_dollars
  WHERE (:most_paths IS NULL OR paths + held_paths < :most_paths)
  AND (:most_dollars IS NULL OR dollars + held_dollars < :most_dollars)"""
_SETTLE = """INSERT INTO spend VALUES (:day, :key, 1, :paths, :dollars, 0, 0) ON CONFLICT DO UPDATE SET
  requests = requests + 1, paths = paths + excluded.paths, dollars = dollars + excluded.dollars,
  held_paths = max(0, held_paths - :held_paths), held_dollars = max(0, held_dollars - :held_dollars)"""


@frozen
class Account:
    """A named client: the SHA-256 of its key, and its daily limits (UTC; None: unlimited)."""

    name: str
    digest: bytes = field(repr=False)
    paths: int | None = None
    dollars: float | None = None

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.paths is not None or self.dollars is not None


@frozen
class Balance:
    """One account's spending on one day, and the reservations of its requests in flight."""

    requests: int = 0
    paths: int = 0
    dollars: float = 0.0
    held_paths: int = 0
    held_dollars: float = 0.0


@frozen
class Reservation:
    """The most paths and dollars that a request may draw, held on its account."""

    account: Account
    day: int
    paths: int = 0
    dollars: float = 0.0


class AccountLedger:
    """Ledger of spending and reservations by account and day, in a file shared by processes.

    A process that is killed leaves its reservations standing until midnight: what it drew nobody knows.
    ``remote`` says that asking it may take long, so that others ask it in threads.
    """

    remote: ClassVar[bool] = False

    def __init__(self, file: Path) -> None:
        try:
            self._db = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None)
            self._db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
            self._make(file)
            self.today("")
        except sqlite3.Error as error:
            raise UsageError(
                f"{file} cannot hold the spend ({error}): name another with --set spend=FILE"
            ) from None

    def _make(self, file: Path) -> None:
        """Create the table; raises UsageError for one of another version."""
        with self.transaction():
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version not in (0, VERSION):
                raise UsageError(f"{file} is of another version of keff: name another with --set spend=FILE")
            self._db.execute(_TABLE)
            self._db.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Return a context that commits all entries made in it, or none; raises sqlite3.Error."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            yield

    def today(self, name: str) -> Balance:
        """Return the balance of today; raises sqlite3.Error."""
        row = self._db.execute(
            "SELECT requests, paths, dollars, held_paths, held_dollars FROM spend WHERE day = ? AND key = ?",
            (day_now(), name),
        ).fetchone()
        return Balance(*row) if row else Balance()

    def reserve(self, account: Account, paths: int, dollars: float) -> Reservation | Problem:
        """Reserve the most that a request may draw; raises what ``held`` does.

        Returns the problem (429) of an account that is at its limit, or would be if all that it has in flight
        drew what it may.
        """
        day = day_now()
        if self.held(day, account, paths, dollars):
            return Reservation(account, day, paths, dollars)
        return _refusal(account, self.today(account.name))

    def held(self, day: int, account: Account, paths: int, dollars: float) -> bool:
        """Reserve paths and dollars unless a limit is reached; raises sqlite3.Error."""
        values = {"day": day, "key": account.name, "paths": paths, "dollars": dollars}
        limits = {"most_paths": account.paths, "most_dollars": account.dollars}
        return bool(self._db.execute(_RESERVE, values | limits).rowcount)

    def settle(self, held: Reservation, paths: int, dollars: float) -> None:
        """Enter what a request drew, and release its reservation; raises sqlite3.Error."""
        drawn = {"day": held.day, "key": held.account.name, "paths": paths, "dollars": dollars}
        self._db.execute(_SETTLE, drawn | {"held_paths": held.paths, "held_dollars": held.dollars})

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def day_now() -> int:
    """Return the day of today (UTC), in days since 1970."""
    return int(time.time()) // DAY


def _refusal(account: Account, balance: Balance) -> Problem:
    """Return why an account is refused: its daily limit is spent, or reserved by requests in flight."""
    wait = DAY - int(time.time()) % DAY
    final = {"retry-after": str(wait), "x-should-retry": "false"}
    used = (
        (account.paths, balance.paths, f"{balance.paths} of {account.paths} paths"),
        (account.dollars, balance.dollars, f"{balance.dollars:.4g} of {account.dollars or 0:.4g} dollars"),
    )
    for limit, spent, what in used:
        if limit is not None and spent >= limit:
            line = f"the key {account.name} has used {what} of today (UTC); again in {wait} seconds"
            return Problem(429, line, code="key_limit_reached", headers=final)
    line = (
        f"requests in flight have reserved what is left today of the key {account.name} "
        f"({balance.held_paths} paths, {balance.held_dollars:.4g} dollars): ask again when they are "
        "answered; a smaller max_tokens or keff.cap reserves less"
    )
    # Reservations of requests in flight last seconds.
    return Problem(429, line, code=RESERVED, headers={"retry-after": "1"})


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    sha256: str | None = Field(default=None, pattern=r"^[0-9a-fA-F]{64}$")
    env: str | None = None
    paths_per_day: int | None = Field(default=None, ge=1, le=2**53, strict=True)
    dollars_per_day: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    keys: dict[str, _Entry] = Field(min_length=1)


def read_accounts(file: Path) -> tuple[Account, ...]:
    """Return the accounts of a key file; raises UsageError.

    Each table ``[keys.NAME]`` has ``sha256`` (of the key, in hexadecimal) or ``env`` (the environment
    variable that holds it), and may have ``paths_per_day`` and ``dollars_per_day``.
    """
    try:
        given = _File.model_validate(toml_of(file))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "keys"
        raise UsageError(f"--keys {file}: {where}: {first['msg']}") from None
    accounts = tuple(_account(file, name, entry) for name, entry in given.keys.items())
    if len({account.digest for account in accounts}) < len(accounts):
        raise UsageError(f"--keys {file}: two names have the same key")
    return accounts


def _account(file: Path, name: str, entry: _Entry) -> Account:
    if not NAME.fullmatch(name):
        raise UsageError(f"--keys {file}: {name!r:.80} is no name: use letters, digits, '_', '-' and '.'")
    if (entry.sha256 is None) == (entry.env is None):
        raise UsageError(f"--keys {file}: keys.{name} needs either sha256 or env")
    if entry.sha256 is not None:
        digest = bytes.fromhex(entry.sha256)
        if digest == EMPTY:
            raise UsageError(f"--keys {file}: keys.{name}: sha256 is that of an empty key")
    else:
        digest = hashlib.sha256(secret(entry.env, f"--keys {file}: keys.{name}: env").encode()).digest()
    return Account(name, digest, entry.paths_per_day, entry.dollars_per_day)
