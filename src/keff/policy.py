"""The interface of a policy: when to stop drawing paths, and what to answer.

A policy is pure: the same view gives the same decision, live or replayed. Votes are seen in launch
order, never in order of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Need = Literal["answers", "confidence", "text", "labels"]
WeightKind = Literal["vote_share", "posterior", "e_value", "weighted_share"]


@dataclass(frozen=True, slots=True)
class View:
    """All that a policy may see of one item: the paths so far, in launch order.

    ``keys`` are canonical vote keys (None abstains: it costs, and does not vote). ``confidence`` is one
    number a path where the policy needs it, else empty. Never the gold answer, nor how many paths a
    recording holds.
    """

    keys: Sequence[str | None]
    confidence: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """Draw ``m`` more paths at once: none of them can turn out to be unneeded under a monotone rule."""

    m: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop and answer: ``answer`` is a key or None, ``weight`` its strength as named by ``kind``."""

    answer: str | None
    weight: float
    kind: WeightKind
    reason: str


class Policy(Protocol):
    """A stopping rule with its vote rule. Made by ``parse_policy("lead_k:3,cap=16")``.

    ``spec`` is the canonical string that makes it again; ``cap`` the most paths it ever draws; ``needs``
    what a view must carry; ``monotone``: a vote for the leader never makes it draw longer.
    """

    spec: str
    cap: int
    needs: frozenset[Need]
    monotone: bool

    def decide(self, view: View) -> Sample | Stop:
        """Say what to do after the paths in ``view`` (none at the first call)."""
        ...
