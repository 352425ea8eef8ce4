"""The cells of a study that ``--only`` names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from keff.errors import UsageError
from keff.sampling.grid import Cell


def choose(grid: Sequence[Cell], only: Sequence[str]) -> list[Cell]:
    """Return the cells that ``--only`` names: ``model=a,task=b``; alternatives of one key add up.

    Keys are model, task, arm and seed. Raises UsageError for another key, or for a value that no cell has.
    """
    wanted: dict[str, set[str]] = {}
    for pair in (part for text in only for part in text.split(",")):
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or key not in _KEYS:
            raise UsageError(f"--only {pair!r}: write model=, task=, arm= or seed= and a name")
        known = sorted({_KEYS[key](cell) for cell in grid})
        if value not in known:
            raise UsageError(f"--only {pair}: the study has no such {key}; it has {', '.join(known)}")
        wanted.setdefault(key, set()).add(value)
    return [cell for cell in grid if all(_KEYS[key](cell) in values for key, values in wanted.items())]


_KEYS: dict[str, Callable[[Cell], str]] = {
    "model": lambda cell: cell.model.name,
    "task": lambda cell: cell.task.name,
    "arm": lambda cell: cell.arm.name,
    "seed": lambda cell: str(cell.seed),
}
