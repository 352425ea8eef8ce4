# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false
"""Rows of a data set on the Hugging Face hub; loaded only when one is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import datasets

# What reading may raise: network, cache, authentication and format errors have no common class there.
FAILURES = (Exception,)


def read(hub: str, config: str, split: str, *, streaming: bool) -> Iterator[dict[str, object]]:
    """Read the rows of one split; streaming does not download the rest, and keeps nothing."""
    rows: Any = datasets.load_dataset(hub, config, split=split, streaming=streaming)
    yield from rows
