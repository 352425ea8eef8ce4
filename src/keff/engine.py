"""Interface of engines, which draw paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from keff.records import Completion, Message, Sampling, frozen


@frozen
class Capabilities:
    """Features that an engine supports.

    ``max_n`` is the most paths one request may ask for (the sampler never asks for more); ``parallel``
    is how many requests are worth having in flight when the user does not say, each of ``max_n`` paths;
    ``by_paths`` says that it is the paths that count, so that smaller requests may be more.
    """

    max_n: int = 1
    parallel: int = 8
    by_paths: bool = False


class Engine(Protocol):
    """Protocol of engines, made by ``keff.plugins.load("engine", name, **options)``.

    An engine is used inside one event loop, may be asked for several completions at once, and is closed
    once at the end. ``capabilities`` is read after ``start``.

    ``local``: it runs on the user's own machine, so its paths cost no dollars and nobody is asked before a
    run. ``needs_gpu``: on a cluster each worker wants an accelerator, where there is any. Both are read from
    the source of the class, before anything is imported: write ``local = True`` in its body.
    """

    name: str
    local: bool
    needs_gpu: bool
    capabilities: Capabilities

    async def start(self) -> None:
        """Connect or load the model; raises EngineError with one clear line when that cannot work."""
        ...

    def identity(self) -> dict[str, object]:
        """Return what identifies the model and its settings (JSON, no secrets), for the fingerprint."""
        ...

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        """Draw n paths; path i uses the seed ``sampling.seed + i``.

        Returns the first n completions in that order, or fewer (at least one) where one request cannot draw
        so many, and the sampler asks for the others; or raises EngineError. Cancelling the call cancels the
        request upstream where the server allows it.
        """
        ...

    async def close(self) -> None:
        """Release everything; safe to call twice."""
        ...
