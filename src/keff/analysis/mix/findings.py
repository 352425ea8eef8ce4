"""Findings of ``keff mix``: branches, their correlation, the cost frontier and the recommendation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from keff.analysis.mix.drop import DroppedBranch
from keff.analysis.mix.prices import Unit
from keff.analysis.results.words import in_words, lower_first, points
from keff.plan import BranchPlan, Plan
from keff.reading.join import Aligned
from keff.records import Finding, Interval, Json, Note, Result, frozen, number, plain, text_table

MixVerdict = Literal["saves", "probably saves", "does not save", "one branch is enough", "pilot too small"]


@frozen
class BranchLine(Result):
    """One branch: accuracy ``p`` and correlation ``c`` of its paths, mean ``tokens`` and ``cost`` of a path.

    ``adds`` is what the best plan over all branches has more in accuracy than the best one that costs no
    more and leaves this branch out (0 where it is in neither); None where no plan without it is as cheap.
    """

    name: str
    model: str | None
    p: Interval
    c: Interval
    tokens: float | None
    cost: float
    adds: float | None

    def to_dict(self) -> dict[str, Json]:
        """Return the line as ``--json`` shows it: values, and beside them their intervals."""
        told = Result.to_dict(self)
        values: dict[str, Json] = {"p": plain(self.p.value), "c": plain(self.c.value)}
        return told | values | {"p_interval": told["p"], "c_interval": told["c"]}


@frozen
class PlanLine(Result):
    """One plan on the pilot: its policy, mean accuracy and mean cost per question, and its branches.

    ``expected`` is the accuracy counted in the choice (``expected_accuracies``).
    ``seconds`` stay None until records time their paths.
    """

    policy: str
    kind: str
    branches: tuple[str, ...]
    accuracy: Interval
    expected: float
    cost: Interval
    seconds: None = None


@frozen
class WorthLine(Result):
    """The plan to take where a right answer is worth at least ``worth``, in units of cost."""

    worth: float
    plan: PlanLine

    def to_dict(self) -> dict[str, Json]:
        """Return the line as ``--json`` shows it."""
        return {"from": self.worth, **self.plan.to_dict()}


@frozen
class MixAdvice(Result):
    """The recommended plan with selection-corrected accuracy, cost and savings.

    Its ``accuracy``; ``cost_ratio`` and ``accuracy_difference`` against the best single branch's plan;
    ``against_cheap`` is the same pair against the cheap one. ``by_model`` is the part of the pilot's cost
    ratio that one well-chosen branch has, ``by_cascade`` what asking several adds: their product is the
    pilot's.
    """

    verdict: MixVerdict
    plan: PlanLine
    accuracy: Interval
    cost_ratio: Interval
    accuracy_difference: Interval
    against_cheap: tuple[Interval, Interval]
    by_model: float
    by_cascade: float
    questions_needed: int | None
    because: str

    def to_dict(self) -> dict[str, Json]:
        """Return the advice as ``--json`` shows it, with the plan's policy, branches and cost."""
        told, plan = Result.to_dict(self), self.plan.to_dict()
        ratio, difference = map(plain, self.against_cheap)
        del told["plan"]
        told["against_cheap"] = {"cost_ratio": ratio, "accuracy_difference": difference}
        shown = {name: plan[name] for name in ("policy", "branches", "expected", "cost")}
        return told | shown | {"accuracy_on_pilot": plan["accuracy"]}


@frozen
class EscalationBin:
    """How a cascade treats questions of one difficulty: first branch right in ``lo`` to ``hi`` of paths.

    How many there are, the share of their votes that the first stage passes on, and their accuracy under the
    first stage alone and under the whole cascade (None where there is no such question).
    """

    lo: float
    hi: float
    questions: int
    passed: float | None
    first: float | None
    whole: float | None


@frozen
class Escalation:
    """How a cascade escalates: the share of votes that ``reach`` each branch, and by difficulty."""

    branches: tuple[str, ...]
    reach: tuple[float, ...]
    by_difficulty: tuple[EscalationBin, ...]


@frozen
class MixFindings(Finding):
    """Findings on a group of branches over ``n`` shared questions.

    ``singles`` are the plans of one branch. ``escalation`` says which questions the recommended cascade
    passes on (None for other plans). ``c_between`` [branches, branches] is the correlation of the
    correctness of two paths, ``r_between`` that of the questions' difficulty (1: both find the same
    questions hard). ``cost_unit`` is the unit of every cost. ``ceiling`` is the share of questions that
    some path of some branch gets right, which no voting plan can exceed. ``by_worth`` is the plan to take
    for each worth of a right answer. From ``pays_from`` on, the recommended plan is worth more than every
    cheaper plan of one branch (None: a cheaper one is as accurate). The pilot stopped drawing the
    branches in ``dropped``. ``pilot_cost`` is the cost of all recorded paths, theirs included. After
    ``pays_back`` questions the recommended plan has saved as much against the best plan of one branch
    (None: it saves nothing).
    """

    n: int
    clusters: int
    paths: tuple[int, ...]
    cap: int
    cost_unit: Unit
    branches: tuple[BranchLine, ...]
    c_between: tuple[tuple[Interval, ...], ...]
    r_between: tuple[tuple[float, ...], ...]
    k_eff: Interval
    ceiling: Interval
    frontier: tuple[PlanLine, ...]
    singles: tuple[PlanLine, ...]
    dropped: tuple[DroppedBranch, ...]
    escalation: Escalation | None
    best_single: PlanLine
    cheap_single: PlanLine
    advice: MixAdvice
    by_worth: tuple[WorthLine, ...]
    pays_from: float | None
    pilot_cost: float
    pays_back: int | None
    warnings: tuple[Note, ...]

    def cost_text(self, value: float) -> str:
        """Return a cost in words, with its unit."""
        return f"${short(value)}" if self.cost_unit == "dollars" else f"{short(value)} {self.cost_unit}"

    @property
    def branches_in_words(self) -> str:
        """Which branches to ask, in words."""
        first, *others = self.advice.plan.branches
        if not others:
            return f"Ask {first} alone"
        if self.advice.plan.kind == "mix":
            return f"Ask {', '.join([first, *others])} together"
        return f"Ask {first} first, and {', then '.join(others)} where it leaves the answer open"

    def line(self) -> str:
        """Return the recommendation in words: which branches to ask, and what that costs and loses."""
        plan, advice, asked = self.advice.plan, self.advice, self.branches_in_words
        if plan.policy == self.best_single.policy or advice.cost_ratio.value != advice.cost_ratio.value:
            return f"{asked}."
        change = round(100 * (advice.cost_ratio.value - 1))
        cost = f"{abs(change)}% {'more' if change > 0 else 'less'}" if change else "as much"
        gain = round(100 * advice.accuracy_difference.value, 1)
        more = f"{'gains' if gain > 0 else 'loses'} {abs(gain):.1f} points of accuracy"
        other = f"{'than' if change else 'as'} {self._most_accurate}"
        return f"{asked}. That costs {cost} {other}, and {more if gain else 'accuracy stays the same'}."

    @property
    def _most_accurate(self) -> str:
        """The best single plan in words."""
        if self.advice.plan.branches == self.best_single.branches:
            return f"the most accurate rule for {self.best_single.branches[0]}"
        return "the most accurate plan of one branch"

    def rows(self) -> list[tuple[str, ...]]:
        """Return one line per branch: accuracy, cost, what it adds, and its correlation with each other."""
        found = [
            (
                f"{place} {branch.name}",
                number(branch.p.value, ".1%"),
                short(branch.cost),
                "" if branch.adds is None else f"{100 * branch.adds:.1f}",
                *(number(cell.value) for cell in row),
            )
            for place, (branch, row) in enumerate(zip(self.branches, self.c_between, strict=True), 1)
        ]
        numbers = (f"c {place + 1}" for place in range(len(found)))
        return [("branch", "accuracy", f"cost, {self.cost_unit}", "adds, points", *numbers), *found]

    @property
    def worth_line(self) -> str:
        """The sentence on the worth of a right answer from which the recommended plan pays."""
        if self.pays_from is None:
            return (
                "keff expects a cheaper plan of one branch to be as accurate. To take it, say what a right "
                "answer is worth: --value-per-correct."
            )
        if self.pays_from <= 0:
            return "No plan of one branch is cheaper."
        worth = f"if a right answer is worth {self.cost_text(self.pays_from)} or more to you"
        return f"It beats every cheaper plan of one branch {worth}."

    @property
    def pilot_line(self) -> str:
        """The sentence on the pilot's cost and when the plan has paid it back."""
        cost = f"This pilot took {self.cost_text(self.pilot_cost)}"
        if self.pays_back is None:
            return f"{cost}."
        return f"{cost}. The plan saves as much in {short(self.pays_back)} questions."

    @property
    def ceiling_line(self) -> str:
        """The sentence on the ceiling: the questions that no path of any branch gets right."""
        if self.ceiling.value >= 1:
            return "On every question here some branch gave the right answer."
        limit = f"Upper limit {self.ceiling.percent()}"
        return f"{limit}: on the other questions no branch ever gave the right answer."

    @property
    def accuracy_line(self) -> str:
        """The recommended plan's expected accuracy; of a pilot that is too small, the measured one."""
        accuracy = self.advice.accuracy.percent()
        if self.advice.verdict == "pilot too small":
            return f"Accuracy {accuracy}."
        return f"Expected accuracy {accuracy}, corrected for picking the best of many plans."

    def statements(self, *, verbose: bool = False) -> Iterator[str]:
        """Yield what ``keff mix`` prints; ``verbose`` adds the comparison with the cheap single plan."""
        advice = self.advice
        yield self.line()
        yield f"{advice.verdict.capitalize()}: {advice.because}."
        yield f"Rule: {lower_first(in_words(advice.plan.policy))}"
        yield f"  {advice.plan.policy}"
        if math.isfinite(advice.cost_ratio.value):
            yield self.accuracy_line
            if advice.plan.policy != self.best_single.policy:
                held = advice.cost_ratio, advice.accuracy_difference
                yield self._against(self._most_accurate, self.best_single, *held)
            if verbose and advice.plan.policy != self.cheap_single.policy:
                near = "the cheapest plan of one branch within a standard error of that"
                yield self._against(near, self.cheap_single, *advice.against_cheap)
        yield self.worth_line
        yield self.pilot_line
        for dropped in self.dropped:
            yield (
                f"The pilot dropped {dropped.name} after {dropped.questions} questions: "
                f"{points(dropped.difference)} points compared with {dropped.by}, at "
                f"{dropped.cost_ratio:.3g} times the cost."
            )
        if "retry:" not in advice.plan.policy:  # further tries may solve what no recorded one did
            yield self.ceiling_line
        yield from self._tables()

    def _tables(self) -> Iterator[str]:
        """Yield the tables of branches and of frontier or chosen plans."""
        title = (
            f"{len(self.branches)} branches on {self.n} shared questions. c 1 is the correlation with a path "
            "of branch 1, and so on."
        )
        yield "\n" + text_table(self.rows(), title)
        taken = self.advice.plan.policy
        held = {line.plan.policy: line.plan for line in self.by_worth}
        best = 0.0
        for plan in self.frontier:
            # What costs more for an accuracy that reads the same is left to --json.
            if plan.policy == taken or round(plan.accuracy.value, 3) > best:
                held[plan.policy] = plan
            best = max(best, round(plan.accuracy.value, 3))
        plans = [
            (
                plan.policy + ("  <- recommended" if plan.policy == taken else ""),
                plan.accuracy.percent(),
                f"{plan.expected:.1%}",
                short(plan.cost.value),
                ", ".join(short(at.worth) for at in self.by_worth if at.plan.policy == plan.policy),
            )
            for plan in sorted(held.values(), key=lambda plan: plan.cost.value)
        ]
        head = ("policy", "accuracy", "adjusted", f"cost, {self.cost_unit}", "pays from")
        title = (
            "The best plans on this pilot. Adjusted is the accuracy that keff expects on other questions, "
            "given what votes gained on other workloads. "
            f"Pays from is what a right answer must be worth in {self.cost_unit}, for the plan to pay."
        )
        yield "\n" + text_table([head, *plans], title)

    @staticmethod
    def _against(what: str, plan: PlanLine, ratio: Interval, difference: Interval) -> str:
        return (
            f"Compared with {what} ({plan.policy}) it costs {ratio.text()} times as much, and accuracy "
            f"changes by {points(difference)} points."
        )

    def to_dict(self) -> dict[str, Json]:
        """Return the object of ``keff mix --json``; undefined numbers are None."""
        names = {"paths": "k", "k_eff": "k_eff_of_one_each", "advice": "recommendation"}
        told = {names.get(name, name): value for name, value in Result.to_dict(self).items()}
        values = [[cell.value for cell in row] for row in self.c_between]
        return told | {"c_between": plain(values), "c_between_intervals": told["c_between"]}


def short(value: float) -> str:
    """Return a number to three digits, with commas where it is large."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if 1000 <= rounded < 1e12 else f"{rounded:.3g}"


def mix_plan(group: Aligned, mix: MixFindings) -> Plan:
    """Return the deployable plan of the recommended policy, with its branches.

    A record names the model of a branch and not its server: ``upstream`` and ``key_env`` are left empty,
    for whoever serves the plan to fill in or to give on the command line.
    """
    known = {branch.name: branch for branch in mix.branches}
    lists = ("frontier", "singles")  # a plan does not need them
    branches = tuple(
        BranchPlan(name=name, model=known[name].model, cost_per_path=known[name].cost)
        for name in mix.advice.plan.branches
    )
    return Plan(
        policy=mix.advice.plan.policy,
        space=group.space,
        branches=branches,
        cost_unit=mix.cost_unit,
        estimates={key: value for key, value in mix.to_dict().items() if key not in lists},
    )
