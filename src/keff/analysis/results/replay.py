"""Result of ``keff replay``: policies compared on recorded paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from keff.analysis.results.decision import Change, Decision, Seconds
from keff.analysis.results.words import (
    answers_in_words,
    first_sentence,
    plural,
    points,
    reference_words,
    summary,
)
from keff.records import Finding, Interval, Note, Result, frozen, number, percent, text_table

# What a rule has to keep to be named first: the default of ``keff analyze --retain``.
ASKED = 0.99


@frozen
class PilotCosts(Result):
    """Cost of fitting a policy: pilot questions, their paths and labels, and mean paths with the pilot.

    ``mean_paths_with_pilot`` is by the number of questions that the pilot serves.
    """

    items: int
    paths: int
    labels: int
    mean_paths_with_pilot: Mapping[int, float]


@frozen
class ReplayRow(Result):
    """One policy's accuracy and cost: means over questions and orders of drawing.

    ``kept`` is its share of the accuracy of plurality at the cap; ``delta_at_equal_cost`` its accuracy minus
    that of fixed K randomised to the same cost. All three intervals are None without gold answers.
    ``same_answer`` is how often its answer is the baseline's on the same paths. ``frontier`` says that no
    other policy beats it in both accuracy and cost. With prices ``dollars`` are the mean cost of a question;
    where seconds are known ``seconds`` are the time to answer when rounds follow each other,
    ``seconds_at_once`` when all paths start together and those not needed are cancelled. ``change`` is the
    policy minus the baseline of the table. ``fitted`` is what a policy that needs a pilot becomes when the
    whole record is its pilot (None: nothing is fitted).
    ``expected_kept`` is the share of the baseline's accuracy that new questions are expected to keep, by the
    posterior of the decision.
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
    expected_kept: float | None = None
    fitted: str | None = None

    @property
    def keeps(self) -> float | None:
        """The share of accuracy kept, or of answers without labels; None where neither is known."""
        kept = self.same_answer if self.accuracy is None else self.kept
        return None if kept is None else kept.value

    @property
    def cost(self) -> float:
        """Mean tokens per question, or mean paths where tokens are unknown."""
        return self.mean_paths if self.mean_tokens is None else self.mean_tokens


@frozen
class Replay(Finding):
    """Policies compared on ``n`` questions with ``k`` recorded paths, against plurality at ``cap``.

    Changes are measured against ``baseline``: what runs today, else what was drawn. ``decision`` is what
    ``analyze`` decides on this record (None: not asked for). Its rule is one of the rows if its paths
    were recorded.
    """

    n: int
    k: int
    cap: int
    clusters: int
    policies: tuple[ReplayRow, ...]
    baseline: str
    warnings: tuple[Note, ...]
    decision: Decision | None = None

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
        """Whether the record has gold answers."""
        return any(row.accuracy is not None for row in self.policies)

    def line(self) -> str:
        """Return the decision, or without one the cheapest replayed policy that keeps 99%, in a sentence."""
        if self.decision is not None and self.decision.verdict is not None:
            return first_sentence(self.decision)
        enough = [row for row in self.policies if (row.keeps or 0.0) >= ASKED]
        cap = plural(self.cap, "path")
        of = f"the accuracy of {cap}" if self.labelled else f"the answers of {self.baseline}"
        if not enough:
            return f"Nothing replayed keeps {ASKED:.0%} of {of}."
        best = min(enough, key=lambda row: row.cost)
        kept = percent(best.kept if self.labelled else best.same_answer)
        told = f"Of these rules {best.policy} is the cheapest that keeps {ASKED:.0%} of {of} ({kept})"
        if best.policy == self.baseline:
            return f"{told}."
        drawn = answers_in_words(round(best.mean_paths, 1))
        told += f". It draws {drawn} instead of {reference_words(self.baseline)}"
        if best.change is not None and self.labelled:
            told += f", and changes accuracy by {points(best.change.accuracy)} points"
        return f"{told}."

    def statements(self) -> Iterator[str]:
        """Yield what ``keff replay`` prints, one sentence or table at a time."""
        size = f"{self.n:,} questions x {plural(self.k, 'path')}"
        same = f"Same answer: how often it is that of {self.baseline}."
        title = f"{size} without gold answers. {same} Brackets hold 95% intervals."
        if self.labelled:
            title = (
                f"{size}. Kept: share of the accuracy of {plural(self.cap, 'path')}. Equal cost: compared "
                "with a fixed number of paths that costs the same. Brackets hold 95% intervals."
            )
        yield self.line()
        if self.decision is not None and self.decision.verdict is not None:
            yield from summary(self.decision)[1:]
        yield from self._choice()
        for row in self.policies:
            if row.fitted is not None:
                yield f"Fitted to all these questions, {row.policy} becomes {row.fitted}."
        for heading, columns in (
            (title, self._measured),
            (f"Change from {self.baseline}, which you run today", _optional_columns(self)),
        ):
            yield f"\n{text_table(self._table(columns), heading)}"

    def _choice(self) -> Iterator[str]:
        """Yield which rule is recommended, and why no cheaper row that kept as much is."""
        decision = self.decision
        if decision is None or decision.verdict is None:
            return
        yield f"keff analyze recommends {decision.policy}."
        chosen, asked = self.by_policy.get(decision.policy), decision.kept and decision.kept.asked
        if chosen is None or asked is None:
            return
        passed_over = list[str]()
        for row in self.policies:
            if row.cost < chosen.cost and (row.keeps or 0.0) >= asked and row.expected_kept is not None:
                told = f"{row.policy} is cheaper and kept {percent(row.kept)} here"
                if row.expected_kept < asked:
                    expected = f"On new questions we expect {row.expected_kept:.1%}"
                    yield f"{told}. {expected}, less than you asked for."
                else:
                    passed_over.append(row.policy)
        if passed_over:
            slow = (
                ""
                if decision.slower is None
                else ", and leaves out those that take longer than --slower allows"
            )
            costs = "costs" if len(passed_over) == 1 else "cost"
            yield (
                f"On these questions {', '.join(passed_over)} {costs} less and kept enough. keff analyze "
                f"does not consider every rule{slow}."
            )

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table of what each policy keeps and costs."""
        return self._table(self._measured)

    @property
    def _measured(self) -> Columns:
        if self.labelled:
            return MEASURED
        return SAME_ANSWER | {header: MEASURED[header] for header in ("paths", "tokens", "rounds")}

    def _table(self, columns: Columns) -> list[tuple[str, ...]]:
        body = ((row.policy, *(tell(row) for tell in columns.values())) for row in self.policies)
        return [("policy", *columns), *body]


def _optional_columns(replayed: Replay) -> Columns:
    """Return the optional columns that are known for some policy."""
    today = replayed.by_policy.get(replayed.baseline)
    columns: Columns = {"paths": _paths_change}
    if today is not None and today.mean_tokens:
        spent = today.mean_tokens
        columns = {"tokens": lambda row: number(row.mean_tokens and row.mean_tokens / spent - 1, "+.0%")}
    if replayed.labelled:
        columns["points"] = lambda row: points(row.change and row.change.accuracy)
    if any(row.dollars is not None for row in replayed.policies):
        columns["$ per 1,000"] = lambda row: number(row.dollars and 1000 * row.dollars.value, ".3g")
    if any(row.seconds is not None for row in replayed.policies):
        columns["p50 s"] = lambda row: number(row.seconds and row.seconds.p50, ".1f")
        columns["p95 s"] = lambda row: number(row.seconds and row.seconds.p95, ".1f")
        columns["p95 s at once"] = lambda row: number(row.seconds_at_once and row.seconds_at_once.p95, ".1f")
    return columns


def _paths_change(row: ReplayRow) -> str:
    if row.change is None:
        return "–"
    return f"{row.change.paths.value / (row.mean_paths - row.change.paths.value):+.0%}"


Columns: TypeAlias = dict[str, Callable[[ReplayRow], str]]

SAME_ANSWER: Columns = {"same answer": lambda row: percent(row.same_answer)}

MEASURED: Columns = {
    "accuracy": lambda row: percent(row.accuracy),
    "paths": lambda row: f"{row.mean_paths:.2f}",
    "kept": lambda row: percent(row.kept),
    "expected": lambda row: percent(row.expected_kept),
    "tokens": lambda row: number(row.mean_tokens, ",.0f"),
    "rounds": lambda row: f"{row.rounds:.1f}",
    "points at equal cost": lambda row: points(row.delta_at_equal_cost),
}
