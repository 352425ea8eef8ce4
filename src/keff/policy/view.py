"""Interface of policies: the view they see, the decisions they return, their capabilities."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, Literal, Protocol

from numpy.typing import NDArray

from keff.errors import PolicyError
from keff.records import frozen
from keff.stats.votes import Votes
from keff.stats.voting.draws import Draws

Need = Literal["answers", "confidence", "calibration", "text", "labels", "branches"]
WeightKind = Literal["vote_share", "posterior", "e_value", "weighted_share", "verdict"]


@frozen
class View:
    """Input of a policy's decision for one item: the votes so far, in counting order.

    ``keys`` are canonical vote keys (None abstains: it costs, and does not vote). ``confidence`` is one
    number per path if the policy needs it, else empty. ``branches`` names the branch of each path if
    there are several, else it is empty. ``launched`` are the launch positions if votes count as they
    arrive (empty: as they stand here). ``unread`` counts the keys that are None because nobody knows yet
    what the answer means, so that each may be a vote for any answer. A view never holds the gold answer,
    nor how many paths a recording holds.
    """

    keys: Sequence[str | None]
    confidence: Sequence[float] = ()
    branches: Sequence[str] = ()
    launched: Sequence[int] = ()
    unread: int = 0

    def check_confidences(self, n: int, policy: Policy) -> None:
        """Raise PolicyError where one of the first ``n`` paths has no confidence."""
        if len(self.confidence) < n:
            line = "needs a confidence for each path: sample with log-probabilities"
            raise PolicyError(f"{policy.spec} {line}")


def is_passed(rating: float) -> bool:
    """Return whether a checker passes an answer: its rating is at least 1."""
    return rating >= 1


def best_checked(ratings: Sequence[float]) -> int:
    """Return the place of the best rated path, the last of equals; one without a rating counts one half."""
    return max(
        range(len(ratings)), key=lambda place: (ratings[place] if isfinite(ratings[place]) else 0.5, place)
    )


@frozen
class Sample:
    """Decision to draw ``m`` more paths at once; the policy is not consulted before the last.

    ``branches`` names the branch of each of the ``m`` paths, in launch order; it is empty where a policy
    knows one branch only.
    """

    m: int
    branches: tuple[str, ...] = ()


@frozen
class Stop:
    """Decision to stop with ``answer`` (a key or None); ``weight`` is its strength, as named by ``kind``."""

    answer: str | None
    weight: float
    kind: WeightKind
    reason: str


class Policy(Protocol):
    """A stopping rule with its voting rule, made by ``parse_policy("lead_k:3,cap=16")``.

    ``spec`` is the canonical string that makes it again; ``cap`` the most paths it ever draws; ``needs``
    what a view must carry.
    """

    @property
    def spec(self) -> str:
        """The policy string, which parses to this policy."""
        ...

    @property
    def cap(self) -> int:
        """The most paths that it draws."""
        ...

    @property
    def needs(self) -> frozenset[Need]:
        """The fields a view must have: answers, confidences, ..."""
        ...

    def decide(self, view: View) -> Sample | Stop:
        """Return the decision after the paths in ``view`` (none at the first call)."""
        ...


class Capability(metaclass=ABCMeta):  # noqa: B024
    """Base of structural protocols of policies, recognised by attributes without inheritance.

    ``isinstance`` of a runtime protocol would look up every attribute at every call (Python 3.11), which
    took a twentieth of an analysis; of an abstract class it is remembered by class.
    """

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        """Return whether a class has all attributes of a capability."""
        if Capability not in cls.__bases__:
            return NotImplemented
        return all(hasattr(other, name) for name in vars(cls) if not name.startswith("_"))


class Fittable(Capability):
    """A policy with parameters to fit to a pilot; unfitted, it uses a generic prior or refuses.

    ``fitted`` says whether it is fitted, or needs no fit.
    """

    fitted: bool

    @abstractmethod
    def fit(self, pilot: Votes) -> Policy:
        """Return the fitted policy, whose spec holds the fitted parameters."""
        ...


class ReadsConfidence(Capability):
    """A policy that reads a confidence of each path."""

    @property
    @abstractmethod
    def confidence(self) -> str:
        """The name of the confidence."""
        ...


class Branching(Capability):
    """A policy that draws from several branches: each ``Sample`` names the branch of every path."""

    @property
    @abstractmethod
    def branches(self) -> tuple[str, ...]:
        """The branches it may ask, in order of first use."""
        ...


class Vectorised(Capability):
    """A policy that evaluates many orders at once; replay calls ``decide`` on others."""

    @abstractmethod
    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Return the paths to draw next, or 0 to stop, after each prefix of every order [n, R, cap + 1].

        Past earlier stops too: a rule may be asked where votes count in another order.
        """
        ...


@frozen
class Tally:
    """Vote counts of the distinct keys: ``v1`` of the ``leader``, ``v2`` of the runner-up.

    Abstentions are in no count. Among tied answers the first seen leads.
    """

    counts: Counter[str]
    leader: str | None
    v1: int
    v2: int

    @property
    def share(self) -> float:
        """The leader's share of the votes; 0 without votes."""
        return self.v1 / max(self.counts.total(), 1)


def tally(keys: Sequence[str | None]) -> Tally:
    """Return the vote counts of one item."""
    seen = Counter(keys)
    seen.pop(None, None)
    counts: Counter[str] = seen  # type: ignore[assignment]
    if len(counts) < 2:
        for key, count in counts.items():
            return Tally(counts, key, count, 0)
        return Tally(counts, None, 0, 0)
    leader = max(counts, key=counts.__getitem__)  # the first of equals: Counter keeps the order seen
    v1, v2 = counts[leader], max([count for key, count in counts.items() if key != leader])
    return Tally(counts, leader, v1, v2)


def undecided(keys: Sequence[str | None], unread: int, answer: str | None, *, weighted: bool = False) -> bool:
    """Return whether unread answers could turn this one: all of them may be votes for the runner-up.

    Where votes are ``weighted``, or those of some branches only, a single one may.
    """
    if weighted:
        return unread > 0
    counts = tally(keys).counts
    mine = 0 if answer is None else counts[answer]
    return (
        unread > 0
        and max((votes for key, votes in counts.items() if key != answer), default=0) + unread >= mine
    )


def decided(policy: Policy, view: View) -> Sample | Stop:
    """Return a policy's decision; it goes on, up to its cap, past a stop that unread answers could turn."""
    decision, weighted = policy.decide(view), weighs(policy)
    if isinstance(decision, Sample) or view.branches or not view.unread:
        return decision
    if len(view.keys) < policy.cap and undecided(view.keys, view.unread, decision.answer, weighted=weighted):
        return Sample(1)
    seen = tally(view.keys)
    if weighted or decision.answer is None or seen.v1 == seen.counts[decision.answer]:
        return decision
    # A rule in waves answers by the votes up to its stop; what was drawn past it counts too.
    return replace(decision, answer=seen.leader, weight=seen.share, kind="vote_share")


def weighs(policy: Policy) -> bool:
    """Return whether some votes of a policy count more than others.

    Those of several branches do, but for a policy whose ``equal_votes`` says that they do not.
    """
    branches = isinstance(policy, Branching) and not getattr(policy, "equal_votes", False)
    return "confidence" in policy.needs or branches
