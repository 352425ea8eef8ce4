"""What rules read of the paths' confidences: checked, and calibrated on other questions than they judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from keff.errors import PolicyError
from keff.policy import Policy, calibrated, confidence_of
from keff.stats.votes import CONFIDENCE, FloatArray, Votes
from keff.stats.voting.calibrate import cross_fitted
from keff.stats.voting.draws import CHANCE, WEIGHT


def rated(votes: Votes, rules: Sequence[Policy]) -> Votes:
    """Return votes with the confidences that the rules read, and no others.

    Chances and weights of calibrated ones are cross-fitted by clusters, whatever a plan holds. Raises
    PolicyError where a confidence is not recorded, or cannot be calibrated without gold answers.
    """
    named: dict[str, FloatArray] = {}
    for rule in rules:
        name = confidence_of(rule)
        if name is None:
            continue
        given = votes.rated.get(name)
        if given is None:
            there = f"they have {', '.join(votes.rated)}" if votes.rated else "these records have none"
            which = "a confidence" if name == CONFIDENCE else f"the confidence {name}"
            raise PolicyError(f"{rule.spec} needs {which} for each path, and {there}")
        if name != CONFIDENCE:
            named[name] = given
        if calibrated(rule) is not None and name + CHANCE not in named:
            if votes.correct is None:
                raise PolicyError(f"{rule.spec} is calibrated on gold answers, and these records have none")
            named[name + CHANCE], named[name + WEIGHT] = _cross_fitted(votes, name)
    if named == dict(votes.named):
        return votes
    return replace(votes, named=named)


def chances_of(votes: Votes, name: str) -> FloatArray:
    """Return P(right) of each path [n, K] by a confidence, calibrated on the other questions."""
    return _cross_fitted(votes, name)[0]


@lru_cache(maxsize=8)
def _cross_fitted(votes: Votes, name: str) -> tuple[FloatArray, FloatArray]:
    # The same folds for every rule and every command, so that they are judged alike.
    return cross_fitted(votes, votes.rated[name], np.random.default_rng(0))
