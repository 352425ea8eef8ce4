"""A witness that knows no shape of workload: plurality beyond the pilot under a law of items of any form."""

from __future__ import annotations

import numpy as np

from keff.stats.answer_model import AnswerModel
from keff.stats.votes import FloatArray

ROUNDS = 100
"""Rounds of EM from a flat start: stopping early is what smooths a law of any shape."""


def free_gains(model: AnswerModel, k: int, weights: FloatArray) -> FloatArray:
    """Return the mean gain [B] from K0 to ``k`` paths by a free law of (theta, g), for weights [B, u].

    The weights are of the patterns of the model's items. The ``AnswerModel`` takes the chance of a right path
    to follow a beta law, and wrong answers to scatter alike at every chance. Here the law over the whole grid
    is fitted to the votes alone, anew to each row of weights. It is far noisier; that is what it is for. A
    workload whose curve turns after the pilot (easy questions that soon gain, and others that lose slowly) is
    not of the beta's kind, and the few votes that show it are not outvoted by a shape.
    """
    unique = model.likelihood.reshape(model.likelihood.shape[0], -1)
    step, count = model.step(k), model.pooled(weights)
    share = count / count.sum(axis=1, keepdims=True)
    law = np.full((len(weights), unique.shape[1]), 1 / unique.shape[1])
    for _ in range(ROUNDS):
        law = law * ((share / (law @ unique.T)) @ unique)
    each = (law @ (unique * step).T) / (law @ unique.T)
    return np.asarray((each * share).sum(axis=1), np.float64)
