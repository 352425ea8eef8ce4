"""What ``keff analyze`` recommends: the object ``recommendation`` of its JSON."""

from __future__ import annotations

from dataclasses import dataclass

from keff.analysis.results.decision import Kept
from keff.analysis.results.money import Bill, Change, Seconds
from keff.records import Finding, Interval, Result, number
from keff.stats.voting.choose import Recommendation as Verdict


@dataclass(frozen=True, slots=True)
class VotingGain(Result):
    """What the labels say about voting at all, with the ``gain`` of the vote over one path.

    ``chance_positive`` is the posterior chance that it is above 0, ``questions_needed`` how many questions
    tell one point apart, ``reason`` one sentence. ``most_paths`` is always None since version 0.3.
    """

    verdict: Verdict
    gain: Interval | None
    chance_positive: float | None
    questions_needed: int | None
    most_paths: int | None
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class Recommendation(Finding):
    """The policy to deploy, and what it is expected to do on questions like the pilot's.

    ``k`` is the most paths that it draws. ``expected_plurality`` is an accuracy (None without labels),
    ``kept`` its share of that at the cap, ``same_answer`` how often the answer is the cap's;
    ``expected_paths`` and ``expected_tokens`` are means per question, ``expected_cost`` is in units of the
    cost per path that was stated. ``replayed`` and ``optimism`` are None since 0.3: what a rule keeps is read
    from one posterior, which is shrunk instead of corrected. ``expected_paths_interval`` is the 95% interval
    of the mean paths of as many new questions as the pilot has. ``baseline`` is the policy that savings are
    measured against, and ``change`` what changes from it. ``expected_cost`` is in dollars where prices are
    given; ``pilot_cost`` is what drawing the record cost, ``pays_back_after`` how many questions save as
    much, and ``bill`` the rest of the money. ``voting`` is what the labels say about voting at all, with the
    gain it rests on. None stands for what the record cannot say.
    """

    verdict: Verdict
    policy: str
    k: int
    expected_plurality: Interval | None
    kept: Kept | None
    same_answer: float | None
    expected_paths: float | None
    expected_tokens: float | None
    expected_cost: Interval | None
    because: str
    replayed: Interval | None = None
    optimism: float | None = None
    expected_paths_interval: Interval | None = None
    baseline: str | None = None
    expected_seconds: Seconds | None = None
    pilot_cost: float | None = None
    pays_back_after: float | None = None
    voting: VotingGain | None = None
    change: Change | None = None
    bill: Bill | None = None

    def line(self) -> str:
        """Return verdict, policy and expected paths."""
        paths = "" if self.expected_paths is None else f", {self.expected_paths:.1f} paths per question"
        return f"{self.verdict}, {self.policy}{paths}"

    def rows(self) -> list[tuple[str, str]]:
        """Return what there is to know about it, one line each."""
        plurality = self.expected_plurality
        return [
            ("recommendation", self.verdict),
            ("policy", self.policy),
            ("expected accuracy", "–" if plurality is None else plurality.percent()),
            ("share kept", "–" if self.kept is None else self.kept.percent()),
            ("paths per question", number(self.expected_paths)),
            ("because", self.because),
        ]
