"""Values of ``tests/data/reference.json``, which ``scripts/write_reference.py`` computes without keff."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "data" / "reference.json"


@cache
def _every_case() -> list[dict[str, Any]]:
    return json.loads(FILE.read_text("utf-8"))


def reference(function: str) -> list[tuple[dict[str, Any], Any]]:
    """Return arguments and value of every case of a function."""
    found = [(case["args"], case["value"]) for case in _every_case() if case["function"] == function]
    assert found, function
    return found
