"""Progress of a study: a bar per model, with the cell in hand, tokens per second and the time left."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from keff.cli._console import progress_console


class StudyProgressBar:
    """A context manager; ``model`` adds a bar for one model."""

    def __init__(self) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} paths"),
            TextColumn("{task.fields[cells]}"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[cell]}", markup=False),
            console=progress_console,
        )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def model(self, name: str, cells: int, paths: int) -> Callable[[str, int, int, int], None]:
        """Add a model's bar and return what updates it: the cell, cells begun, paths held, tokens drawn."""
        bar = self._bar.add_task(name, total=paths, cells=f"0/{cells} cells", rate="", cell="loading")
        begun = time.monotonic()

        def told(cell: str, opened: int, held: int, tokens: int) -> None:
            rate = f"{tokens / max(time.monotonic() - begun, 1e-9):,.0f} tokens/s"
            self._bar.update(bar, completed=held, cells=f"{opened}/{cells} cells", rate=rate, cell=cell)

        return told
