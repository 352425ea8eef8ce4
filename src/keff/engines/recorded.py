"""Serves paths that it is given: replays a run, or stands in for a server in tests.

It opens no files and draws nothing. A path is found by its prompt and its seed, so a run that resumes is
served the paths that it still owes, whatever the order of the requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keff.engine import Capabilities
from keff.errors import EngineError
from keff.records import Completion, Message, Sampling, stable_hash

# ``stable_hash(list(messages))`` of a prompt -> seed of a path -> what was drawn.
Recording = Mapping[str, Mapping[int, Completion]]


def engine(
    *, paths: Recording, model: str | None = None, source: Mapping[str, object] | None = None, max_n: int = 8
) -> Recorded:
    """Make an engine that serves ``paths``; ``source`` is the identity of the engine that drew them."""
    return Recorded(paths, model, source or {}, max_n)


class Recorded:
    """See the module."""

    name = "recorded"
    local = True
    needs_gpu = False

    def __init__(self, paths: Recording, model: str | None, source: Mapping[str, object], max_n: int) -> None:
        self.capabilities = Capabilities(max_n=max_n)
        self._paths, self._model, self._source = paths, model, dict(source)

    async def start(self) -> None:
        """Nothing to start."""

    def identity(self) -> dict[str, object]:
        """Return the model and the identity of the engine that drew the paths."""
        return {"engine": "recorded", "model": self._model, "source": self._source}

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        """Return the recorded paths with the seeds ``sampling.seed`` to ``sampling.seed + n - 1``.

        Raises EngineError, not transient, when one of them was not recorded.
        """
        known = self._paths.get(stable_hash(list(messages)), {})
        seeds = range(sampling.seed, sampling.seed + n)
        missing = [seed for seed in seeds if seed not in known]
        if missing:
            raise EngineError(
                f"engine recorded: {len(known)} paths were recorded for this prompt, and none with seed "
                f"{missing[0]}: ask for fewer paths, or use the seed of the run that drew them",
                transient=False,
            )
        return [known[seed] for seed in seeds]

    async def close(self) -> None:
        """Nothing to release."""
