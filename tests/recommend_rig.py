"""Pilots with known laws, and what is recommended of them."""

from __future__ import annotations

import numpy as np

from keff.analysis.recommend import Advice, Aim, recommend
from keff.analysis.recommend.outlook import Outlook, believe, gather
from keff.stats.choose import Recommendation
from keff.stats.votes import Votes


def workload(n: int, k: int, seed: int, share: tuple[float, float] = (1.2, 0.8)) -> Votes:
    """Questions in which one answer, the right one, has a Beta share; others are ever rarer."""
    rng = np.random.default_rng(seed)
    p = rng.beta(*share, n)
    answers = np.where(rng.random((n, k)) < p[:, None], 0, np.minimum(rng.geometric(0.6, (n, k)), 3))
    return Votes(answers, (answers == 0).astype(int), tokens=np.full((n, k), 100.0))


def advise(pilot: Votes, aim: Aim | None = None, verdict: Recommendation = "sample", cap: int = 32) -> Advice:
    return recommend(pilot, aim or Aim(), verdict, cap=cap, rng=np.random.default_rng(0))


def outlook(pilot: Votes, cap: int = 32) -> Outlook:
    return believe(gather(pilot, cap, np.random.default_rng(0)))
