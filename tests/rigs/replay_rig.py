"""Records that are replayed."""

from __future__ import annotations

from typing import Any

import numpy as np

from keff.analysis.results.replay import Replay
from keff.stats.votes import Votes


def records(n: int = 40, k: int = 24, seed: int = 0, **extra: Any) -> Votes:
    rng = np.random.default_rng(seed)
    share = rng.beta(1.5, 1, n)
    answers = np.where(rng.random((n, k)) < share[:, None], 0, rng.integers(1, 5, (n, k)))
    answers[rng.random((n, k)) < 0.05] = -1
    return Votes(answers, (answers == 0).astype(int), **extra)


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def row(found: Replay, policy: str) -> Any:
    return found[policy]
