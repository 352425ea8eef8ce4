"""The plurality of keys, against hand counts and enumeration."""

from __future__ import annotations

from collections import Counter
from itertools import product

from keff.answers import tally


def test_hand_counts() -> None:
    vote = tally(["b", None, "a", "a", "b", "c", None])
    assert dict(vote.counts) == {"b": 2, "a": 2, "c": 1}
    assert list(vote.counts) == ["b", "a", "c"]
    assert (vote.leader, vote.ties, vote.abstentions, vote.share) == ("b", ("b", "a"), 2, 0.4)


def test_nobody_voted() -> None:
    for keys in ([], [None, None]):
        vote = tally(keys)
        assert (vote.leader, vote.ties, vote.abstentions, vote.share) == (None, (), len(keys), 0.0)


def test_abstentions_never_win() -> None:
    assert tally([None, None, None, "x"]).leader == "x"
    assert tally([None, None, None, "x"]).share == 1.0


def test_all_votes_of_five_paths_over_three_answers() -> None:
    for keys in product(("a", "b", None), repeat=5):
        vote = tally(keys)
        cast = [key for key in keys if key is not None]
        count = Counter(cast)
        top = max(count.values(), default=0)
        expected = next((key for key in cast if count[key] == top), None)
        assert vote.leader == expected
        assert set(vote.ties) == {key for key in count if count[key] == top}
        assert sum(vote.counts.values()) + vote.abstentions == 5
