"""Pilots that carry less than their size says: named, so that no number is read as more than it is."""

from __future__ import annotations

import numpy as np

from keff.records import Note
from keff.stats.votes import Votes
from keff.stats.voting.correlation import agreement

# Fewer clusters than this carry no interval that covers.
FEW_QUESTIONS = 10


def edge_notes(votes: Votes) -> tuple[Note, ...]:
    """Return a warning for every way in which a pilot's votes cannot carry an estimate.

    ``all_abstain``, ``all_different`` (no two paths of a question agree), ``all_equal`` (no two differ), and
    ``few_questions`` below ten independent ones.
    """
    notes: list[Note] = []
    if votes.n_clusters < FEW_QUESTIONS:
        notes.append(Note("few_questions", _few(votes.n_clusters)))
    if votes.answers is not None and votes.k > 1:
        notes.extend(_of_answers(votes))
    return tuple(notes)


def _few(units: int) -> str:
    what = "1 independent question" if units == 1 else f"{units} independent questions"
    return f"Only {what}: intervals are rough, and nothing is decided about voting."


def _of_answers(votes: Votes) -> list[Note]:
    if np.all(votes.answered() < 0):
        what = "No path gave an answer that could be read: there is nothing to vote on."
        text = f"{what} Check how answers are read."
        return [Note("all_abstain", text)]
    agree = agreement(votes)
    if agree == 0.0:
        what = "No two paths of any question gave the same answer: a vote has nothing to count."
        text = f"{what} Check how answers are compared."
        return [Note("all_different", text)]
    if agree == 1.0:
        text = "All paths of every question gave the same answer: a copied completion, or temperature 0?"
        return [Note("all_equal", text)]
    return []
