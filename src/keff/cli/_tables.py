"""Drawing the figures of a reproduction, where the extra that draws is installed."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from keff.paper.reproduce import Reproduction
from keff.plugins import missing_extra


def draw_figures(found: Reproduction, out: Path) -> list[Path]:
    """Write the figures; raises PluginError that says what to install."""
    try:
        draw: Any = importlib.import_module("keff.paper.drawings").draw
    except ImportError as error:
        raise missing_extra(error, "drawing figures (or give --no-figures)") from error
    return draw(found, out)
