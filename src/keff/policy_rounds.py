"""Any stopping rule in at most R rounds of paths: ``rounds=R``, planned for workloads like this one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from keff.errors import PolicyError
from keff.policy_induction import LEAVES_TO_RULE, Schedule
from keff.policy_schedule import plan
from keff.policy_view import ByCounts, Fittable, Policy, Sample, Stop, View, Weighting, tally
from keff.policy_waves import Ahead, Paced, Weighed, whole
from keff.stats.correlation import agreement as agreement_of
from keff.stats.courses import GENERIC_WEIGHTS, component_agreement
from keff.stats.votes import Votes

PSEUDO_ITEMS = 10
"""How many questions the generic workload is worth where the agreement is fitted."""


@dataclass(frozen=True)
class InRounds(Paced):
    """A rule in at most ``rounds`` rounds, by the schedule for workloads with this ``agreement``.

    ``agreement`` is how often two paths give the same answer (None: as in recorded generations). Where the
    schedule says nothing, the fewest votes that could stop the rule are drawn, and all that are left in the
    last round.
    """

    rounds: int
    agreement: float | None
    schedule: Schedule = field(repr=False)

    @property
    def spec(self) -> str:
        """The string that makes this policy again."""
        law = {} if self.agreement is None else {"agreement": self.agreement}
        return self.spelled(rounds=self.rounds, **law)

    def at_end(self, view: View, turn: int) -> Sample | Stop:
        """Stop or draw the next round."""
        n, left = len(view.keys), self.rounds - turn
        decision = self.rule.decide(view)
        seen = tally(view.keys)
        planned = self.schedule.size(left, n, seen.v1, seen.v2)
        if planned == LEAVES_TO_RULE or not self.schedule.stops:
            if isinstance(decision, Stop):
                return decision
            if planned == LEAVES_TO_RULE:
                return Sample(self.cap - n if left == 1 else decision.m)
        if planned:
            return Sample(planned)
        assert isinstance(self.rule, ByCounts)
        why = "the rounds are used" if left == 0 else "the lead is enough"
        reason = f"{why}: {seen.v1} against {seen.v2} votes after {n} of at most {self.cap} paths"
        return replace(self.rule.stop(seen, n), reason=reason)

    def sizes(self, turn: int, at: Ahead, ahead: Ahead, counts: tuple[Ahead, Ahead]) -> Ahead:
        """Return the next round of many orders, 0 to stop."""
        return self.schedule.sizes(self.rounds - turn, at, ahead, counts)

    def fit(self, pilot: Votes) -> Policy:
        """Fit the rule, where it can be fitted, and the agreement of the workload."""
        rule = self.rule.fit(pilot) if isinstance(self.rule, Fittable) else self.rule
        return in_rounds(rule, self.rounds, fit_agreement(pilot))


class VoteInRounds(InRounds, Weighed):
    """The same for a rule that weighs its votes."""


def fit_agreement(pilot: Votes) -> float:
    """Return how often two paths of a workload agree, to three digits.

    The pilot's mean, with ten questions' worth of that of recorded generations. Abstentions agree with
    nothing. Needs answers and two paths per question.
    """
    generic = float(GENERIC_WEIGHTS @ component_agreement() / GENERIC_WEIGHTS.sum())
    seen = agreement_of(pilot)
    return round((pilot.n * seen + PSEUDO_ITEMS * generic) / (pilot.n + PSEUDO_ITEMS), 3)


def in_rounds(rule: Policy, rounds: object, agreement: object = None) -> Policy:
    """Return a rule in at most ``rounds`` rounds.

    Raises PolicyError for rounds outside 1 to 256, or an agreement outside 0 to 1.
    """
    most = whole(rule, "rounds", rounds)
    if agreement is not None and (not isinstance(agreement, int | float) or not 0 <= agreement <= 1):
        raise PolicyError(f"policy {rule.spec}: agreement must be a number from 0 to 1, not {agreement}")
    likely = None if agreement is None else float(agreement)
    ready = not isinstance(rule, Fittable) or rule.fitted or rule.needs == frozenset({"answers"})
    schedule = plan(rule, most, likely) if ready else Schedule(rule.cap)
    kind = VoteInRounds if isinstance(rule, Weighting) else InRounds
    return kind(rule, most, likely, schedule)
