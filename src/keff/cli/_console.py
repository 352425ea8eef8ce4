"""What commands print: JSON on stdout, everything else on stderr, tables readable without colour."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from rich.console import Console

progress_console = Console(stderr=True, highlight=False)
"""Progress, warnings and logs."""

WIDTH = 120
"""Columns of a result that goes to a file or a pipe."""

result_console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
"""The result of a command, for people."""


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: NaN and infinities become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(inner) for inner in cast("Sequence[Any]", value)]
    return value


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout."""
    sys.stdout.write(json.dumps(plain(value), ensure_ascii=False, allow_nan=False) + "\n")


def warn(line: str) -> None:
    """Print one warning line on stderr."""
    progress_console.print(f"warning: {line}", markup=False, soft_wrap=True)
