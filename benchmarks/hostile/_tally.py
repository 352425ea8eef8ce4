"""What the parts of the chaos bench share: how failures are counted, and what may never be seen."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

SECRET = "sk-chaos-3f9a1c77e2"
"""The key of every upstream: where it shows in a file, a reply or a terminal, it has leaked."""
TRACE = "Traceback (most recent call last)"


AT_ONCE = 24
"""Connections to a gateway at a time."""


async def attacked(inputs: int, one: Callable[[int], Awaitable[None]]) -> None:
    """Await ``one`` for the number of every input, some at a time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def admitted(number: int) -> None:
        # Made when its turn comes: of all made first, the last would come later than a gateway waits.
        async with gate:
            await one(number)

    await asyncio.gather(*map(admitted, range(inputs)))


@dataclass
class Tally:
    """Inputs tried of one part, what became of them, and every failure with what repeats it."""

    name: str
    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    failures: list[str] = field(default_factory=list[str])

    def fail(self, what: str) -> None:
        """Note a failure."""
        self.failures.append(what)

    def check_text(self, where: str, text: str) -> None:
        """Note a leaked key or a traceback in a text that a person would see."""
        if SECRET in text:
            self.fail(f"{where}: the key is shown")
        if TRACE in text:
            lines = text.partition(TRACE)[2].splitlines()[1:]
            error = next((at for at, line in enumerate(lines) if not line.startswith(" ")), len(lines))
            said = " / ".join(line.strip() for line in lines[max(0, error - 4) : error + 1])
            self.fail(f"{where}: a traceback: {said[-400:]}")

    def lines(self) -> list[str]:
        """Return what is printed."""
        became = ", ".join(f"{count} {name}" for name, count in sorted(self.outcomes.items()))
        head = f"{self.name}: {self.inputs} inputs, {len(self.failures)} failures ({became})"
        return [head, *(f"  {failure}" for failure in self.failures[:10])]
