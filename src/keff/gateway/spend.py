"""What each key spent today, in SQLite: shared by the processes of a gateway, and kept over restarts.

A request over its key's limit is refused before it is answered. Those in flight when a limit is reached are
finished and counted, so a key can go past its limit by what it has in flight.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

from keff.errors import UsageError
from keff.gateway.errors import Problem
from keff.gateway.keys import Client

log = logging.getLogger("keff.gateway")

VERSION = 1
DAY = 86_400
BUSY_SECONDS = 0.5
"""So long a write waits for another process of the gateway."""

_TABLE = """CREATE TABLE IF NOT EXISTS spend (
  day INTEGER NOT NULL, key TEXT NOT NULL, requests INTEGER NOT NULL, paths INTEGER NOT NULL,
  dollars REAL NOT NULL, PRIMARY KEY (day, key)) STRICT, WITHOUT ROWID"""
_ADD = """INSERT INTO spend VALUES (?, ?, 1, ?, ?) ON CONFLICT DO UPDATE SET
  requests = requests + 1, paths = paths + excluded.paths, dollars = dollars + excluded.dollars"""


@dataclass(frozen=True, slots=True)
class Spent:
    """What one key spent on one day."""

    requests: int = 0
    paths: int = 0
    dollars: float = 0.0


class Spend:
    """The book of spend; one write transaction per request, days in UTC."""

    def __init__(self, file: Path) -> None:
        try:
            self._db = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version not in (0, VERSION):
                raise UsageError(f"{file} is of another version of keff: name another with --spend")
            self._db.execute(_TABLE)
            self._db.execute(f"PRAGMA user_version = {VERSION}")
            self.today("")
        except sqlite3.Error as error:
            raise UsageError(f"{file} cannot hold the spend ({error}): name another with --spend") from None

    def today(self, name: str) -> Spent:
        """Return what a key spent today; raises sqlite3.Error."""
        row = self._db.execute(
            "SELECT requests, paths, dollars FROM spend WHERE day = ? AND key = ?", (_day(), name)
        ).fetchone()
        return Spent(*row) if row else Spent()

    def admit(self, client: Client) -> None:
        """Raise Problem (429, with when) for a key over its limit.

        A book that cannot be read is logged and stops nobody.
        """
        if client.paths is None and client.dollars is None:
            return
        try:
            spent = self.today(client.name)
        except sqlite3.Error as error:
            log.warning(json.dumps({"event": "spend not read", "message": str(error)}))
            return
        if client.paths is not None and spent.paths >= client.paths:
            raise _over(client.name, f"{spent.paths} of {client.paths} paths")
        if client.dollars is not None and spent.dollars >= client.dollars:
            raise _over(client.name, f"{spent.dollars:.4g} of {client.dollars:.4g} dollars")

    def add(self, client: Client, paths: int, dollars: float) -> None:
        """Write one request down; raises sqlite3.Error."""
        self._db.execute(_ADD, (_day(), client.name, paths, dollars))

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _day() -> int:
    return int(time.time()) // DAY


def _over(name: str, what: str) -> Problem:
    wait = DAY - int(time.time()) % DAY
    headers = {"retry-after": str(wait), "x-should-retry": "false"}
    line = f"the key {name} has used {what} of today (UTC); again in {wait} seconds"
    return Problem(429, line, code="key_limit_reached", headers=headers)
