"""Waves: what is promised whatever the votes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drawn
from how_many import examples
from keff.analysis.walks import decisions, run
from keff.policy import Policy, Sample, Stop, View, parse_policy, tally
from keff.policy.drawing import in_waves
from keff.stats.voting.draws import Draws

made = cache(parse_policy)
VOTES = drawn.lists(["a", "b", "c", None], 32)


def walk(spec: str, votes: list[str | None]) -> tuple[list[int], Stop]:
    """Return the sizes of the rounds, and the stop."""
    sizes: list[int] = []
    for _, decision in decisions(made(spec), votes, []):
        if isinstance(decision, Stop):
            return sizes, decision
        sizes.append(decision.m)
    raise AssertionError


@given(votes=VOTES)
@settings(max_examples=examples(60), deadline=None)
def test_a_wave_is_never_smaller_but_at_the_cap_and_stops_where_the_rule_would(
    votes: list[str | None],
) -> None:
    sizes, stop = walk("lead_k:3,wave=5", votes)
    ends = np.cumsum(sizes)
    assert all(size >= 5 for size in sizes[:-1]) and (sizes[-1] >= 5 or ends[-1] == 32)
    rule = made("lead_k:3")
    stops = [isinstance(rule.decide(View(votes[:end])), Stop) for end in ends]
    assert stops == [False] * (len(ends) - 1) + [True]
    assert stop.answer == tally(votes[: ends[-1]]).leader


@given(votes=VOTES)
@settings(max_examples=examples(60), deadline=None)
def test_waves_of_given_sizes_end_there_and_the_last_repeats(votes: list[str | None]) -> None:
    sizes, _ = walk("lead_k:2,cap=12,wave=3+4", votes)
    assert sizes == [3, 4, 4, 1][: len(sizes)]


@pytest.mark.parametrize("spec", ["lead_k:3,wave=2+5", "budget:4,wave=4", "esc:3,cap=20,wave=4"])
@given(votes=VOTES, cut=st.integers(0, 31))
@settings(max_examples=examples(20), deadline=None)
def test_a_vote_that_was_cut_off_in_a_wave_ends_where_it_would_have_ended(
    spec: str, votes: list[str | None], cut: int
) -> None:
    sizes, stop = walk(spec, votes)
    n = min(cut, sum(sizes))
    while isinstance(decision := made(spec).decide(View(votes[:n])), Sample):
        n += decision.m
    assert (n, decision) == (sum(sizes), stop)


class TwoInARow:
    """A rule of a user's own, which decides on one vote at a time."""

    needs = frozenset({"answers"})
    spec = "two_in_a_row:cap=12"
    cap = 12

    def decide(self, view: View) -> Sample | Stop:
        keys = view.keys
        if len(keys) >= self.cap or (len(keys) > 1 and keys[-1] == keys[-2]):
            return Stop(tally(keys).leader, 1.0, "vote_share", "two in a row")
        return Sample(max(2 - len(keys), 1))


def test_a_rule_of_ones_own_is_replayed_in_waves_one_vote_at_a_time() -> None:
    own: Policy = TwoInARow()  # type: ignore[assignment]
    policy = in_waves(own, 3)
    codes = np.random.default_rng(8).integers(0, 3, (4, 3, 12)).astype(np.int16)
    walks = run(policy, Draws(codes))
    for place in np.ndindex(4, 3):
        *_, (n, _) = decisions(policy, [str(code) for code in codes[place]], [])
        assert walks.stop[place] == n
        assert n % 3 == 0
