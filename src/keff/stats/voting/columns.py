"""Warnings about a pilot's votes: unequal columns of paths, too few clusters, all right or all wrong.

Paths of unequal accuracy are several things, not one: columns are tested for exchangeability.
"""

from __future__ import annotations

import numpy as np
from scipy.special import chdtrc

from keff.records import Note, frozen
from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting.correlation import agreement

# Fewer clusters than this carry no interval that covers.
FEW_QUESTIONS = 10


def edge_notes(votes: Votes) -> tuple[Note, ...]:
    """Return a warning for every reason why a pilot's votes cannot support an estimate.

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
    return f"With only {what} intervals are rough, and keff decides nothing about voting."


def _of_answers(votes: Votes) -> list[Note]:
    if np.all(votes.answered() < 0):
        what = "keff found no answer in any path, so there is nothing to vote on."
        text = f"{what} Look at how it reads them: keff read."
        return [Note("all_abstain", text)]
    agree = agreement(votes)
    if agree == 0.0:
        what = "No two paths of any question gave the same answer, so a vote has nothing to count."
        text = f"{what} Look at how keff reads them: keff read."
        return [Note("all_different", text)]
    if agree == 1.0:
        text = (
            "All paths of every question gave the same answer. Is it one completion copied, or temperature 0?"
        )
        return [Note("all_equal", text)]
    return []


# A record is said to have mixed columns below this p-value: few of a thousand exchangeable ones are.
ALARM = 0.001

# Permutations; fewer where so many already are as far, for then there is no alarm.
DRAWS, ENOUGH = 5000, 100

# Cells of permuted tables at once: a megabyte or two.
CHUNK_CELLS = 200_000
# From this many cells on, the chi-square law of the statistic is near enough.
LARGE = 20_000


@frozen
class ColumnTest:
    """Cochran's Q test of equal column accuracies, with its p-value."""

    statistic: float
    p: float

    @property
    def mixed(self) -> bool:
        """Whether the columns differ beyond chance."""
        return self.p < ALARM


def column_test(votes: Votes, rng: np.random.Generator) -> ColumnTest:
    """Test whether paths are exchangeable within questions, by Cochran's Q of the columns.

    The sum of squared deviations of column totals, scaled as Cochran's Q, against its law when the columns of
    every question are permuted at random: chi-square with K - 1 degrees of freedom for large records and
    far from an
    alarm, up to 5000 permutations else. Needs no slot labels. A p-value of 1 where nothing varies within
    questions.
    Needs two paths. Raises ValueError without gold labels.
    """
    scores = votes.scored()
    statistic = float(_cochran(scores.sum(axis=0), votes))
    p = float(chdtrc(votes.k - 1, statistic)) if statistic > 0 else 1.0
    # Far from an alarm the chi-square law decides; near it, small records are permuted.
    if scores.size >= LARGE or p > 20 * ALARM:
        return ColumnTest(statistic, p)
    # Questions that are all right or all wrong look alike in every order.
    varied = scores[(votes.counts > 0) & (votes.counts < votes.k)].astype(np.int8)
    size = max(1, CHUNK_CELLS // varied.size)
    as_far = done = 0
    while done < DRAWS and as_far < ENOUGH:
        shuffled = rng.permuted(np.broadcast_to(varied, (size, *varied.shape)), axis=2)
        # A shuffle that gives the same table must count as one that is as far.
        as_far += int(np.sum(_cochran(shuffled.sum(axis=1), votes) >= statistic - 1e-9))
        done += size
    return ColumnTest(statistic, (1 + as_far) / (done + 1))


def _cochran(totals: IntArray, votes: Votes) -> FloatArray:
    """Return Cochran's Q of column totals [..., K]; questions all right or all wrong do not matter."""
    right, k = votes.counts, votes.k
    within = float(np.sum(right * (k - right))) / k
    apart = totals - totals.mean(axis=-1, keepdims=True)
    return np.asarray((k - 1) * np.sum(apart**2, axis=-1) / within if within > 0 else 0.0, np.float64)


MIXED = Note(
    "mixed_columns",
    "The columns differ in accuracy more than paths of one model and one prompt do (p < .001), so they are "
    "different voters. c and the curves are for columns drawn at random.",
)
