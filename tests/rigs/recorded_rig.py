"""An engine that serves paths that it is given, by prompt and seed: a scripted model for the drivers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keff.engine import Capabilities
from keff.errors import EngineError
from keff.records import Completion, Message, Sampling, stable_hash

# ``stable_hash(list(messages))`` of a prompt -> seed of a path -> what was drawn.
Recording = Mapping[str, Mapping[int, Completion]]


class Recorded:
    """Serves ``paths``, at most ``max_n`` a request; one that is not there ends the run."""

    name = "recorded"
    local = True
    needs_gpu = False

    def __init__(self, paths: Recording, max_n: int) -> None:
        self.capabilities = Capabilities(max_n=max_n)
        self._paths = paths

    async def start(self) -> None:
        """Nothing to start."""

    def identity(self) -> dict[str, object]:
        """Return the name."""
        return {"engine": self.name}

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        """Return the recorded paths with the seeds ``sampling.seed`` to ``sampling.seed + n - 1``."""
        known = self._paths.get(stable_hash(list(messages)), {})
        try:
            return [known[sampling.seed + i] for i in range(n)]
        except KeyError as error:
            raise EngineError(f"no path was recorded with seed {error}", transient=False) from None

    async def close(self) -> None:
        """Nothing to release."""
