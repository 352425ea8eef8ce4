# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false
"""Rows of a Parquet file; loaded only when one is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet

FAILURES = (pyarrow.ArrowException, OSError)


def stream(path: Path) -> Iterator[dict[str, object]]:
    """Read the rows in batches, so that memory does not grow with the file."""
    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=1000):
            yield from batch.to_pylist()
