"""How many examples property tests draw: all of them, or fewer in the contributor's minute."""

from __future__ import annotations

import os

SHARE = float(os.environ.get("KEFF_EXAMPLES", "1"))
"""The share of the examples that are drawn: a quarter in ``make quick``."""

FEWEST = 2


def examples(count: int) -> int:
    """Return how many of ``count`` examples to draw."""
    return min(count, max(FEWEST, round(count * SHARE)))
