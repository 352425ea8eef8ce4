"""Tokens and times to answer of rules in every resample of the questions: what bounds a choice in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from keff.analysis.replay.outcomes import expectations, run
from keff.policy import Policy
from keff.stats.time.latency import resampled_quantiles
from keff.stats.votes import FloatArray
from keff.stats.voting.draws import Draws


@dataclass(frozen=True)
class Speed:
    """Of C rules in S resamples, each [S, C]: median and 95th percentile of the time, and mean tokens.

    Times are in seconds, or in tokens of the critical path where no seconds are recorded. ``tokens`` is None
    where they are not recorded.
    """

    p50: FloatArray
    p95: FloatArray
    tokens: FloatArray | None


def speeds(draws: Draws, rules: Sequence[Policy], weights: FloatArray) -> Speed | None:
    """Return how fast rules answer along orders of drawing; None where neither seconds nor tokens are known.

    ``weights`` [S, n] are how often each question was drawn into a resample: ratios to another rule of the
    same resample are paired. Rules draw in rounds, or keep paths in flight (``in_flight=W``).
    """
    if draws.work is None:
        return None
    timed = draws if draws.seconds is not None else replace(draws, seconds=draws.tokens)
    p50, p95, tokens = list[FloatArray](), list[FloatArray](), list[FloatArray]()
    for rule in rules:
        walks = run(rule, timed)
        assert walks.wait is not None
        median, high = resampled_quantiles(walks.wait, weights, (0.5, 0.95))
        p50.append(median)
        p95.append(high)
        spent = expectations(walks, timed, timed.cap).tokens
        if spent is not None:
            tokens.append(weights @ spent / weights.sum(axis=1))
    return Speed(np.stack(p50, axis=1), np.stack(p95, axis=1), np.stack(tokens, axis=1) if tokens else None)
