"""The plurality of keys, against hand counts and enumeration."""

from __future__ import annotations

from collections import Counter
from itertools import product

from keff.policy import tally


def test_hand_counts() -> None:
    vote = tally(["b", None, "a", "a", "b", "c", None])
    assert list(vote.counts.items()) == [("b", 2), ("a", 2), ("c", 1)]
    assert (vote.leader, vote.v1, vote.v2) == ("b", 2, 2)
    for keys in ([], [None, None]):
        assert (tally(keys).leader, tally(keys).v1, tally(keys).v2) == (None, 0, 0)


def test_all_votes_of_five_paths_over_three_answers() -> None:
    for keys in product(("a", "b", None), repeat=5):
        vote = tally(keys)
        cast = [key for key in keys if key is not None]
        count = Counter(cast)
        top = [*sorted(count.values(), reverse=True), 0, 0]
        assert vote.leader == next((key for key in cast if count[key] == top[0]), None)
        assert (vote.v1, vote.v2, vote.counts) == (top[0], top[1], count)
