"""Branches that a pilot of several stops drawing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from keff.analysis.mix.drop import LOOKS, dominated_branches
from keff.analysis.mix.prices import path_costs
from keff.reading.join import Aligned
from keff.stats.votes import Votes
from mix_rig import group

pytestmark = pytest.mark.slow


def first(whole: Aligned, n: int) -> Aligned:
    branches = tuple(replace(b, votes=b.votes.take(np.arange(n))) for b in whole.branches)
    return replace(whole, branches=branches, clusters=whole.clusters[:n])


def test_dropping_errs_as_seldom_as_stated() -> None:
    """Of pilots looked at after 12, 25 and 50 questions: a dear branch is dropped by what it is worth."""

    def dropped(cheap: float, dear: float, pilots: int = 150) -> float:
        count = 0
        for seed in range(pilots):
            whole = group(50, 4, seed, p=(cheap, dear), tokens=(100, 1000))
            costs = path_costs(whole, None).paths
            looks = (dominated_branches(first(whole, n), [paid[:n] for paid in costs]) for n in LOOKS)
            count += any(looks)
        return count / pilots

    # In the long run .16 and .04 (benchmarks/constants/mix_constants.py); two standard errors of 150 pilots.
    assert dropped(0.6, 0.65) < 0.22 and dropped(0.6, 0.7) < 0.07
    assert dropped(0.7, 0.5) > 0.9


def test_the_cheapest_branch_is_never_dropped() -> None:
    worst = group(50, 4, 1, p=(0.1, 0.9, 0.8), tokens=(100, 1000, 5000))
    assert dominated_branches(worst, path_costs(worst, None).paths) == {"b2": "b1"}


def test_a_branch_that_is_poor_by_the_path_and_good_by_its_vote_is_kept() -> None:
    """Large is right in two of four paths on every question, and its wrong answers never agree."""
    small = np.where(np.arange(50)[:, None] < 30, 0, 1).repeat(4, axis=1)
    large = np.tile([0, 0, 2, 3], (50, 1))
    aligned = group(50, 4, 0)
    branches = tuple(
        replace(branch, votes=Votes(codes, (codes == 0).astype(int), tokens=branch.votes.tokens))
        for branch, codes in zip(aligned.branches, (small, large), strict=True)
    )
    costs = path_costs(aligned, None).paths
    assert dominated_branches(replace(aligned, branches=branches), costs) == {}
    # Were its wrong answers one and the same, its vote would be a coin: worse than small.
    coin = replace(branches[1], votes=replace(branches[1].votes, answers=np.minimum(large, 2)))
    assert dominated_branches(replace(aligned, branches=(branches[0], coin)), costs) == {"large": "small"}
