"""What ``keff replay`` finds: policies compared on recorded paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from keff.analysis.results.money import Change, Seconds
from keff.records import Finding, Interval, Note, Result


@dataclass(frozen=True, slots=True)
class PilotCosts(Result):
    """What fitting a policy costs: pilot questions, their paths and labels, and mean paths with the pilot.

    ``mean_paths_with_pilot`` is by the number of questions that the pilot serves.
    """

    items: int
    paths: int
    labels: int
    mean_paths_with_pilot: Mapping[int, float]
    mean_paths_if_every_question_were_piloted: float


@dataclass(frozen=True, slots=True)
class ReplayRow(Result):
    """One policy: what it keeps and costs, in means over questions and orders of drawing.

    ``kept`` is its share of the accuracy of plurality at the cap; ``delta_at_equal_cost`` its accuracy minus
    that of fixed K randomised to the same cost. All three intervals are None without gold answers.
    ``same_answer`` is how often its answer is the baseline's on the same paths (None where the baseline draws
    more than were replayed). ``frontier`` says that no other policy beats it in both accuracy and cost. With
    prices ``dollars`` are the mean cost of a question; where seconds are known ``seconds`` are the time to
    answer when rounds follow each other, ``seconds_at_once`` when all paths start together and those not
    needed are cancelled. ``change`` is the policy minus the baseline of the table.
    """

    policy: str
    accuracy: Interval | None
    kept: Interval | None
    delta_at_equal_cost: Interval | None
    mean_paths: float
    mean_tokens: float | None
    rounds: float
    same_answer_as_cap: float
    pilot: PilotCosts | None
    frontier: bool = False
    dollars: Interval | None = None
    seconds: Seconds | None = None
    seconds_at_once: Seconds | None = None
    change: Change | None = None
    same_answer: Interval | None = None

    @property
    def cost(self) -> float:
        """Mean tokens per question, or mean paths where tokens are unknown."""
        return self.mean_paths if self.mean_tokens is None else self.mean_tokens


HEADERS = ("policy", "paths", "tokens", "rounds", "accuracy", "kept", "at equal cost", "frontier")


@dataclass(frozen=True, slots=True, repr=False)
class Replay(Finding):
    """Policies compared on ``n`` questions with ``k`` recorded paths, against plurality at ``cap``.

    ``baseline`` is what changes are measured against: what is deployed today, else what was drawn.
    """

    n: int
    k: int
    cap: int
    clusters: int
    policies: tuple[ReplayRow, ...]
    baseline: str
    warnings: tuple[Note, ...]

    def __getitem__(self, policy: str) -> ReplayRow:
        """Return the row of a policy; raises KeyError that names the policies there are."""
        for row in self.policies:
            if row.policy == policy:
                return row
        raise KeyError(f"{policy!r} was not replayed; there are {', '.join(self.by_policy)}")

    @property
    def by_policy(self) -> dict[str, ReplayRow]:
        """The rows by policy."""
        return {row.policy: row for row in self.policies}

    @property
    def labelled(self) -> bool:
        """Whether gold answers say how accurate the policies are."""
        return any(row.accuracy is not None for row in self.policies)

    def caption(self) -> str:
        """Return the size of the record, and what policies are compared with."""
        against = (
            f"plurality at {self.cap} = 100%"
            if self.labelled
            else f"no gold answers: same answer as {self.baseline}"
        )
        return f"{self.n} questions x {self.k} recorded paths, {against}"

    def line(self) -> str:
        """Return the size, and how many policies were replayed."""
        return f"{len(self.policies)} policies on {self.caption()}"

    def rows(self) -> list[tuple[str, ...]]:
        """Return one line for each policy: accuracy in percent, differences in points."""
        if self.labelled:
            return [HEADERS, *(_cells(row) for row in self.policies)]
        return [(*HEADERS[:4], "same answer"), *(_unlabelled(row) for row in self.policies)]


def _cells(row: ReplayRow) -> tuple[str, ...]:
    return (
        *_costs(row),
        _hundred(row.accuracy, 1),
        _hundred(row.kept, 2),
        _hundred(row.delta_at_equal_cost, 2),
        "yes" if row.frontier else "",
    )


def _unlabelled(row: ReplayRow) -> tuple[str, ...]:
    return (*_costs(row), _hundred(row.same_answer, 1))


def _costs(row: ReplayRow) -> tuple[str, ...]:
    return (
        row.policy,
        f"{row.mean_paths:.2f}",
        "" if row.mean_tokens is None else f"{row.mean_tokens:.0f}",
        f"{row.rounds:.2f}",
    )


def _hundred(share: Interval | None, digits: int) -> str:
    """Return a share times 100, without a sign for percent: the caption says the unit."""
    return "" if share is None or share.value != share.value else share.percent(digits).replace("%", "")
