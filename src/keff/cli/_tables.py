"""Writing what was reproduced or tabled into a folder."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from keff.errors import UsageError
from keff.paper.reproduce import Reproduction, write
from keff.plugins import missing_extra


def write_all(reproduction: Reproduction, out: Path, *, figures: bool) -> list[Path]:
    """Write tables, numbers and figures; raises UsageError where the folder cannot be written."""
    try:
        return write(reproduction, out) + (_draw(reproduction, out) if figures else [])
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror or error}: name another folder with -o") from None


def _draw(reproduction: Reproduction, out: Path) -> list[Path]:
    """Write the figures; raises PluginError that says what to install."""
    try:
        draw: Any = importlib.import_module("keff.paper.drawings").draw
    except ImportError as error:
        raise missing_extra(error, "drawing figures (or give --no-figures)") from error
    return draw(reproduction, out)
