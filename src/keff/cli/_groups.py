"""Groups of options that several commands share, as fields of dataclasses."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keff.cli import _options as o
from keff.cli._sample_options import name_value_pairs
from keff.errors import UsageError
from keff.reading.open import Opening
from keff.records import frozen

if TYPE_CHECKING:
    from keff.analysis.estimates import Settings


def opening_of(format: str | None, answer_space: str | None, **how: Any) -> Opening:
    """Return the log opening of a ``--format`` value such as ``NAME:scorer=a,threshold=.5``.

    Raises UsageError for an option that no format has.
    """
    name, _, options = (format or "").partition(":")
    given: dict[str, str | float] = {}
    for word, value in name_value_pairs(filter(None, options.split(",")), f"--format {format}:"):
        if word not in ("scorer", "threshold"):
            line = f"--format {format}: its options are scorer=NAME and threshold=NUMBER, not {word!r}"
            raise UsageError(line)
        given[word] = value if word == "scorer" else _number(value, f"--format {format}: threshold")
    return Opening(name or None, answer_space, **given, **how)


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{what} must be a number, not {text!r}") from None


@frozen
class AnswerOptions:
    """Options on how the answers of a recorded log are read, of every command that reads one."""

    answer_space: o.AnswerSpaceName = None
    answer_key: o.AnswerKey = None
    columns: o.Columns = None
    partial: o.Partial = False
    rescore: o.Rescore = False

    def opening(
        self, *, format: str | None = None, texts: bool = False, on: str | None = None, **own: Any
    ) -> Opening:
        """Return how to open a log; ``on`` a cluster always without texts, ``own`` as the command says."""
        return opening_of(
            format,
            o.reading_of(self.answer_space, self.answer_key),
            texts=texts and on is None,
            on=on,
            columns=self.columns,
            partial=self.partial,
            rescore=self.rescore,
            **own,
        )


@frozen
class LogOptions(AnswerOptions):
    """Options on how a recorded log is read; ``keff tables`` has another ``--format``."""

    format: o.Format = None

    def opening(self, **how: Any) -> Opening:
        """Return how to open a log of that format."""
        return AnswerOptions.opening(self, format=self.format, **how)


@frozen
class WantedOptions:
    """Options of an analysis; each field is an option, and a keyword of ``keff.analyze``.

    Prices and seed are keywords too; a command that also draws has these for both.
    """

    now: o.Now = None
    cap: o.DecisionCap = None
    retain: o.Retain = None
    sure: o.Sure = None
    budget: o.Budget = None
    budget_dollars: o.BudgetDollars = None
    value_per_correct: o.ValuePerCorrect = None
    cost_per_path: o.CostPerPath = None
    slower: o.Slower = "1"
    volume: o.Volume = None
    pace: o.PaceText = None
    rule: o.Rule = None
    false_accept: o.FalseAccept = None
    epsilon: o.Epsilon = 0.025

    def settings(self, prices: Path | None, seed: int) -> Settings:
        """Return the analysis settings; errors name the options."""
        # Not every command that reads a log computes: statistics take half a second to import.
        from keff.analysis.wanted import WANTED, settings_of

        try:
            return settings_of({**asdict(self), "prices": prices, "seed": seed})
        except UsageError as error:
            # A word that stands alone, not a part of the name of a file.
            keyword = rf"(?<![-./\w])(?:{'|'.join(WANTED)})(?![-./\w])"
            flags = re.sub(keyword, lambda word: "--" + word[0].replace("_", "-"), str(error))
            raise UsageError(flags) from None
