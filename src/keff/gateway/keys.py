"""Named keys of clients, and what each may spend per day, from a TOML file that need not hold the keys."""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from keff.errors import UsageError
from keff.protocol.address import checked_key

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks: a name, the SHA-256 of the key, and its limits per day (UTC); None for none."""

    name: str
    digest: bytes = field(repr=False)
    paths: int | None = None
    dollars: float | None = None


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    sha256: str | None = Field(default=None, pattern=r"^[0-9a-fA-F]{64}$")
    env: str | None = None
    paths_per_day: int | None = Field(default=None, ge=1, strict=True)
    dollars_per_day: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    keys: dict[str, _Entry] = Field(min_length=1)


def read_keys(file: Path) -> tuple[Client, ...]:
    """Return the clients of a key file; raises UsageError with one line.

    Each table ``[keys.NAME]`` has ``sha256`` (of the key, in hexadecimal) or ``env`` (the environment
    variable that holds it), and may have ``paths_per_day`` and ``dollars_per_day``.
    """
    try:
        given = _File.model_validate(tomllib.loads(file.read_text("utf-8")))
    except OSError as error:
        raise UsageError(f"--keys {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--keys {file} is not TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "keys"
        raise UsageError(f"--keys {file}: {where}: {first['msg']}") from None
    clients = tuple(_client(file, name, entry) for name, entry in given.keys.items())
    if len({client.digest for client in clients}) < len(clients):
        raise UsageError(f"--keys {file}: two names have the same key")
    return clients


def _client(file: Path, name: str, entry: _Entry) -> Client:
    if not NAME.fullmatch(name):
        raise UsageError(f"--keys {file}: {name!r:.80} is no name: use letters, digits, '_', '-' and '.'")
    if (entry.sha256 is None) == (entry.env is None):
        raise UsageError(f"--keys {file}: keys.{name} needs either sha256 or env")
    if entry.sha256 is not None:
        digest = bytes.fromhex(entry.sha256)
    else:
        value = checked_key(os.environ.get(str(entry.env), ""), str(entry.env))
        if not value:
            raise UsageError(
                f"--keys {file}: keys.{name}: the environment has no {entry.env}, or it is empty"
            )
        digest = hashlib.sha256(value.encode()).digest()
    return Client(name, digest, entry.paths_per_day, entry.dollars_per_day)
