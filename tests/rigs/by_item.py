"""Accuracies by item, where the sources need them by pattern of votes only."""

from __future__ import annotations

from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.alike import vote_patterns
from keff.stats.voting.plurality import plurality_at_k_patterns


def plurality_at_k_items(votes: Votes) -> FloatArray:
    """Return each item's plurality accuracy at 1..K paths [n, K]."""
    return plurality_at_k_patterns(votes)[vote_patterns(votes).back]
