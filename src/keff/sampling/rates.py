"""How fast each model of a study has drawn: tokens, paths and seconds, added up over sessions."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from keff.files import write_text

FILE = "rates.json"


class Rate(BaseModel):
    """What a model drew in how many seconds; the time to load it is no part of them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    tokens: int = 0
    paths: int = 0
    seconds: float = 0.0


def read_rates(runs: Path) -> dict[str, Rate]:
    """Return the measured rate of each model; empty where none was measured."""
    try:
        table = json.loads((runs / FILE).read_text("utf-8"))
        return {name: Rate.model_validate(rate) for name, rate in table.items()}
    except (OSError, ValueError, AttributeError, ValidationError):
        return {}


def add_rate(runs: Path, model: str, tokens: int, paths: int, seconds: float) -> None:
    """Add a session of a model; one that drew nothing changes nothing."""
    if not paths or seconds <= 0:
        return
    rates = read_rates(runs)
    old = rates.get(model, Rate())
    rates[model] = Rate(tokens=old.tokens + tokens, paths=old.paths + paths, seconds=old.seconds + seconds)
    table = {name: rate.model_dump() for name, rate in sorted(rates.items())}
    write_text(runs / FILE, json.dumps(table, indent=1) + "\n")
