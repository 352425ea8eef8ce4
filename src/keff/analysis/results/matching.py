"""How often answers match: whether a vote over them can mean anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from keff.records import Result


@dataclass(frozen=True, slots=True)
class SplitAnswers(Result):
    """A question whose paths marked right hold several keys, with these keys (cut to 200 characters)."""

    id: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matching(Result):
    """What the answers of a record say about their reading.

    ``agreement`` is how often two answers of a question have one key (abstentions left out), ``chance`` how
    often they would if every path drew from the pooled answers (closed answer sets only). ``singles`` counts
    the questions, of ``questions`` with two answers or more, whose most frequent key has a single vote.
    ``right_agreement`` is how often two right paths of a question have one key, and ``split`` counts the
    questions where they hold several, of ``right_questions`` with two right paths; ``examples`` are a few of
    these. ``abstentions`` counts abstaining paths by reason. ``rare`` says that votes mean little.
    """

    questions: int
    agreement: float | None
    chance: float | None
    singles: int
    right_questions: int
    right_agreement: float | None
    split: int
    examples: tuple[SplitAnswers, ...]
    abstentions: Mapping[str, int]
    rare: bool
