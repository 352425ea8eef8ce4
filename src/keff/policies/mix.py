"""Draw some paths of each of several branches in one round, then take the weighted vote."""

from __future__ import annotations

import numpy as np

from keff.errors import PolicyError
from keff.policy import Need, Policy, Sample, Stop, View
from keff.policy.spec import MAX_CAP, PolicySpec, option_text, parts_of
from keff.policy.weighting import totals
from keff.records import frozen

# Sums of weights this close, as a share of all weight, are a tie: rounding never decides one.
TIE = 1e-9


@frozen
class Share:
    """One branch's part in a mix: ``k`` paths with total weight ``weight``."""

    branch: str
    k: int
    weight: float


class Mix:
    """One round of paths from several branches, then the weighted vote, ties to the first seen."""

    needs: frozenset[Need] = frozenset({"answers", "branches"})

    def __init__(self, shares: tuple[Share, ...]) -> None:
        self.shares = shares
        self.cap = sum(share.k for share in shares)
        self.order = tuple(share.branch for share in shares for _ in range(share.k))
        self.weights = tuple(share.weight / share.k for share in shares for _ in range(share.k))
        shown = "/".join(f"{own.branch}(k={own.k},weight={option_text(own.weight)})" for own in shares)
        self.spec = f"mix:{shown}"

    @property
    def branches(self) -> tuple[str, ...]:
        """The branches in launch order."""
        return tuple(share.branch for share in self.shares)

    def decide(self, view: View) -> Sample | Stop:
        """Ask for all paths at once, then stop with the weighted vote.

        Raises PolicyError when the votes come from other branches than the mix asked.
        """
        drawn = len(view.keys)
        if tuple(view.branches[: self.cap]) != self.order[:drawn]:
            raise PolicyError(f"{self.spec}: its paths come in the order {', '.join(self.branches)}")
        if drawn < self.cap:
            return Sample(self.cap - drawn, self.order[drawn:])
        return self._vote(view)

    def _vote(self, view: View) -> Stop:
        support = totals(view.keys[: self.cap], self.weights)
        total = sum(support.values())
        reason = f"all {self.cap} paths of {len(self.shares)} branches are drawn"
        if total <= 0:
            return Stop(None, 0.0, "weighted_share", reason)
        top = max(support.values()) - TIE * total
        answer = next(key for key, weight in support.items() if weight >= top)
        return Stop(answer, support[answer] / total, "weighted_share", reason)


def policy(value: str | None = None) -> Policy:
    """Return ``mix:SMALL(k=3,weight=1)/LARGE(k=1,weight=2.4)``; a weight left out is 1.

    Raises PolicyError for anything but counts k and weights of at least 0, one of them above 0.
    """
    shares = tuple(_share(branch, text) for branch, text in parts_of("mix", value))
    if not any(share.weight for share in shares):
        raise PolicyError("mix: at least one weight must be above 0")
    if sum(share.k for share in shares) > MAX_CAP:
        raise PolicyError(f"mix: at most {MAX_CAP} paths are possible")
    return Mix(shares)


def _share(branch: str, text: str) -> Share:
    parsed = PolicySpec.parse(f"{branch}:{text}")
    if parsed.value is not None or not parsed.options.keys() <= {"k", "weight"}:
        raise PolicyError(f"mix: write {branch}({text}) as {branch}(k=3,weight=1)")
    k, weight = parsed.options.get("k", 1), parsed.options.get("weight", 1)
    if not isinstance(k, int) or not 1 <= k <= MAX_CAP:
        raise PolicyError(f"mix: k of {branch} must be an integer from 1 to {MAX_CAP}, not {k}")
    if isinstance(weight, str) or not 0 <= weight < np.inf:
        raise PolicyError(f"mix: the weight of {branch} must be a number of at least 0, not {weight}")
    return Share(branch, k, float(weight))
