"""How a Hugging Face model draws: each row from its own generator, and stopped alone.

Rows of several requests stand in one batch; what one draws does not depend on its neighbours, up to rounding
in the arithmetic of the batch.
"""

# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUntypedBaseClass=false, reportPrivateImportUsage=false, reportArgumentType=false
# pyright: reportIncompatibleMethodOverride=false

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch
from transformers import LogitsProcessor, StoppingCriteria


class SeededChoice(LogitsProcessor):
    """Chooses each row's next token from that row's own generator, and keeps its log-probability."""

    def __init__(self, temperature: float, top_p: float, seeds: Sequence[int]) -> None:
        self._temperature, self._top_p = temperature, top_p
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.logprobs: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores that leave one token per row."""
        del input_ids
        chosen = self._choose(scores.float())
        self.logprobs.append(torch.log_softmax(scores.float(), -1).gather(1, chosen)[:, 0].cpu())
        return torch.full_like(scores, -torch.inf).scatter_(1, chosen, 0.0)

    def _choose(self, scores: torch.Tensor) -> torch.Tensor:
        if self._temperature <= 0:
            return scores.argmax(-1, keepdim=True)
        uniform = torch.cat([torch.rand(1, 1, generator=row) for row in self._generators]).to(scores.device)
        ordered, tokens = torch.softmax(scores / self._temperature, -1).sort(-1, descending=True)
        mass = ordered.cumsum(-1)
        kept = (mass - ordered < self._top_p).sum(-1, keepdim=True).clamp(min=1)
        target = uniform * mass.gather(1, kept - 1)
        return tokens.gather(1, torch.minimum(torch.searchsorted(mass, target), kept - 1))


class Cancelled(StoppingCriteria):
    """Ends each row at the next token once its own event, or that of the engine, is set."""

    def __init__(self, rows: Sequence[threading.Event], closing: threading.Event) -> None:
        self._rows, self._closing = rows, closing

    def __call__(self, input_ids: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        """Return for each row whether to stop."""
        stopped = [row.is_set() or self._closing.is_set() for row in self._rows]
        return torch.tensor(stopped, device=input_ids.device)
