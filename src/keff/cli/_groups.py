"""Options that several commands share, as groups: a dataclass stands for its fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass

from keff.analysis.recommend import Aim
from keff.analysis.rounds import Haste
from keff.analysis.terms import NO_HASTE, Terms, policy_now
from keff.cli import _options as o
from keff.cli._money import read_pace, tariff
from keff.errors import UsageError
from keff.reading.open import Opening


def grouped(
    *, without: Sequence[str] = (), **own: tuple[object, object]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of every dataclass among its parameters as options, in their place.

    ``without`` names fields, or parameter.field, that stay as they are by default; ``own`` gives a field the
    command's own declaration and default.
    """

    def members(name: str, group: type) -> list[inspect.Parameter]:
        fields = inspect.signature(group, eval_str=True).parameters.values()
        kept = [field for field in fields if not {field.name, f"{name}.{field.name}"} & set(without)]
        chosen = [own.get(field.name, (field.annotation, field.default)) for field in kept]
        return [
            field.replace(annotation=annotation, default=default)
            for field, (annotation, default) in zip(kept, chosen, strict=True)
        ]

    def give(command: Callable[..., None]) -> Callable[..., None]:
        groups: dict[str, tuple[Callable[..., object], list[str]]] = {}
        options: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation):
                expanded = members(parameter.name, parameter.annotation)
                groups[parameter.name] = parameter.annotation, [option.name for option in expanded]
                options += expanded
            else:
                options.append(parameter)

        def with_groups(**given: object) -> None:
            made = {
                name: group(**{field: given.pop(field) for field in fields})
                for name, (group, fields) in groups.items()
            }
            command(**made, **given)

        options = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
        with_groups.__signature__ = inspect.Signature(options)  # pyright: ignore[reportFunctionMemberAccess]
        with_groups.__annotations__ = {option.name: option.annotation for option in options}
        with_groups.__doc__ = command.__doc__
        return with_groups

    return give


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """How a recorded log is read."""

    format: o.Format = None
    answer_space: o.AnswerSpaceName = None
    answer_key: o.AnswerKey = None
    trim: o.Trim = None
    part: o.Part = None
    columns: o.Columns = None
    scorer: o.LogScorer = None
    threshold: o.Threshold = None
    branches: o.BranchNames = None

    def opening(self, *, texts: bool = False) -> Opening:
        """Return how to open a log, with its texts or without."""
        return Opening(
            self.format,
            o.reading_of(self.answer_space, self.answer_key),
            self.trim,
            texts=texts,
            part=self.part,
            columns=self.columns,
            scorer=self.scorer,
            threshold=self.threshold,
            branches=self.branches,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyOptions:
    """What is deployed today, and what paths cost."""

    now: o.Now = None
    prices: o.PriceTable = None
    volume: o.Volume = None
    pace: o.PaceText = None

    def terms(self, cap: int | None, budget_dollars: float | None = None, haste: Haste = NO_HASTE) -> Terms:
        """Make the terms: without --now a stated --cap is what savings are against."""
        if self.prices is None and (self.volume is not None or budget_dollars is not None):
            raise UsageError("--volume and --budget-dollars need --prices FILE")
        today = self.now if self.now is not None or cap is None else str(cap)
        return Terms(
            now=None if today is None else policy_now(today),
            tariff=tariff(self.prices),
            volume=self.volume,
            budget_dollars=budget_dollars,
            pace=read_pace(self.pace),
            haste=haste,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HasteOptions:
    """How long an answer may take."""

    max_rounds: o.MaxRounds = None
    p95: o.P95 = None

    def haste(self) -> Haste:
        """Return the limits."""
        return Haste(self.max_rounds, self.p95)


@dataclass(frozen=True, slots=True, kw_only=True)
class AimOptions:
    """What the recommendation is to serve."""

    retain: o.Retain = None
    confidence: o.Confidence = None
    budget: o.Budget = None
    budget_mean: o.BudgetMean = None
    budget_dollars: o.BudgetDollars = None
    value_per_correct: o.ValuePerCorrect = None
    cost_per_path: o.CostPerPath = None

    def aim(self) -> Aim:
        """Make the aim of the recommendation; raises UsageError when two are stated."""
        if (self.value_per_correct is None) != (self.cost_per_path is None):
            raise UsageError("--value-per-correct and --cost-per-path go together")
        others = (self.budget, self.budget_mean, self.value_per_correct)
        if sum(aim is not None for aim in (self.retain, *others)) > 1:
            raise UsageError(
                "state one aim: --retain, --budget, --budget-mean, "
                "or --value-per-correct with --cost-per-path"
            )
        if self.confidence is not None and any(aim is not None for aim in others):
            raise UsageError("--confidence goes with --retain: how sure to be that the share is kept")
        if self.confidence is not None and not 0 < self.confidence < 1:
            raise UsageError(f"--confidence must be above 0 and below 1, not {self.confidence:g}")
        return Aim(
            retain=self.retain,
            confidence=self.confidence,
            budget=self.budget,
            budget_mean=self.budget_mean,
            value_per_correct=self.value_per_correct,
            cost_per_path=self.cost_per_path,
        )
