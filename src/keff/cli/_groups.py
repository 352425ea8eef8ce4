"""Options that several commands share, as groups: a dataclass stands for its fields."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from keff.analysis.decision import Aim
from keff.analysis.terms import Terms
from keff.analysis.wanted import aim_of, terms_of
from keff.cli import _options as o
from keff.cli._sample_options import named
from keff.errors import UsageError
from keff.reading.open import Opening

# What copying a log leaves out: it is copied whole.
COPY = "trim", "branches"


def opening_of(format: str | None, answer_space: str | None, **how: Any) -> Opening:
    """Return how to open a log whose format is named with its own options, as ``NAME:scorer=a,threshold=.5``.

    Raises UsageError for an option that no format has.
    """
    name, _, options = (format or "").partition(":")
    given: dict[str, str | float] = {}
    for word, value in named(filter(None, options.split(",")), f"--format {format}:"):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """How a recorded log is read."""

    format: o.Format = None
    answer_space: o.AnswerSpaceName = None
    answer_key: o.AnswerKey = None
    trim: o.Trim = None
    columns: o.Columns = None
    branches: o.BranchNames = None
    partial: o.Partial = False
    rescore: o.Rescore = False

    def opening(self, *, texts: bool = False) -> Opening:
        """Return how to open a log, with its texts or without."""
        return opening_of(
            self.format,
            o.reading_of(self.answer_space, self.answer_key),
            trim=self.trim,
            texts=texts,
            columns=self.columns,
            branches=self.branches,
            partial=self.partial,
            rescore=self.rescore,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyOptions:
    """What is deployed today, and what paths cost."""

    now: o.Now = None
    prices: o.PriceTable = None
    volume: o.Volume = None
    pace: o.PaceText = None

    def terms(self, budget_dollars: float | None = None) -> Terms:
        """Make the terms; raises UsageError for --volume or --budget-dollars without prices."""
        if self.prices is None and (self.volume is not None or budget_dollars is not None):
            raise UsageError("--volume and --budget-dollars need --prices FILE")
        return terms_of(_given(self) | ({} if budget_dollars is None else {"budget_dollars": budget_dollars}))


@dataclass(frozen=True, slots=True, kw_only=True)
class AimOptions:
    """What the recommendation is to serve."""

    retain: o.Retain = None
    sure: o.Sure = None
    budget: o.Budget = None
    budget_dollars: o.BudgetDollars = None
    value_per_correct: o.ValuePerCorrect = None
    cost_per_path: o.CostPerPath = None
    slower: o.Slower = "1"

    def aim(self) -> Aim:
        """Make the aim of the recommendation; raises UsageError when two are stated."""
        if (self.value_per_correct is None) != (self.cost_per_path is None):
            raise UsageError("--value-per-correct and --cost-per-path go together")
        others = (self.budget, self.value_per_correct)
        if sum(aim is not None for aim in (self.retain, *others)) > 1:
            raise UsageError("state one aim: --retain, --budget, or --value-per-correct with --cost-per-path")
        if self.sure is not None and any(aim is not None for aim in others):
            raise UsageError("--sure goes with --retain: how sure to be that the share is kept")
        if self.sure is not None and not 0 < self.sure < 1:
            raise UsageError(f"--sure must be above 0 and below 1, not {self.sure:g}")
        return aim_of(_given(self))


def _given(group: Any) -> dict[str, Any]:
    """Return the options of a group that were given, by name."""
    return {name: value for name, value in asdict(group).items() if value is not None}
