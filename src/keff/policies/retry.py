"""Retry until a checker passes an answer; where no try of one branch passes, ask the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.errors import PolicyError
from keff.policy import Need, Policy, Sample, Stop, View, best_checked, format_spec, is_passed
from keff.policy.spec import DEFAULT_CAP, MAX_CAP, PolicySpec, check_cap
from keff.policy.weighting import Answered, part_of
from keff.records import frozen
from keff.stats.votes import CONFIDENCE, BoolArray, IntArray
from keff.stats.voting.draws import Draws, at_place

NEEDS: frozenset[Need] = frozenset({"answers", "confidence"})


@frozen
class Retry:
    """Draw one path after the other until one passes: its confidence is at least 1.

    Where none of ``cap`` passes, the answer is that of the best rated path, the last of equals. A checker
    rates by 1 and 0, or by the share of tests that pass.
    """

    cap: int
    confidence: str = CONFIDENCE

    @property
    def spec(self) -> str:
        """The policy string, which parses to this policy."""
        return format_spec(
            "retry", self.cap, confidence=None if self.confidence == CONFIDENCE else self.confidence
        )

    @property
    def needs(self) -> frozenset[Need]:
        """The fields a view must have."""
        return NEEDS

    def decide(self, view: View) -> Sample | Stop:
        """Stop at the first path that passes, or at the cap; else draw one more."""
        n = min(len(view.keys), self.cap)
        view.check_confidences(n, self)
        return _stop(view, n, f"of at most {self.cap}") if _ends(view, n, self.cap) else Sample(1)

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Return 1 until a path passes, then 0 [n, R, cap + 1]."""
        out = np.ones((*draws.codes.shape[:2], self.cap + 1), np.int16)
        out[..., 1:] = ~np.logical_or.accumulate(self._passed(draws), axis=2)
        out[..., self.cap] = 0
        return out

    def answered(self, draws: Draws, stop: IntArray) -> Answered:
        """Return the answer of the best rated path drawn, and its credit."""
        rating = np.nan_to_num(draws.confidences_along(self.confidence)[..., : self.cap], nan=0.5)
        drawn = np.arange(self.cap) < stop[..., None]
        # The last of equals: from the end, the first.
        last: IntArray = self.cap - 1 - np.where(drawn, rating, -np.inf)[..., ::-1].argmax(axis=2)
        credit = None if draws.correct is None else at_place(draws.correct, last).astype(np.float64)
        return at_place(draws.codes, last), credit

    def _passed(self, draws: Draws) -> BoolArray:
        return np.asarray(draws.confidences_along(self.confidence)[..., : self.cap] >= 1, np.bool_)


@frozen
class RetryCascade:
    """Retry within one branch after the other: up to ``tries`` of each, in order, until a path passes."""

    branches: tuple[str, ...]
    tries: tuple[int, ...]
    confidence: str = CONFIDENCE

    @property
    def cap(self) -> int:
        """The most paths that it draws."""
        return sum(self.tries)

    @property
    def spec(self) -> str:
        """The policy string, which parses to this policy."""
        shown = (f"{name}(retry:{tries})" for name, tries in zip(self.branches, self.tries, strict=True))
        return f"cascade:{'/'.join(shown)}"

    @property
    def needs(self) -> frozenset[Need]:
        """The fields a view must have."""
        return frozenset[Need]({*NEEDS, "branches"})

    def decide(self, view: View) -> Sample | Stop:
        """Stop at the first path that passes, or after all tries; else draw one more of its branch.

        Raises PolicyError when the paths come from other branches than those asked.
        """
        order = [name for name, tries in zip(self.branches, self.tries, strict=True) for _ in range(tries)]
        n = min(len(view.keys), self.cap)
        if list(view.branches[:n]) != order[:n]:
            raise PolicyError(f"{self.spec}: its paths come in the order {', '.join(self.branches)}")
        view.check_confidences(n, self)
        if not _ends(view, n, self.cap):
            return Sample(1, (order[n],))
        return _stop(view, n, f"of at most {self.cap}, the last by {order[n - 1]}")


def reads_verdicts(policy: Policy) -> bool:
    """Return whether a checker's verdicts end a policy, so that answers need not agree."""
    return isinstance(policy, RetryCascade) or part_of(policy, Retry) is not None


def _ends(view: View, n: int, cap: int) -> bool:
    return n == cap or any(map(is_passed, view.confidence[:n]))


def _stop(view: View, n: int, drawn: str) -> Stop:
    place = best_checked(view.confidence[:n])
    passed = is_passed(view.confidence[place])
    reason = f"try {place + 1} {drawn} passed" if passed else f"none of {n} tries {drawn} passed"
    return Stop(view.keys[place], float(passed), "verdict", reason)


def policy(value: int = DEFAULT_CAP) -> Policy:
    """Return ``retry:m`` (default 32): at most m paths, one after the other, until a checker passes one.

    ``confidence=NAME`` says which confidence holds the verdicts.
    """
    return Retry(check_cap("retry", value))


def escalation(stages: Sequence[tuple[str, PolicySpec]]) -> RetryCascade:
    """Return the cascade of ``SMALL(retry:3)/LARGE(retry:2)``.

    Raises PolicyError where other rules stand beside ``retry``, and for more than 256 tries together.
    """
    if other := [f"{name}({spec})" for name, spec in stages if spec.name != "retry" or spec.options]:
        raise PolicyError(f"cascade: retry:m can only be combined with retry:m, not with {other[0]}")
    tries = tuple(check_cap("retry", DEFAULT_CAP if spec.value is None else spec.value) for _, spec in stages)
    if sum(tries) > MAX_CAP:
        raise PolicyError(f"cascade: its branches may be tried {sum(tries)} times; at most {MAX_CAP}")
    return RetryCascade(tuple(name for name, _ in stages), tries)
