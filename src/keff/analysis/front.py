"""What ``import keff`` offers for analysis of a path, a Record, Votes, an array, lists or a frame."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from keff.analysis import arms, estimates
from keff.analysis import replay as replaying
from keff.analysis.combine import combine_record
from keff.analysis.estimates import Settings
from keff.analysis.results.combination import Combination
from keff.analysis.results.comparison import Comparison
from keff.analysis.results.estimates import Analysis
from keff.analysis.results.replay import Replay
from keff.errors import UsageError
from keff.policy import Policy
from keff.reading.open import Record
from keff.reading.several import by_column, one_model
from keff.reading.source import How, opening_of, record_of


def analyze(source: object, settings: Settings | None = None, **how: Unpack[How]) -> Analysis:
    """Measure how many paths are worth paying for.

    ``source`` is a path (or ``PATH#SLOTS``, ``PATH#PART``), a Record, Votes, a 0/1 array [n, K] of
    correctness with NaN where a path is missing, nested lists of answers with ``gold_answer=[...]``, or a
    pandas or polars frame with one row per path; ``how`` names its columns, or holds the data beside it.
    Raises KeffError with one sentence that says what was expected.

    Example: ``keff.analyze(df, id="question_id", answer="prediction", gold_answer="target")``.
    """
    return estimates.analyze(one_model(read(source, how)), settings or Settings())


def replay(
    source: object,
    policies: str | Policy | Sequence[str | Policy],
    settings: replaying.Replaying | None = None,
    *,
    seed: int = 0,
    **how: Unpack[How],
) -> Replay:
    """Compare stopping policies on recorded paths, at equal cost; ``source`` as in ``analyze``.

    Policies are specs such as ``"lead_k:3"``, or objects of your own. ``seed`` is that of the random orders
    of drawing. Raises KeffError, such as PolicyError for a policy that may draw more than was recorded.
    """
    rules = list(policies) if isinstance(policies, list | tuple) else [policies]
    votes = one_model(read(source, how)).ballot.votes
    return replaying.replay(votes, rules, np.random.default_rng(seed), settings)  # pyright: ignore[reportArgumentType]


def compare(
    first: object, second: object, settings: arms.Comparing | None = None, **how: Unpack[How]
) -> Comparison:
    """Compare two arms on the same questions, such as one prompt and templates; sources as in ``analyze``.

    Questions are matched by id (arrays and lists: by their place). Raises UsageError for arms without gold
    answers or without shared questions.
    """
    try:
        return arms.compare(one_model(read(first, how)), one_model(read(second, how)), settings)
    except ValueError as error:
        raise UsageError(str(error)) from None


def combine(source: object, **how: Unpack[How]) -> Combination:
    """Judge weighted votes and pruned slots, cross-fitted; ``source`` as in ``analyze``.

    Raises UsageError without gold answers, and for records that are too small.
    """
    return combine_record(by_column(read(source, how)))


def read(source: object, how: Any, *, texts: bool = False) -> Record:
    """Return the record of a source; strings may choose slots or a part of a log, as on the command line."""
    if isinstance(source, str | Path):
        return arms.open_arm(str(source), opening_of(how, texts=texts))
    return record_of(source, how)
