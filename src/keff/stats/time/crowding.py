"""How paths that run at once on a server slow each other down."""

from __future__ import annotations

from dataclasses import dataclass

from keff.stats.votes import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Crowding:
    """How long a unit of recorded work takes, by how many paths run at this moment.

    Recorded seconds are those of a path among ``slots`` that run all the time. While ``running`` of them run
    each takes ``alone + (1 - alone) (running - 1) / (slots - 1)`` of that: a step of a batch costs a fixed
    part, for the weights are read once for all, and a part for each path in it. ``alone`` is 1 where paths do
    not notice each other, 1 / slots where they share out a fixed speed. More than ``slots`` never run.
    """

    slots: int
    alone: float = 1.0

    def pace(self, running: IntArray) -> FloatArray:
        """Return the seconds that a recorded second takes while so many run."""
        return self.alone + (1 - self.alone) * (running - 1) / max(self.slots - 1, 1)


# A server on which paths neither wait for nor notice each other.
ALONE = Crowding(2**16)
