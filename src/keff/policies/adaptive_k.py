"""Draw the K* that the correctness correlation of a labelled pilot gives (the paper's Adaptive-K)."""

from __future__ import annotations

from keff.errors import PolicyError
from keff.policies import fixed
from keff.policies._table import check_value
from keff.policy import Need, Policy, Sample, Stop, View
from keff.policy.spec import DEFAULT_CAP, format_spec
from keff.records import frozen
from keff.stats.votes import Votes
from keff.stats.voting.choose import k_star
from keff.stats.voting.correlation import pooled_c

UNFITTED = (
    "needs its K* from a labelled pilot first: keff pilot QUESTIONS --k 4 --rule adaptive_k --run PILOT "
    "-o plan.json (or keff analyze LOG --rule adaptive_k -o plan.json), then --policy plan.json for sample, "
    "--plan plan.json for serve"
)


@frozen
class AdaptiveK:
    """Unfitted Adaptive-K: ``fit`` returns ``fixed:K``."""

    spec: str
    epsilon: float
    cap: int
    needs: frozenset[Need] = frozenset({"answers", "labels"})
    fitted: bool = False

    def decide(self, view: View) -> Sample | Stop:  # noqa: ARG002
        """Raise PolicyError: K has to be fitted to a pilot first."""
        raise PolicyError(f"{self.spec} {UNFITTED}")

    def fit(self, pilot: Votes) -> Policy:
        """Return ``fixed:K`` of a labelled pilot with two paths and two questions or more."""
        if pilot.correct is None:
            raise PolicyError(f"{self.spec} needs gold labels: use budget or pilot_budget, which need none")
        if pilot.k < 2 or pilot.n < 2:
            raise PolicyError(f"{self.spec} needs a pilot of at least two paths of two questions")
        return fixed.policy(k_star(pooled_c(pilot), self.epsilon, self.cap))


def policy(value: float | None = None, *, cap: int = DEFAULT_CAP) -> Policy:
    """Return ``adaptive_k:epsilon`` (default 0.025), to be fitted to a labelled pilot.

    Algorithm 1 with the plug-in c: one round, no adaptation to the question.
    """
    epsilon = 0.025 if value is None else check_value("adaptive_k", value, float("inf"))
    return AdaptiveK(format_spec("adaptive_k", value, cap=cap), epsilon, cap)
